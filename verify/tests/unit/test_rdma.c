/*
 * The choice of the RDMA port and GID of a rank, from tables and from a synthetic /sys; and, on a
 * machine that has an RDMA device, the errors of the `ib` transport when the device cannot do what
 * is requested. In the virtual machine:
 *
 *   test_rdma device               runs the tests of the device only; sets its interface dummy0
 * down and up again, which a run without the argument does not test_rdma stream BYTES COUNT prints
 * the MB/s (of 2^20 bytes) of COUNT puts, like ib_write_bw test_rdma signal COUNT         prints
 * the median one-way us of a signal, like ib_write_lat
 */
#include "verify/tests/conformance/net_conformance.h"

#include "transport/net/rdma_port.h"
#include "verify/tests/support/test_files.h"

#include <grp.h>
#include <sys/resource.h>

#define ROOT_A "/devices/pci0000:00"
#define SWITCH_A ROOT_A "/0000:00:01.0/0000:01:00.0"
#define ROOT_B "/devices/pci0000:80"

static weiri_rdma_port make_port(const char *device, const char *path, int numa)
{
    static const unsigned char ipv4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    weiri_rdma_port port = {.port = 1, .active = 1, .ethernet = 1, .numa = numa, .ngids = 1};
    snprintf(port.device, sizeof port.device, "%s", device);
    snprintf(port.path, sizeof port.path, "%s", path);
    snprintf(port.state, sizeof port.state, "ACTIVE");
    snprintf(port.netdev, sizeof port.netdev, "eth7");
    memcpy(port.gids[0].bytes, ipv4, sizeof ipv4);
    port.gids[0].type = WEIRI_GID_ROCE_2;
    return port;
}

static void set_down(weiri_rdma_port *port)
{
    port->active = 0;
    snprintf(port->state, sizeof port->state, "DOWN");
}

static int chosen(const weiri_rdma_port *ports, int count, const weiri_rdma_user *user,
                  const char *hca)
{
    weiri_rdma_choice choice = {0};
    assert_int_equal(weiri_rdma_choose(ports, count, user, hca, -1, &choice), WEIR_OK);
    assert_true(strlen(choice.why) > 10);
    return choice.port;
}

TEST(choice_takes_the_nearest_active_port_with_a_gid)
{
    weiri_rdma_port ports[] = {
        make_port("distant", ROOT_B "/0000:80:01.0/0000:81:00.0", 1),
        make_port("numa", "/devices/pci0000:40/0000:40:01.0/0000:41:00.0", 0),
        make_port("root", ROOT_A "/0000:00:02.0/0000:05:00.0", 0),
        make_port("switch", SWITCH_A "/0000:02:01.0/0000:04:00.0", 0),
    };
    const weiri_rdma_user gpu = {.gpu = SWITCH_A "/0000:02:00.0/0000:03:00.0", .numa = 0};
    const weiri_rdma_user other = {.gpu = ROOT_B "/0000:80:02.0/0000:85:00.0", .numa = 1};
    const weiri_rdma_user cores = {.numa = 1};
    const int nearness[] = {WEIRI_NIC_FAR, WEIRI_NIC_SAME_NUMA, WEIRI_NIC_SAME_ROOT,
                            WEIRI_NIC_SAME_SWITCH};
    for (int i = 0; i < 4; i++)
        assert_int_equal(weiri_rdma_distance(&gpu, &ports[i]), nearness[i]);
    assert_int_equal(chosen(ports, 4, &gpu, NULL), 3);
    assert_int_equal(chosen(ports, 4, &other, NULL), 0);
    assert_int_equal(chosen(ports, 4, &cores, NULL), 0);
    set_down(&ports[3]);
    assert_int_equal(chosen(ports, 4, &gpu, NULL), 2);
    ports[2].ngids = 0; /* cannot be addressed */
    assert_int_equal(chosen(ports, 4, &gpu, NULL), 1);
}

TEST(choice_spreads_ranks_over_equal_ports)
{
    weiri_rdma_port ports[] = {make_port("a", SWITCH_A "/x", 0), make_port("b", SWITCH_A "/y", 0),
                               make_port("c", ROOT_B "/z", 1)};
    for (int rank = 0; rank < 6; rank++) {
        const weiri_rdma_user user = {.gpu = SWITCH_A "/g", .numa = 0, .ordinal = rank};
        assert_int_equal(chosen(ports, 3, &user, NULL), rank % 2);
    }
}

