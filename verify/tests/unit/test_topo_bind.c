/*
 * Binding on this machine changes the affinity of a process, but not of one that its launcher has
 * bound. Affinity and environment are changed only in forked children. Tests that need two usable
 * cores are skipped where there are fewer.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hwloc.h>

#include "topo/topo.h"
#include "verify/tests/support/unit_test.h"

static weiri_topo_counts counts_of(const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    return counts;
}

/* Runs body in a child, whose affinity and environment it may change, and
 * returns body's result. */
static int in_child(int (*body)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(body());
    int result = 0;
    assert_true(child > 0 && waitpid(child, &result, 0) == child);
    assert_true(WIFEXITED(result));
    return WEXITSTATUS(result);
}

/* Results of a child's body; any other value is the number of the failed check. */
enum { CHECKS_PASSED = 0, CHECK_SKIPPED = 77 };

static void forget_launcher(void)
{
    unsetenv("OMPI_MCA_hwloc_base_binding_policy");
    unsetenv("OMPI_MCA_orte_bound_at_launch");
    unsetenv("SLURM_CPU_BIND_TYPE");
}

/* Whether this process may use all cores of the machine, and there are at least two. */
static int is_free(const weiri_topo *topo)
{
    weiri_topo_counts counts = counts_of(topo);
    return counts.usable_pus == counts.pus && counts.usable_cores >= 2;
}

/* Whether an affinity is exactly the hardware threads of a list. */
static int same_cpus(const cpu_set_t *set, const char *list)
{
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    hwloc_bitmap_list_sscanf(cpus, list);
    int same = CPU_COUNT(set) == hwloc_bitmap_weight(cpus);
    for (int cpu = hwloc_bitmap_first(cpus); cpu >= 0; cpu = hwloc_bitmap_next(cpus, cpu))
        same &= CPU_ISSET((size_t)cpu, set) != 0;
    hwloc_bitmap_free(cpus);
    return same;
}

static int bind_second_of_two(void)
{
    forget_launcher();
    weiri_topo *topo;
    weiri_place place;
    cpu_set_t bound;
    if (weiri_topo_discover(&topo))
        return 1;
    if (!is_free(topo))
        return CHECK_SKIPPED;
    if (weiri_topo_place(topo, 1, 2, &place) || weiri_topo_bind(topo, &place))
        return 2;
    if (!place.bound || place.bound_by_launcher)
        return 3;
    if (sched_getaffinity(0, sizeof bound, &bound) != 0)
        return 4;
    if (!same_cpus(&bound, place.cpus))
        return 5;
    return weiri_topo_bind(topo, &place) || place.bound_by_launcher ? 7 : CHECKS_PASSED;
}

/* A single rank has all cores and settles on one of them. */
static int settle_on_one_core(void)
{
    forget_launcher();
    weiri_topo *topo;
    weiri_place place;
    cpu_set_t before, after;
    if (weiri_topo_discover(&topo))
        return 1;
    if (!is_free(topo))
        return CHECK_SKIPPED;
    if (weiri_topo_place(topo, 0, 1, &place) || weiri_topo_settle(topo, &place) ||
        place.ncores != counts_of(topo).usable_cores)
        return 2; /* nothing is bound yet, so nothing may happen */
    if (weiri_topo_bind(topo, &place) || sched_getaffinity(0, sizeof before, &before) != 0)
        return 3;
    if (weiri_topo_settle(topo, &place) || place.ncores != 1 || !place.bound)
        return 4;
    if (sched_getaffinity(0, sizeof after, &after) != 0 || CPU_COUNT(&after) >= CPU_COUNT(&before))
        return 5;
    if (!same_cpus(&after, place.cpus))
        return 6;
    return CHECKS_PASSED;
}

/* Binds all threads, also one of a sanitizer, which a launcher would have bound from its start. */
static int bind_threads(const cpu_set_t *set)
{
    DIR *threads = opendir("/proc/self/task");
    int failed = !threads;
    const struct dirent *entry;
    while (threads && (entry = readdir(threads)) != NULL)
        if (entry->d_name[0] != '.')
            failed |= sched_setaffinity((pid_t)atoi(entry->d_name), sizeof *set, set) != 0;
    if (threads)
        closedir(threads);
    return failed ? -1 : 0;
}

