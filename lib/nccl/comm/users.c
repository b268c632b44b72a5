/* The threads' records of the communicators that they use (users.h). */
#define _GNU_SOURCE /* syscall */
#include "nccl/comm/users.h"

#include "base/fork.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#endif

_Atomic uint64_t weiri_nccl_epoch;
static _Atomic(weiri_nccl_user *) users_first;
static pthread_key_t users_key; /* its destructor releases the record of a thread that ends */
static pthread_once_t users_once = PTHREAD_ONCE_INIT;
static int users_are_possible;

#if defined(__NR_membarrier)
static int users_register(void)
{
    return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static int users_barrier(void)
{
    return syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}
#else
static int users_register(void)
{
    return 0;
}

static int users_barrier(void)
{
    return 0;
}
#endif

static void users_release(void *record)
{
    weiri_nccl_user *user = record;
    weiri_nccl_this_thread.user = NULL;
    atomic_store(&user->is_owned, 0);
}

static void users_begin(void)
{
    users_are_possible = users_register() && pthread_key_create(&users_key, users_release) == 0;
}

/* A record of a thread that has ended, or a new one; NULL: no memory. */
static weiri_nccl_user *users_take(void)
{
    for (weiri_nccl_user *user = atomic_load(&users_first); user; user = user->next) {
        int nobody = 0;
        if (atomic_compare_exchange_strong(&user->is_owned, &nobody, 1))
            return user;
    }
    weiri_nccl_user *made = aligned_alloc(_Alignof(weiri_nccl_user), sizeof *made);
    if (!made)
        return NULL;
    memset(made, 0, sizeof *made);
    atomic_init(&made->is_owned, 1);
    made->next = atomic_load(&users_first);
    while (!atomic_compare_exchange_weak(&users_first, &made->next, made))
        ;
    return made;
}

void weiri_nccl_user_prepare(void)
{
    if (weiri_nccl_this_thread.user)
        return;
    pthread_once(&users_once, users_begin);
    weiri_nccl_user *user = users_are_possible ? users_take() : NULL;
    if (user && pthread_setspecific(users_key, user) != 0) {
        atomic_store(&user->is_owned, 0);
        user = NULL;
    }
    weiri_nccl_this_thread.user = user;
}

void weiri_nccl_users_fence(void)
{
    enum { DRAINED_US = 100000 };
    if (!atomic_load(&users_first) || users_barrier())
        return;
    /* A forked child may have to register again. Without the barrier, time empties the buffers in
     * which stores wait. */
    if (!users_register() || !users_barrier())
        usleep(DRAINED_US);
}

unsigned weiri_nccl_users_of(unsigned slot)
{
    unsigned count = 0;
    for (weiri_nccl_user *user = atomic_load(&users_first); user; user = user->next)
        count += atomic_load(&user->slot) == slot + 1;
    return count;
}