TEST(choice_obeys_the_environment_or_lists_the_ports)
{
    weiri_rdma_port ports[] = {make_port("mlx5_1", ROOT_A "/x", 0), make_port("mlx5_10", "", 1),
                               make_port("mlx5_10", "", 1)};
    const weiri_rdma_user user = {.gpu = "", .numa = 0};
    weiri_rdma_choice choice;
    ports[2].port = 2;
    assert_int_equal(chosen(ports, 3, &user, "mlx5_10"), 1);
    assert_int_equal(chosen(ports, 3, &user, "mlx5_10:2"), 2);
    assert_int_equal(chosen(ports, 3, &user, "mlx5_1:1"), 0);
    assert_int_equal(weiri_rdma_choose(ports, 3, &user, "mlx5_2", -1, &choice), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "WEIR_IB_HCA=mlx5_2"));
    assert_non_null(strstr(weir_last_error(), "mlx5_10:2 (ACTIVE)"));
    assert_int_equal(weiri_rdma_choose(ports, 3, &user, NULL, 5, &choice), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "WEIR_IB_GID_INDEX=5"));
    assert_non_null(strstr(weir_last_error(), "0 (10.0.0.1)"));
    assert_int_equal(weiri_rdma_choose(ports, 3, &user, NULL, 0, &choice), WEIR_OK);
    set_down(&ports[0]);
    assert_int_equal(weiri_rdma_choose(ports, 3, &user, "mlx5_1", -1, &choice),
                     WEIR_ERR_UNSUPPORTED);
    assert_non_null(strstr(weir_last_error(), "mlx5_1:1 (DOWN)"));
}

TEST(choice_reports_missing_ports_and_gids)
{
    weiri_rdma_port port = make_port("mlx5_0", "", 0);
    const weiri_rdma_user user = {.numa = -1};
    weiri_rdma_choice choice;
    assert_int_equal(weiri_rdma_choose(NULL, 0, &user, NULL, -1, &choice), WEIR_ERR_UNSUPPORTED);
    assert_non_null(strstr(weir_last_error(), "no RDMA device"));
    port.ngids = 0;
    assert_int_equal(weiri_rdma_choose(&port, 1, &user, NULL, -1, &choice), WEIR_ERR_UNSUPPORTED);
    assert_non_null(strstr(weir_last_error(), "mlx5_0:1 has no GID"));
    assert_non_null(strstr(weir_last_error(), "eth7"));
}

