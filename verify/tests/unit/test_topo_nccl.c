/*
 * NCCL's descriptions of machines: what is read of them, what is unknown, and which files are
 * refused, each with the line. And the differences between two machines, each in words.
 */
#define _GNU_SOURCE

#include "topo/model.h"
#include "verify/tests/support/test_files.h"

/* A machine of two processors, each with two PCIe switches, and below each of these a GPU and a
 * NIC; the GPUs are joined by NVSwitches. */
typedef struct nccl_fixture {
    const char *gpu_attributes; /* of the first GPU's <pci> */
    const char *links;          /* of the first GPU */
    int nic_mbits;              /* of the first NIC; 0: it is missing */
    int moved;                  /* 1: the first two NICs have changed places */
} nccl_fixture;

#define GPU_ATTRIBUTES                                                                             \
    "class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" "
#define SWITCH_LINKS                                                                               \
    "<nvlink target=\"0000:f3:00.0\" count=\"5\" tclass=\"0x068000\"/>\n"                          \
    "<nvlink target=\"0000:f4:00.0\" count=\"13\" tclass=\"0x068000\"/>\n"
static const nccl_fixture whole = {GPU_ATTRIBUTES "link_width=\"16\"", SWITCH_LINKS, 400000, 0};

static weiri_topo *load_text(const char *text)
{
    char path[32];
    weiri_topo *topo = NULL;
    test_file_temporary(text, strlen(text), path);
    if (weiri_topo_load_any(path, &topo))
        fail_msg("%s", weir_last_error());
    unlink(path);
    return topo;
}

static weiri_topo *load_fixture(const nccl_fixture *fixture)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    fputs("<?xml version=\"1.0\"?>\n<!-- of a job -->\n<system version=\"1\">\n", to);
    for (int i = 0; i < 4; i++) {
        const int nic = fixture->moved && i < 2 ? 1 - i : i;
        if (i % 2 == 0)
            fprintf(to,
                    "<cpu host_hash=\"0x1\" numaid=\"%d\" affinity=\"%s\" arch=\"x86_64\" "
                    "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n",
                    i / 2, i ? "ffffffff,00000000" : "00000000,ffffffff");
        fprintf(to,
                "<pci busid=\"0000:%d0:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
                "link_width=\"16\">\n<pci busid=\"0000:%d1:00.0\" %s>\n<gpu dev=\"%d\" sm=\"90\" "
                "rank=\"%d\" gdr=\"1\">\n%s<c2c bw=\"1\" count=\"1\"/>\n</gpu>\n</pci>\n",
                i + 1, i + 1, i ? whole.gpu_attributes : fixture->gpu_attributes, i, i,
                i ? whole.links : fixture->links);
        if (nic || fixture->nic_mbits)
            fprintf(
                to,
                "<pci busid=\"0000:%d2:00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" "
                "link_width=\"16\"><nic><net name=\"mlx5_%d\" dev=\"%d\" speed=\"%d\" port=\"1\" "
                "guid=\"0x1\"/></nic></pci>\n",
                nic + 1, nic, nic, nic ? 400000 : fixture->nic_mbits);
        fprintf(to, "</pci>\n%s", i % 2 ? "</cpu>\n" : "");
    }
    fputs("</system>\n", to);
    fclose(to);
    weiri_topo *topo = load_text(text);
    free(text);
    return topo;
}

static weiri_topo_counts counts_of(const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    return counts;
}

TEST(a_description_of_nccl_is_read_as_a_machine)
{
    weiri_topo *topo = load_fixture(&whole);
    const weiri_topo_counts expected = {2, 2, 64, 64, 64, 64, 4, 4}, counts = counts_of(topo);
    assert_memory_equal(&counts, &expected, sizeof counts);
    assert_false(weiri_topo_is_live(topo));
    const weiri_topo_device *gpu = weiri_topo_gpu(topo, 3), *nic = weiri_topo_nic(topo, 3);
    assert_string_equal(gpu->name, "cuda3");
    assert_string_equal(gpu->model, "NVIDIA GPU sm_90");
    assert_string_equal(gpu->pci, "0000:41:00.0");
    assert_int_equal(gpu->vendor_id, 0x10de);
    assert_int_equal(gpu->numa, 1);
    assert_true(gpu->pcie_gbs > 63 && gpu->pcie_gbs < 63.1);
    assert_string_equal(nic->name, "mlx5_3");
    assert_int_equal(nic->openfabrics, 1);
    assert_int_equal(nic->link_up, 1);
    assert_true(nic->link_gbits > 399 && nic->link_gbits < 401);
    assert_string_equal(weiri_topo_processor(topo), "GenuineIntel family 6 model 143");
    weiri_topo_destroy(topo);
}

