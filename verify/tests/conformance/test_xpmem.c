/*
 * Proves that unregistered memory of peers is attached through XPMEM where every rank can: which
 * attachments are kept, and that they stay right although memory is freed and allocated again. The
 * library is the stand-in of verify/tests/support/xpmem_standin.c; with TEST_XPMEM=real it is the
 * installed one, and tests that inject faults are left out. test_coll runs all collectives.
 */
#include "verify/tests/support/xpmem_ranks.h"

#include <sys/wait.h>

static int attachments_of(const weir_comm *comm, int rank)
{
    int count = 0;
    const weiri_attached_peer *peer = &comm->xpmem->peers[rank];
    for (int i = 0; peer->attachments && i < WEIRI_ATTACHMENTS_MAX; i++)
        count += peer->attachments[i].at != NULL;
    return count;
}

/* More buffers far from each other than attachments are kept, twice around. The stand-in's arena
 * has room for buffers in 40 windows. */
static void many_buffers(weir_comm *comm, int *failures)
{
    enum { BUFFERS = 40, SPACING = 48 * MIB, SMALL = 16384 };
    float *in[BUFFERS], *out = xpmem_memory(SMALL);
    char *room = xpmem_is_real() ? mmap(NULL, (size_t)BUFFERS * SPACING, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                 : NULL;
    for (int i = 0; i < BUFFERS; i++) {
        in[i] = room ? (float *)(void *)(room + (size_t)i * SPACING)
                     : xpmem_standin.alloc(SMALL, SPACING);
        EXPECT(failures, in[i] != NULL);
    }
    for (int i = 0; i < 2 * BUFFERS && !*failures; i++)
        reduce_right(comm, failures, in[i % BUFFERS], out, SMALL / 4, i, "fused");
    for (int rank = 0; rank < weir_comm_nranks(comm); rank++)
        EXPECT(failures, attachments_of(comm, rank) ==
                             (rank == weir_comm_rank(comm) ? 0 : WEIRI_ATTACHMENTS_MAX));
    /* The buffer of every second call stays attached. */
    reduce_right(comm, failures, in[BUFFERS - 1], out, SMALL / 4, 0, "fused");
    for (int i = BUFFERS - 8; i < BUFFERS - 1 && !xpmem_is_real(); i++) {
        reduce_right(comm, failures, in[i], out, SMALL / 4, i, "fused");
        EXPECT_OK(failures, weir_comm_barrier(comm));
        const int before = xpmem_standin.count().attaches;
        reduce_right(comm, failures, in[BUFFERS - 1], out, SMALL / 4, i, "fused");
        EXPECT(failures, xpmem_standin.count().attaches == before);
    }
    for (int i = 0; i < BUFFERS && !xpmem_is_real(); i++)
        xpmem_standin.free(in[i]);
}

/* The buffers that a call uses are not detached while others are, and stay attached. */
static void attached_once(weir_comm *comm, int *failures)
{
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
    reduce_right(comm, failures, in, out, COUNT, 0, "fused");
    const int before = xpmem_is_real() ? 0 : xpmem_standin.count().attaches;
    for (int round = 1; round < 20; round++)
        reduce_right(comm, failures, in, out, COUNT, round, "fused");
    EXPECT(failures, xpmem_is_real() || xpmem_standin.count().attaches == before);
    xpmem_memory_free(in, BYTES);
    xpmem_memory_free(out, BYTES);
}

/* Buffers are freed and allocated again at the same addresses, also with other content there. */
static void freed_between_calls(weir_comm *comm, int *failures)
{
    float *first = NULL, *last = NULL;
    for (int round = 0; round < 30; round++) {
        float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
        first = round ? first : in;
        last = in;
        if (round)
            EXPECT(failures, in[0] == 0 && in[COUNT - 1] == 0);
        reduce_right(comm, failures, in, out, COUNT - (size_t)round, round, "fused");
        gather_right(comm, failures, in, out, COUNT / 8, round, NULL);
        EXPECT_OK(failures, weir_comm_barrier(comm));
        xpmem_memory_free(in, BYTES);
        xpmem_memory_free(out, BYTES);
    }
    EXPECT(failures, first == last); /* else this test proves nothing */
}

/* Inputs in read-only memory, a buffer that ends in the middle of the last page that is mapped, and
 * one on the stack. */
static void unusual_buffers(weir_comm *comm, int *failures)
{
    static float result[2 * 3000];
    float stack[3000];
    const int rank = weir_comm_rank(comm);
    float *read_only = xpmem_memory(16384), *last_page = xpmem_memory(3 * 4096);
    fill(read_only, 4096, rank, 1);
    EXPECT(failures, mprotect(read_only, 16384, PROT_READ) == 0);
    fill(result, 3000, rank, 9);
    EXPECT_OK(failures, weir_broadcast(comm, read_only, rank ? result : read_only, 3000, WEIR_FLOAT,
                                       0, NULL));
    EXPECT(failures, rank == 0 || result[2999] == value_of(0, 1, 2999));
    EXPECT_OK(failures, weir_allreduce(comm, read_only, result, 3000, WEIR_FLOAT, WEIR_SUM, NULL));
    EXPECT(failures, is_sum(result, 3000, weir_comm_nranks(comm), 1));
    reduce_right(comm, failures, last_page, last_page, 3001, 2, "fused");
    reduce_right(comm, failures, last_page + 1, last_page + 1, 2999, 3, "fused");
    if (comm->reads_unregistered || xpmem_is_real())
        reduce_right(comm, failures, stack, stack, 3000, 4, "fused");
    for (int i = 0; i < 4096; i++)
        EXPECT(failures, read_only[i] == value_of(rank, 1, (size_t)i));
    EXPECT(failures, mprotect(read_only, 16384, PROT_READ | PROT_WRITE) == 0);
}

/* Two communicators of the same ranks: what one detaches, the other keeps. */
static int two_communicators(weir_boot *boot, void *argument)
{
    (void)argument;
    int failures = 0;
    weir_comm *first = xpmem_load() ? open_comm(boot) : NULL;
    weir_comm *second = first ? open_comm(boot) : NULL;
    if (!second || !first->xpmem || !second->xpmem)
        return NO_COMM;
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
    reduce_right(first, &failures, in, out, COUNT, 0, "fused");
    reduce_right(second, &failures, in, out, COUNT, 1, "fused");
    EXPECT_OK(&failures, weir_comm_destroy(first));
    reduce_right(second, &failures, in, out, COUNT, 2, "fused");
    EXPECT_OK(&failures, weir_comm_destroy(second));
    if (!xpmem_is_real()) {
        const xpmem_standin_counts left = xpmem_standin.count();
        EXPECT(&failures, left.segments == 0 && left.permits == 0 && left.attachments == 0);
    }
    first = open_comm(boot);
    EXPECT(&failures, first && first->xpmem);
    if (first && first->xpmem)
        reduce_right(first, &failures, in, out, COUNT, 3, "fused");
    EXPECT_OK(&failures, weir_comm_destroy(first));
    return failures;
}

/* A child inherits neither the attachments nor a share in the segment. */
static void forked_between_calls(weir_comm *comm, int *failures)
{
    float *in = xpmem_memory(BYTES), *out = xpmem_memory(BYTES);
    reduce_right(comm, failures, in, out, COUNT, 0, "fused");
    pid_t child = fork();
    if (child == 0) {
        float *shared = xpmem_memory(BYTES);
        if (shared)
            memset(shared, 1, BYTES);
        _exit(weir_comm_barrier(comm) == WEIR_ERR_INVALID ? 0 : 1);
    }
    reduce_right(comm, failures, in, out, COUNT, 1, "fused");
    int status = 0;
    EXPECT(failures, waitpid(child, &status, 0) == child && status == 0);
    reduce_right(comm, failures, in, out, COUNT, 2, "fused");
}

/* Only whole windows are refused: the pages of the buffer alone are attached. */
static void windows_refused(weir_comm *comm, int *failures)
{
    setenv("XPMEM_STANDIN", "windows", 1);
    float *pages = xpmem_memory(3 * 4096);
    attached_calls(comm, failures);
    reduce_right(comm, failures, pages + 1023, pages + 1023, 1026, 7, "fused"); /* all of them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED_TEST("buffers are attached: allreduce and allgather as in registered memory", 3,
                      attached_calls),
        ATTACHED_TEST("attachments are kept", 2, attached_once),
        ATTACHED_TEST("more buffers than attachments", 3, many_buffers),
        ATTACHED_TEST("buffers freed and allocated again at their addresses", 3,
                      freed_between_calls),
        ATTACHED_TEST("read-only buffers, ends within a page, the stack", 2, unusual_buffers),
        RANKS_TEST("two communicators, and another one after them", 3, two_communicators, NULL),
        ATTACHED_TEST("a child between calls", 2, forked_between_calls),
        ATTACHED_TEST("the pages of a buffer alone are attached", 2, windows_refused),
    };
    const size_t count = sizeof tests / sizeof *tests;
    return RUN_SOME_TESTS("xpmem", tests, 0, xpmem_is_real() ? count - 1 : count);
}
