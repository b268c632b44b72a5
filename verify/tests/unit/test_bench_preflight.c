/*
 * The preflight reports each adverse condition of a node and nothing else. Conditions are planted
 * in a synthetic /sys and /proc; the facts of other ranks are made up.
 */
#define _GNU_SOURCE /* sets of cpus */

#include "bench/job/memory.h"
#include "bench/job/preflight.h"
#include "verify/tests/support/test_files.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/weir-preflight-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static bench_preflight_facts facts_of(int low_cpu, int high_cpu)
{
    bench_preflight_facts facts;
    cpu_set_t cpus;
    memset(&facts, 0, sizeof facts);
    snprintf(facts.host, sizeof facts.host, "here");
    CPU_ZERO(&cpus);
    for (int cpu = low_cpu; cpu <= high_cpu; cpu++)
        CPU_SET(cpu, &cpus);
    bench_preflight_read(root, &cpus, &facts);
    return facts;
}

/* The report on these ranks, which must have the expected number of lines. */
static const char *judged(const bench_preflight_facts *facts, int nranks, int expected)
{
    static char text[2048];
    memset(text, 0, sizeof text);
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(file);
    assert_int_equal(bench_preflight_judge(facts, nranks, "prog", file), expected);
    fclose(file);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, expected);
    return text;
}

TEST_WITH(a_node_without_findings_is_silent, make_root, remove_root)
{
    bench_preflight_facts ranks[] = {facts_of(0, 0), facts_of(1, 1)};
    assert_true(ranks[0].quota_cores == 0 && !ranks[0].governor[0]);
    judged(ranks, 2, 0);
}

