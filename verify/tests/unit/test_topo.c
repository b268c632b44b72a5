/*
 * Topology of recorded machines: discovered devices and distances, placement of ranks, choice of
 * NICs, and the digest. Faults are injected into copies of the recordings: a missing NIC, a port
 * that is down, missing GPUs.
 */
#define _GNU_SOURCE

#include <hwloc.h>

#include "topo/model.h"
#include "verify/tests/support/test_files.h"

#define MACHINE_8GPU "topo/machines/8-gpu-8-nic.xml"
#define MACHINE_4GPU "topo/machines/4-gpu-1-nic.xml"
#define MACHINE_2CORE "topo/machines/2-core.xml"
#define MACHINE_1NODE "topo/machines/1-node-16-core.xml"
#define MACHINE_2NODE "topo/machines/2-node-64-core.xml"
#define MACHINE_4NODE "topo/machines/4-node-64-core.xml"

static const char *const machines[] = {MACHINE_8GPU,  MACHINE_4GPU,  MACHINE_2CORE,
                                       MACHINE_1NODE, MACHINE_2NODE, MACHINE_4NODE};
enum { NMACHINES = sizeof machines / sizeof machines[0], PUS_MOST = 128 };

static const int rank_counts[] = {1, 2, 3, 5, 8, 16, 32, 100};
enum { NRANK_COUNTS = sizeof rank_counts / sizeof rank_counts[0] };

/* ----------------------------------------------------------------- helpers */

static weiri_topo *load(const char *path)
{
    weiri_topo *topo = NULL;
    if (weiri_topo_load(path, &topo))
        fail_msg("%s (tests run in the top folder)", weir_last_error());
    return topo;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t bytes = fread(text, 1, (1 << 20) - 1, file);
    assert_true(bytes > 0 && bytes < (1 << 20) - 1);
    fclose(file);
    return text;
}

/* Replaces every `from` by `to`. There must be exactly `times` of them, so that an edit that no
 * longer matches fails the test. */
typedef struct edit {
    const char *from;
    const char *to;
    int times;
} edit;

static char *apply(const edit *change, const char *text)
{
    char *edited = calloc(1, 2 << 20);
    assert_non_null(edited);
    char *out = edited;
    int found = 0;
    for (const char *hit; (hit = strstr(text, change->from)); found++) {
        out = mempcpy(out, text, (size_t)(hit - text));
        out = stpcpy(out, change->to);
        text = hit + strlen(change->from);
    }
    strcpy(out, text);
    assert_int_equal(found, change->times);
    return edited;
}

static weiri_topo *load_with(const char *machine, const edit *edits, int nedits)
{
    char *text = read_text(machine);
    for (int i = 0; i < nedits; i++) {
        char *edited = apply(&edits[i], text);
        free(text);
        text = edited;
    }
    char path[32];
    test_file_temporary(text, strlen(text), path);
    free(text);
    weiri_topo *topo = load(path);
    unlink(path);
    return topo;
}

static weiri_topo *load_edited(const char *machine, const char *from, const char *to, int times)
{
    return load_with(machine, &(edit){from, to, times}, 1);
}

/* The list of cpus is valid until the next call. */
static weiri_place place_of(const weiri_topo *topo, int rank, int nranks)
{
    static char cpus[16384];
    weiri_place place;
    memset(&place, 0xee, sizeof place);
    assert_int_equal(weiri_topo_place(topo, rank, nranks, &place), WEIR_OK);
    assert_true(strlen(place.cpus) < sizeof cpus);
    strcpy(cpus, place.cpus);
    weiri_place_free(&place);
    place.cpus = cpus;
    return place;
}

static weiri_topo_counts counts_of(const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    return counts;
}

/* Adds a place's hardware threads to uses[]. */
static void count_uses(const weiri_place *place, int uses[PUS_MOST])
{
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    assert_int_equal(hwloc_bitmap_list_sscanf(cpus, place->cpus), 0);
    assert_false(hwloc_bitmap_iszero(cpus));
    assert_true(hwloc_bitmap_last(cpus) < PUS_MOST);
    for (int cpu = hwloc_bitmap_first(cpus); cpu >= 0; cpu = hwloc_bitmap_next(cpus, cpu))
        uses[cpu]++;
    hwloc_bitmap_free(cpus);
}

/* ------------------------------------------------------- recorded machines */

