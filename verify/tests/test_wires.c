/*
 * The wires of this build: each conforms, and fails as it should. A wire that this
 * machine has no device for is skipped. `test_wires NAME` runs one transport alone,
 * `test_wires "NAME: a peer*"` its tests that fit the pattern.
 */
#include "wire_conformance.h"

typedef struct subject {
    weir_transport transport;
    int nranks;
    int (*body)(weir_boot *boot, weir_transport transport);
    int last_is_killed;
} subject;

static int run_body(weir_boot *boot, void *argument)
{
    const subject *what = argument;
    return what->body(boot, what->transport);
}

/* All ranks end with 0, or all have no wire; the one that is killed with its signal. */
static void test_subject(void **state)
{
    const subject *what = *state;
    int codes[MOST_RANKS];
    if (weir_boot_fork_run(what->nranks, run_body, *state, LIMIT_MS, codes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    if (codes[0] == NO_WIRE)
        skip();
    for (int rank = 0; rank < what->nranks; rank++) {
        int killed = what->last_is_killed && rank == what->nranks - 1;
        if (codes[rank] != (killed ? 128 + SIGKILL : 0))
            fail_msg("rank %d of %d ended with %d", rank, what->nranks, codes[rank]);
    }
}

static int come_and_go(weir_boot *boot, weir_transport transport)
{
    return wire_fault_leaks(boot, transport, 200);
}

#define ROWS(word, transport)                                                                     \
    {word ": 2 ranks conform", test_subject, NULL, NULL,                                          \
     &(subject){transport, 2, wire_conformance, 0}},                                              \
        {word ": 3 ranks conform", test_subject, NULL, NULL,                                      \
         &(subject){transport, 3, wire_conformance, 0}},                                          \
        {word ": a killed peer is named", test_subject, NULL, NULL,                               \
         &(subject){transport, 2, wire_fault_killed, 1}},                                         \
        {word ": a peer that does not progress runs into the deadline", test_subject, NULL, NULL, \
         &(subject){transport, 2, wire_fault_silent, 0}},                                         \
        {word ": a key of memory that is gone is refused", test_subject, NULL, NULL,              \
         &(subject){transport, 2, wire_fault_stale_key, 0}},                                      \
        {word ": a put beyond the peer's memory is refused", test_subject, NULL, NULL,            \
         &(subject){transport, 2, wire_fault_beyond, 0}},                                         \
        {word ": 200 set-ups leave nothing behind", test_subject, NULL, NULL,                     \
         &(subject){transport, 2, come_and_go, 0}}

int main(int argc, char **argv)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        ROWS("tcp", WEIR_TRANSPORT_TCP),
        ROWS("ib", WEIR_TRANSPORT_IB),
    };
    char pattern[128];
    if (argc > 1) {
        snprintf(pattern, sizeof pattern, strchr(argv[1], ':') ? "%s" : "%s:*", argv[1]);
        cmocka_set_test_filter(pattern);
    }
    return cmocka_run_group_tests_name("wires", tests, NULL, NULL);
}
