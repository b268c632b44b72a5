/*
 * The list of registrations and windows of this process. The address of each is its handle, and the
 * list recognises handles that are not, or no longer, valid. While a communicator is suspended,
 * they stay in the list, without what refers to weir's communicator.
 */
#include "nccl/rma/rma.h"

#include "base/error.h"

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

void weiri_registration_add(weiri_registration *made)
{
    pthread_mutex_lock(&lock);
    made->next = registrations;
    registrations = made;
    pthread_mutex_unlock(&lock);
}

weiri_registration *weiri_registration_remove(ncclComm_t comm, const void *object)
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

weiri_registration *weiri_registrations_take(ncclComm_t handle)
{
    weiri_registration *mine = NULL;
    pthread_mutex_lock(&lock);
    for (weiri_registration **at = &registrations; *at;) {
        weiri_registration *one = *at;
        if (one->handle != handle) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = mine;
        mine = one;
    }
    pthread_mutex_unlock(&lock);
    return mine;
}
