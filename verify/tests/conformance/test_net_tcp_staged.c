/*
 * Proves that the tcp transport conforms with memory that it cannot access and must stage: the
 * whole conformance suite with a stand-in for the GPU.
 */
#include "verify/tests/support/staging_standin.h"
#include "transport/net/tcp.h"

static void adapt(weiri_net *net)
{
    ((weiri_tcp_net *)net)->stage.ops = standin_ops();
}

/* -------------------------------------------------------------------- tests */

static const net_memory test_memory = {WEIRI_NET_CUDA, adapt, make_room, 0};

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
    return net_fault_silent(boot, WEIR_TRANSPORT_TCP);
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

static void test_deadline_holds(void **state)
{
    (void)state;
    run_ranks(2, silent_staged, NULL);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_staged_memory_conforms),
        cmocka_unit_test(test_one_stream_suffices),
        cmocka_unit_test(test_deadline_holds),
    };
    return cmocka_run_group_tests_name("tcp_staged", tests, NULL, NULL);
}
