/*
 * Proves that each network transport of this build conforms to net.h and fails as it should.
 * Transports without a device on this node are skipped.
 *
 *   test_net                     all
 *   test_net NAME                the tests of one transport
 *   test_net "NAME: a peer*"     its tests that fit the pattern
 *   test_net NAME BODY RANK NRANKS INTERFACE:IP:PORT
 *                                  this process is one rank of a job over several hosts,
 *                                  rank 0 being at that address; BODY is conform, cut or
 *                                  speed. Ends with 0 if all is well.
 */
#include "verify/tests/conformance/net_conformance.h"
#include "verify/tests/perf/net_speed.h"

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

static void test_subject(void **state)
{
    const subject *what = *state;
    net_run_ranks(what->nranks, run_body, *state, what->last_is_killed);
}

static int come_and_go(weir_boot *boot, weir_transport transport)
{
    return net_fault_leaks(boot, transport, 200);
}

#define ROWS(word, transport)                                                                      \
    {word ": 2 ranks conform", test_subject, NULL, NULL,                                           \
     &(subject){transport, 2, net_conformance, 0}},                                                \
        {word ": 3 ranks conform", test_subject, NULL, NULL,                                       \
         &(subject){transport, 3, net_conformance, 0}},                                            \
        {word ": a killed peer is named", test_subject, NULL, NULL,                                \
         &(subject){transport, 2, net_fault_killed, 1}},                                           \
        {word ": a peer that does not progress runs into the deadline", test_subject, NULL, NULL,  \
         &(subject){transport, 2, net_fault_silent, 0}},                                           \
        {word ": a key of memory that is gone is refused", test_subject, NULL, NULL,               \
         &(subject){transport, 2, net_fault_stale_key, 0}},                                        \
        {word ": a put beyond the peer's memory is refused", test_subject, NULL, NULL,             \
         &(subject){transport, 2, net_fault_beyond, 0}},                                           \
    {                                                                                              \
        word ": 200 set-ups leave nothing behind", test_subject, NULL, NULL, &(subject)            \
        {                                                                                          \
            transport, 2, come_and_go, 0                                                           \
        }                                                                                          \
    }

/* One rank of a job over several hosts. */
static int join(char **words)
{
    static const struct {
        const char *name;
        int (*body)(weir_boot *boot, weir_transport transport);
    } bodies[] = {{"conform", net_conformance}, {"cut", net_fault_cut}, {"speed", net_speed}};
    weir_transport transport = WEIR_TRANSPORT_AUTO;
    weir_boot *boot = NULL;
    for (int known = WEIR_TRANSPORT_SHM; known <= WEIR_TRANSPORT_TCP; known++)
        if (strcmp(words[0], weir_transport_name((weir_transport)known)) == 0)
            transport = (weir_transport)known;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        if (strcmp(words[1], bodies[i].name) != 0)
            continue;
        if (weir_boot_tcp_create_at(words[4], atoi(words[2]), atoi(words[3]), &boot) != WEIR_OK) {
            fprintf(stderr, "# %s\n", weir_last_error());
            return 1;
        }
        int code = bodies[i].body(boot, transport);
        weir_boot_destroy(boot);
        return code;
    }
    fprintf(stderr, "# no body %s\n", words[1]);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 6)
        return join(argv + 1);
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
    return cmocka_run_group_tests_name("networks", tests, NULL, NULL);
}