TEST_WITH(a_slow_frequency_governor_is_reported, make_root, remove_root)
{
    test_file_write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    test_file_write(root, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
    bench_preflight_facts ranks[] = {facts_of(0, 0), facts_of(1, 1)};
    judged(ranks, 1, 0);
    assert_non_null(strstr(judged(ranks, 2, 1), "cpu 1's frequency governor is powersave"));
    assert_non_null(strstr(judged(ranks, 2, 1), "cpupower frequency-set -g performance\n"));
}

TEST_WITH(a_small_cpu_quota_is_reported, make_root, remove_root)
{
    test_file_write(root, "proc/self/cgroup", "0::/job/step\n");
    test_file_write(root, "sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    test_file_write(root, "sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    bench_preflight_facts ranks[] = {facts_of(0, 0), facts_of(1, 1)};
    assert_true(ranks[0].quota_cores == 1.5);
    judged(ranks, 1, 0); /* one core is allowed */
    assert_non_null(strstr(judged(ranks, 2, 1), "allows 1.5 cores"));
    test_file_write(root, "sys/fs/cgroup/job/cpu.max", "200000 100000\n");
    ranks[0] = facts_of(0, 0);
    judged(ranks, 2, 0);
}

TEST_WITH(the_quota_of_the_root_cgroup_is_read, make_root, remove_root)
{
    test_file_write(root, "proc/self/cgroup", "0::/\n");
    test_file_write(root, "sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_true(facts_of(0, 0).quota_cores == 0.5);
}

TEST_WITH(the_quota_of_cgroup_version_1_is_read, make_root, remove_root)
{
    test_file_write(root, "proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n0::/\n");
    test_file_write(root, "sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "300000\n");
    test_file_write(root, "sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
    test_file_write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    test_file_write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(facts_of(0, 0).quota_cores == 3);
}

TEST_WITH(ranks_on_one_core_are_reported, make_root, remove_root)
{
    bench_preflight_facts ranks[] = {facts_of(0, 0), facts_of(2, 3), facts_of(0, 0)};
    const char *text = judged(ranks, 3, 1);
    assert_non_null(strstr(text, "2 ranks share 1 core, rank 0 among them"));
    assert_non_null(strstr(text, "(--bind-to core)\n"));
    /* Silent on different nodes, and for overlapping sets with a core for each. */
    snprintf(ranks[2].host, sizeof ranks[2].host, "there");
    judged(ranks, 3, 0);
    bench_preflight_facts wide[] = {facts_of(0, 2), facts_of(0, 2), facts_of(0, 2)};
    judged(wide, 3, 0);
}

TEST_WITH(hardware_threads_count_as_one_core, make_root, remove_root)
{
    bench_preflight_facts apart[] = {facts_of(0, 0), facts_of(1, 1)};
    judged(apart, 2, 0);
    test_file_write(root, "sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1\n");
    test_file_write(root, "sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n");
    bench_preflight_facts siblings[] = {facts_of(0, 0), facts_of(1, 1)};
    assert_non_null(strstr(judged(siblings, 2, 1), "start at most 1 rank there"));
}

TEST_WITH(more_ranks_than_cores_are_reported, make_root, remove_root)
{
    bench_preflight_facts ranks[] = {facts_of(0, 1), facts_of(0, 1), facts_of(0, 1)};
    assert_non_null(strstr(judged(ranks, 3, 1), "3 ranks share 2 cores"));
    assert_non_null(strstr(judged(ranks, 3, 1), "start at most 2 ranks there\n"));
}

TEST(another_mpi_at_run_time_is_reported)
{
    static const char ours[] = "Open MPI v4.1.4";
    char text[512] = "";
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(file);
    assert_int_equal(bench_preflight_mpi(ours, "Open MPI v4.1.4, package: x", "prog", file), 0);
    assert_int_equal(bench_preflight_mpi(ours, "Open MPI v4.1.4rc1, x", "prog", file), 1);
    assert_int_equal(bench_preflight_mpi(ours, "Open MPI v4.1.40, x", "prog", file), 1);
    assert_int_equal(bench_preflight_mpi("MPICH Version:\t4.0", "MPICH Version:      4.0\nx",
                                         "prog", file), 0);
    assert_int_equal(bench_preflight_mpi("", "whatever", "prog", file), 0);
    assert_int_equal(bench_preflight_mpi(ours, "MPICH Version:\t4.0\n", "prog", file), 1);
    fclose(file);
    assert_non_null(strstr(text, "runs with MPICH Version:\t4.0 but was built with Open MPI"));
    assert_non_null(strstr(text, "mpicc"));
}

TEST_WITH(available_memory_is_that_of_the_tightest_limit, make_root, remove_root)
{
    const size_t mib = (size_t)1 << 20;
    assert_true(bench_memory_available(root) == SIZE_MAX);
    test_file_write(root, "proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:  4194304 kB\n");
    assert_true(bench_memory_available(root) == 4096 * mib);
    test_file_write(root, "sys/fs/cgroup/memory.max", "max\n");
    test_file_write(root, "sys/fs/cgroup/memory.current", "1048576\n");
    assert_true(bench_memory_available(root) == 4096 * mib);
    test_file_write(root, "sys/fs/cgroup/memory.max", "1073741824\n");
    assert_true(bench_memory_available(root) == 1023 * mib);
}

TEST(sizes_that_do_not_fit_are_explained)
{
    const size_t gib = (size_t)1 << 30;
    char text[160];
    bench_memory_room room = {16 * gib, 4, BENCH_MEMORY_NO_GPU};
    bench_need need = {3 * gib, 0};
    assert_true(bench_memory_holds(&room, &need));
    need.host_bytes = 4 * gib; /* four ranks would leave nothing */
    assert_false(bench_memory_holds(&room, &need));
    bench_memory_explain(&room, &need, text, sizeof text);
    assert_string_equal(text, "buffers of 4 ranks take 16.0 GiB, and 16.0 GiB of memory are available");
    room.node_ranks = 1;
    assert_true(bench_memory_holds(&room, &need));
    need.host_bytes = 1000 * gib;
    bench_memory_explain(&room, &need, text, sizeof text);
    assert_string_equal(text, "buffers of 1 rank take 1000 GiB, and 16.0 GiB of memory are available");
    need = (bench_need){gib, 80 * gib};
    room.gpu_bytes = 81 * gib;
    assert_true(bench_memory_holds(&room, &need));
    room.gpu_bytes = 80 * gib;
    assert_false(bench_memory_holds(&room, &need));
    bench_memory_explain(&room, &need, text, sizeof text);
    assert_string_equal(text, "buffers take 80.0 GiB on each GPU, which has 80.0 GiB free");
}

TEST(a_need_counts_both_buffers_copies_and_checks)
{
    const size_t mib = (size_t)1 << 20;
    bench_job job = {.nranks = 4, .local_nranks = 4};
    bench_options options = {.min_bytes = 8, .max_bytes = 64 * mib, .step_factor = 2};
    bench_dist dist = {.nsteps = 1};
    options.dtype = WEIR_FLOAT;
    bench_need plain = bench_buffers_need(&job, &options, WEIR_COLL_ALLREDUCE, &dist, 64 * mib);
    assert_true(plain.host_bytes > 128 * mib && plain.host_bytes < 136 * mib);
    assert_true(plain.gpu_bytes == 0);
    options.determinism = 1;
    bench_need checked = bench_buffers_need(&job, &options, WEIR_COLL_ALLREDUCE, &dist, 64 * mib);
    assert_true(checked.host_bytes >= plain.host_bytes + 64 * mib);
    options.determinism = 0;
    options.cold = 1;
    bench_need cold = bench_buffers_need(&job, &options, WEIR_COLL_ALLREDUCE, &dist, 64 * mib);
    assert_true(cold.host_bytes >= plain.host_bytes + 128 * mib);
    bench_need huge = bench_buffers_need(&job, &options, WEIR_COLL_ALLREDUCE, &dist, SIZE_MAX);
    assert_true(huge.host_bytes > SIZE_MAX / 128);
}

int main(void)
{
    return run_all_tests("bench_preflight");
}