TEST(distances_of_nccls_machine_follow_its_switches_and_processors)
{
    weiri_topo *topo = load_fixture(&whole);
    assert_int_equal(weiri_topo_gpu_nic(topo, 1, 1), WEIRI_TOPO_SAME_SWITCH);
    assert_int_equal(weiri_topo_gpu_nic(topo, 1, 0), WEIRI_TOPO_SAME_NUMA);
    assert_int_equal(weiri_topo_gpu_gpu(topo, 1, 2), WEIRI_TOPO_CROSS_NUMA);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            const double gbs = weiri_topo_nvlink_gbs(topo, from, to);
            assert_true(from == to ? gbs <= 0 : gbs > 449 && gbs < 451); /* 18 links of 25 GB/s */
        }
    weiri_topo_destroy(topo);
}

TEST(a_saved_description_is_the_same_machine)
{
    char path[32], before[17], after[17];
    weiri_topo *topo = load_fixture(&whole), *again = NULL;
    test_file_temporary("", 0, path);
    assert_int_equal(weiri_topo_save(topo, path), WEIR_OK);
    assert_int_equal(weiri_topo_load(path, &again), WEIR_OK);
    unlink(path);
    weiri_topo_digest(topo, before);
    weiri_topo_digest(again, after);
    assert_string_equal(before, after);
    assert_true(weiri_topo_nvlink_gbs(again, 0, 3) > 449);
    weiri_topo_destroy(topo);
    weiri_topo_destroy(again);
}

/* RCCL's words: xgmi, gcn, classes of accelerators, and speeds in units of a plug-in. */
TEST(a_description_of_rccl_is_read)
{
    weiri_topo *topo = load_text(
        "<system version=\"2\">\n<cpu numaid=\"3\" affinity=\"ff00\" vendor=\"AuthenticAMD\">\n"
        "<pci busid=\"0000:c2:00.0\" class=\"0x120000\" vendor=\"0x1002\" device=\"0x74a0\" "
        "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"228\" gcn=\"942\">\n"
        "<xgmi target=\"0000:02:00.0\" count=\"2\" tclass=\"0x120000\"/></gpu></pci>\n"
        "<pci busid=\"0000:c1:00.0\" class=\"0x020000\" link_speed=\"16 GT/s\" link_width=\"16\">\n"
        "<nic><net name=\"cxi1\" speed=\"200000000\" port=\"1\"/></nic></pci></cpu>\n"
        "<cpu numaid=\"0\" affinity=\"00ff\"><pci busid=\"0000:02:00.0\" class=\"0x130000\" "
        "vendor=\"0x1002\" device=\"0x74a0\"><gpu dev=\"1\" gcn=\"gfx942\">\n"
        "<xgmi target=\"0000:c2:00.0\" count=\"2\" "
        "tclass=\"0x120000\"/></gpu></pci></cpu></system>\n");
    assert_int_equal(counts_of(topo).gpus, 2);
    assert_string_equal(weiri_topo_gpu(topo, 0)->model, "AMD GPU gfx942");
    assert_int_equal(weiri_topo_gpu(topo, 0)->numa, 0);
    assert_int_equal(weiri_topo_gpu(topo, 1)->numa, 3);
    assert_true(weiri_topo_nvlink_gbs(topo, 0, 1) > 127 && weiri_topo_nvlink_gbs(topo, 0, 1) < 129);
    assert_true(weiri_topo_gpu(topo, 0)->pcie_gbs <= 0); /* unknown */
    assert_true(weiri_topo_nic(topo, 0)->link_gbits <= 0);
    assert_true(weiri_topo_nic(topo, 0)->pcie_gbs > 31 && weiri_topo_nic(topo, 0)->pcie_gbs < 32);
    weiri_topo_destroy(topo);
}

