/*
 * The thread that drives the network for one-sided calls between nodes: it sleeps while nothing
 * arrives, over a network whose descriptor can be waited for.
 */
#include "verify/tests/support/internode_ranks.h"

#include "comm/comm.h"
#include "comm/internode/internode.h"

#include <sys/resource.h>

/* How often a thread of this process has given up its processor. */
static long switches(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw;
}

static void idle_thread_sleeps(weir_comm *comm, const layout *where, int *failures)
{
    enum { WAKES_MOST = 40 };
    struct weiri_internode_progress *progress = NULL;
    (void)where;
    EXPECT_OK(failures, weir_comm_barrier(comm));
    EXPECT_OK(failures, weiri_internode_progress_start(comm->internode, &progress));
    usleep(200000); /* what the barrier has left is taken */
    const long before = switches();
    usleep(1000000);
    EXPECT(failures, switches() - before < WAKES_MOST);
    weiri_internode_progress_stop(progress);
    EXPECT_OK(failures, weir_comm_barrier(comm));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_TEST("an idle thread sleeps, tcp", idle_thread_sleeps, "ab", 2, "tcp"),
    };
    return RUN_TESTS("progress of one-sided calls", tests);
}