/* A card of two ports, as Linux shows it: one down, one with four GIDs; and another card of one. */
TEST(choice_reads_ports_from_sysfs)
{
    char root[] = "/tmp/weir-sys-XXXXXX", link[512], target[512], command[64];
    weiri_rdma_port *ports = NULL;
    int count = 0;
    assert_non_null(mkdtemp(root));
#define PORTS "class/infiniband/mlx5_3/ports/"
    test_file_write(root, PORTS "1/state", "1: DOWN\n");
    test_file_write(root, PORTS "1/link_layer", "InfiniBand\n");
    test_file_write(root, PORTS "2/state", "4: ACTIVE\n");
    test_file_write(root, PORTS "2/link_layer", "Ethernet\n");
    test_file_write(root, PORTS "2/rate", "100 Gb/sec (4X EDR)\n");
    test_file_write(root, PORTS "2/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
    test_file_write(root, PORTS "2/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n");
    test_file_write(root, PORTS "2/gids/2", "0000:0000:0000:0000:0000:ffff:0a00:0002\n");
    test_file_write(root, PORTS "2/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0002\n");
    test_file_write(root, PORTS "2/gid_attrs/types/0", "RoCE v2\n");
    test_file_write(root, PORTS "2/gid_attrs/types/2", "IB/RoCE v1\n");
    test_file_write(root, PORTS "2/gid_attrs/types/3", "RoCE v2\n");
    test_file_write(root, PORTS "2/gid_attrs/ndevs/0", "eth3\n");
    test_file_write(root, "class/infiniband/mlx5_10/ports/1/state", "4: ACTIVE\n");
    test_file_write(root, "devices/pci0000:40/0000:40:01.0/0000:41:00.0/numa_node", "1\n");
    snprintf(target, sizeof target, "%s/devices/pci0000:40/0000:40:01.0/0000:41:00.0", root);
    snprintf(link, sizeof link, "%s/class/infiniband/mlx5_3/device", root);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(weiri_rdma_ports(root, &ports, &count), WEIR_OK);
    assert_int_equal(count, 3);
    assert_string_equal(ports[1].device, "mlx5_3");
    assert_string_equal(ports[2].device, "mlx5_10");
    assert_true(ports[2].active && ports[2].ngids == 0);
    assert_false(ports[0].active || ports[0].ethernet);
    assert_true(ports[1].active && ports[1].ethernet && ports[1].port == 2);
    assert_string_equal(ports[1].path, "/devices/pci0000:40/0000:40:01.0/0000:41:00.0");
    assert_int_equal(ports[0].numa, 1);
    assert_int_equal(ports[1].numa, 1);
    assert_true(ports[1].gbits == 100);
    assert_string_equal(ports[1].netdev, "eth3");
    assert_int_equal(ports[1].ngids, 3);
    assert_int_equal(ports[1].gids[weiri_rdma_best_gid(&ports[1])].index, 3);
    free(ports);
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
    assert_int_equal(weiri_rdma_ports(root, &ports, &count), WEIR_OK);
    assert_int_equal(count, 0);
}

/* A device that reports no NUMA node is on the only one with processors, whatever its number. */
TEST(choice_takes_the_only_numa_node_for_a_device_without_one)
{
    static const struct {
        const char *nodes; /* of the machine; NULL: its kernel has no NUMA */
        int expected;
    } cases[] = {{NULL, 0},     {"0\n", 0},    {"2\n", 2},     {"0-1\n", -1},
                 {"0,2\n", -1}, {"1,3\n", -1}, {"0-1,4\n", -1}};
    char root[] = "/tmp/weir-sys-XXXXXX", command[64];
    const char *const device = "bus/pci/devices/0000:41:00.0/numa_node";
    assert_non_null(mkdtemp(root));
    test_file_write(root, device, "-1\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].nodes)
            test_file_write(root, "devices/system/node/has_cpu", cases[i].nodes);
        assert_int_equal(weiri_rdma_numa_of(root, "0000:41:00.0"), cases[i].expected);
    }
    test_file_write(root, device, "3\n");
    assert_int_equal(weiri_rdma_numa_of(root, "0000:41:00.0"), 3);
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
}

/* ----------------------------------------------------------- with a device */

static int has_device(void)
{
    weiri_rdma_port *ports = NULL;
    int count = 0;
    weiri_rdma_ports("/sys", &ports, &count);
    free(ports);
    return count > 0 && weiri_net_ops_of(WEIR_TRANSPORT_IB) != NULL;
}

static void need_device(void)
{
    if (!has_device())
        skip();
}

/* Opening the transport with a variable set must fail with the status and a message with the
 * word. */
static void expect_open_error(const char *variable, const char *value, weir_status status,
                              const char *word)
{
    weiri_net *net = NULL;
    setenv(variable, value, 1);
    assert_int_equal(weiri_net_ops_of(WEIR_TRANSPORT_IB)->open(0, 1, 1000, &net), status);
    unsetenv(variable);
    assert_non_null(strstr(weir_last_error(), word));
}

TEST(device_errors_name_the_setting_and_the_alternatives)
{
    need_device();
    expect_open_error("WEIR_IB_HCA", "mlx5_77", WEIR_ERR_INVALID, "there are: ");
    expect_open_error("WEIR_IB_GID_INDEX", "63", WEIR_ERR_INVALID, "it has 0 (fe80:");
    expect_open_error("WEIR_IB_GID_INDEX", "x", WEIR_ERR_INVALID, "WEIR_IB_GID_INDEX=x");
}

/* Runs as an ordinary user who may lock 64 KiB of memory. */
static int locked_out(weir_boot *boot, void *argument)
{
    enum { LIMIT_BYTES = 65536, BYTES = 1 << 20 };
    const struct rlimit limit = {LIMIT_BYTES, LIMIT_BYTES};
    const weiri_net_ops *ops = weiri_net_ops_of(WEIR_TRANSPORT_IB);
    weiri_net *net = NULL;
    weiri_net_mem *mem = NULL;
    int failures = 0;
    (void)boot, (void)argument;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setgroups(0, NULL) != 0 || setuid(65534) != 0)
        return NO_NET; /* not root */
    char *room = aligned_alloc(4096, BYTES);
    EXPECT_OK(&failures, ops->open(0, 1, 1000, &net));
    if (net) {
        EXPECT_OK(&failures, ops->mem_register(net, room, 4096, WEIRI_NET_HOST, &mem));
        EXPECT(&failures,
               ops->mem_register(net, room, BYTES, WEIRI_NET_HOST, &mem) == WEIR_ERR_NO_MEMORY);
        EXPECT(&failures, boot_last_error_has("ulimit -l") && boot_last_error_has("64 KiB"));
        EXPECT(&failures,
               ops->mem_register(net, (void *)4096, BYTES, WEIRI_NET_HOST, &mem) != WEIR_OK);
    }
    ops->close(net);
    free(room);
    return failures;
}

TEST(device_errors_name_the_limit_of_locked_memory)
{
    int code = 0;
    need_device();
    assert_int_equal(weir_boot_fork_run(1, locked_out, NULL, LIMIT_MS, &code), WEIR_OK);
    if (code == NO_NET)
        skip();
    assert_int_equal(code, 0);
}

static int may_unplug;

