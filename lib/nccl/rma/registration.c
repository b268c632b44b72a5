/* Registering and deregistering memory and windows. */
#include "nccl/gpu/gpu.h"
#include "nccl/rma/rma_quick.h"
#include "nccl/vendor/vendor.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>

/* comm: that of the registration, which may be suspended. */
static void registration_free(weiri_nccl_comm *comm, weiri_registration *one)
{
    weiri_rma_quick_forget(comm, one);
    weiri_nccl_beside_window_end(comm, one);
    weiri_window_part(comm, one);
    weir_mem_free(one->mem);
    free(one);
}

void weiri_nccl_registrations_free(weiri_nccl_comm *comm)
{
    weiri_registration *mine = weiri_registrations_take(comm->handle);
    while (mine) {
        weiri_registration *next = mine->next;
        registration_free(comm, mine);
        mine = next;
    }
}

/* Registers memory with weir's communicator. one->mem stays NULL if peers cannot map the buffer,
 * which is no failure: it will be staged. */
static weir_status registration_enrol(weiri_nccl_comm *comm, weiri_registration *one)
{
    if (comm->vendor || weir_mem_register(comm->comm, one->buff, one->size, &one->mem) != WEIR_OK) {
        if (!comm->vendor)
            weiri_log(WEIRI_LOG_INFO, "nccl: %zu bytes stay unregistered: %s", one->size,
                      weir_last_error());
        one->mem = NULL;
    }
    return WEIR_OK;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void *buff, size_t size, void **handle)
{
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return weiri_nccl_not_entered();
    weiri_registration *made = calloc(1, sizeof *made);
    if (!handle || !buff) {
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommRegister: a pointer is NULL");
    } else if (!made) {
        result = weiri_nccl_fail(ncclSystemError, "no memory for a registration");
    } else {
        *made = (weiri_registration){.handle = comm, .buff = buff, .size = size};
        registration_enrol(own, made);
        weiri_registration_add(made);
        *handle = made;
        made = NULL;
    }
    free(made);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommRegister);

/* A handle of NULL comes from ncclCommWindowRegister of versions that could not register. */
static ncclResult_t registration_release(const char *name, ncclComm_t comm, void *object)
{
    weiri_nccl_comm *own = weiri_nccl_enter_opened(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return weiri_nccl_not_entered();
    weiri_registration *found = object ? weiri_registration_remove(comm, object) : NULL;
    if (found)
        registration_free(own, found);
    else if (object)
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "%s: %p is not registered with this communicator", name, object);
    weiri_nccl_leave(own);
    return result;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    return registration_release("ncclCommDeregister", comm, handle);
}
WEIRI_NCCL_ALIAS(CommDeregister);

/* ------------------------------------------------------------------- windows */

/* The argument of a job. */
typedef struct window_request {
    weiri_registration *made; /* allocated before ranks wait for each other */
    ncclWindow_t *window;
} window_request;

/* Declares a window symmetric. Collective. On the host this has no effect. */
static weir_status window_make_symmetric(weiri_nccl_comm *own, const weiri_registration *window)
{
    weir_status status = window->mem ? WEIR_OK : WEIR_ERR_UNSUPPORTED;
    if (own->device < 0 || !(window->flags & NCCL_WIN_COLL_SYMMETRIC))
        return WEIR_OK;
    status = weir_boot_agree(own->boot, status);
    if (status == WEIR_OK)
        status = weir_mem_symmetric(window->mem);
    return status == WEIR_ERR_UNSUPPORTED ? WEIR_OK : status; /* it is used like any other buffer */
}

weir_status weiri_registration_enrol(weiri_nccl_comm *comm, weiri_registration *one)
{
    weir_status status = registration_enrol(comm, one);
    if (comm->vendor || !one->is_window)
        return status;
    status = window_make_symmetric(comm, one);
    return status == WEIR_OK ? weiri_window_join(comm, one) : status;
}

static ncclResult_t run_window(void *argument)
{
    const window_request *request = argument;
    weiri_registration *made = request->made;
    weiri_nccl_comm *own = weiri_nccl_enter(made->handle);
    if (!own) {
        free(made);
        return weiri_nccl_not_entered();
    }
    ncclResult_t result = weiri_nccl_result_of(own, weiri_registration_enrol(own, made));
    if (result == ncclSuccess)
        result = weiri_nccl_beside_window(own, made);
    if (result == ncclSuccess) {
        weiri_registration_add(made);
        *request->window = made->alias ? made->alias : (ncclWindow_t)(void *)made;
    } else {
        registration_free(own, made);
    }
    weiri_nccl_leave(own);
    return result;
}

static void drop_window(void *argument)
{
    free(((const window_request *)argument)->made);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                    int winFlags)
{
    if (!win || !buff)
        return weiri_nccl_refuse(
            weiri_nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: a pointer is NULL"));
    window_request *request = malloc(sizeof *request);
    weiri_registration *made = calloc(1, sizeof *made);
    if (!request || !made) {
        free(request);
        free(made);
        return weiri_nccl_refuse(
            weiri_nccl_fail(ncclSystemError, "ncclCommWindowRegister: no memory for a window"));
    }
    *made = (weiri_registration){
        .handle = comm, .buff = buff, .size = size, .is_window = 1, .flags = winFlags};
    *request = (window_request){made, win};
    return weiri_nccl_do((weiri_nccl_job){run_window, request, comm, drop_window, 0});
}
WEIRI_NCCL_ALIAS(CommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
    if (!comm && !win)
        return ncclSuccess;
    return registration_release("ncclCommWindowDeregister", comm, win);
}
WEIRI_NCCL_ALIAS(CommWindowDeregister);

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr)
{
    weiri_nccl_comm *own = weiri_nccl_enter_opened(comm);
    if (!own)
        return weiri_nccl_not_entered();
    const weiri_registration *window = weiri_registration_find(comm, win);
    ncclResult_t result = ncclSuccess;
    if (!outUserPtr)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclWinGetUserPtr: outUserPtr is NULL");
    else if (!window || !window->is_window)
        result = weiri_nccl_fail(ncclInvalidArgument,
                                 "ncclWinGetUserPtr: %p is not a window of this communicator, or "
                                 "was deregistered",
                                 (void *)win);
    else
        *outUserPtr = window->buff;
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(WinGetUserPtr);
