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
        {"<system>\n<cpu>\n</system>",
         ":3: </system> ends no element that is open: expected </cpu>"},
        {"<system>\n<cpu numaid=\"0\" affinity=\"f\">\n",
         ":3: the file ends within <cpu> of line 2"},
        {"<system>\n<!-- no end", ":2: no \"-->\" ends"},
        {"<system>\n<cpu numaid=0>", ":2: the value of numaid has no quotes"},
        {"<system>\n<cpu numaid>", ":2: expected name=\"value\" in <cpu>"},
        {"<system>\n<cpu=\"1\"/>", ":2: expected a blank after <cpu"},
        {"<system>\n<", ":2: expected the name"},
        {"<system/>\n<system/>", ":2: a second element"},
        {"<system>\n<cpu numaid=\"x\" affinity=\"f\"/></system>", ":2: <cpu numaid=\"x\">"},
        {"<system>\n<cpu numaid=\"a\nb\" affinity=\"f\"/></system>",
         ":2: <cpu numaid=\"a\\x0ab\">"},
        {"<system>\n<cpu numaid=\"0\"/></system>", ":2: <cpu affinity=\"\">"},
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

int main(void)
{
    return run_all_tests("topo_nccl");
}