/* Binds this process to the first hardware thread it may use. */
static int bind_to_first(void)
{
    cpu_set_t set, first;
    CPU_ZERO(&first);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return -1;
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    CPU_SET(cpu, &first);
    return bind_threads(&first) == 0 ? (int)cpu : -1;
}

static int find_launchers_affinity(void)
{
    forget_launcher();
    weiri_topo *topo;
    weiri_place place;
    cpu_set_t after;
    if (weiri_topo_discover(&topo))
        return 1;
    if (!is_free(topo))
        return CHECK_SKIPPED;
    weiri_topo_destroy(topo);
    int cpu = bind_to_first();
    if (cpu < 0 || weiri_topo_discover(&topo))
        return 2;
    if (counts_of(topo).usable_pus != 1)
        return 3;
    if (weiri_topo_place(topo, 1, 2, &place) || weiri_topo_bind(topo, &place))
        return 4;
    if (!place.bound_by_launcher || place.bound || place.ncores != 1 || atoi(place.cpus) != cpu)
        return 5;
    if (sched_getaffinity(0, sizeof after, &after) != 0 || CPU_COUNT(&after) != 1)
        return 6;
    return CPU_ISSET((size_t)cpu, &after) ? CHECKS_PASSED : 7;
}

static int believe_launcher(void)
{
    forget_launcher();
    weiri_topo *topo;
    weiri_place place;
    cpu_set_t before, after;
    if (weiri_topo_launcher_binding() || weiri_topo_discover(&topo))
        return 1;
    setenv("OMPI_MCA_orte_bound_at_launch", "1", 1);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    if (weiri_topo_launcher_binding())
        return 2;
    setenv("OMPI_MCA_hwloc_base_binding_policy", "socket", 1);
    if (!weiri_topo_launcher_binding())
        return 3;
    sched_getaffinity(0, sizeof before, &before);
    if (weiri_topo_place(topo, 1, 2, &place) || weiri_topo_bind(topo, &place))
        return 4;
    sched_getaffinity(0, sizeof after, &after);
    if (!place.bound_by_launcher || place.bound || !CPU_EQUAL(&before, &after))
        return 5;
    forget_launcher();
    setenv("SLURM_CPU_BIND_TYPE", "none", 1);
    if (weiri_topo_launcher_binding())
        return 6;
    setenv("SLURM_CPU_BIND_TYPE", "mask_cpu:", 1);
    return weiri_topo_launcher_binding() ? CHECKS_PASSED : 7;
}

static void expect_child(int (*body)(void))
{
    int result = in_child(body);
    if (result == CHECK_SKIPPED) {
        print_message("# needs two cores, and a process that may run on all of them\n");
        skip();
    }
    if (result != CHECKS_PASSED)
        fail_msg("check %d of the child failed", result);
}

TEST(binding_changes_the_affinity)
{
    expect_child(bind_second_of_two);
}

TEST(a_thread_settles_on_one_core)
{
    expect_child(settle_on_one_core);
}

TEST(a_process_bound_by_its_launcher_is_left_alone)
{
    expect_child(find_launchers_affinity);
}

TEST(the_launcher_variables_are_trusted)
{
    expect_child(believe_launcher);
}

TEST(a_recorded_machine_binds_nothing)
{
    weiri_topo *topo;
    weiri_place place;
    assert_int_equal(weiri_topo_load("topo/machines/2-core.xml", &topo), WEIR_OK);
    assert_int_equal(weiri_topo_place(topo, 1, 2, &place), WEIR_OK);
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(weiri_topo_bind(topo, &place), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    assert_int_equal(place.bound, 0);
    weiri_topo_destroy(topo);
}

TEST(full_discovery_has_the_same_digest)
{
    weiri_topo *quick, *full;
    char a[17], b[17];
    assert_int_equal(weiri_topo_discover(&quick), WEIR_OK);
    assert_int_equal(weiri_topo_discover_full(&full), WEIR_OK);
    assert_true(weiri_topo_is_live(quick));
    assert_true(counts_of(quick).usable_cores >= 1);
    weiri_topo_digest(quick, a);
    weiri_topo_digest(full, b);
    weiri_topo_destroy(quick);
    weiri_topo_destroy(full);
    assert_string_equal(a, b);
}

int main(void)
{
    return run_all_tests("topo_bind");
}
