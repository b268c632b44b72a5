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
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("TORCHELASTIC_RUN_ID");
    unsetenv("WEIR_LAUNCHER");
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
    if (weiri_topo_place(topo, 1, 2, &place) || weiri_topo_bind(topo, 0, &place))
        return 2;
    if (!place.bound || place.bound_by_launcher)
        return 3;
    if (sched_getaffinity(0, sizeof bound, &bound) != 0)
        return 4;
    if (!same_cpus(&bound, place.cpus))
        return 5;
    return weiri_topo_bind(topo, 0, &place) || place.bound_by_launcher ? 7 : CHECKS_PASSED;
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
    if (weiri_topo_bind(topo, 0, &place) || sched_getaffinity(0, sizeof before, &before) != 0)
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
    if (weiri_topo_place(topo, 1, 2, &place) || weiri_topo_bind(topo, 0, &place))
        return 4;
    if (!place.bound_by_launcher || place.bound || place.ncores != 1 || atoi(place.cpus) != cpu)
        return 5;
    if (sched_getaffinity(0, sizeof after, &after) != 0 || CPU_COUNT(&after) != 1)
        return 6;
    return CPU_ISSET((size_t)cpu, &after) ? CHECKS_PASSED : 7;
}

/* Several ranks that may run on the same cpus have inherited them, as from taskset, and divide
 * them. */
static int divide_inherited_affinity(void)
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
    if (weiri_topo_place(topo, 1, 2, &place) || weiri_topo_bind(topo, 1, &place))
        return 3;
    if (!place.bound || place.bound_by_launcher || place.sharers != 2 || atoi(place.cpus) != cpu)
        return 4;
    if (sched_getaffinity(0, sizeof after, &after) != 0 || CPU_COUNT(&after) != 1)
        return 5;
    return CPU_ISSET(cpu, &after) ? CHECKS_PASSED : 6;
}

static void start_by_openmpi(void)
{
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    setenv("OMPI_MCA_orte_bound_at_launch", "1", 1);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "socket", 1);
}

static int believe_openmpi(void)
{
    forget_launcher();
    weiri_topo *topo;
    weiri_place place;
    cpu_set_t before, after;
    if (weiri_topo_asked_openmpi() || weiri_topo_discover(&topo))
        return 1;
    start_by_openmpi();
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    if (weiri_topo_asked_openmpi())
        return 2;
    setenv("OMPI_MCA_hwloc_base_binding_policy", "socket", 1);
    if (!weiri_topo_asked_openmpi())
        return 3;
    sched_getaffinity(0, sizeof before, &before);
    if (weiri_topo_place(topo, 1, 2, &place) || weiri_topo_bind(topo, 1, &place))
        return 4;
    sched_getaffinity(0, sizeof after, &after);
    if (!place.bound_by_launcher || place.bound || !CPU_EQUAL(&before, &after))
        return 5;
    setenv("OMPI_MCA_orte_bound_at_launch", "0", 1);
    return weiri_topo_asked_openmpi() ? 6 : CHECKS_PASSED;
}

/* Variables that describe processes around this one: mpirun started a torchrun, or the program
 * starts its ranks itself, or mpirun's variables are left over in a shell. */
static int ignore_outer_openmpi(void)
{
    forget_launcher();
    start_by_openmpi();
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("TORCHELASTIC_RUN_ID", "x", 1);
    if (weiri_topo_asked_openmpi())
        return 1;
    unsetenv("TORCHELASTIC_RUN_ID");
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    setenv("WEIR_LAUNCHER", "none", 1);
    if (weiri_topo_asked_openmpi())
        return 2;
    setenv("WEIR_LAUNCHER", "mpi", 1);
    if (!weiri_topo_asked_openmpi())
        return 3;
    unsetenv("WEIR_LAUNCHER");
    unsetenv("OMPI_COMM_WORLD_RANK");
    return weiri_topo_asked_openmpi() ? 4 : CHECKS_PASSED;
}

/* Masks of Slurm are in the environment of all that a step's task starts, and need not restrict
 * anything. */
