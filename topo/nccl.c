/*
 * Reads NCCL's description of a machine (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE; RCCL's has the same
 * form) as a topology: writes it as hwloc XML, which is then loaded like a recording. A <cpu>
 * becomes a package with a NUMA node, a <pci> with others below it a PCIe switch, any other <pci> a
 * device. What NCCL leaves out stays unknown: root complexes (devices of a <cpu> share its NUMA
 * node at best), caches, which hardware threads share a core, memory.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/model.h"
#include "topo/nccl.h"

enum { CPUS_MOST = 256, GPUS_MOST = 512, DEPTH_MOST = 32, AFFINITY_CPUS_MOST = 16384 };

#define HEX_DIGITS "0123456789abcdefABCDEF"

const char *const weiri_nccl_facts[WEIRI_NCCL_FACTS][2] = {{"arch", "Architecture"},
                                                           {"vendor", "CPUVendor"},
                                                           {"familyid", "CPUFamilyNumber"},
                                                           {"modelid", "CPUModelNumber"}};

/* ------------------------------------------------------------------- values */

/* A PCI address. Domains of addresses that stand for an NVSwitch have more digits than PCI's. */
static int nccl_read_bus(const char *text, nccl_bus *bus)
{
    char rest;
    return text && strspn(text, HEX_DIGITS ":.") == strlen(text) && strlen(text) < 20 &&
           sscanf(text, "%x:%x:%x.%x%c", &bus->domain, &bus->bus, &bus->device, &bus->function,
                  &rest) == 4;
}

int weiri_nccl_address(const char *text, nccl_bus *bus)
{
    return nccl_read_bus(text, bus) && bus->domain <= 0xffff && bus->device <= 0x1f &&
           bus->function <= 7;
}