TEST(recorded_machines_have_the_expected_counts)
{
    static const weiri_topo_counts expected[NMACHINES] = {
        {2, 2, 32, 64, 32, 64, 8, 8},   {1, 1, 8, 8, 8, 8, 4, 1},
        {1, 1, 2, 2, 2, 2, 0, 1},       {1, 1, 16, 16, 16, 16, 0, 0},
        {2, 2, 64, 128, 64, 128, 0, 0}, {1, 4, 64, 128, 64, 128, 0, 0}};
    for (int i = 0; i < NMACHINES; i++) {
        weiri_topo *topo = load(machines[i]);
        weiri_topo_counts counts = counts_of(topo);
        assert_memory_equal(&counts, &expected[i], sizeof counts);
        assert_false(weiri_topo_is_live(topo));
        weiri_topo_destroy(topo);
    }
}

TEST(devices_are_described)
{
    weiri_topo *topo = load(MACHINE_8GPU);
    const weiri_topo_device *gpu = weiri_topo_gpu(topo, 5);
    assert_string_equal(gpu->name, "cuda5");
    assert_string_equal(gpu->model, "NVIDIA GPU 80GB");
    assert_string_equal(gpu->pci, "0000:95:00.0");
    assert_int_equal(gpu->vendor_id, 0x10de);
    assert_int_equal(gpu->numa, 1);
    assert_true(gpu->pcie_gbs > 60 && gpu->pcie_gbs < 64);
    assert_int_equal(gpu->link_up, -1);
    const weiri_topo_device *nic = weiri_topo_nic(topo, 2);
    assert_string_equal(nic->name, "mlx5_2"); /* not ib2, which is the same card */
    assert_int_equal(nic->openfabrics, 1);
    assert_int_equal(nic->link_up, 1);
    assert_true(nic->link_gbits > 399 && nic->link_gbits < 401);
    assert_null(weiri_topo_gpu(topo, 8));
    assert_null(weiri_topo_gpu(topo, -1));
    assert_null(weiri_topo_nic(topo, 8));
    assert_int_equal(weiri_topo_gpu_by_pci(topo, "0000:C5:00.0"), 7);
    assert_int_equal(weiri_topo_gpu_by_pci(topo, "0000:c6:00.0"), -1);
    weiri_topo_destroy(topo);
}

TEST(distances_name_the_nearest_shared_object)
{
    weiri_topo *topo = load(MACHINE_8GPU);
    assert_int_equal(weiri_topo_gpu_gpu(topo, 0, 0), WEIRI_TOPO_SELF);
    assert_int_equal(weiri_topo_gpu_gpu(topo, 0, 1), WEIRI_TOPO_SAME_SWITCH);
    assert_int_equal(weiri_topo_gpu_gpu(topo, 2, 0), WEIRI_TOPO_SAME_NUMA);
    assert_int_equal(weiri_topo_gpu_gpu(topo, 3, 4), WEIRI_TOPO_CROSS_NUMA);
    assert_int_equal(weiri_topo_gpu_nic(topo, 6, 7), WEIRI_TOPO_SAME_SWITCH);
    assert_int_equal(weiri_topo_gpu_nic(topo, 6, 3), WEIRI_TOPO_CROSS_NUMA);
    assert_true(weiri_topo_nvlink_gbs(topo, 0, 7) > 449 && weiri_topo_nvlink_gbs(topo, 0, 7) < 451);
    assert_true(weiri_topo_nvlink_gbs(topo, 3, 3) <= 0);
    weiri_topo_destroy(topo);
    topo = load(MACHINE_4GPU);
    assert_int_equal(weiri_topo_gpu_gpu(topo, 0, 1), WEIRI_TOPO_SAME_ROOT);
    assert_int_equal(weiri_topo_gpu_gpu(topo, 1, 2), WEIRI_TOPO_SAME_NUMA);
    assert_int_equal(weiri_topo_gpu_nic(topo, 1, 0), WEIRI_TOPO_SAME_ROOT);
    assert_true(weiri_topo_nvlink_gbs(topo, 0, 1) <= 0);
    weiri_topo_destroy(topo);
}

TEST(a_hidden_gpu_is_not_listed)
{
    weiri_topo *topo = load_edited(
        MACHINE_8GPU,
        "0000:13:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] 00\" pci_link_speed=\"63.015385\">",
        "0000:13:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] 00\" pci_link_speed=\"63.015385\">"
        "<info name=\"WeirHidden\" value=\"1\"/>",
        1);
    assert_int_equal(counts_of(topo).gpus, 7);
    assert_string_equal(weiri_topo_gpu(topo, 0)->pci, "0000:15:00.0");
    weiri_topo_destroy(topo);
}

/* ------------------------------------------------------------------- GPUs */

typedef struct display {
    const char *kind; /* class, vendor, device */
    int is_gpu;
} display;

