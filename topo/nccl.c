/*
 * Reads NCCL's description of a machine (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE; RCCL's has the same
 * form) as a topology: writes it as hwloc XML, which is then loaded like a recording. A <cpu>
 * becomes a package with a NUMA node, a <pci> with others below it a PCIe switch, any other <pci> a
 * device. What NCCL leaves out stays unknown: root complexes (devices of a <cpu> share its NUMA
 * node at best), caches, which hardware threads share a core, memory.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/model.h"
#include "topo/nccl.h"
#include "topo/small_xml.h"

enum { CPUS_MOST = 256, GPUS_MOST = 512, DEPTH_MOST = 32, AFFINITY_CPUS_MOST = 16384 };

#define nccl_refuse(xml, element, ...)                                                             \
    weiri_xml_refuse(xml, (xml)->elements[element].line, __VA_ARGS__)

/* ------------------------------------------------------------------- values */

/* A whole number, decimal or with 0x hexadecimal; fallback if there is none of this name. */
static weir_status nccl_number(const weiri_xml *xml, int element, const char *name, long low,
                               long high, long fallback, long *number)
{
    const char *text = weiri_xml_value(xml, element, name);
    char *end = NULL;
    *number = fallback;
    if (!text || !*text)
        return WEIR_OK;
    errno = 0;
    const long read = strtol(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    if (errno || end == text || *end || read < low || read > high)
        return nccl_refuse(xml, element, "<%.20s %s=\"%.40s\">: expected a number from %ld to %ld",
                           xml->elements[element].name, name, text, low, high);
    *number = read;
    return WEIR_OK;
}

/* A PCI address. Domains of addresses that stand for an NVSwitch have more digits than PCI's. */
static int nccl_read_bus(const char *text, nccl_bus *bus)
{
    char rest;
    const int is_address = text && strspn(text, "0123456789abcdefABCDEF:.") == strlen(text) &&
                           strlen(text) < 20 &&
                           sscanf(text, "%x:%x:%x.%x%c", &bus->domain, &bus->bus, &bus->device,
                                  &bus->function, &rest) == 4;
    return is_address && bus->bus <= 0xff && bus->device <= 0xff && bus->function <= 0xf;
}

/* NCCL joins the functions of a device. */
static int nccl_same_device(const nccl_bus *a, const nccl_bus *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* 0x0302 of "0x030200" and of "0x0302"; 0x0300 of "0x03". */
static weir_status nccl_class(const weiri_xml *xml, int element, unsigned *class_id)
{
    const char *text = weiri_xml_value(xml, element, "class");
    if (!text)
        return nccl_refuse(
            xml, element,
            "<pci> has no class: NCCL takes it from the machine that it runs on; add "
            "one such as class=\"0x030200\" (a GPU) or 0x020000 (a NIC)");
    const char *digits = strncmp(text, "0x", 2) == 0 ? text + 2 : text;
    const size_t length = strspn(digits, "0123456789abcdefABCDEF");
    if (digits[length] || (length != 2 && length != 4 && length != 6))
        return nccl_refuse(xml, element,
                           "<pci class=\"%.40s\">: expected a PCI class such as 0x030200", text);
    const unsigned value = (unsigned)strtoul(digits, NULL, 16);
    *class_id = length == 2 ? value << 8 : length == 4 ? value : value >> 8;
    return WEIR_OK;
}

/* GB/s of a PCIe link, as hwloc counts them; 0: unknown. Linux writes 255 for an unknown width. */
static weir_status nccl_pcie(const weiri_xml *xml, int element, double *gbs)
{
    const char *speed = weiri_xml_value(xml, element, "link_speed");
    long width;
    const weir_status status = nccl_number(xml, element, "link_width", 0, 255, 0, &width);
    const double rate = speed ? strtod(speed, NULL) : 0; /* "32.0 GT/s PCIe" */
    const double share = rate < 8 ? 0.8 : rate < 64 ? 128. / 130 : 242. / 256;
    *gbs = rate > 0 && rate <= 256 && width <= 32 ? rate * share * (double)width / 8 : 0;
    return status;
}

/* ---------------------------------------------------------------- the file */

/* Whether a <pci> is a GPU: NCCL's dumps mark it, its input files need not. */
static int nccl_is_gpu(const weiri_xml *xml, int element, const nccl_pci *pci)
{
    const unsigned base = pci->class_id >> 8;
    if (weiri_xml_find(xml, xml->elements[element].child, "gpu") >= 0)
        return 1;
    return !pci->vendor && (base == 0x03 || base == 0x12);
}

static weir_status nccl_check_address(const weiri_xml *xml, int element, nccl_bus *bus)
{
    const char *text = weiri_xml_value(xml, element, "busid");
    if (!text)
        return nccl_refuse(xml, element, "<pci> has no busid");
    if (!nccl_read_bus(text, bus) || bus->domain > 0xffff || bus->device > 0x1f ||
        bus->function > 7)
        return nccl_refuse(xml, element,
                           "<pci busid=\"%.40s\">: expected an address such as 0000:1b:00.0", text);
    return WEIR_OK;
}

/* Checks a <pci> and remembers it if it is a GPU. */
static weir_status nccl_take_pci(nccl_machine *machine, int element)
{
    const weiri_xml *xml = &machine->xml;
    nccl_pci *made = &machine->pcis[element];
    weir_status status = nccl_check_address(xml, element, &made->bus);
    if (!status)
        status = nccl_class(xml, element, &made->class_id);
    if (!status)
        status = nccl_pcie(xml, element, &made->pcie_gbs);
    if (!status)
        status = nccl_number(xml, element, "vendor", 0, 0xffff, 0, &made->vendor);
    if (!status)
        status = nccl_number(xml, element, "device", 0, 0xffff, 0, &made->device);
    made->is_switch = weiri_xml_find(xml, xml->elements[element].child, "pci") >= 0;
    made->is_gpu = !made->is_switch && nccl_is_gpu(xml, element, made);
    if (!status && made->is_gpu && machine->ngpus == GPUS_MOST)
        return nccl_refuse(xml, element, "more than %d GPUs", GPUS_MOST);
    if (!status && made->is_gpu)
        machine->gpus[machine->ngpus++] = element;
    return status;
}

static int nccl_depth(const weiri_xml *xml, int element)
{
    int depth = 0;
    for (; element >= 0; element = xml->elements[element].parent)
        depth++;
    return depth;
}

/* Elements stand in the order of the file, a parent before its children. */
static weir_status nccl_take_devices(nccl_machine *machine)
{
    const weiri_xml *xml = &machine->xml;
    weir_status status = WEIR_OK;
    for (int i = 0; !status && i < xml->nelements; i++) {
        if (strcmp(xml->elements[i].name, "pci") != 0)
            continue;
        if (nccl_depth(xml, i) > DEPTH_MOST)
            return nccl_refuse(xml, i, "<pci> is nested more than %d deep", DEPTH_MOST);
        status = nccl_take_pci(machine, i);
    }
    return status;
}

static int nccl_compare_buses(const void *left, const void *right)
{
    const nccl_bus *a = &(*(nccl_pci *const *)left)->bus, *b = &(*(nccl_pci *const *)right)->bus;
    const unsigned long long x =
        (unsigned long long)a->domain << 24 | a->bus << 16 | a->device << 8 | a->function;
    const unsigned long long y =
        (unsigned long long)b->domain << 24 | b->bus << 16 | b->device << 8 | b->function;
    return (x > y) - (x < y);
}

/* A device stands at one place: below itself or below two others, it would close a loop. */
static weir_status nccl_check_unique(nccl_machine *machine)
{
    const weiri_xml *xml = &machine->xml;
    nccl_pci **sorted = calloc((size_t)xml->nelements, sizeof *sorted);
    int count = 0;
    weir_status status = WEIR_OK;
    if (!sorted)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d devices", xml->nelements);
    for (int i = 0; i < xml->nelements; i++)
        if (strcmp(xml->elements[i].name, "pci") == 0)
            sorted[count++] = &machine->pcis[i];
    qsort(sorted, (size_t)count, sizeof *sorted, nccl_compare_buses);
    for (int i = 1; !status && i < count; i++)
        if (nccl_compare_buses(&sorted[i - 1], &sorted[i]) == 0) {
            const int one = (int)(sorted[i - 1] - machine->pcis),
                      other = (int)(sorted[i] - machine->pcis);
            status = nccl_refuse(
                xml, one > other ? one : other, "the device %s is already on line %d",
                weiri_xml_value(xml, one, "busid"), xml->elements[one < other ? one : other].line);
        }
    free(sorted);
    return status;
}

/* "0000ffff,ffffffff": words of 32 bits, the highest first. Empty without the attribute. */
static weir_status nccl_take_affinity(nccl_machine *machine, int element, hwloc_bitmap_t *cpus)
{
    const weiri_xml *xml = &machine->xml;
    const char *text = weiri_xml_value(xml, element, "affinity");
    *cpus = hwloc_bitmap_alloc();
    if (!*cpus)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
    if (!text)
        return WEIR_OK;
    if (strspn(text, "0123456789abcdefABCDEF,") != strlen(text) ||
        strlen(text) > AFFINITY_CPUS_MOST / 32 * 9)
        return nccl_refuse(xml, element,
                           "<cpu affinity=\"%.40s\">: expected a mask such as 0000ffff,ffffffff",
                           text);
    if (hwloc_bitmap_sscanf(*cpus, text) != 0 || hwloc_bitmap_iszero(*cpus))
        return nccl_refuse(xml, element, "<cpu affinity=\"%.40s\"> has no cpu", text);
    if (hwloc_bitmap_intersects(*cpus, machine->all))
        return nccl_refuse(xml, element, "<cpu affinity=\"%.40s\"> has cpus of another <cpu>",
                           text);
    hwloc_bitmap_or(machine->all, machine->all, *cpus);
    return WEIR_OK;
}

/* NCCL writes numaid -1 where the system has no NUMA nodes; the number is then the <cpu>'s. */
static weir_status nccl_take_cpu(nccl_machine *machine, int element)
{
    const weiri_xml *xml = &machine->xml;
    const char *host = weiri_xml_value(xml, element, "host_hash");
    if (machine->ncpus == CPUS_MOST)
        return nccl_refuse(xml, element, "more than %d <cpu>", CPUS_MOST);
    nccl_cpu *made = &machine->cpus[machine->ncpus];
    weir_status status = nccl_number(xml, element, "numaid", -1, 1023, -1, &made->numa);
    if (status)
        return status;
    if (made->numa < 0)
        made->numa = machine->ncpus;
    const char *first =
        machine->ncpus ? weiri_xml_value(xml, machine->cpus[0].element, "host_hash") : host;
    if (host && first && strcmp(host, first) != 0)
        return nccl_refuse(xml, element,
                           "the file describes several hosts; make one of a job on one host");
    for (int i = 0; i < machine->ncpus; i++)
        if (machine->cpus[i].numa == made->numa)
            return nccl_refuse(xml, element, "a second <cpu numaid=\"%ld\">", made->numa);
    made->element = element;
    machine->ncpus++; /* to be freed even if the next step fails */
    return nccl_take_affinity(machine, element, &made->cpus);
}

/* NCCL writes no affinity where the system does not list a node's hardware threads (virtual
 * machines without NUMA nodes), and does not miss it. hwloc needs one: an invented one, beyond all
 * others. */
static void nccl_invent_affinity(nccl_machine *machine)
{
    for (int i = 0; i < machine->ncpus; i++)
        if (hwloc_bitmap_iszero(machine->cpus[i].cpus)) {
            const unsigned next = (unsigned)(hwloc_bitmap_last(machine->all) + 1);
            hwloc_bitmap_set(machine->cpus[i].cpus, next);
            hwloc_bitmap_set(machine->all, next);
            machine->hides_threads = 1;
        }
}

static int nccl_compare_cpus(const void *left, const void *right)
{
    const nccl_cpu *a = left, *b = right;
    return hwloc_bitmap_compare_first(a->cpus, b->cpus);
}

static weir_status nccl_take_cpus(nccl_machine *machine)
{
    const weiri_xml *xml = &machine->xml;
    weir_status status = WEIR_OK;
    if (strcmp(xml->elements[0].name, "graphs") == 0)
        return nccl_refuse(
            xml, 0,
            "these are NCCL's graphs, which --nccl-graph FILE shows; expected a machine "
            "(NCCL_TOPO_DUMP_FILE)");
    if (strcmp(xml->elements[0].name, "system") != 0)
        return nccl_refuse(
            xml, 0, "<%.40s> is not NCCL's description of a machine, which begins with <system>",
            xml->elements[0].name);
    machine->all = hwloc_bitmap_alloc();
    if (!machine->all)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
    int cpu = weiri_xml_find(xml, xml->elements[0].child, "cpu");
    if (cpu < 0)
        return nccl_refuse(xml, 0, "<system> has no <cpu>");
    for (; !status && cpu >= 0; cpu = weiri_xml_find(xml, xml->elements[cpu].next, "cpu"))
        status = nccl_take_cpu(machine, cpu);
    if (status)
        return status;
    nccl_invent_affinity(machine);
    /* hwloc expects the order of hardware threads */
    qsort(machine->cpus, (size_t)machine->ncpus, sizeof *machine->cpus, nccl_compare_cpus);
    return WEIR_OK;
}

/* ------------------------------------------------------------ links of GPUs */

/* GB/s of a link in one direction, by compute capability or AMD's architecture. */
static double nccl_link_gbs(const weiri_xml *xml, int gpu, int is_xgmi)
{
    const char *gcn = weiri_xml_value(xml, gpu, "gcn"), *sm = weiri_xml_value(xml, gpu, "sm");
    if (is_xgmi) {
        const char *name = !gcn ? "" : strncmp(gcn, "gfx", 3) == 0 ? gcn + 3 : gcn;
        return strncmp(name, "95", 2) == 0                                    ? 76.8
               : strncmp(name, "94", 2) == 0                                  ? 64
               : strncmp(name, "906", 3) == 0 || strncmp(name, "908", 3) == 0 ? 46
                                                                              : 50;
    }
    return weiri_nvlink_gbs(sm ? atoi(sm) : 0);
}

double weiri_nvlink_gbs(int capability)
{
    return capability == 60                        ? 20
           : capability == 86 || capability == 89  ? 14.0625
           : capability >= 100 && capability < 120 ? 50
                                                   : 25;
}

static int nccl_gpu_at(const nccl_machine *machine, const nccl_bus *bus)
{
    for (int i = 0; i < machine->ngpus; i++)
        if (nccl_same_device(&machine->pcis[machine->gpus[i]].bus, bus))
            return i;
    return -1;
}

/* What stands for an NVSwitch that a virtual machine does not see. */
static const char hidden_switch[] = "fffffff:ffff:ff";

/* Adds a link's bandwidth: to the other GPU, or to the switches. Links to processors, to GPUs that
 * the file does not list, and to the GPU itself are left out; the last are in files for virtual
 * machines, whose links lead to nobody. */
static weir_status nccl_take_link(nccl_machine *machine, int from, int gpu, int link)
{
    const weiri_xml *xml = &machine->xml;
    const char *target = weiri_xml_value(xml, link, "target");
    const char *kind = weiri_xml_value(xml, link, "tclass");
    nccl_bus bus;
    long count;
    weir_status status = nccl_number(xml, link, "count", 0, 1024, 1, &count);
    if (status)
        return status;
    if (target && strcmp(target, hidden_switch) == 0)
        bus = (nccl_bus){UINT_MAX, 0xff, 0xff, 0xf};
    else if (!nccl_read_bus(target, &bus))
        return nccl_refuse(xml, link,
                           "<%.20s target=\"%.40s\">: expected an address such as 0000:1b:00.0",
                           xml->elements[link].name, target ? target : "");
    const int to = nccl_gpu_at(machine, &bus);
    const double gbs =
        (double)count * nccl_link_gbs(xml, gpu, strcmp(xml->elements[link].name, "xgmi") == 0);
    if (to >= 0 && to != from)
        machine->direct_gbs[from * machine->ngpus + to] += gbs;
    else if (to < 0 && kind && strncmp(kind, "0x0680", 6) == 0 && strncmp(kind, "0x068001", 8) != 0)
        machine->switch_gbs[from] += gbs;
    return WEIR_OK;
}

static weir_status nccl_take_links(nccl_machine *machine)
{
    const weiri_xml *xml = &machine->xml;
    const size_t n = (size_t)machine->ngpus + 1;
    weir_status status = WEIR_OK;
    machine->direct_gbs = calloc(n * n, sizeof *machine->direct_gbs);
    machine->switch_gbs = calloc(n, sizeof *machine->switch_gbs);
    if (!machine->direct_gbs || !machine->switch_gbs)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d GPUs' links", machine->ngpus);
    for (int i = 0; i < machine->ngpus; i++) {
        /* Parts of one GPU list the same links. */
        const int gpu = weiri_xml_find(xml, xml->elements[machine->gpus[i]].child, "gpu");
        for (int link = gpu < 0 ? -1 : xml->elements[gpu].child; !status && link >= 0;
             link = xml->elements[link].next)
            if (strcmp(xml->elements[link].name, "nvlink") == 0 ||
                strcmp(xml->elements[link].name, "xgmi") == 0)
                status = nccl_take_link(machine, i, gpu, link);
    }
    return status;
}

double weiri_nccl_link_gbs(const nccl_machine *machine, int from, int to)
{
    const double switched = fmin(machine->switch_gbs[from], machine->switch_gbs[to]);
    return from == to ? 0 : machine->direct_gbs[from * machine->ngpus + to] + switched;
}

/* -------------------------------------------------------------------- whole */

void weiri_nccl_free(nccl_machine *machine)
{
    for (int i = 0; i < machine->ncpus; i++)
        hwloc_bitmap_free(machine->cpus[i].cpus);
    hwloc_bitmap_free(machine->all);
    free(machine->cpus);
    free(machine->pcis);
    free(machine->gpus);
    free(machine->direct_gbs);
    free(machine->switch_gbs);
    weiri_xml_free(&machine->xml);
}

static weir_status nccl_take(nccl_machine *machine)
{
    machine->cpus = calloc(CPUS_MOST, sizeof *machine->cpus);
    machine->gpus = calloc(GPUS_MOST, sizeof *machine->gpus);
    machine->pcis = calloc((size_t)machine->xml.nelements, sizeof *machine->pcis);
    if (!machine->cpus || !machine->gpus || !machine->pcis)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d elements", machine->xml.nelements);
    weir_status status = nccl_take_cpus(machine);
    if (!status)
        status = nccl_take_devices(machine);
    if (!status)
        status = nccl_check_unique(machine);
    return status ? status : nccl_take_links(machine);
}

weir_status weiri_nccl_read(const char *path, nccl_machine *machine)
{
    *machine = (nccl_machine){0};
    weir_status status = weiri_xml_read(path, &machine->xml);
    if (!status)
        status = nccl_take(machine);
    if (status)
        weiri_nccl_free(machine);
    return status;
}
