/*
 * Proves that switch channels reduce over a group and store to it, for callers on the host and
 * through the functions of kernels, and that wrong ranges are rejected.
 */
#include "verify/tests/support/comm_ranks.h"
#include <weir/device.h>

enum { COUNT = 1003, BYTES = 8192, OUT_AT = 4100 };

/* Every rank reduces its part of all ranks' memory, and stores the result to all. */
static void use_switch(weir_comm *comm, int *failures)
{
    weir_mem *mem = NULL, *mems[MOST_RANKS] = {NULL};
    weir_switchchan *chan = NULL;
    const int rank = weir_comm_rank(comm), n = weir_comm_nranks(comm);
    EXPECT_OK(failures, weir_mem_alloc(comm, BYTES, &mem));
    EXPECT_OK(failures, weir_mem_exchange(comm, mem, mems));
    EXPECT_OK(failures, weir_switchchan_create(comm, mems, n, &chan));
    if (*failures)
        return;
    int32_t *own = weir_mem_pointer(mem), *out = own + OUT_AT / 4;
    for (int i = 0; i < COUNT; i++)
        own[i] = rank * 100 + i;
    EXPECT_OK(failures, weir_comm_barrier(comm));
    const int first = COUNT * rank / n, end = COUNT * (rank + 1) / n;
    const size_t at = (size_t)first * 4, count = (size_t)(end - first);
    EXPECT_OK(failures, weir_switchchan_reduce(chan, out + first, at, count, WEIR_INT32, WEIR_SUM));
    EXPECT_OK(failures, weir_switchchan_broadcast(chan, OUT_AT + at, out + first, count * 4));
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (int i = 0; i < COUNT; i++)
        EXPECT(failures, out[i] == n * (n - 1) / 2 * 100 + n * i);
    EXPECT_OK(failures, weir_switchchan_reduce(chan, out, 0, COUNT, WEIR_INT32, WEIR_MAX));
    EXPECT(failures, out[COUNT - 1] == (n - 1) * 100 + COUNT - 1);
    EXPECT(failures, weir_switchchan_device(chan)->count == (uint32_t)n);
    EXPECT(failures, weir_switchchan_reduce(chan, out, BYTES - 4, 2, WEIR_INT32, WEIR_SUM) ==
                         WEIR_ERR_INVALID);
    EXPECT(failures, weir_switchchan_broadcast(chan, 1, out, BYTES) == WEIR_ERR_INVALID);
    EXPECT_OK(failures, weir_comm_barrier(comm));
    weir_switchchan_free(chan);
    for (int i = 0; i < n; i++)
        if (i != rank)
            weir_mem_free(mems[i]);
    weir_mem_free(mem);
}

/* The same through a kernel's functions; here with the threads in sequence. */
static void use_device(weir_comm *comm, int *failures)
{
    weir_mem *mems[2] = {NULL, NULL}, *shorter = NULL;
    weir_switchchan *chan = NULL;
    float sum[7];
    for (int i = 0; i < 2; i++)
        EXPECT_OK(failures, weir_mem_alloc(comm, BYTES, &mems[i]));
    EXPECT_OK(failures, weir_mem_alloc(comm, BYTES / 2, &shorter));
    EXPECT(failures, weir_switchchan_create(comm, (weir_mem *[]){mems[0], shorter}, 2, &chan) ==
                         WEIR_ERR_INVALID);
    EXPECT(failures, weir_switchchan_create(comm, mems, 0, &chan) == WEIR_ERR_INVALID);
    EXPECT_OK(failures, weir_switchchan_create(comm, mems, 2, &chan));
    if (*failures)
        return;
    for (int i = 0; i < 7; i++) {
        ((float *)weir_mem_pointer(mems[0]))[i] = (float)i;
        ((float *)weir_mem_pointer(mems[1]))[i] = 10;
    }
    const weir_switchchan_dev *device = weir_switchchan_device(chan);
    for (uint32_t tid = 0; tid < 3; tid++)
        weir_switch_sum(device, sum, 4, 6, tid, 3);
    for (uint32_t tid = 0; tid < 3; tid++)
        weir_switch_broadcast(device, 64, (const char *)sum, 6 * sizeof *sum, tid, 3);
    for (int i = 0; i < 6; i++)
        for (int m = 0; m < 2; m++)
            EXPECT(failures, ((float *)weir_mem_pointer(mems[m]))[16 + i] == (float)(11 + i));
    weir_switchchan_free(chan);
    weir_mem_free(shorter);
    weir_mem_free(mems[0]);
    weir_mem_free(mems[1]);
}

static void test_switch(void **state)
{
    (void)state;
    run_comm_ranks(1, use_switch);
    run_comm_ranks(3, use_switch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switch),
        COMM_TEST("device", 1, use_device),
    };
    return RUN_TESTS("switch channels", tests);
}