static const display displays[] = {
    {"0300 [1a03:2000]", 0},                          /* ASPEED */
    {"0300 [102b:0534]", 0},                          /* Matrox G200 */
    {"0380 [102b:0522]", 0}, {"0300 [1002:515e]", 0}, /* ATI ES1000 */
    {"0300 [1002:4752]", 0},                          /* ATI Rage XL */
    {"0300 [1002:5159]", 0},                          /* ATI Radeon 7000 */
    {"0300 [1414:5353]", 0},                          /* Hyper-V */
    {"0300 [1b36:0100]", 0},                          /* QXL */
    {"0380 [1af4:1050]", 0},                          /* virtio */
    {"0300 [1013:00b8]", 0},                          /* Cirrus */
    {"0300 [5853:c147]", 0},                          /* Xen */
    {"0300 [15ad:0405]", 0},                          /* VMware */
    {"0300 [80ee:beef]", 0},                          /* VirtualBox */
    {"0300 [1234:1111]", 0},                          /* Bochs */
    {"0300 [19e5:1711]", 0},                          /* Huawei iBMC */
    {"0300 [10de:0165]", 0},                          /* Quadro NVS 285 */
    {"0300 [10de:07e1]", 0},                          /* nForce 630i */
    {"0300 [1002:164e]", 0},                          /* an AMD processor's graphics unit */
    {"0380 [1002:1638]", 0}, /* the same where another device is the console */
    {"0300 [1002:9712]", 0}, /* a chipset's */
    {"0403 [10de:22ba]", 0}, /* a GPU's audio function */
    {"1200 [8086:4940]", 0}, /* QuickAssist */
    {"0300 [10de:2684]", 1}, /* GeForce RTX 4090 */
    {"0302 [10de:06d2]", 1}, /* Tesla M2070 */
    {"0300 [1002:73bf]", 1}, /* Radeon RX 6900 */
    {"0380 [1002:740f]", 1}, /* Instinct MI210 */
    {"1200 [1002:74a1]", 1}, /* Instinct MI300X */
    {"0300 [8086:56a0]", 1}, /* Arc A770 */
    {"0380 [8086:0bda]", 1}, /* Data Center GPU Max */
};

TEST(only_what_a_runtime_can_use_is_a_gpu)
{
    for (size_t i = 0; i < sizeof displays / sizeof *displays; i++) {
        weiri_topo *topo = load_edited(MACHINE_4GPU, "0302 [10de:2330]", displays[i].kind, 4);
        if (counts_of(topo).gpus != 4 * displays[i].is_gpu)
            fail_msg("%s: %d GPUs", displays[i].kind, counts_of(topo).gpus);
        weiri_topo_destroy(topo);
    }
}

TEST(the_graphics_unit_of_an_intel_processor_is_no_gpu)
{
    static const edit edits[] = {{"0302 [10de:2330]", "0380 [8086:3e96]", 4},
                                 {"0000:02:00.0", "0000:00:02.0", 1}};
    weiri_topo *topo = load_with(MACHINE_4GPU, edits, 2);
    assert_int_equal(counts_of(topo).gpus, 3);
    weiri_topo_destroy(topo);
}

/* The graphics unit of a processor counts if AMD's runtime lists it: in a recording by the name of
 * its management library or by weir's own mark, on this machine by the driver. */
TEST(a_processors_graphics_unit_that_computes_is_a_gpu)
{
    static const edit named[] = {{"0302 [10de:2330]", "0300 [1002:164e]", 4},
                                 {"name=\"nvml2\"", "name=\"rsmi0\"", 1}};
    weiri_topo *topo = load_with(MACHINE_4GPU, named, 2);
    assert_int_equal(counts_of(topo).gpus, 1);
    assert_string_equal(weiri_topo_gpu(topo, 0)->pci, "0000:41:00.0");
    weiri_topo_destroy(topo);
    static const edit marked[] = {
        {"0302 [10de:2330]", "0300 [1002:164e]", 4},
        {"\"GPUModel\" value=\"NVIDIA GPU 24GB\"", "\"WeirCompute\" value=\"1\"", 4}};
    topo = load_with(MACHINE_4GPU, marked, 2);
    assert_int_equal(counts_of(topo).gpus, 4);
    weiri_topo_destroy(topo);
}

