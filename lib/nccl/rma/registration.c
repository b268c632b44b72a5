/*
 * Registrations and windows. Each is an object of this process whose address is its handle; a list
 * of them recognises handles that are not, or no longer, valid. While a communicator is suspended,
 * they stay in the list, without what refers to weir's communicator.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/rma/rma_quick.h"
#include "nccl/vendor/vendor.h"

#include "base/error.h"
#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weiri_registration *registrations; /* the latest first */

static int is_handle_of(const weiri_registration *one, ncclComm_t comm, const void *object)
{
    const void *handle = one->alias ? (const void *)one->alias : (const void *)one;
    return one->handle == comm && handle == object;
}

weiri_registration *weiri_registration_find(ncclComm_t comm, const void *object)
{
    pthread_mutex_lock(&lock);
    weiri_registration *one = object ? registrations : NULL;
    while (one && !is_handle_of(one, comm, object))
        one = one->next;
    pthread_mutex_unlock(&lock);
    return one;
}

int weiri_registration_is_alias(ncclWindow_t window)
{
    pthread_mutex_lock(&lock);
    const weiri_registration *one = window ? registrations : NULL;
    while (one && one->alias != window)
        one = one->next;
    pthread_mutex_unlock(&lock);
    return one != NULL;
}

weiri_registration *weiri_registration_at(ncclComm_t comm, const void *pointer, size_t bytes)
{
    pthread_mutex_lock(&lock);
    weiri_registration *one = registrations;
    for (; one; one = one->next) {
        const size_t offset = (size_t)((const char *)pointer - (const char *)one->buff);
        if (one->handle == comm && one->is_window && offset <= one->size &&
            bytes <= one->size - offset)
            break;
    }
    pthread_mutex_unlock(&lock);
    return one;
}

weir_status weiri_registrations_each(weiri_nccl_comm *comm,
                                     weir_status (*act)(weiri_nccl_comm *comm,
                                                        weiri_registration *one))
{
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&lock);
    size_t count = 0, used = 0;
    for (const weiri_registration *one = registrations; one; one = one->next)
        count++;
    weiri_registration **mine = calloc(count + 1, sizeof(*mine));
    for (weiri_registration *one = registrations; mine && one; one = one->next)
        if (one->handle == comm->handle)
            mine[used++] = one;
    pthread_mutex_unlock(&lock);
    if (!mine)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to go through registrations");
    while (used > 0 && status == WEIR_OK)
        status = act(comm, mine[--used]);
    free(mine);
    return status;
}

static void registration_add(weiri_registration *made)
{
    pthread_mutex_lock(&lock);
    made->next = registrations;
    registrations = made;
    pthread_mutex_unlock(&lock);
}

/* Takes a registration of this communicator from the list; NULL if it is not one. */
static weiri_registration *registration_remove(ncclComm_t comm, const void *object)
{
    pthread_mutex_lock(&lock);
    weiri_registration **at = &registrations;
    while (*at && !is_handle_of(*at, comm, object))
        at = &(*at)->next;
    weiri_registration *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

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
    weiri_registration *mine = NULL;
    pthread_mutex_lock(&lock);
    for (weiri_registration **at = &registrations; *at;) {
        weiri_registration *one = *at;
        if (one->handle != comm->handle) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = mine;
        mine = one;
    }
    pthread_mutex_unlock(&lock);
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
        registration_add(made);
        *handle = made;
        made = NULL;
    }
    free(made);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommRegister);

/* A handle of NULL is that of ncclCommWindowRegister in versions that could not register. */
static ncclResult_t registration_release(ncclComm_t comm, void *object)
{
    weiri_nccl_comm *own = weiri_nccl_enter_opened(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return weiri_nccl_not_entered();
    weiri_registration *found = object ? registration_remove(comm, object) : NULL;
    if (found)
        registration_free(own, found);
    else if (object)
        result = weiri_nccl_fail(ncclInvalidArgument, "%p is not registered with this communicator",
                                 object);
    weiri_nccl_leave(own);
    return result;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    return registration_release(comm, handle);
}
WEIRI_NCCL_ALIAS(CommDeregister);

/* ------------------------------------------------------------------- windows */

/* The argument of a job. */
typedef struct window_request {
    ncclComm_t comm;
    void *buff;
    size_t size;
    ncclWindow_t *window;
    int flags;
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
    weiri_nccl_comm *own = weiri_nccl_enter(request->comm);
    if (!own)
        return weiri_nccl_not_entered();
    weiri_registration *made = calloc(1, sizeof *made);
    weir_status status = made ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a window");
    if (made) {
        *made = (weiri_registration){.handle = request->comm,
                                     .buff = request->buff,
                                     .size = request->size,
                                     .is_window = 1,
                                     .flags = request->flags};
        status = weiri_registration_enrol(own, made);
    }
    ncclResult_t result = weiri_nccl_result_of(own, status);
    if (made && result == ncclSuccess)
        result = weiri_nccl_beside_window(own, made);
    if (made && result == ncclSuccess) {
        registration_add(made);
        *request->window = made->alias ? made->alias : (ncclWindow_t)(void *)made;
    } else if (made) {
        registration_free(own, made);
    }
    weiri_nccl_leave(own);
    return result;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                    int winFlags)
{
    window_request *request = win && buff ? malloc(sizeof *request) : NULL;
    if (!request)
        return weiri_nccl_refuse(
            weiri_nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: a pointer is NULL"));
    *request = (window_request){comm, buff, size, win, winFlags};
    return weiri_nccl_do((weiri_nccl_job){run_window, request, comm, NULL, 0});
}
WEIRI_NCCL_ALIAS(CommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win)
{
    return comm || win ? registration_release(comm, win) : ncclSuccess;
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
