/*
 * A call with a buffer of which a part is not mapped, cannot be read, or cannot be written: the
 * rank that made it gets WEIR_ERR_INVALID, every other one WEIR_ERR_ABORTED with that rank's
 * number, soon, and nobody is said to have ended. Where the kernel copies from and to buffers, in
 * both directions, and where a network does.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "verify/tests/support/cma.h"
#include "verify/tests/support/internode_ranks.h"

#include "comm/comm.h"
#include "compute/copy.h"
#include "nccl/weir_nccl.h"

#include <sys/mman.h>

enum { BYTES = 4 << 20, BAD = 0, SOON_S = 10 };

typedef enum fault { UNMAPPED, UNREADABLE, READ_ONLY, FAULTS } fault;

typedef struct bad_case {
    layout where;
    weir_collective collective;
    int is_out; /* the output is bad, else the input */
    const char *algo;
} bad_case;

/* Memory whose second half has the fault. */
static char *bad_memory(fault what)
{
    char *made = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    memset(made, 1, BYTES);
    if (what == UNMAPPED)
        munmap(made + BYTES / 2, BYTES / 2);
    else
        mprotect(made + BYTES / 2, BYTES / 2, what == READ_ONLY ? PROT_READ : PROT_NONE);
    return made;
}

/* The call: each rank's longer buffer has BYTES. */
static weir_call call_of(const bad_case *of, const weir_comm *comm, char *in, char *out)
{
    const int rank = weir_comm_rank(comm), n = weir_comm_nranks(comm);
    weir_call call = WEIR_CALL_INIT;
    call.collective = of->collective;
    call.dtype = WEIR_UINT8;
    call.in = in;
    call.out = out;
    call.count = of->collective == WEIR_COLL_ALLTOALL || of->collective == WEIR_COLL_ALLGATHER
                     ? BYTES / (size_t)n
                     : BYTES;
    call.recv_count = of->collective == WEIR_COLL_SENDRECV ? BYTES : 0;
    if (of->collective == WEIR_COLL_SENDRECV) {
        call.destination = (rank + 1) % n;
        call.source = (rank + n - 1) % n;
    }
    call.root = of->collective == WEIR_COLL_BROADCAST && of->is_out ? n - 1 : BAD;
    call.algo_name = of->algo;
    return call;
}

static void check_status(const weir_comm *comm, weir_status status, int *failures)
{
    const int is_bad = weir_comm_rank(comm) == BAD;
    EXPECT(failures, status == (is_bad ? WEIR_ERR_INVALID : WEIR_ERR_ABORTED));
    EXPECT(failures,
           strstr(weir_last_error(), is_bad ? "bad buffer: it is shorter"
                                            : "aborted because of a bad buffer of rank 0"));
}

static int bad_body(weir_boot *boot, void *argument)
{
    const bad_case *of = argument;
    int failures = 0;
    for (int what = 0; what < FAULTS && !failures; what++) {
        if (what == READ_ONLY && !of->is_out)
            continue;
        weir_comm *comm = of->where.nnodes ? open_internode(boot, &of->where) : open_comm(boot);
        char *memory[2] = {malloc(BYTES), malloc(BYTES)}, *bad = bad_memory((fault)what);
        if (!comm)
            return NO_COMM;
        memset(memory[0], 2, BYTES);
        char *own[2] = {memory[0], memory[1]};
        if (weir_comm_rank(comm) == BAD)
            own[of->is_out] = bad;
        if (of->collective == WEIR_COLL_BROADCAST) /* in place: a rank copies nothing itself */
            own[!of->is_out] = own[of->is_out];
        const weir_call call = call_of(of, comm, own[0], own[1]);
        weir_call right = call;
        right.in = memory[0];
        right.out = memory[1];
        EXPECT_OK(&failures, weir_run(comm, &right));
        EXPECT_OK(&failures, weir_boot_barrier(boot)); /* all have ended the first call */
        const double begin_s = now_s();
        const weir_status status = weir_run(comm, &call);
        check_status(comm, status, &failures);
        if (failures)
            fprintf(stderr, "# rank %d, fault %d: status %d\n", weir_comm_rank(comm), what, status);
        EXPECT(&failures, now_s() - begin_s < SOON_S);
        EXPECT_OK(&failures, weir_boot_barrier(boot));
        EXPECT(&failures, weir_run(comm, &right) == WEIR_ERR_ABORTED);
        weir_comm_destroy(comm);
        munmap(bad, BYTES);
        free(memory[0]);
        free(memory[1]);
    }
    return failures;
}