/* NCCL joins the functions of a device. */
static int nccl_same_device(const nccl_bus *a, const nccl_bus *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

static nccl_bus nccl_address(const weiri_xml_element *pci)
{
    const char *text = weiri_xml_value(pci, "busid");
    nccl_bus bus = {0};
    if (!text)
        weiri_xml_refuse(pci, "<pci> has no busid");
    else if (!weiri_nccl_address(text, &bus))
        weiri_xml_refuse(pci, "<pci busid=\"%.40s\">: expected an address such as 0000:1b:00.0",
                         text);
    return bus;
}

/* 0x0302 of "0x030200" and of "0x0302"; 0x0300 of "0x03". */
static unsigned nccl_class(const weiri_xml_element *pci)
{
    const char *text = weiri_xml_value(pci, "class");
    if (!text) {
        weiri_xml_refuse(pci,
                         "<pci> has no class: NCCL takes it from the machine that it runs on; add "
                         "one such as class=\"0x030200\" (a GPU) or 0x020000 (a NIC)");
        return 0;
    }
    const char *digits = strncmp(text, "0x", 2) == 0 ? text + 2 : text;
    const size_t length = strspn(digits, HEX_DIGITS);
    if (digits[length] || (length != 2 && length != 4 && length != 6))
        weiri_xml_refuse(pci, "<pci class=\"%.40s\">: expected a PCI class such as 0x030200", text);
    const unsigned value = (unsigned)strtoul(digits, NULL, 16);
    return length == 2 ? value << 8 : length == 4 ? value : value >> 8;
}

double weiri_nccl_pcie_gbs(double rate, long width)
{
    return rate * (rate < 8 ? 0.8 : rate < 64 ? 128. / 130 : 242. / 256) * (double)width / 8;
}

/* 0: unknown. Linux writes 255 for an unknown width. */
static double nccl_pcie(const weiri_xml_element *pci)
{
    const char *speed = weiri_xml_value(pci, "link_speed");
    const long width = weiri_xml_number(pci, "link_width", 0, 255, 0);
    const double rate = speed ? strtod(speed, NULL) : 0; /* "32.0 GT/s PCIe" */
    return rate > 0 && rate <= 256 && width <= 32 ? weiri_nccl_pcie_gbs(rate, width) : 0;
}

/* ---------------------------------------------------------------- the file */

nccl_pci *weiri_nccl_pci(const nccl_machine *machine, const weiri_xml_element *element)
{
    return &machine->pcis[element - machine->xml.elements];
}

/* Checks a <pci> and remembers it if it is a GPU: NCCL's dumps mark them, its input files need not.
 * Elements are in the order of the file, a parent before its children. */
static void nccl_take_pci(nccl_machine *machine, const weiri_xml_element *pci)
{
    nccl_pci *made = weiri_nccl_pci(machine, pci);
    made->bus = nccl_address(pci);
    made->low = made->high = made->bus.bus;
    made->class_id = nccl_class(pci);
    made->pcie_gbs = nccl_pcie(pci);
    made->vendor = weiri_xml_number(pci, "vendor", 0, 0xffff, 0);
    made->device = weiri_xml_number(pci, "device", 0, 0xffff, 0);
    made->gpu = weiri_xml_child(pci, "gpu");
    made->is_switch = weiri_xml_child(pci, "pci") != NULL;
    const int may_be_gpu =
        !made->vendor && (made->class_id >> 8 == 0x03 || made->class_id >> 8 == 0x12);
    made->is_gpu = !made->is_switch && (made->gpu || may_be_gpu);
    if (pci->parent)
        made->depth = weiri_nccl_pci(machine, pci->parent)->depth + 1;
    if (made->depth > DEPTH_MOST)
        weiri_xml_refuse(pci, "<pci> is nested more than %d deep", DEPTH_MOST);
    for (const weiri_xml_element *at = pci->parent; at && weiri_xml_is(at, "pci");
         at = at->parent) {
        nccl_pci *above = weiri_nccl_pci(machine, at);
        if (above->bus.domain != made->bus.domain)
            continue;
        above->low = made->bus.bus < above->low ? made->bus.bus : above->low;
        above->high = made->bus.bus > above->high ? made->bus.bus : above->high;
    }
    if (made->is_gpu && machine->ngpus == GPUS_MOST)
        weiri_xml_refuse(pci, "more than %d GPUs", GPUS_MOST);
    else if (made->is_gpu)
        machine->gpus[machine->ngpus++] = made;
}

/* A device stands at one place: below itself or below two others, it would close a loop. */
static void nccl_check_unique(const nccl_machine *machine, const weiri_xml_element *pci)
{
    const nccl_bus *bus = &weiri_nccl_pci(machine, pci)->bus;
    for (const weiri_xml_element *at = machine->xml.elements; at < pci; at++)
        if (memcmp(&weiri_nccl_pci(machine, at)->bus, bus, sizeof *bus) == 0 &&
            weiri_xml_is(at, "pci"))
            weiri_xml_refuse(pci, "the device %s is already on line %d",
                             weiri_xml_value(pci, "busid"), at->line);
}

/* "0000ffff,ffffffff": words of 32 bits, the highest first. Empty without the attribute. hwloc
 * reads beyond the end of an empty text. */
static void nccl_take_affinity(nccl_machine *machine, const nccl_cpu *cpu)
{
    const char *text = weiri_xml_value(cpu->element, "affinity");
    const char *problem = NULL;
    if (!text)
        return;
    if (strspn(text, HEX_DIGITS ",") != strlen(text) || strlen(text) > AFFINITY_CPUS_MOST / 32 * 9)
        problem = ": expected a mask such as 0000ffff,ffffffff";
    else if (!*text || hwloc_bitmap_sscanf(cpu->cpus, text) != 0 || hwloc_bitmap_iszero(cpu->cpus))
        problem = " has no cpu";
    else if (hwloc_bitmap_intersects(cpu->cpus, machine->all))
        problem = " has cpus of another <cpu>";
    if (problem)
        weiri_xml_refuse(cpu->element, "<cpu affinity=\"%.40s\">%s", text, problem);
    hwloc_bitmap_or(machine->all, machine->all, cpu->cpus);
}

/* NCCL writes numaid -1 where the system has no NUMA nodes; the number is then the <cpu>'s. */
static void nccl_take_cpu(nccl_machine *machine, const weiri_xml_element *cpu)
{
    const char *host = weiri_xml_value(cpu, "host_hash");
    const char *first =
        machine->ncpus ? weiri_xml_value(machine->cpus[0].element, "host_hash") : NULL;
    if (machine->ncpus == CPUS_MOST) {
        weiri_xml_refuse(cpu, "more than %d <cpu>", CPUS_MOST);
        return;
    }
    nccl_cpu *made = &machine->cpus[machine->ncpus];
    made->element = cpu;
    made->numa = weiri_xml_number(cpu, "numaid", -1, 1023, -1);
    if (made->numa < 0)
        made->numa = machine->ncpus;
    made->cpus = hwloc_bitmap_alloc();
    if (!made->cpus) {
        machine->xml.status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a set of cpus");
        return;
    }
    machine->ncpus++;
    if (host && first && strcmp(host, first) != 0)
        weiri_xml_refuse(cpu, "the file describes several hosts; make one of a job on one host");
    for (const nccl_cpu *other = machine->cpus; other < made; other++)
        if (other->numa == made->numa)
            weiri_xml_refuse(cpu, "a second <cpu numaid=\"%ld\">", made->numa);
    nccl_take_affinity(machine, made);
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

static void nccl_take_cpus(nccl_machine *machine)
{
    const weiri_xml_element *root = machine->xml.elements, *cpu = weiri_xml_child(root, "cpu");
    if (weiri_xml_is(root, "graphs"))
        weiri_xml_refuse(root, "these are NCCL's graphs, which --nccl-graph FILE shows; expected a "
                               "machine (NCCL_TOPO_DUMP_FILE)");
    if (!weiri_xml_is(root, "system"))
        weiri_xml_refuse(
            root, "<%.40s> is not NCCL's description of a machine, which begins with <system>",
            root->words[0]);
    if (!cpu)
        weiri_xml_refuse(root, "<system> has no <cpu>");
    for (; cpu && !machine->xml.status; cpu = weiri_xml_find(cpu->next, "cpu"))
        nccl_take_cpu(machine, cpu);
    nccl_invent_affinity(machine);
    /* hwloc expects the order of hardware threads */
    qsort(machine->cpus, (size_t)machine->ncpus, sizeof *machine->cpus, nccl_compare_cpus);
}

/* ------------------------------------------------------------ links of GPUs */

/* GB/s of a link in one direction, by compute capability or AMD's architecture. */
static double nccl_link_gbs(const weiri_xml_element *gpu, int is_xgmi)
{
    const char *gcn = weiri_xml_value(gpu, "gcn"), *sm = weiri_xml_value(gpu, "sm");
    if (!is_xgmi)
        return weiri_nvlink_gbs(sm ? atoi(sm) : 0);
    const char *name = !gcn ? "" : strncmp(gcn, "gfx", 3) == 0 ? gcn + 3 : gcn;
    return strncmp(name, "95", 2) == 0                                    ? 76.8
           : strncmp(name, "94", 2) == 0                                  ? 64
           : strncmp(name, "906", 3) == 0 || strncmp(name, "908", 3) == 0 ? 46
                                                                          : 50;
}

double weiri_nvlink_gbs(int capability)
{
    return capability == 60                        ? 20
           : capability == 86 || capability == 89  ? 14.0625
           : capability >= 100 && capability < 120 ? 50
                                                   : 25;
}

const weiri_xml_element *weiri_nccl_link(const weiri_xml_element *element)
{
    while (element && !weiri_xml_is(element, "nvlink") && !weiri_xml_is(element, "xgmi"))
        element = element->next;
    return element;
}

static int nccl_gpu_at(const nccl_machine *machine, const nccl_bus *bus)
{
    int i = 0;
    while (i < machine->ngpus && !nccl_same_device(&machine->gpus[i]->bus, bus))
        i++;
    return i < machine->ngpus ? i : -1;
}

/* What stands for an NVSwitch that a virtual machine does not see. */
static const char hidden_switch[] = "fffffff:ffff:ff";

/* Adds a link's bandwidth: to the other GPU, or to the switches. Links to processors, to GPUs that
 * the file does not list, and to the GPU itself are left out; the last are in files for virtual
 * machines, whose links lead to nobody. */
static void nccl_take_link(nccl_machine *machine, int from, const weiri_xml_element *link)
{
    const char *target = weiri_xml_value(link, "target");
    const char *kind = weiri_xml_value(link, "tclass");
    const long count = weiri_xml_number(link, "count", 0, 1024, 1);
    nccl_bus bus = {UINT_MAX, 0xff, 0xff, 0xf};
    if (!target || (strcmp(target, hidden_switch) != 0 && !nccl_read_bus(target, &bus)))
        weiri_xml_refuse(link, "<%.20s target=\"%.40s\">: expected an address such as 0000:1b:00.0",
                         link->words[0], target ? target : "");
    const int to = nccl_gpu_at(machine, &bus);
    const double gbs = (double)count * nccl_link_gbs(link->parent, weiri_xml_is(link, "xgmi"));
    if (to >= 0 && to != from)
        machine->direct_gbs[from * machine->ngpus + to] += gbs;
    else if (to < 0 && kind && strncmp(kind, "0x0680", 6) == 0 && strncmp(kind, "0x068001", 8) != 0)
        machine->switch_gbs[from] += gbs;
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
    const weiri_xml *xml = &machine->xml;
    machine->all = hwloc_bitmap_alloc();
    machine->cpus = calloc(CPUS_MOST, sizeof *machine->cpus);
    machine->gpus = calloc(GPUS_MOST, sizeof *machine->gpus);
    machine->pcis = calloc((size_t)xml->nelements, sizeof *machine->pcis);
    machine->direct_gbs = calloc(GPUS_MOST * GPUS_MOST, sizeof *machine->direct_gbs);
    machine->switch_gbs = calloc(GPUS_MOST, sizeof *machine->switch_gbs);
    if (!machine->all || !machine->cpus || !machine->gpus || !machine->pcis ||
        !machine->direct_gbs || !machine->switch_gbs)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d elements", xml->nelements);
    nccl_take_cpus(machine);
    for (int i = 0; i < xml->nelements && !xml->status; i++)
        if (weiri_xml_is(&xml->elements[i], "pci"))
            nccl_take_pci(machine, &xml->elements[i]);
    for (int i = 0; i < xml->nelements && !xml->status; i++)
        if (weiri_xml_is(&xml->elements[i], "pci"))
            nccl_check_unique(machine, &xml->elements[i]);
    for (int i = 0; i < machine->ngpus && !xml->status; i++)
        for (const weiri_xml_element *link =
                 machine->gpus[i]->gpu ? weiri_nccl_link(machine->gpus[i]->gpu->child) : NULL;
             link; link = weiri_nccl_link(link->next))
            nccl_take_link(machine, i, link);
    return xml->status;
}

weir_status weiri_nccl_read(const char *path, nccl_machine *machine)
{
    *machine = (nccl_machine){0};
    const weir_status status = weiri_xml_read(path, &machine->xml);
    return status ? status : nccl_take(machine);
}
