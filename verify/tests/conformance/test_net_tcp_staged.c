/*
 * Proves that the tcp transport conforms with memory that it cannot access and must stage: the
 * whole conformance suite with a stand-in for the GPU.
 */
#include "verify/tests/support/staging_standin.h"
#include "transport/net/tcp.h"

static void use_standin(weiri_net *net)
{
    ((weiri_tcp_net *)net)->stage.ops = standin_ops();
}

/* -------------------------------------------------------------------- tests */

static const net_memory test_memory = {WEIRI_NET_CUDA, use_standin, make_room, 0};

static int conform_staged(weir_boot *boot, void *argument)
{
    (void)argument;
    net_memory_used = &test_memory;
    int failures = net_conformance(boot, WEIR_TRANSPORT_TCP);
    EXPECT(&failures, copies_made > 0);
    return failures;
}

static int silent_staged(weir_boot *boot, void *argument)
{
    (void)argument;
    net_memory_used = &test_memory;
    return net_fault(boot, WEIR_TRANSPORT_TCP, net_fault_silent);
}

static void test_staged_memory_conforms(void **state)
{
    (void)state;
    run_ranks(2, conform_staged, NULL);
    run_ranks(3, conform_staged, NULL);
}

static void test_one_stream_suffices(void **state)
{
    (void)state;
    setenv("WEIR_SOCKET_STREAMS", "1", 1);
    run_ranks(2, conform_staged, NULL);
    unsetenv("WEIR_SOCKET_STREAMS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("staged memory conforms", test_staged_memory_conforms, NULL),
        AT("staged memory conforms over one stream", test_one_stream_suffices, NULL),
        RANKS_TEST("a peer that does not progress causes a timeout", 2, silent_staged, NULL),
    };
    return RUN_TESTS("tcp_staged", tests);
}
