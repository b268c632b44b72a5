/*
 * The preflight reports each adverse condition of a node and nothing else; so do the warnings about
 * memory, load and intervals. Conditions are planted in a synthetic /sys and /proc; the facts of
 * other ranks are made up.
 */
#define _GNU_SOURCE /* sets of cpus */

#include "bench/job/load.h"
#include "bench/job/memory.h"
#include "bench/job/preflight.h"
#include "bench/output/table.h"
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

/* Found on GPU nodes: ranks that outnumber the GPUs, and builds without CUDA. */
TEST_WITH(gpus_that_a_run_in_host_memory_leaves_idle_are_reported, make_root, remove_root)
{
    test_file_write(root, "dev/nvidia0", "");
    test_file_write(root, "dev/nvidia5", "");
    test_file_write(root, "dev/nvidiactl", "");
    bench_preflight_facts ranks[] = {facts_of(0, 0), facts_of(1, 1)};
    assert_non_null(strstr(judged(ranks, 2, 1), "node here has 2 GPUs, but this run measures host "
                                                "memory: give --backend cuda, "));
    ranks[0].idle_gpus = ranks[1].idle_gpus = 0;
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
    assert_non_null(strstr(text, "node here: 2 ranks share 1 core (rank 0 shares core 0): "));
    assert_non_null(strstr(text, "(--bind-to core)\n"));
    /* Silent on different nodes, and for overlapping sets with a core for each. */
    snprintf(ranks[2].host, sizeof ranks[2].host, "there");
    judged(ranks, 3, 0);
    bench_preflight_facts wide[] = {facts_of(0, 2), facts_of(0, 2), facts_of(0, 2)};
    judged(wide, 3, 0);
}

/* Each pod of a machine has its own name, and often its own quota. */
TEST_WITH(containers_of_one_kernel_share_its_cores, make_root, remove_root)
{
    bench_preflight_facts ranks[] = {facts_of(0, 0), facts_of(0, 0), facts_of(1, 1)};
    for (int i = 0; i < 3; i++) {
        snprintf(ranks[i].host, sizeof ranks[i].host, "pod-%d", i);
        snprintf(ranks[i].kernel, sizeof ranks[i].kernel, "a-boot-id");
        ranks[i].quota_cores = 1;
    }
    const char *text = judged(ranks, 3, 1); /* no quota is too small for a rank */
    assert_non_null(strstr(text, "node pod-0: 3 ranks on 2 cores (rank 0 shares core 0): "));
    snprintf(ranks[1].kernel, sizeof ranks[1].kernel, "another");
    judged(ranks, 3, 0);
    ranks[2].quota_cores = 0.5;
    assert_non_null(strstr(judged(ranks, 3, 1), "pod-2: the control group allows 0.5 cores"));
    /* One name on several machines, as images have it. */
    snprintf(ranks[0].host, sizeof ranks[0].host, "pod-1");
    ranks[2].quota_cores = 1;
    judged(ranks, 3, 0);
}

TEST_WITH(hardware_threads_count_as_one_core, make_root, remove_root)
{
    bench_preflight_facts apart[] = {facts_of(0, 0), facts_of(1, 1)};
    judged(apart, 2, 0);
    test_file_write(root, "sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1\n");
    test_file_write(root, "sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n");
    bench_preflight_facts siblings[] = {facts_of(0, 0), facts_of(1, 1)};
    assert_non_null(strstr(judged(siblings, 2, 1), "start at most 1 rank on this node\n"));
}

