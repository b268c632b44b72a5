/*
 * Proves that each network transport of this build, and the test double over shared memory,
 * conforms to net.h and fails as it should. Transports without a device on this node are skipped.
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
#include "verify/tests/support/net_shm.h"

typedef struct subject {
    weir_transport transport;
    int nranks;
    net_check *check; /* NULL: repeated set-up */
    int timeout_ms, last_is_killed;
    int first_use; /* its endpoints are prepared */
} subject;

static int run_subject(weir_boot *boot, void *argument)
{
    const subject *what = argument;
    net_first_use = what->first_use;
    return what->check ? net_run(boot, what->transport, what->timeout_ms, what->check)
                       : net_fault_leaks(boot, what->transport, 200);
}

static void test_subject(void **state)
{
    const subject *what = *state;
    net_run_ranks(what->nranks, run_subject, *state, what->last_is_killed);
}

#define CONFORMS(name, transport, nranks)                                                          \
    AT(name, test_subject, (&(subject){transport, nranks, net_check_all, NET_TIMEOUT_MS, 0, 0}))
#define FAULT(name, transport, check, last_is_killed)                                              \
    AT(name, test_subject,                                                                         \
       (&(subject){transport, 2, check, NET_FAULT_TIMEOUT_MS, last_is_killed, 0}))
#define FIRST_USE(name, nranks, check, timeout_ms, last_is_killed)                                 \
    AT("tcp: first use: " name, test_subject,                                                      \
       (&(subject){WEIR_TRANSPORT_TCP, nranks, check, timeout_ms, last_is_killed, 1}))

/* The rows of one transport. */
/* clang-format off */
#define ROWS(word, transport)                                                                      \
    CONFORMS(word ": 2 ranks conform", transport, 2),                                              \
    CONFORMS(word ": 3 ranks conform", transport, 3),                                              \
    FAULT(word ": a killed peer is named", transport, net_fault_killed, 1),                        \
    FAULT(word ": a peer that does not progress causes a timeout", transport,                      \
          net_fault_silent, 0),                                                                    \
    FAULT(word ": a key of deregistered memory is rejected", transport, net_fault_stale_key, 0),   \
    FAULT(word ": a put beyond the peer's memory is rejected", transport, net_fault_beyond, 0),    \
    FAULT(word ": 200 set-ups leak nothing", transport, NULL, 0)
/* clang-format on */

static int net_cut(weir_boot *boot, weir_transport transport)
{
    return net_fault(boot, transport, net_fault_cut);
}

/* One rank of a job over several hosts. */
static int join_job(char **words)
{
    static const struct {
        const char *name;
        int (*body)(weir_boot *boot, weir_transport transport);
    } bodies[] = {{"conform", net_conformance}, {"cut", net_cut}, {"speed", net_speed}};
    weir_transport transport = WEIR_TRANSPORT_AUTO;
    weir_boot *boot = NULL;
    for (int known = WEIR_TRANSPORT_SHM; weir_transport_name((weir_transport)known); known++)
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
        return join_job(argv + 1);
    const struct CMUnitTest tests[] = {
        ROWS("tcp", WEIR_TRANSPORT_TCP),
        FIRST_USE("2 ranks conform", 2, net_check_all, NET_TIMEOUT_MS, 0),
        FIRST_USE("4 ranks conform", 4, net_check_all, NET_TIMEOUT_MS, 0),
        FIRST_USE("a killed peer is named", 2, net_fault_killed, NET_FAULT_TIMEOUT_MS, 1),
        FIRST_USE("a peer that does not progress causes a timeout", 2, net_fault_silent,
                  NET_FAULT_TIMEOUT_MS, 0),
        FIRST_USE("200 set-ups leak nothing", 2, NULL, NET_FAULT_TIMEOUT_MS, 0),
        ROWS("ib", WEIR_TRANSPORT_IB),
        ROWS("shm", WEIR_TRANSPORT_SHM),
    };
    char pattern[128];
    net_shm_register();
    if (argc > 1) {
        snprintf(pattern, sizeof pattern, strchr(argv[1], ':') ? "%s" : "%s:*", argv[1]);
        cmocka_set_test_filter(pattern);
    }
    return RUN_TESTS("networks", tests);
}