/* Cloud providers ship files for NCCL_TOPO_FILE that name PCI classes only. */
TEST(an_input_file_of_nccl_is_read)
{
    weiri_topo *topo =
        load_text("<system version=\"1\">\n<cpu numaid=\"-1\" affinity=\"0000ffff\">\n"
                  "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" "
                  "link_width=\"16\">\n"
                  "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
                  "link_width=\"16\"/>\n"
                  "<pci busid=\"0101:00:00.0\" class='0x020700' link_speed=\"16.0 GT/s PCIe\" "
                  "link_width=\"0\"/>\n"
                  "</pci></cpu></system>\n");
    assert_int_equal(counts_of(topo).gpus, 1);
    assert_string_equal(weiri_topo_gpu(topo, 0)->name, "gpu0");
    assert_string_equal(weiri_topo_nic(topo, 0)->name, "nic0");
    assert_int_equal(weiri_topo_nic(topo, 0)->link_up, -1);
    assert_true(weiri_topo_nic(topo, 0)->pcie_gbs <= 0);
    assert_int_equal(weiri_topo_gpu_nic(topo, 0, 0), WEIRI_TOPO_SAME_SWITCH);
    weiri_topo_destroy(topo);
}

/* Files for virtual machines have empty values, width 0 or 255, vendor 0, and links of a GPU to
 * itself, which lead to nobody. */
TEST(values_that_a_virtual_machine_hides_are_unknown)
{
    weiri_topo *topo = load_text(
        "<system version=\"1\"><cpu numaid=\"\" affinity=\"f\" arch=\"\">\n"
        "<pci busid=\"0001:00:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b5\" "
        "link_speed=\"\" "
        "link_width=\"0\"><gpu dev=\"0\" sm=\"80\"><nvlink target=\"0001:00:00.0\" count=\"12\" "
        "tclass=\"0x030200\"/></gpu></pci>\n"
        "<pci busid=\"0002:00:00.0\" class=\"0x030200\" vendor=\"0x0000\" link_speed=\"16 GT/s\" "
        "link_width=\"255\"><gpu dev=\"1\" sm=\"80\"><nvlink target=\"0002:00:00.0\" count=\"12\" "
        "tclass=\"0x030200\"/></gpu></pci>\n"
        "<pci busid=\"0003:00:00.0\" class=\"0x030200\" vendor=\"\" device=\"\"/>\n"
        "<nic><net name=\"eth0\" dev=\"0\" speed=\"100000\" port=\"0\" "
        "guid=\"0x0\"/></nic></cpu></system>\n");
    assert_int_equal(counts_of(topo).gpus, 3);
    assert_int_equal(counts_of(topo).nics, 0);
    assert_true(weiri_topo_nvlink_gbs(topo, 0, 1) <= 0);
    for (int i = 0; i < 3; i++)
        assert_true(weiri_topo_gpu(topo, i)->pcie_gbs <= 0);
    weiri_topo_destroy(topo);
}

/* Each process of a job may see its GPU as number 0. */
TEST(gpus_of_one_number_are_numbered_by_address)
{
    weiri_topo *topo = load_text("<system><cpu numaid=\"0\" affinity=\"f\">\n"
                                 "<pci busid=\"0000:02:00.0\" class=\"0x03\" vendor=\"0x10de\" "
                                 "device=\"0x20b0\"><gpu dev=\"0\" sm=\"80\"/></pci>\n"
                                 "<pci busid=\"0000:01:00.0\" class=\"0x0302\" vendor=\"0x10de\" "
                                 "device=\"0x20b0\"><gpu dev=\"0\" sm=\"80\"/></pci>\n"
                                 "</cpu></system>\n");
    assert_string_equal(weiri_topo_gpu(topo, 0)->name, "gpu0");
    assert_string_equal(weiri_topo_gpu(topo, 1)->name, "gpu1");
    weiri_topo_destroy(topo);
}

#define CPU "<system>\n<cpu numaid=\"0\" affinity=\"ff\">\n"
#define PCI(address, rest) "<pci busid=\"" address "\" class=\"0x030200\" " rest

