/*
 * Proves how sends and receives of a group in several streams are ordered: the launch goes into the
 * first stream and waits for the others, which then wait for it. Fakes record what would go to the
 * GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define weiri_nccl_gpu_follow fake_follow
#define weiri_nccl_gpu_exchange fake_exchange
#define weiri_nccl_gpu_copy fake_copy
#include "nccl/p2p/p2p_launch.c"

enum { NRANKS = 2, LOG_BYTES = 256 };
static char done[LOG_BYTES];

/* Streams are named by letters. */
static cudaStream_t stream_of(char letter)
{
    return (cudaStream_t)(uintptr_t)letter; /* NOLINT: never dereferenced */
}

static void note(const char *what, cudaStream_t stream, cudaStream_t other)
{
    const size_t used = strlen(done);
    snprintf(done + used, sizeof done - used, "%s%s %c%c", used ? ", " : "", what,
             (char)(uintptr_t)stream, other ? (char)(uintptr_t)other : ' ');
}

weir_status fake_follow(weiri_nccl_comm *comm, cudaStream_t stream, cudaStream_t before)
{
    (void)comm;
    note("follow", stream, before);
    return WEIR_OK;
}

weir_status fake_exchange(weiri_nccl_comm *comm, weiri_p2p_args *args, cudaStream_t stream)
{
    (void)comm;
    note(args->own.blocks ? "launch all" : "launch", stream, NULL);
    return WEIR_OK;
}

weir_status fake_copy(weiri_nccl_comm *comm, void *to, const void *from, size_t bytes,
                      cudaStream_t stream)
{
    (void)comm, (void)to, (void)from, (void)bytes;
    note("copy", stream, NULL);
    return WEIR_OK;
}

/* Runs rank 0's group and returns what was recorded. "S1a" is a send to rank 1 in stream a, "R0b" a
 * receive from rank 0 in stream b, "A-c" a collective in stream c. */
static const char *runs(const char *group)
{
    static char memory[2];
    char *boxes[NRANKS] = {memory, memory};
    weir_comm here = {.nranks = NRANKS};
    weiri_nccl_p2p p2p = {.node = &here, .count = NRANKS, .mailbox = boxes};
    weiri_nccl_comm comm = {.nranks = NRANKS, .p2p = &p2p};
    weiri_nccl_call calls[8];
    size_t count = 0;
    p2p.lanes = weiri_p2p_lanes_for(1, NRANKS);
    for (; *group; group += 3 + (group[3] == ' '))
        calls[count++] = (weiri_nccl_call){
            .call = {.size = sizeof(weir_call),
                     .collective = *group == 'A' ? WEIR_COLL_ALLREDUCE : WEIR_COLL_SENDRECV,
                     .in = memory,
                     .out = memory + 1,
                     .count = 1,
                     .recv_count = 1,
                     .destination = *group == 'S' ? group[1] - '0' : -1,
                     .source = *group == 'R' ? group[1] - '0' : -1,
                     .stream = stream_of(group[2])}};
    done[0] = '\0';
    assert_int_equal(weiri_p2p_run_on_gpu(&comm, calls, count), WEIR_OK);
    return done;
}

static void test_one_stream_needs_no_event(void **state)
{
    (void)state;
    assert_string_equal(runs("S1a R1a"), "launch a ");
    assert_string_equal(runs("S1a R1a S0a R0a"), "launch all a ");
    assert_string_equal(runs("S0a R0a"), "copy a ");
    assert_string_equal(runs("A--"), "");
}

static void test_streams_of_a_group_are_joined(void **state)
{
    (void)state;
    assert_string_equal(runs("S1a R1b"), "follow ab, launch a , follow ba");
    assert_string_equal(runs("S0a R0b"), "follow ab, copy a , follow ba");
    assert_string_equal(runs("A-c S1a R1b S1b S1a"), "follow ab, launch a , follow ba");
    assert_string_equal(runs("S1a R1b S0c R0b"),
                        "follow ab, follow ac, launch all a , follow ba, follow ca");
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_stream_needs_no_event),
        cmocka_unit_test(test_streams_of_a_group_are_joined),
    };
    return cmocka_run_group_tests_name("streams of a group", tests, NULL, NULL);
}