static int ignore_slurm(void)
{
    static const char *const types[] = {"mask_cpu:", "map_cpu:", "mask_ldom:", "none", "cores"};
    forget_launcher();
    weiri_topo *topo;
    if (weiri_topo_discover(&topo))
        return 1;
    if (!is_free(topo))
        return CHECK_SKIPPED;
    setenv("SLURM_CPU_BIND", "quiet,mask_cpu:0x3", 1);
    setenv("SLURM_PROCID", "1", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    setenv("SLURM_STEP_NODELIST", "n1", 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        cpu_set_t all;
        weiri_place place;
        setenv("SLURM_CPU_BIND_TYPE", types[i], 1);
        sched_getaffinity(0, sizeof all, &all);
        if (weiri_topo_place(topo, 1, 2, &place) || weiri_topo_bind(topo, 0, &place))
            return 2;
        if (!place.bound || place.bound_by_launcher)
            return 3;
        weiri_place_free(&place);
        bind_threads(&all);
    }
    return CHECKS_PASSED;
}

/* Settings by which hwloc describes another machine, or calls it this one. */
static int discover_despite_redirections(void)
{
    static const struct {
        const char *name, *value, *also;
    } settings[] = {{"HWLOC_XMLFILE", "topo/machines/8-gpu-8-nic.xml", NULL},
                    {"HWLOC_XMLFILE", "topo/machines/8-gpu-8-nic.xml", "HWLOC_THISSYSTEM"},
                    {"HWLOC_SYNTHETIC", "node:4 core:8 pu:1", NULL},
                    {"HWLOC_SYNTHETIC", "node:4 core:8 pu:1", "HWLOC_THISSYSTEM"},
                    {"HWLOC_FSROOT", "/no/such/root", NULL},
                    {"HWLOC_COMPONENTS", "no_os,stop", NULL},
                    {"HWLOC_COMPONENTS", "-linux", NULL}};
    char expected[17], found[17];
    weiri_topo *topo;
    forget_launcher();
    if (weiri_topo_discover(&topo))
        return 1;
    const int is_bindable = is_free(topo);
    weiri_topo_digest(topo, expected);
    weiri_topo_destroy(topo);
    for (int i = 0; i < (int)(sizeof settings / sizeof *settings); i++) {
        weiri_place place;
        setenv(settings[i].name, settings[i].value, 1);
        if (settings[i].also)
            setenv(settings[i].also, "1", 1);
        if (weiri_topo_discover(&topo))
            return 10 + i;
        weiri_topo_digest(topo, found);
        if (!weiri_topo_is_live(topo) || strcmp(found, expected) != 0)
            return 20 + i;
        if (is_bindable && (weiri_topo_place(topo, 0, 1, &place) ||
                            weiri_topo_bind(topo, 0, &place) || !place.bound))
            return 30 + i;
        if (strcmp(getenv(settings[i].name), settings[i].value) != 0) /* for other libraries */
            return 40 + i;
        weiri_topo_destroy(topo);
        unsetenv(settings[i].name);
        unsetenv("HWLOC_THISSYSTEM");
    }
    return CHECKS_PASSED;
}

/* A recorded machine is never this one. */
static int load_despite_redirections(void)
{
    weiri_topo *topo;
    setenv("HWLOC_THISSYSTEM", "1", 1);
    setenv("HWLOC_COMPONENTS", "synthetic", 1);
    setenv("HWLOC_SYNTHETIC", "node:4 core:8 pu:1", 1);
    if (weiri_topo_load("topo/machines/2-core.xml", &topo))
        return 1;
    return weiri_topo_is_live(topo) || counts_of(topo).cores != 2 ? 2 : CHECKS_PASSED;
}

static int name_redirection(void)
{
    if (weiri_topo_redirection())
        return 1;
    setenv("HWLOC_THISSYSTEM", "1", 1);
    setenv("HWLOC_XMLFILE", "", 1);
    if (weiri_topo_redirection())
        return 2;
    setenv("HWLOC_SYNTHETIC", "pu:4", 1);
    return strcmp(weiri_topo_redirection(), "HWLOC_SYNTHETIC") != 0 ? 3 : CHECKS_PASSED;
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

TEST(ranks_divide_an_affinity_that_they_inherited)
{
    expect_child(divide_inherited_affinity);
}

TEST(a_binding_that_the_user_asked_of_openmpi_is_kept)
{
    expect_child(believe_openmpi);
}

TEST(variables_of_an_outer_openmpi_are_no_evidence)
{
    expect_child(ignore_outer_openmpi);
}

TEST(variables_of_slurm_are_no_evidence)
{
    expect_child(ignore_slurm);
}

TEST(this_machine_is_discovered_whatever_hwloc_is_told)
{
    expect_child(discover_despite_redirections);
}

TEST(a_recording_is_loaded_whatever_hwloc_is_told)
{
    expect_child(load_despite_redirections);
}

TEST(a_variable_that_hwloc_would_obey_is_named)
{
    expect_child(name_redirection);
}

TEST(a_recorded_machine_binds_nothing)
{
    weiri_topo *topo;
    weiri_place place;
    assert_int_equal(weiri_topo_load("topo/machines/2-core.xml", &topo), WEIR_OK);
    assert_int_equal(weiri_topo_place(topo, 1, 2, &place), WEIR_OK);
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(weiri_topo_bind(topo, 0, &place), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    assert_int_equal(place.bound, 0);
    weiri_place_free(&place);
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