TEST(what_is_not_a_description_of_nccl_is_refused_with_its_line)
{
    static const struct {
        const char *text, *problem;
    } files[] = {
        {"", ":1: not XML"},
        {"size,time\n", ":1: not XML"},
        {"\n\n<html/>", ":3: <html> is not NCCL's description"},
        {"<graphs version=\"1\"/>", ":1: these are NCCL's graphs"},
        {"<system>\n</system>", ":1: <system> has no <cpu>"},
        {"<system>\n<cpu>\n</system>", ":3: not XML: mismatched tag within <cpu>"},
        {"<system>\n<cpu numaid=\"0\" affinity=\"f\">\n",
         ":3: not XML: no element found within <cpu>"},
        {"<system>\n<!-- no end", ":2: not XML: unclosed token within <system>"},
        {"<system>\n<cpu numaid=0>", ":2: not XML: not well-formed"},
        {"<system>\n<cpu numaid>", ":2: not XML: not well-formed"},
        {"<system>\n<cpu=\"1\"/>", ":2: not XML: not well-formed"},
        {"<system>\n<", ":2: not XML: unclosed token"},
        {"<system/>\n<system/>", ":2: not XML: junk after document element"},
        {"<!DOCTYPE system [\n<!ENTITY a \"f\">]>\n<system>\n<cpu affinity=\"&a;\"/></system>",
         ":1: declarations in <!DOCTYPE> are not read"},
        {"<!DOCTYPE system [\n<!ATTLIST cpu affinity CDATA \"f\">]>\n<system>\n<cpu/></system>",
         ":1: declarations in <!DOCTYPE> are not read"},
        {"<system>\n<cpu numaid=\"x\" affinity=\"f\"/></system>", ":2: <cpu numaid=\"x\">"},
        {"<system>\n<cpu numaid=\"a&#10;b\" affinity=\"f\"/></system>",
         ":2: <cpu numaid=\"a\\x0ab\">"},
        {"<system>\n<cpu numaid=\"0\" affinity=\"\"/></system>", ":2: <cpu affinity=\"\"> has no"},
        {"<system>\n<cpu numaid=\"0\" affinity=\"0,0\"/></system>",
         ":2: <cpu affinity=\"0,0\"> has no cpu"},
        {"<system>\n<cpu numaid=\"0\" affinity=\"zz\"/></system>", ":2: <cpu affinity=\"zz\">"},
        {CPU "</cpu>\n<cpu numaid=\"0\" affinity=\"100\"/></system>",
         ":4: a second <cpu numaid=\"0\">"},
        {CPU "</cpu>\n<cpu numaid=\"1\" affinity=\"1\"/></system>",
         ":4: <cpu affinity=\"1\"> has cpus of another"},
        {"<system><cpu host_hash=\"1\" numaid=\"0\" affinity=\"f\"/>\n<cpu host_hash=\"2\" "
         "numaid=\"1\" affinity=\"f0\"/></system>",
         ":2: the file describes several hosts"},
        {CPU "<pci busid=\"0000:01:00.0\"/></cpu></system>", ":3: <pci> has no class"},
        {CPU "<pci class=\"0x030200\"/></cpu></system>", ":3: <pci> has no busid"},
        {CPU PCI("0000:01", "/></cpu></system>"), ":3: <pci busid=\"0000:01\">"},
        {CPU PCI("10000:01:00.0", "/></cpu></system>"), ":3: <pci busid=\"10000:01:00.0\">"},
        {CPU PCI("0000:01:00.0", "link_width=\"99999999999999999999\"/></cpu></system>"),
         ":3: <pci link_width=\"99999999999999999999\">"},
        {CPU PCI("0000:01:00.0", "vendor=\"0x123456789\"/></cpu></system>"), ":3: <pci vendor="},
        {CPU "<pci busid=\"0000:01:00.0\" class=\"0x0302xy\"/></cpu></system>", ":3: <pci class="},
        {CPU PCI("0000:01:00.0", ">\n") PCI("0000:01:00.0", "/></pci></cpu></system>"),
         ":4: the device 0000:01:00.0 is already on line 3"},
        {CPU PCI("0000:01:00.0", "><gpu>\n<nvlink target=\"?\"/></gpu></pci></cpu></system>"),
         ":4: <nvlink target=\"?\">"},
        {CPU PCI(
             "0000:01:00.0",
             "><gpu>\n<nvlink target=\"0000:02:00.0\" count=\"-1\"/></gpu></pci></cpu></system>"),
         ":4: <nvlink count=\"-1\">"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[32], expected[160];
        weiri_topo *topo = NULL;
        test_file_temporary(files[i].text, strlen(files[i].text), path);
        assert_int_equal(weiri_topo_load_nccl(path, &topo), WEIR_ERR_INVALID);
        unlink(path);
        assert_null(topo);
        snprintf(expected, sizeof expected, "%s%s", path, files[i].problem);
        if (strncmp(weir_last_error(), expected, strlen(expected)) != 0)
            fail_msg("%s: %s", files[i].text, weir_last_error());
        assert_null(strchr(weir_last_error(), '\n'));
    }
    weiri_topo *topo = NULL;
    assert_int_equal(weiri_topo_load_nccl("no/such/file", &topo), WEIR_ERR_INVALID);
    assert_int_equal(weiri_topo_load_nccl("topo", &topo), WEIR_ERR_INVALID);
}

/* Writes `count` times "before N after", N in hexadecimal, then `count` times end. */
static void check_large(int count, const char *before, const char *after, const char *end,
                        const char *problem)
{
    char *text = NULL, path[32];
    size_t bytes;
    weiri_topo *topo = NULL;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    fputs("<system><cpu numaid=\"0\" affinity=\"f\">\n", to);
    for (int i = 0; i < count; i++)
        fprintf(to, "%s%04x:%02x%s", before, (unsigned)i >> 8 & 0xffff, (unsigned)i & 0xff, after);
    for (int i = 0; i < count; i++)
        fputs(end, to);
    fputs("</cpu></system>", to);
    fclose(to);
    test_file_temporary(text, bytes, path);
    free(text);
    assert_int_equal(weiri_topo_load_nccl(path, &topo), WEIR_ERR_INVALID);
    unlink(path);
    if (!strstr(weir_last_error(), problem))
        fail_msg("%s", weir_last_error());
}

TEST(files_beyond_a_machine_are_refused)
{
    check_large(100000, "<pci busid=\"", ":00.0\" class=\"0x0604\"/>\n", "",
                ": more than 16384 elements");
    check_large(10000, "<pci busid=\"", ":00.0\" class=\"0x0604\">\n", "</pci>",
                ": <pci> is nested more than 32 deep");
    check_large(16000, "<pci busid=\"", ":00.0\" class=\"0x0302\"/>\n", "", ": more than 512 GPUs");
}

/* -------------------------------------------------------------- differences */

/* What weiri_topo_diff prints of the whole machine and another one; the caller frees it. */
static char *differences(const nccl_fixture *other, int expected)
{
    char *text = NULL;
    size_t bytes;
    int found = -1;
    weiri_topo *a = load_fixture(&whole), *b = load_fixture(other);
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    assert_int_equal(weiri_topo_diff(a, "A", b, "B", to, &found), WEIR_OK);
    fclose(to);
    weiri_topo_destroy(a);
    weiri_topo_destroy(b);
    if (found != expected)
        fail_msg("%d differences: %s", found, text);
    return text;
}

static void check_difference(const nccl_fixture *other, int expected, const char *line)
{
    char *text = differences(other, expected);
    if (!strstr(text, line))
        fail_msg("%s", text);
    free(text);
}

TEST(equal_machines_have_no_difference)
{
    check_difference(&whole, 0, "no difference between A and B\n");
}

TEST(differences_are_said_in_words)
{
    nccl_fixture other = whole;
    other.links = "";
    check_difference(&other, 1, "GPU 0 (0000:11:00.0) has NVLink of 450 GB/s in A, none in B\n");
    other.links = "<nvlink target=\"0000:f3:00.0\" count=\"17\" tclass=\"0x068000\"/>\n";
    check_difference(&other, 3, "GPUs 0 and 3: NVLink of 450 GB/s in A, 425 GB/s in B\n");
    other = whole;
    other.gpu_attributes = GPU_ATTRIBUTES "link_width=\"8\"";
    check_difference(&other, 1,
                     "GPU 0 (0000:11:00.0), PCIe link (half as wide, such as x8, or half "
                     "as fast): 63 GB/s in A, 31.5 GB/s in B\n");
    other = whole;
    other.nic_mbits = 200000;
    check_difference(&other, 1,
                     "NIC 0 (0000:12:00.0) mlx5_0, network link: 400 Gbit/s in A, 200 "
                     "Gbit/s in B\n");
    other.nic_mbits = 0;
    check_difference(&other, 1, "NIC 0 (mlx5_0, 0000:12:00.0) is missing in B\n");
}

TEST(a_device_behind_another_switch_is_a_difference)
{
    nccl_fixture other = whole;
    other.moved = 1;
    check_difference(&other, 2,
                     "GPU 0 (0000:11:00.0) shares a PCIe switch with mlx5_0 in A, with "
                     "mlx5_1 in B\n");
}

/* Of another machine, one GPU has the same address, and no NIC: NICs are paired by number. */
TEST(machines_of_another_kind_are_compared)
{
    weiri_topo *a = load_fixture(&whole), *b = NULL;
    char *text = NULL;
    size_t bytes;
    int found = 0;
    assert_int_equal(weiri_topo_load_any("topo/machines/4-gpu-1-nic.xml", &b), WEIR_OK);
    FILE *to = open_memstream(&text, &bytes);
    assert_int_equal(weiri_topo_diff(a, "A", b, "B", to, &found), WEIR_OK);
    fclose(to);
    assert_non_null(strstr(text, "NUMA nodes: 2 in A, 1 in B\n"));
    assert_non_null(strstr(text, "cores: 64 in A, 8 in B\n"));
    assert_non_null(strstr(text, "GPU 3 (0000:41:00.0) has NVLink of 450 GB/s in A, none in B\n"));
    assert_non_null(strstr(text, "NIC 3 (mlx5_3, 0000:42:00.0) is missing in B\n"));
    free(text);
    weiri_topo_destroy(a);
    weiri_topo_destroy(b);
}

/* ----------------------------------------------------------------- written files */

/* Writes the machine for NCCL and returns the text, which the caller frees. */
static char *write_nccl(const weiri_topo *topo, const char *map, weir_status expected)
{
    char path[32], map_path[32] = "", *text = calloc(1, 1 << 16);
    assert_non_null(text);
    test_file_temporary("", 0, path);
    if (map)
        test_file_temporary(map, strlen(map), map_path);
    const weir_status status = weiri_topo_save_nccl(topo, map ? map_path : NULL, path);
    if (status != expected)
        fail_msg("%d: %s", status, weir_last_error());
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, (1 << 16) - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    if (map)
        unlink(map_path);
    return text;
}

static void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("expected '%s' in:\n%s", part, text);
}