static void test_bad(void **state)
{
    const bad_case *of = *state;
    if (!of->where.nnodes && !system_allows_cma())
        skip();
    run_ranks(ranks_of(&of->where), bad_body, *state);
}

/* ----------------------------------------------------------------- libweir_nccl */

/* Rank 0 sends, or receives, with the bad buffer. */
static int nccl_body(weir_boot *boot, void *argument)
{
    const int is_out = *(const int *)argument, rank = weir_boot_rank(boot);
    int failures = 0;
    ncclUniqueId ids[2];
    ncclComm_t comm = NULL;
    unsetenv("WEIR_HOSTID");
    unsetenv("WEIR_TRANSPORT");
    weiri_copy_assume_streams_to_peers(0); /* on AMD's processors ranks would lend less often */
    if (rank == 0)
        EXPECT(&failures, ncclGetUniqueId(&ids[0]) == ncclSuccess);
    EXPECT_OK(&failures, weir_boot_allgather(boot, ids, sizeof ids[0]));
    EXPECT(&failures, ncclCommInitRank(&comm, 2, ids[0], rank) == ncclSuccess);
    char *memory = malloc(BYTES), *own = rank == BAD ? bad_memory(UNMAPPED) : memory;
    char *at = own + BYTES / 2 - BYTES / 8; /* half of the message is not there */
    memset(memory, 3, BYTES);
    const ncclResult_t result = (rank == 0) == is_out
                                    ? ncclRecv(at, BYTES / 4, ncclUint8, 1 - rank, comm, NULL)
                                    : ncclSend(at, BYTES / 4, ncclUint8, 1 - rank, comm, NULL);
    EXPECT(&failures, rank == BAD ? result == ncclInvalidArgument : result != ncclSuccess);
    EXPECT(&failures, strstr(ncclGetLastError(NULL), "bad buffer"));
    ncclCommAbort(comm);
    return failures;
}

static void test_nccl(void **state)
{
    if (!system_allows_cma())
        skip();
    run_ranks(2, nccl_body, *state);
}

#define BAD_TEST(name, ...) AT(name, test_bad, (&(bad_case){__VA_ARGS__}))
#define NODE                                                                                       \
    {                                                                                              \
        .nodes = "aaa"                                                                             \
    }
#define PAIR                                                                                       \
    {                                                                                              \
        .nodes = "aa"                                                                              \
    }
#define NODES                                                                                      \
    {                                                                                              \
        .nodes = "ab", .nnodes = 2, .transport = "tcp"                                             \
    }

int main(void)
{
    static int in = 0, out = 1;
    const struct CMUnitTest tests[] = {
        BAD_TEST("alltoall: input", NODE, WEIR_COLL_ALLTOALL, 0, "cma"),
        BAD_TEST("alltoall: output", NODE, WEIR_COLL_ALLTOALL, 1, "cma"),
        BAD_TEST("allgather: output", NODE, WEIR_COLL_ALLGATHER, 1, "cma"),
        BAD_TEST("sendrecv: input", PAIR, WEIR_COLL_SENDRECV, 0, "cma"),
        BAD_TEST("sendrecv: output", PAIR, WEIR_COLL_SENDRECV, 1, "cma"),
        BAD_TEST("broadcast: the root's input", PAIR, WEIR_COLL_BROADCAST, 0, "cma"),
        BAD_TEST("broadcast: the receiver's output", PAIR, WEIR_COLL_BROADCAST, 1, "cma"),
        BAD_TEST("two nodes, alltoall: input", NODES, WEIR_COLL_ALLTOALL, 0, NULL),
        BAD_TEST("two nodes, sendrecv: input", NODES, WEIR_COLL_SENDRECV, 0, NULL),
        AT("libweir_nccl: sent memory", test_nccl, &in),
        AT("libweir_nccl: memory that receives", test_nccl, &out),
    };
    return RUN_TESTS("bad buffers", tests);
}