TEST(amds_driver_says_what_computes)
{
    char folder[] = "/tmp/weir-kfd-XXXXXX", command[64];
    struct hwloc_pcidev_attr_s at = {.bus = 0x41, .dev = 2, .func = 1};
    assert_non_null(mkdtemp(folder));
    test_file_write(folder, "0/properties", "cpu_cores_count 8\nsimd_count 0\nlocation_id 0\n");
    test_file_write(folder, "1/properties", "simd_count 8\nlocation_id 16657\ndomain 0\n");
    test_file_write(folder, "2/properties", ""); /* of another container */
    assert_int_equal(weiri_topo_amd_computes(folder, &at), 1);
    at.func = 0;
    assert_int_equal(weiri_topo_amd_computes(folder, &at), 0);
    at = (struct hwloc_pcidev_attr_s){.domain = 1, .bus = 0x41, .dev = 2, .func = 1};
    assert_int_equal(weiri_topo_amd_computes(folder, &at), 0);
    at = (struct hwloc_pcidev_attr_s){0}; /* that of the processor's node */
    assert_int_equal(weiri_topo_amd_computes(folder, &at), 0);
    assert_int_equal(weiri_topo_amd_computes("/no/such/folder", &at), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ------------------------------------------------------------------ places */

TEST(ranks_are_placed_near_their_gpu)
{
    weiri_topo *topo = load(MACHINE_8GPU);
    for (int i = 0; i < NRANK_COUNTS; i++)
        for (int rank = 0; rank < rank_counts[i]; rank++) {
            weiri_place place = place_of(topo, rank, rank_counts[i]);
            int gpu = rank % 8;
            assert_int_equal(place.gpu, gpu);
            assert_int_equal(place.numa, weiri_topo_gpu(topo, gpu)->numa);
            assert_int_equal(weiri_topo_gpu_nic(topo, gpu, place.nic), WEIRI_TOPO_SAME_SWITCH);
            assert_int_equal(place.bound + place.bound_by_launcher, 0);
        }
    weiri_topo_destroy(topo);
}

/* Checks that hardware threads are used at most once or, if ranks exceed cores, that all are used
 * and the numbers of users differ by at most one. */
static void check_sharing(const weiri_topo *topo, int nranks)
{
    weiri_topo_counts counts = counts_of(topo);
    int uses[PUS_MOST] = {0}, least = nranks, most = 0;
    for (int rank = 0; rank < nranks; rank++) {
        weiri_place place = place_of(topo, rank, nranks);
        assert_true(place.ncores >= 1);
        count_uses(&place, uses);
        if (nranks <= counts.cores)
            assert_int_equal(place.sharers, 1);
    }
    for (int cpu = 0; cpu < counts.pus; cpu++) {
        least = uses[cpu] < least ? uses[cpu] : least;
        most = uses[cpu] > most ? uses[cpu] : most;
    }
    if (nranks <= counts.cores)
        assert_int_equal(most, 1);
    else
        assert_in_range(most - least, 0, 1);
}

/* Several NUMA nodes in one package. */
TEST(ranks_of_a_package_are_spread_over_its_numa_nodes)
{
    weiri_topo *topo = load(MACHINE_4NODE);
    for (int rank = 0; rank < 64; rank++) {
        weiri_place place = place_of(topo, rank, 64);
        assert_int_equal(place.numa, rank / 16);
        assert_int_equal(atoi(place.cpus), rank);
    }
    weiri_topo_destroy(topo);
}

TEST(cores_are_shared_only_if_ranks_exceed_cores)
{
    for (int i = 0; i < NMACHINES; i++) {
        weiri_topo *topo = load(machines[i]);
        for (int j = 0; j < NRANK_COUNTS; j++)
            check_sharing(topo, rank_counts[j]);
        weiri_topo_destroy(topo);
    }
}

TEST(sharers_counts_the_ranks_of_a_core)
{
    weiri_topo *topo = load(MACHINE_2CORE);
    int uses[PUS_MOST] = {0};
    for (int rank = 0; rank < 5; rank++) {
        weiri_place place = place_of(topo, rank, 5);
        count_uses(&place, uses);
    }
    for (int rank = 0; rank < 5; rank++) {
        weiri_place place = place_of(topo, rank, 5);
        assert_int_equal(place.sharers, uses[atoi(place.cpus)]);
        assert_int_equal(place.gpu, -1);
        assert_int_equal(place.nic, 0);
    }
    weiri_topo_destroy(topo);
}

/* The GPUs become management graphics, which leaves a host with two NUMA nodes. */
TEST(without_gpus_ranks_balance_over_numa)
{
    weiri_topo *topo = load_edited(MACHINE_8GPU, "0302 [10de:", "0300 [1a03:", 8);
    assert_int_equal(counts_of(topo).gpus, 0);
    for (int i = 0; i < NRANK_COUNTS; i++) {
        int nranks = rank_counts[i], on_numa[2] = {0};
        for (int rank = 0; rank < nranks; rank++) {
            weiri_place place = place_of(topo, rank, nranks);
            on_numa[place.numa]++;
            assert_int_equal(weiri_topo_nic(topo, place.nic)->numa, place.numa);
        }
        assert_in_range(on_numa[0] - on_numa[1], 0, 1);
        check_sharing(topo, nranks);
    }
    weiri_topo_destroy(topo);
}

/* 32 ranks, 32 cores, all GPUs on one of two NUMA nodes: half of the ranks are placed on the other
 * NUMA node rather than sharing cores. */
TEST(ranks_overflow_to_the_other_numa_node)
{
    static const edit lose_gpus[] = {
        {"0000:93:00.0\" pci_type=\"0302", "0000:93:00.0\" pci_type=\"0108", 1},
        {"0000:95:00.0\" pci_type=\"0302", "0000:95:00.0\" pci_type=\"0108", 1},
        {"0000:c3:00.0\" pci_type=\"0302", "0000:c3:00.0\" pci_type=\"0108", 1},
        {"0000:c5:00.0\" pci_type=\"0302", "0000:c5:00.0\" pci_type=\"0108", 1}};
    weiri_topo *topo = load_with(MACHINE_8GPU, lose_gpus, 4);
    assert_int_equal(counts_of(topo).gpus, 4);
    check_sharing(topo, 32);
    for (int rank = 0; rank < 32; rank++)
        assert_int_equal(place_of(topo, rank, 32).numa, rank < 16 ? 0 : 1);
    assert_int_equal(place_of(topo, 15, 16).numa, 0);
    weiri_topo_destroy(topo);
}

/* A machine whose packages have alternate cpus, as some firmware numbers them. */
static weiri_topo *load_alternate(int ncpus)
{
    char *text = NULL, path[32], all[8192], mine[2][8192];
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    hwloc_bitmap_t set[3] = {hwloc_bitmap_alloc(), hwloc_bitmap_alloc(), hwloc_bitmap_alloc()};
    for (int cpu = 0; cpu < ncpus; cpu++) {
        hwloc_bitmap_set(set[cpu % 2], (unsigned)cpu);
        hwloc_bitmap_set(set[2], (unsigned)cpu);
    }
    hwloc_bitmap_snprintf(all, sizeof all, set[2]);
    fprintf(to,
            "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
            "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\" cpuset=\"%s\" "
            "complete_cpuset=\"%s\" allowed_cpuset=\"%s\" nodeset=\"0x3\" "
            "complete_nodeset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">\n",
            all, all, all);
    for (int i = 0; i < 2; i++) {
        hwloc_bitmap_snprintf(mine[i], sizeof mine[i], set[i]);
        fprintf(to,
                "<object type=\"Package\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" "
                "nodeset=\"0x%d\" complete_nodeset=\"0x%d\" gp_index=\"%d\">\n"
                "<object type=\"NUMANode\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" "
                "nodeset=\"0x%d\" complete_nodeset=\"0x%d\" gp_index=\"%d\" "
                "local_memory=\"1073741824\"/>\n",
                i, mine[i], mine[i], i + 1, i + 1, i + 2, i, mine[i], mine[i], i + 1, i + 1, i + 4);
        for (int cpu = i; cpu < ncpus; cpu += 2) {
            char one[8192];
            hwloc_bitmap_only(set[2], (unsigned)cpu);
            hwloc_bitmap_snprintf(one, sizeof one, set[2]);
            fprintf(to,
                    "<object type=\"PU\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" "
                    "nodeset=\"0x%d\" complete_nodeset=\"0x%d\" gp_index=\"%d\"/>\n",
                    cpu, one, one, i + 1, i + 1, cpu + 10);
        }
        fprintf(to, "</object>\n");
    }
    fprintf(to, "</object>\n</topology>\n");
    fclose(to);
    for (int i = 0; i < 3; i++)
        hwloc_bitmap_free(set[i]);
    test_file_temporary(text, bytes, path);
    free(text);
    weiri_topo *topo = load(path);
    unlink(path);
    return topo;
}

/* What a printer writes; the caller frees it. */
static char *printed(weir_status (*print)(const weiri_topo *, const char *, int, FILE *),
                     const weiri_topo *topo, int nranks)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_int_equal(print(topo, "test", nranks, to), WEIR_OK);
    fclose(to);
    return text;
}

TEST(lists_of_cpus_have_any_length)
{
    static const int sizes[] = {768, 2048, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char last[2][16];
        const int ncpus = sizes[i];
        weiri_topo *topo = load_alternate(ncpus);
        for (int rank = 0; rank < 2; rank++) {
            weiri_place place = place_of(topo, rank, 2);
            const char *comma = strrchr(place.cpus, ',');
            assert_non_null(comma);
            assert_int_equal(atoi(place.cpus), rank);
            assert_int_equal(atoi(comma + 1), ncpus - 2 + rank);
            assert_int_equal(place.ncores, ncpus / 2);
            snprintf(last[rank], sizeof last[rank], ",%d", ncpus - 2 + rank);
        }
        char *text = printed(weiri_topo_print_text, topo, 2);
        char *json = printed(weiri_topo_print_json, topo, 2);
        for (int rank = 0; rank < 2; rank++) { /* once as a NUMA node's, once as a rank's */
            const char *seen = strstr(text, last[rank]);
            assert_true(seen && strstr(seen + 1, last[rank]));
            seen = strstr(json, last[rank]);
            assert_true(seen && strstr(seen + 1, last[rank]));
        }
        free(text);
        free(json);
        weiri_topo_destroy(topo);
    }
}

TEST(a_rank_out_of_range_is_rejected)
{
    weiri_topo *topo = load(MACHINE_2CORE);
    weiri_place place = {.ncores = 77};
    assert_int_equal(weiri_topo_place(topo, 2, 2, &place), WEIR_ERR_INVALID);
    assert_int_equal(weiri_topo_place(topo, -1, 2, &place), WEIR_ERR_INVALID);
    assert_int_equal(weiri_topo_place(topo, 0, 0, &place), WEIR_ERR_INVALID);
    assert_int_equal(place.ncores, 77);
    weiri_topo_destroy(topo);
}

TEST(nothing_is_printed_if_a_rank_has_no_place)
{
    weiri_topo *topo = load(MACHINE_8GPU);
    weir_status (*const print[])(const weiri_topo *, const char *, int,
                                 FILE *) = {weiri_topo_print_json, weiri_topo_print_text};
    for (size_t i = 0; i < sizeof print / sizeof *print; i++) {
        char text[64] = "";
        FILE *to = fmemopen(text, sizeof text, "w");
        assert_non_null(to);
        assert_int_equal(print[i](topo, "test", 0, to), WEIR_ERR_INVALID);
        assert_int_equal(ftell(to), 0);
        fclose(to);
        assert_string_equal(text, "");
    }
    weiri_place *places = NULL;
    assert_int_equal(weiri_topo_places(topo, -1, &places), WEIR_ERR_INVALID);
    assert_null(places);
    assert_int_equal(weiri_topo_places(topo, 8, &places), WEIR_OK);
    for (int rank = 0; rank < 8; rank++)
        assert_int_equal(places[rank].gpu, rank);
    weiri_places_free(places, 8);
    weiri_topo_destroy(topo);
}

/* -------------------------------------------------------------------- NICs */

TEST(a_missing_nic_is_replaced_by_the_nearest)
{
    weiri_topo *topo = load_edited(MACHINE_8GPU, "name=\"mlx5_2\" osdev_type=\"3\"",
                                   "name=\"mlx5_2\" osdev_type=\"0\"", 1);
    /* ib2 remains: a network device of the same card, without verbs. */
    assert_string_equal(weiri_topo_nic(topo, 2)->name, "ib2");
    assert_string_equal(weiri_topo_nic(topo, weiri_topo_pick_nic(topo, 2))->name, "mlx5_3");
    assert_string_equal(weiri_topo_nic(topo, weiri_topo_pick_nic(topo, 4))->name, "mlx5_4");
    weiri_topo_destroy(topo);
}

TEST(a_port_that_is_down_is_not_picked)
{
    weiri_topo *topo = load_edited(MACHINE_8GPU, "name=\"mlx5_5\" osdev_type=\"3\">",
                                   "name=\"mlx5_5\" osdev_type=\"3\">"
                                   "<info name=\"WeirLinkState\" value=\"down\"/>",
                                   1);
    assert_int_equal(weiri_topo_nic(topo, 5)->link_up, 0);
    assert_int_equal(weiri_topo_pick_nic(topo, 5), 4);
    assert_int_equal(weiri_topo_pick_nic(topo, 4), 4);
    weiri_topo_destroy(topo);
}

/* A card with one PCI function for several ports, whose first port has no cable. */
TEST(a_card_is_up_if_any_of_its_ports_is)
{
    static const edit second[] = {{"WeirLinkState", "Unknown", 16},
                                  {"name=\"mlx5_5\" osdev_type=\"3\">",
                                   "name=\"mlx5_5\" osdev_type=\"3\">"
                                   "<info name=\"Port1State\" value=\"1\"/>"
                                   "<info name=\"Port2State\" value=\"4\"/>",
                                   1}};
    weiri_topo *topo = load_with(MACHINE_8GPU, second, 2);
    assert_int_equal(weiri_topo_nic(topo, 5)->link_up, 1);
    assert_int_equal(weiri_topo_pick_nic(topo, 5), 5);
    char path[32];
    test_file_temporary("", 0, path);
    assert_int_equal(weiri_topo_save(topo, path), WEIR_OK);
    weiri_topo_destroy(topo);
    topo = load(path); /* a recording keeps the states of all ports */
    unlink(path);
    assert_int_equal(weiri_topo_nic(topo, 5)->link_up, 1);
    weiri_topo_destroy(topo);
    static const edit none[] = {{"WeirLinkState", "Unknown", 16},
                                {"name=\"mlx5_5\" osdev_type=\"3\">",
                                 "name=\"mlx5_5\" osdev_type=\"3\">"
                                 "<info name=\"Port1State\" value=\"1\"/>"
                                 "<info name=\"Port2State\" value=\"2\"/>",
                                 1}};
    topo = load_with(MACHINE_8GPU, none, 2);
    assert_int_equal(weiri_topo_nic(topo, 5)->link_up, 0);
    weiri_topo_destroy(topo);
}

TEST(a_card_has_the_name_of_a_port_that_is_up)
{
    weiri_topo *topo = load_edited(
        MACHINE_4GPU, "<object type=\"OSDev\" gp_index=\"39\" name=\"eth0\" osdev_type=\"2\">",
        "<object type=\"OSDev\" gp_index=\"99\" name=\"eth7\" osdev_type=\"2\">"
        "<info name=\"WeirLinkState\" value=\"down\"/></object>"
        "<object type=\"OSDev\" gp_index=\"39\" name=\"eth0\" osdev_type=\"2\">",
        1);
    assert_int_equal(counts_of(topo).nics, 1);
    assert_string_equal(weiri_topo_nic(topo, 0)->name, "eth0");
    assert_int_equal(weiri_topo_nic(topo, 0)->link_up, 1);
    assert_true(weiri_topo_nic(topo, 0)->link_gbits > 24);
    weiri_topo_destroy(topo);
}

TEST(without_nics_none_is_picked)
{
    weiri_topo *topo = load_edited(MACHINE_4GPU, "name=\"eth0\" osdev_type=\"2\"",
                                   "name=\"eth0\" osdev_type=\"0\"", 1);
    assert_int_equal(counts_of(topo).nics, 0);
    assert_int_equal(weiri_topo_pick_nic(topo, 0), -1);
    assert_int_equal(weiri_topo_pick_nic(topo, -1), -1);
    assert_int_equal(place_of(topo, 1, 2).nic, -1);
    weiri_topo_destroy(topo);
}

/* ------------------------------------------------------ digest and summary */

static void digest_and_destroy(weiri_topo *topo, char hex[WEIRI_TOPO_DIGEST_BYTES])
{
    weiri_topo_digest(topo, hex);
    weiri_topo_destroy(topo);
    assert_int_equal(strspn(hex, "0123456789abcdef"), 16);
    assert_int_equal(strlen(hex), 16);
}

TEST(the_digest_covers_only_the_structure)
{
    char first[17], again[17], other[17];
    digest_and_destroy(load(MACHINE_8GPU), first);
    digest_and_destroy(load(MACHINE_8GPU), again);
    assert_string_equal(first, again);
    digest_and_destroy(load(MACHINE_4GPU), other);
    assert_string_not_equal(first, other);
    digest_and_destroy(load_edited(MACHINE_8GPU, "value=\"up\"", "value=\"down\"", 16), again);
    assert_string_equal(first, again);
    digest_and_destroy(load_edited(MACHINE_8GPU, "name=\"cuda3\"", "name=\"cuda9\"", 1), again);
    assert_string_equal(first, again);
    digest_and_destroy(load_edited(MACHINE_8GPU, "[10de:2330]", "[10de:2335]", 8), other);
    assert_string_not_equal(first, other);
    digest_and_destroy(
        load_edited(MACHINE_8GPU, "cache_size=\"67108864\"", "cache_size=\"33554432\"", 2), other);
    assert_string_not_equal(first, other);
}

TEST(a_saved_machine_is_the_same_machine)
{
    for (int i = 0; i <= NMACHINES; i++) {
        weiri_topo *topo = NULL;
        if (i < NMACHINES)
            topo = load(machines[i]);
        else
            assert_int_equal(weiri_topo_discover(&topo), WEIR_OK);
        char path[32], before[17], after[17];
        test_file_temporary("", 0, path);
        assert_int_equal(weiri_topo_save(topo, path), WEIR_OK);
        digest_and_destroy(topo, before);
        char *text = read_text(path);
        assert_null(strstr(text, "HostName"));
        assert_null(strstr(text, "name=\"Address\""));
        free(text);
        digest_and_destroy(load(path), after);
        unlink(path);
        assert_string_equal(before, after);
    }
}

TEST(the_summary_is_truncated_to_the_buffer)
{
    static const char *const expected[NMACHINES] = {
        "32 cores, 2 NUMA nodes, 8 GPUs (NVIDIA GPU 80GB), 8 NICs, Server CPU, 16 cores",
        "8 cores, 1 NUMA node, 4 GPUs (NVIDIA GPU 24GB), 1 NIC, Workstation CPU, 8 cores",
        "2 cores, 1 NUMA node, no GPU, 1 NIC, Small CPU, 2 cores",
        "16 cores, 1 NUMA node, no GPU, no NIC, Server CPU, 16 cores",
        "64 cores, 2 NUMA nodes, no GPU, no NIC, Server CPU, 32 cores",
        "64 cores, 4 NUMA nodes, no GPU, no NIC, Server CPU, 64 cores"};
    for (int i = 0; i < NMACHINES; i++) {
        weiri_topo *topo = load(machines[i]);
        char text[128], cut[10];
        weiri_topo_summary(topo, text, sizeof text);
        assert_string_equal(text, expected[i]);
        weiri_topo_summary(topo, cut, sizeof cut);
        assert_int_equal(strlen(cut), sizeof cut - 1);
        assert_memory_equal(cut, expected[i], sizeof cut - 1);
        weiri_topo_destroy(topo);
    }
}

/* ------------------------------------------------------------------ errors */

TEST(unreadable_recordings_are_rejected)
{
    weiri_topo *topo = (weiri_topo *)&topo;
    weiri_topo *untouched = topo;
    assert_int_equal(weiri_topo_load("no/such/file.xml", &topo), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "no/such/file.xml"));
    assert_int_equal(weiri_topo_load("topo", &topo), WEIR_ERR_INVALID);
    char *text = read_text(MACHINE_8GPU);
    const char *wrong[] = {"", "size,time\n", "<html></html>\n", text};
    for (int i = 0; i < 4; i++) {
        size_t bytes = strlen(wrong[i]);
        char path[32];
        test_file_temporary(wrong[i], wrong[i] == text ? bytes / 2 : bytes, path);
        weir_status status = weiri_topo_load(path, &topo);
        unlink(path);
        assert_int_equal(status, WEIR_ERR_INVALID);
        assert_non_null(strstr(weir_last_error(), path));
    }
    assert_ptr_equal(topo, untouched);
    free(text);
}