/* NCCL 2.28.9 in a virtual machine whose system has no NUMA nodes. */
TEST(a_processor_without_affinity_has_threads_that_are_not_compared)
{
    static const char devices[] = PCI("0000:01:00.0", "/></cpu></system>");
    char with[512], without[512];
    snprintf(with, sizeof with, "<system>\n<cpu numaid=\"1\" affinity=\"ff\">%s", devices);
    snprintf(without, sizeof without,
             "<system><cpu numaid=\"0\" affinity=\"1\"/>\n<cpu numaid=\"1\">%s", devices);
    weiri_topo *a = load_text(with), *b = load_text(without);
    assert_int_equal(weiri_topo_knows_threads(a), 1);
    assert_int_equal(weiri_topo_knows_threads(b), 0);
    assert_int_equal(counts_of(b).pus, 2);
    assert_int_equal(weiri_topo_gpu(b, 0)->numa, 1);
    char *text = write_nccl(b, NULL, WEIR_OK);
    expect_text(text, "<cpu numaid=\"1\">");
    free(text);
    weiri_topo_destroy(b);
    snprintf(without, sizeof without, "<system>\n<cpu numaid=\"1\">%s", devices);
    b = load_text(without);
    int found = -1;
    assert_int_equal(weiri_topo_diff(a, "A", b, "B", stderr, &found), WEIR_OK);
    assert_int_equal(found, 0);
    weiri_topo_destroy(a);
    weiri_topo_destroy(b);
}

