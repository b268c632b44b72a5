/*
 * Threads that use a communicator of libweir_nccl without counting themselves (nccl/comm/users.h):
 * its end waits for them, they never see an ended one, and their records are reused.
 */
#include "nccl/comm/users.h"
#include "verify/tests/support/unit_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { LIVES = 2000, THREADS = 3, ALIVE = 7, DEAD = 8 };

static atomic_int step;

static void await_step(int wanted)
{
    while (atomic_load(&step) < wanted)
        sched_yield();
}

static ncclComm_t begin(weiri_nccl_comm *comm)
{
    atomic_store(&comm->state, WEIRI_NCCL_READY);
    comm->rank = ALIVE;
    return weiri_nccl_publish(comm);
}

static void end(ncclComm_t handle, weiri_nccl_comm *comm)
{
    assert_ptr_equal(weiri_nccl_withdraw(handle), comm);
    weiri_nccl_await_users(comm);
    comm->rank = DEAD;
    weiri_nccl_recycle(comm);
}

/* ---------------------------------------------------------------- one user */

static ncclComm_t shared;
static weiri_nccl_user *record_of_thread;
static weiri_nccl_comm *entered, *entered_twice;

static void *stay(void *unused)
{
    (void)unused;
    weiri_nccl_user_prepare();
    record_of_thread = weiri_nccl_this_thread.user;
    entered = weiri_nccl_enter_quick(shared, record_of_thread);
    entered_twice = weiri_nccl_enter_quick(shared, record_of_thread); /* while it is in use */
    atomic_store(&step, 1);
    usleep(100000);
    atomic_store(&step, 2);
    weiri_nccl_leave_quick(record_of_thread);
    return NULL;
}

TEST(the_end_waits_for_a_user)
{
    static weiri_nccl_comm comm;
    pthread_t thread;
    weiri_nccl_user_prepare();
    if (!weiri_nccl_this_thread.user)
        skip(); /* the kernel has no membarrier */
    for (int turn = 0; turn < 2; turn++) {
        const weiri_nccl_user *before = record_of_thread;
        shared = begin(&comm);
        atomic_store(&step, 0);
        assert_int_equal(pthread_create(&thread, NULL, stay, NULL), 0);
        await_step(1);
        assert_ptr_equal(entered, &comm);
        assert_null(entered_twice);
        end(shared, &comm);
        assert_int_equal(atomic_load(&step), 2);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_null(weiri_nccl_enter_quick(shared, weiri_nccl_this_thread.user));
        assert_true(turn == 0 || record_of_thread == before); /* that of the thread that ended */
    }
}

TEST(a_state_other_than_ready_is_left_to_the_general_path)
{
    static weiri_nccl_comm comm;
    weiri_nccl_user *user = weiri_nccl_this_thread.user;
    if (!user)
        skip();
    const ncclComm_t handle = begin(&comm);
    atomic_store(&comm.state, WEIRI_NCCL_SUSPENDED);
    assert_null(weiri_nccl_enter_quick(handle, user));
    atomic_store(&comm.state, WEIRI_NCCL_READY);
    assert_ptr_equal(weiri_nccl_enter_quick(handle, user), &comm);
    weiri_nccl_leave_quick(user);
    assert_null(weiri_nccl_enter_quick(NULL, user));
    assert_null(weiri_nccl_enter_quick(handle, NULL));
    end(handle, &comm);
}

/* --------------------------------------------------------------- many lives */

static _Atomic(ncclComm_t) current;
static atomic_int entries, ended, are_over;

static void *use(void *unused)
{
    (void)unused;
    weiri_nccl_user_prepare();
    weiri_nccl_user *user = weiri_nccl_this_thread.user;
    while (!atomic_load(&are_over)) {
        weiri_nccl_comm *comm = weiri_nccl_enter_quick(atomic_load(&current), user);
        if (!comm)
            continue;
        for (int look = 0; look < 4; look++)
            if (*(volatile int *)&comm->rank != ALIVE)
                atomic_fetch_add(&ended, 1);
        atomic_fetch_add(&entries, 1);
        weiri_nccl_leave_quick(user);
    }
    return NULL;
}

TEST(users_never_see_an_ended_communicator)
{
    static weiri_nccl_comm comms[2];
    pthread_t threads[THREADS];
    if (!weiri_nccl_this_thread.user)
        skip();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, NULL), 0);
    for (int life = 0; life < LIVES; life++) {
        weiri_nccl_comm *comm = &comms[life % 2];
        const ncclComm_t handle = begin(comm);
        const int before = atomic_load(&entries);
        atomic_store(&current, handle);
        while (life % 100 == 0 && atomic_load(&entries) == before)
            sched_yield();
        end(handle, comm);
    }
    atomic_store(&are_over, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&ended), 0);
    assert_true(atomic_load(&entries) > LIVES / 100);
}

int main(void)
{
    return run_all_tests("nccl_users");
}