TEST_WITH(more_ranks_than_cores_are_reported, make_root, remove_root)
{
    bench_preflight_facts ranks[] = {facts_of(0, 1), facts_of(0, 1), facts_of(0, 1)};
    assert_non_null(strstr(judged(ranks, 3, 1), "node here: 3 ranks on 2 cores: times"));
    assert_non_null(strstr(judged(ranks, 3, 1), "start at most 2 ranks on this node\n"));
    bench_preflight_facts bound[] = {facts_of(1, 1), facts_of(0, 0), facts_of(1, 1)};
    assert_non_null(
        strstr(judged(bound, 3, 1), "node here: 3 ranks on 2 cores (rank 0 shares core 1): "));
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

/* Slurm steps and slices of systemd, without a namespace of control groups. */
TEST_WITH(limits_of_nested_control_groups_count, make_root, remove_root)
{
    const size_t mib = (size_t)1 << 20;
    test_file_write(root, "proc/meminfo", "MemAvailable:  4194304 kB\n");
    test_file_write(root, "proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    test_file_write(root, "sys/fs/cgroup/slurm/job_7/memory.max", "2147483648\n");
    test_file_write(root, "sys/fs/cgroup/slurm/job_7/memory.current", "1048576\n");
    assert_true(bench_memory_available(root) == 2047 * mib);
    test_file_write(root, "sys/fs/cgroup/slurm/job_7/step_0/memory.max", "1073741824\n");
    test_file_write(root, "sys/fs/cgroup/slurm/job_7/step_0/memory.current", "1048576\n");
    assert_true(bench_memory_available(root) == 1023 * mib);
    test_file_write(root, "sys/fs/cgroup/slurm/job_8/memory.max", "4096\n"); /* of others */
    test_file_write(root, "sys/fs/cgroup/slurm/job_8/memory.current", "4096\n");
    assert_true(bench_memory_available(root) == 1023 * mib);
}

TEST_WITH(limits_of_nested_control_groups_of_version_1_count, make_root, remove_root)
{
    const size_t mib = (size_t)1 << 20;
    test_file_write(root, "proc/meminfo", "MemAvailable:  4194304 kB\n");
    test_file_write(root, "proc/self/cgroup", "9:blkio,memory:/a/b\n4:cpu,cpuacct:/c\n0::/u\n");
    test_file_write(root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "167772160\n");
    test_file_write(root, "sys/fs/cgroup/memory/a/memory.usage_in_bytes", "0\n");
    assert_true(bench_memory_available(root) == 160 * mib);
    test_file_write(root, "sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
    test_file_write(root, "sys/fs/cgroup/memory/c/memory.usage_in_bytes", "0\n");
    assert_true(bench_memory_available(root) == 160 * mib);
    test_file_write(root, "sys/fs/cgroup/unified/u/memory.max", "104857600\n");
    test_file_write(root, "sys/fs/cgroup/unified/u/memory.current", "0\n");
    assert_true(bench_memory_available(root) == 100 * mib);
}

TEST_WITH(memory_of_a_container_is_limited_at_its_root, make_root, remove_root)
{
    const size_t mib = (size_t)1 << 20;
    test_file_write(root, "proc/self/cgroup", "0::/../outside\n");
    test_file_write(root, "sys/fs/cgroup/memory.max", "10485760\n");
    test_file_write(root, "sys/fs/cgroup/memory.current", "0\n");
    assert_true(bench_memory_available(root) == 10 * mib);
    test_file_write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "5242880\n");
    test_file_write(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n");
    assert_true(bench_memory_available(root) == 5 * mib);
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
    assert_string_equal(text,
                        "buffers of 4 ranks take 16.0 GiB, and 16.0 GiB of memory are available");
    room.node_ranks = 1;
    assert_true(bench_memory_holds(&room, &need));
    need.host_bytes = 1000 * gib;
    bench_memory_explain(&room, &need, text, sizeof text);
    assert_string_equal(text,
                        "buffers of 1 rank take 1000 GiB, and 16.0 GiB of memory are available");
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

/* What two ranks of a host have spent: rank r on cpu r. */
static void spend(bench_load_facts *facts, const char *before, const char *after, double own_s,
                  double wall_s)
{
    bench_load_sample start;
    for (int rank = 0; rank < 2; rank++) {
        memset(&facts[rank], 0, sizeof facts[rank]);
        snprintf(facts[rank].host, sizeof facts[rank].host, "here");
        CPU_SET(rank, &facts[rank].cpus);
        test_file_write(root, "proc/stat", before);
        bench_load_read(root, &start);
        test_file_write(root, "proc/stat", after);
        bench_load_read(root, &facts[rank].spent);
        bench_load_subtract(&facts[rank].spent, &start);
        facts[rank].spent.own_s = own_s;
        facts[rank].spent.at_s = wall_s;
    }
}

/* user nice system idle iowait irq softirq steal, in hundredths of a second */
static const char stat_before[] = "cpu 0 0 0 0 0 0 0 0\ncpu0 100 0 50 9000 0 0 0 0 0 0\n"
                                  "cpu1 100 0 50 9000 0 0 0 0 0 0\n"
                                  "cpu2 7 0 0 0 0 0 0 0 0 0\nintr 1 2\n";

TEST_WITH(load_of_other_processes_is_reported, make_root, remove_root)
{
    bench_load_facts facts[2];
    char text[400];
    /* Both cpus were busy for 10 s of 10 s; the ranks used 10 + 10, 8 + 8 and 3 + 3 s of it. */
    const char *after = "cpu0 1000 0 150 9000 0 0 0 0\ncpu1 1000 0 150 9000 0 0 0 0\n"
                        "cpu2 9007 0 0 0 0 0 0 0\n";
    spend(facts, stat_before, after, 10, 10);
    assert_int_equal(bench_load_judge(facts, 2, text, sizeof text), 0);
    spend(facts, stat_before, after, 9.1, 10);
    assert_int_equal(bench_load_judge(facts, 2, text, sizeof text), 0);
    spend(facts, stat_before, after, 3, 10);
    assert_int_equal(bench_load_judge(facts, 2, text, sizeof text), 1);
    assert_non_null(strstr(text, "here was busy: other processes used 70% of the time of the "
                                 "ranks' 2 cpus"));
    assert_null(strchr(text, '\n'));
    /* A rank of another host has its own cpus. */
    snprintf(facts[1].host, sizeof facts[1].host, "there");
    assert_int_equal(bench_load_judge(facts, 2, text, sizeof text), 1);
    assert_non_null(strstr(text, "the ranks' 1 cpu;"));
}

TEST_WITH(time_that_a_hypervisor_takes_is_reported, make_root, remove_root)
{
    bench_load_facts facts[2];
    char text[400];
    spend(facts, stat_before, "cpu0 100 0 50 9000 0 0 0 500\ncpu1 100 0 50 9000 0 0 0 100\n", 0,
          10);
    assert_int_equal(bench_load_judge(facts, 2, text, sizeof text), 1);
    assert_non_null(strstr(text, "other virtual machines used 30%"));
}

TEST_WITH(short_runs_and_absent_files_show_no_load, make_root, remove_root)
{
    bench_load_facts facts[2];
    char text[400];
    spend(facts, stat_before, "cpu0 190 0 50 9000 0 0 0 0\ncpu1 190 0 50 9000 0 0 0 0\n", 0, 0.9);
    assert_int_equal(bench_load_judge(facts, 2, text, sizeof text), 0); /* too short to judge */
    memset(facts, 0, sizeof facts);
    bench_load_read("/nonexistent", &facts[0].spent);
    facts[0].spent.at_s = 10;
    assert_int_equal(bench_load_judge(facts, 1, text, sizeof text), 0);
}

TEST(a_kind_of_warning_is_kept_once)
{
    bench_job job = {.program = "prog"};
    bench_warning_add(&job, "load", "the %s", "first");
    bench_warning_add(&job, "load", "the second");
    bench_warning_add(&job, "links", "others");
    assert_int_equal(job.warnings.count, 2);
    assert_string_equal(job.warnings.list[0].text, "the first");
    job.rank = 1;
    bench_warning_add(&job, "ceiling", "not on rank 1");
    assert_int_equal(job.warnings.count, 2);
}

TEST(intervals_wider_than_the_value_are_counted)
{
    bench_job job = {.program = "prog"};
    bench_interval_count count = {.rows = 0};
    bench_row *row = calloc(1, sizeof *row);
    assert_non_null(row);
    row->placements = 1;
    row->ncandidates = 2;
    row->collective = WEIR_COLL_ALLREDUCE;
    row->shape.bytes = 64;
    for (int i = 0; i < 2; i++) {
        bench_result *result = &row->results[0][i];
        *result = (bench_result){.candidate = "weir", .ran = 1, .timed = 1};
        result->stats = (bench_stats){.median = 10, .ci_low = 5, .ci_high = 15};
        result->figures = bench_result_figures(row, result);
    }
    bench_interval_row(&count, row); /* as wide as the value is still silent */
    bench_interval_end(&count, &job);
    assert_int_equal(job.warnings.count, 0);
    row->results[0][1].stats.ci_high = 16;
    bench_interval_row(&count, row);
    bench_interval_end(&count, &job);
    assert_int_equal(job.warnings.count, 1);
    assert_string_equal(job.warnings.list[0].kind, "interval");
    assert_non_null(strstr(job.warnings.list[0].text,
                           "1 of 4 results has an interval wider than the time itself, the "
                           "first: weir, "));
    assert_non_null(
        strstr(job.warnings.list[0].text, "64 bytes, out of place; such rows prove nothing: "));
    free(row);
}

int main(void)
{
    return run_all_tests("bench_preflight");
}