TEST(what_is_written_for_nccl_is_read_back_as_the_machine_that_it_was)
{
    weiri_topo *topo = load_fixture(&whole);
    char *text = write_nccl(topo, NULL, WEIR_OK);
    weiri_topo *again = load_text(text);
    int found = -1;
    assert_int_equal(weiri_topo_diff(topo, "A", again, "B", stderr, &found), WEIR_OK);
    assert_int_equal(found, 0);
    char digest_a[WEIRI_TOPO_DIGEST_BYTES], digest_b[WEIRI_TOPO_DIGEST_BYTES];
    weiri_topo_digest(topo, digest_a);
    weiri_topo_digest(again, digest_b);
    assert_string_equal(digest_a, digest_b);
    expect_text(text, "<cpu numaid=\"1\" affinity=\"ffffffff,00000000\" arch=\"x86_64\" "
                      "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">");
    expect_text(text, "<nvlink target=\"0000:f4:00.0\" count=\"13\" tclass=\"0x068000\"/>");
    free(text);
    weiri_topo_destroy(topo);
    weiri_topo_destroy(again);
}

/* Through hwloc's own recording as well, which keeps what NCCL needs. */
TEST(a_recording_is_written_for_nccl)
{
    weiri_topo *topo = NULL;
    assert_int_equal(weiri_topo_load("topo/machines/8-gpu-8-nic.xml", &topo), WEIR_OK);
    char *text = write_nccl(topo, NULL, WEIR_OK);
    expect_text(text,
                "<pci busid=\"0000:10:01.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
                "link_width=\"16\">\n<pci busid=\"0000:12:00.0\" class=\"0x020700\"");
    expect_text(text, "<gpu dev=\"0\" sm=\"90\">\n<nvlink target=\"fffffff:ffff:ff\" count=\"18\" "
                      "tclass=\"0x068000\"/>");
    expect_text(text, "<net name=\"mlx5_0\" port=\"1\" speed=\"400000\"/>");
    weiri_topo *again = load_text(text);
    assert_true(weiri_topo_nvlink_gbs(again, 0, 7) == 450);
    assert_int_equal(weiri_topo_gpu_nic(again, 0, 0), WEIRI_TOPO_SAME_SWITCH);
    int found = -1;
    assert_int_equal(weiri_topo_diff(topo, "A", again, "B", stderr, &found), WEIR_OK);
    assert_int_equal(found, 0);
    free(text);
    weiri_topo_destroy(topo);
    weiri_topo_destroy(again);
}

/* The machine of the test before, if its NICs were a virtual machine's. */
TEST(virtio_nics_are_left_to_nccl)
{
    static char text[1 << 16];
    char path[32];
    FILE *file = fopen("topo/machines/8-gpu-8-nic.xml", "re");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (char *at = strstr(text, "[15b3:"); at; at = strstr(at, "[15b3:"))
        memcpy(at, "[1af4:", 6);
    test_file_temporary(text, bytes, path);
    weiri_topo *topo = NULL;
    assert_int_equal(weiri_topo_load(path, &topo), WEIR_OK);
    unlink(path);
    assert_int_equal(counts_of(topo).nics, 8);
    char *written = write_nccl(topo, NULL, WEIR_OK);
    assert_null(strstr(written, "<nic>"));
    weiri_topo *again = load_text(written);
    int found = -1;
    assert_int_equal(weiri_topo_diff(topo, "A", again, "B", stderr, &found), WEIR_OK);
    assert_int_equal(found, 0);
    free(written);
    weiri_topo_destroy(topo);
    weiri_topo_destroy(again);
}

#define MAP_NUMA "numa 0 0 0-15\nnuma 1 1 16-31 # the guest's\n"

TEST(a_virtual_machine_gets_its_own_addresses_and_the_hosts_switches)
{
    weiri_topo *topo = load_fixture(&whole);
    char *text = write_nccl(topo,
                            MAP_NUMA "0000:11:00.0 0000:05:00.0\n12:00.0\t06:00.0\n"
                                     "0000:41:00.0 0000:07:00.0\n\n",
                            WEIR_OK);
    expect_text(text, "<cpu numaid=\"0\" affinity=\"0000ffff\" ");
    expect_text(text,
                "<pci busid=\"ffff:ff:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
                "link_width=\"16\">\n<pci busid=\"0000:05:00.0\" class=\"0x030200\" "
                "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>\n<pci "
                "busid=\"0000:06:00.0\" class=\"0x020700\" ");
    expect_text(text, "<cpu numaid=\"1\" affinity=\"ffff0000\" ");
    expect_text(text, "<pci busid=\"ffff:ff:00.1\" ");
    assert_null(strstr(text, "0000:11"));
    assert_null(strstr(text, "<gpu"));
    weiri_topo *guest = load_text(text);
    weiri_topo_counts counts;
    weiri_topo_count(guest, &counts);
    assert_int_equal(counts.gpus, 2);
    assert_int_equal(counts.nics, 1);
    assert_int_equal(weiri_topo_gpu_nic(guest, 0, 0), WEIRI_TOPO_SAME_SWITCH);
    assert_int_equal(weiri_topo_gpu_gpu(guest, 0, 1), WEIRI_TOPO_CROSS_NUMA);
    free(text);
    weiri_topo_destroy(topo);
    weiri_topo_destroy(guest);
}

TEST(a_map_that_does_not_fit_the_host_is_refused_with_its_line)
{
    static const struct {
        const char *map, *message;
    } cases[] = {
        {"", ":1: the map has no device"},
        {"0000:11:00.0\n", ":1: expected two PCI addresses"},
        {"# host guest\n0000:11:00.0 5:zz\n", ":2: expected two PCI addresses"},
        {"0000:99:00.0 0000:05:00.0\n", ":1: no GPU or NIC of the host"},
        {"0000:11:00.0 0000:05:00.0\n0000:12:00.0 0000:05:00.0\n",
         ":2: an address that an earlier"},
        {"0000:11:00.0 0000:05:00.0\n",
         ":1: 0000:11:00.0 is on NUMA node 0 of the host: add a line"},
        {"numa 0 0\n", ":1: expected numa HOST-NODE"},
        {"numa 0 0 0-\n", ":1: the last word is no list"},
        {"numa 0 0 -\n", ":1: the last word is no list"},
        {"numa 0 0 1\nnuma 1 0 2\n", ":2: a node that an earlier line has"},
        {"numa 0 99999 1\n", ":1: expected numa HOST-NODE"},
    };
    weiri_topo *topo = load_fixture(&whole);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        free(write_nccl(topo, cases[i].map, WEIR_ERR_INVALID));
        expect_text(weir_last_error(), cases[i].message);
    }
    weiri_topo_destroy(topo);
}