/* Other files that describe topologies are named, so that users know what they have. */
TEST(files_that_are_no_recordings_are_named)
{
    static const struct {
        const char *text, *named;
    } files[] = {
        {"<system version=\"1\">\n <cpu numaid=\"0\"/>\n</system>\n", "NCCL's description"},
        {"<?xml version=\"1.0\"?>\n<!-- RCCL -->\n<system>\n</system>\n", "NCCL's description"},
        {"\xef\xbb\xbf <system/>", "NCCL's description"},
        {"<graphs version=\"1\">\n <graph id=\"0\"/>\n</graphs>\n", "NCCL's graphs"},
        {"<?xml version=\"1.0\"?><!DOCTYPE topologydiff SYSTEM \"hwloc2-diff.dtd\"><topologydiff/>",
         "hwloc-diff"},
        {"<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>", "a picture"},
        {"<systems><system/></systems>", "not a machine recorded as hwloc XML"},
        {"<!-- <system> --><html/>", "not a machine recorded as hwloc XML"},
        {"<!-- without an end <system>", "not a machine recorded as hwloc XML"},
        {"<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc4.dtd\"><topology "
         "version=\"4.0\">",
         "hwloc 4 wrote this file"},
        {"<topology\n version='10.1'>", "hwloc 10 wrote this file"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[32];
        weiri_topo *topo = NULL;
        test_file_temporary(files[i].text, strlen(files[i].text), path);
        assert_int_equal(weiri_topo_load(path, &topo), WEIR_ERR_INVALID);
        unlink(path);
        assert_null(topo);
        if (!strstr(weir_last_error(), files[i].named))
            fail_msg("%s: %s", files[i].text, weir_last_error());
        assert_non_null(strstr(weir_last_error(), path));
        assert_non_null(strstr(weir_last_error(), "weir-topo --save FILE"));
    }
}

TEST(an_unwritable_recording_is_rejected)
{
    weiri_topo *topo = load(MACHINE_2CORE);
    assert_int_equal(weiri_topo_save(topo, "no/such/folder/x.xml"), WEIR_ERR_INVALID);
    assert_int_equal(weiri_topo_save(topo, "/dev/full"), WEIR_ERR_SYSTEM);
    weiri_topo_destroy(topo);
}

int main(void)
{
    return run_all_tests("topo");
}