/* The port goes down during exchanges: both ranks fail, each with an error that names the other. */
static int unplugged(weir_boot *boot, void *argument)
{
    int failures = 0;
    net_side side;
    (void)argument;
    if (!net_fault_open(&side, boot, WEIR_TRANSPORT_IB, &failures))
        return NO_NET;
    EXPECT_OK(&failures, net_barrier(&side));
    weir_boot_barrier(boot);
    if (side.rank == 0)
        EXPECT(&failures, system("ip link set dummy0 down") == 0);
    weir_boot_barrier(boot);
    net_signal(&side, side.ends[1 - side.rank], 0, side.epoch + 1);
    net_expect_failed(&side, 1 - side.rank, &failures);
    EXPECT(&failures, boot_last_error_has("rxe0:1"));
    weir_boot_barrier(boot);
    net_side_close(&side);
    return failures;
}

TEST(device_port_that_goes_down_fails_both_ranks)
{
    int codes[2] = {0, 0};
    need_device();
    if (!may_unplug)
        skip();
    assert_int_equal(weir_boot_fork_run(2, unplugged, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_true(codes[0] == 0 && codes[1] == 0);
    expect_open_error("WEIR_IB_HCA", "", WEIR_ERR_UNSUPPORTED, "rxe0:1 (DOWN)");
    assert_int_equal(system("ip link set dummy0 up"), 0);
}

/* -------------------------------------------------------------------- speed */

typedef struct measured {
    size_t bytes; /* 0: signals */
    int count;
} measured;

static int by_size(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* Keeps 128 puts in flight, all to the same address. */
static void stream(net_side *side, const measured *what, int *failures)
{
    enum { IN_FLIGHT = 128 };
    weiri_endpoint *end = side->ends[1 - side->rank];
    double start_s = now_s();
    int moved;
    if (side->rank == 1)
        return;
    for (int i = 0; i < what->count && !*failures; i++) {
        while (end->posted - end->completed >= IN_FLIGHT && net_move(side, &moved) == WEIR_OK)
            continue;
        EXPECT_OK(failures, net_put(side, 1, 0, 0, what->bytes));
    }
    while (end->completed < end->posted && net_move(side, &moved) == WEIR_OK)
        continue;
    EXPECT(failures, end->completed == end->posted);
    printf("%.2f\n", what->count * (double)what->bytes / (now_s() - start_s) / (1 << 20));
}

static void ping_pong(net_side *side, const measured *what, int *failures)
{
    const int peer = 1 - side->rank;
    const uint64_t *word = net_word(side, peer, 1);
    double *trips_us = calloc((size_t)what->count, sizeof *trips_us);
    int moved;
    for (int i = 0; i < what->count && !*failures; i++) {
        double start_s = now_s();
        for (int sender = 0; sender < 2; sender++)
            if (sender == side->rank)
                EXPECT_OK(failures, net_signal(side, side->ends[peer], 1, (uint64_t)i + 1));
            else
                while (weir_load_acquire(word) < (uint64_t)i + 1 &&
                       net_move(side, &moved) == WEIR_OK)
                    continue;
        trips_us[i] = (now_s() - start_s) * 1e6;
    }
    qsort(trips_us, (size_t)what->count, sizeof *trips_us, by_size);
    if (side->rank == 0)
        printf("%.2f\n", trips_us[what->count / 2] / 2);
    free(trips_us);
}

static int measure_rank(weir_boot *boot, void *argument)
{
    const measured *what = argument;
    int failures = 0;
    net_side side;
    if (!net_side_open(&side, boot, WEIR_TRANSPORT_IB, NET_TIMEOUT_MS, &failures))
        return NO_NET;
    EXPECT_OK(&failures, net_barrier(&side));
    (what->bytes ? stream : ping_pong)(&side, what, &failures);
    fflush(stdout);
    weir_boot_barrier(boot);
    net_side_close(&side);
    return failures;
}

static int measure(int argc, char **argv)
{
    int codes[2] = {1, 1}, streams = argc == 4;
    measured what = {streams ? strtoul(argv[2], NULL, 10) : 0, atoi(argv[argc - 1])};
    if (what.count < 1 || what.bytes > NET_AREA_BYTES || (streams && what.bytes < 1)) {
        fprintf(stderr, "test_rdma: expected stream BYTES COUNT or signal COUNT\n");
        return 2;
    }
    weir_boot_fork_run(2, measure_rank, &what, LIMIT_MS, codes);
    return codes[0] ? codes[0] : codes[1];
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return measure(argc, argv);
    may_unplug = argc > 1 && strcmp(argv[1], "device") == 0;
    if (may_unplug)
        cmocka_set_test_filter("device_*");
    return run_all_tests("rdma");
}