TEST(a_machine_of_many_hardware_threads_is_written_and_read)
{
    enum { THREADS = 4096 };
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    for (int node = 0; node < 2; node++) {
        fprintf(to, "%s<cpu numaid=\"%d\" affinity=\"", node ? "" : "<system version=\"1\">\n",
                node);
        for (int word = 0; word < THREADS / 32; word++)
            fprintf(to, "%s%s", word ? "," : "", word % 2 == node ? "ffffffff" : "00000000");
        fputs("\"/>\n", to);
    }
    fputs("</system>\n", to);
    fclose(to);
    weiri_topo *topo = load_text(text);
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    assert_int_equal(counts.pus, THREADS);
    char *again = write_nccl(topo, NULL, WEIR_OK);
    weiri_topo *read = load_text(again);
    weiri_topo_count(read, &counts);
    assert_int_equal(counts.pus, THREADS);
    assert_int_equal(counts.numa_nodes, 2);
    weiri_place place;
    assert_int_equal(weiri_topo_place(read, 1, 2, &place), WEIR_OK);
    assert_true(strlen(place.cpus) > 500); /* "0-31,64-95,..." */
    weiri_place_free(&place);
    free(again);
    free(text);
    weiri_topo_destroy(topo);
    weiri_topo_destroy(read);
}

int main(void)
{
    return run_all_tests("topo_nccl");
}
