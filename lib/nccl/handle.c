/*
 * The table of handles. A place counts who is working on its communicator; the
 * generation in a handle must be the place's, which grows when the handle is
 * withdrawn. Who enters counts itself first and compares then, who withdraws
 * changes the generation first and looks at the count then: one of them sees
 * the other.
 */
#include "nccl/abi.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

enum { PLACES = 4096, PLACE_BITS = 12 };

typedef struct place {
    _Atomic(weiri_nccl_comm *) comm;
    atomic_uint generation, users;
} place;

static place places[PLACES];
static pthread_mutex_t search = PTHREAD_MUTEX_INITIALIZER;

/* Odd, so that no address of an object is a handle. */
static ncclComm_t handle_of(unsigned slot, unsigned generation)
{
    uintptr_t value = ((uintptr_t)generation << PLACE_BITS | slot) << 1 | 1;
    return (ncclComm_t)value; /* NOLINT: an opaque number */
}

static place *place_of(ncclComm_t handle, unsigned *generation)
{
    uintptr_t value = (uintptr_t)handle;
    if (!(value & 1) || value >> (1 + PLACE_BITS) > UINT_MAX)
        return NULL;
    *generation = (unsigned)(value >> (1 + PLACE_BITS));
    return &places[value >> 1 & (PLACES - 1)];
}

ncclComm_t weiri_nccl_publish(weiri_nccl_comm *comm)
{
    ncclComm_t handle = NULL;
    pthread_mutex_lock(&search);
    for (unsigned slot = 0; slot < PLACES && !handle; slot++) {
        weiri_nccl_comm *nobody = NULL;
        if (!atomic_compare_exchange_strong(&places[slot].comm, &nobody, comm))
            continue;
        comm->slot = slot;
        handle = handle_of(slot, atomic_load(&places[slot].generation) + 1);
        comm->handle = handle;
        atomic_fetch_add(&places[slot].generation, 1);
    }
    pthread_mutex_unlock(&search);
    return handle;
}

static weiri_nccl_comm *refuse(ncclComm_t handle)
{
    weiri_nccl_fail(ncclInvalidArgument,
                    handle ? "communicator %p was destroyed or aborted, or never was one"
                           : "communicator %p: none was given",
                    (void *)handle);
    return NULL;
}

weiri_nccl_comm *weiri_nccl_enter(ncclComm_t handle)
{
    unsigned generation = 0;
    place *at = place_of(handle, &generation);
    if (!at)
        return refuse(handle);
    atomic_fetch_add(&at->users, 1);
    weiri_nccl_comm *comm = atomic_load(&at->comm);
    if (comm && atomic_load(&at->generation) == generation)
        return comm;
    atomic_fetch_sub(&at->users, 1);
    return refuse(handle);
}

void weiri_nccl_leave(weiri_nccl_comm *comm)
{
    atomic_fetch_sub(&places[comm->slot].users, 1);
}

weiri_nccl_comm *weiri_nccl_withdraw(ncclComm_t handle)
{
    unsigned generation = 0;
    place *at = place_of(handle, &generation);
    weiri_nccl_comm *comm = at ? atomic_load(&at->comm) : NULL;
    if (!comm || !atomic_compare_exchange_strong(&at->generation, &generation, generation + 1))
        return refuse(handle);
    return comm;
}

void weiri_nccl_await_users(weiri_nccl_comm *comm)
{
    while (atomic_load(&places[comm->slot].users) > 0)
        sched_yield();
}

void weiri_nccl_recycle(weiri_nccl_comm *comm)
{
    atomic_store(&places[comm->slot].comm, NULL);
}
