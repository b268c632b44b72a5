/* Writes NCCL's description of a machine as hwloc XML (version 2). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "programs/xml.h"
#include "topo/model.h"
#include "topo/nccl.h"

/* Numbers of objects: hwloc's running number of a PCI device follows from its element. */
enum { FIRST_PCI = 1 << 21, FIRST_OTHER = 1 << 22 };

typedef struct nccl_writer {
    const nccl_machine *machine;
    FILE *to;
    int nnics; /* without a name in the file */
    int next;  /* running number of the next object without a fixed one */
} nccl_writer;

static void nccl_put_attribute(nccl_writer *writer, const char *name, const char *value)
{
    fprintf(writer->to, " %s=\"", name);
    weiri_xml_put(writer->to, value);
    fputc('"', writer->to);
}

static void nccl_put_info(nccl_writer *writer, const char *name, const char *value)
{
    fputs("<info", writer->to);
    nccl_put_attribute(writer, "name", name);
    nccl_put_attribute(writer, "value", value);
    fputs("/>\n", writer->to);
}

static void nccl_put_set(nccl_writer *writer, const char *name, hwloc_const_bitmap_t set)
{
    char *text;
    if (hwloc_bitmap_asprintf(&text, set) < 0)
        return;
    fprintf(writer->to, " %s=\"%s\" complete_%s=\"%s\"", name, text, name, text);
    free(text);
}

static void nccl_open(nccl_writer *writer, const char *type, long number, hwloc_const_bitmap_t cpus,
                      hwloc_const_bitmap_t nodes)
{
    fprintf(writer->to, "<object type=\"%s\" os_index=\"%ld\" gp_index=\"%d\"", type, number,
            FIRST_OTHER + writer->next++);
    nccl_put_set(writer, "cpuset", cpus);
    nccl_put_set(writer, "nodeset", nodes);
}

/* ------------------------------------------------------------------ devices */

/* The lowest and the highest bus below an element, itself included, in the domain of its first
 * device. */
static void nccl_buses(const nccl_machine *machine, int element, unsigned *domain, unsigned *low,
                       unsigned *high)
{
    const weiri_xml *xml = &machine->xml;
    for (int i = element; i < xml->nelements; i++) {
        int above = i;
        while (above > element)
            above = xml->elements[above].parent;
        if (above != element)
            break; /* the elements below one follow it */
        const nccl_bus *bus = &machine->pcis[i].bus;
        if (strcmp(xml->elements[i].name, "pci") != 0)
            continue;
        if (i == element)
            *domain = bus->domain, *low = *high = bus->bus;
        if (bus->domain != *domain)
            continue;
        *low = bus->bus < *low ? bus->bus : *low;
        *high = bus->bus > *high ? bus->bus : *high;
    }
}

static void nccl_put_pci_attributes(nccl_writer *writer, const nccl_pci *pci, unsigned class_id)
{
    fprintf(writer->to,
            " pci_busid=\"%04x:%02x:%02x.%x\" pci_type=\"%04x [%04lx:%04lx] [0000:0000] 00\" "
            "pci_link_speed=\"%f\"",
            pci->bus.domain, pci->bus.bus, pci->bus.device, pci->bus.function, class_id,
            (unsigned long)pci->vendor, (unsigned long)pci->device, pci->pcie_gbs);
}

/* Speed and lanes as the file has them. */
static void nccl_put_pcie(nccl_writer *writer, int element)
{
    const weiri_xml *xml = &writer->machine->xml;
    const char *speed = weiri_xml_value(xml, element, "link_speed");
    const char *width = weiri_xml_value(xml, element, "link_width");
    char text[64];
    if (writer->machine->pcis[element].pcie_gbs <= 0)
        return;
    snprintf(text, sizeof text, "%.40s x%.10s", speed, width);
    nccl_put_info(writer, WEIRI_TOPO_INFO_PCIE, text);
}

/* The links of a GPU as the file has them; "-" is an unknown class. */
static void nccl_put_known_links(nccl_writer *writer, int gpu)
{
    const weiri_xml *xml = &writer->machine->xml;
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    for (int link = xml->elements[gpu].child; to && link >= 0; link = xml->elements[link].next) {
        const char *count = weiri_xml_value(xml, link, "count");
        const char *class_id = weiri_xml_value(xml, link, "tclass");
        const int digits = class_id ? (int)strspn(class_id, "0123456789abcdefx") : 0;
        if (strcmp(xml->elements[link].name, "nvlink") == 0 ||
            strcmp(xml->elements[link].name, "xgmi") == 0)
            fprintf(to, "%s %s %ld %.*s;", xml->elements[link].name,
                    weiri_xml_value(xml, link, "target"),
                    count && *count ? strtol(count, NULL, strncmp(count, "0x", 2) ? 10 : 16) : 1,
                    digits > 8 ? 8
                    : digits   ? digits
                               : 1,
                    digits ? class_id : "-");
    }
    if (to && fclose(to) == 0 && *text)
        nccl_put_info(writer, WEIRI_TOPO_INFO_LINKS, text);
    free(text);
}

static void nccl_put_bridge(nccl_writer *writer, int element, int is_host, int depth)
{
    unsigned domain = 0, low = 0, high = 0;
    nccl_buses(writer->machine, element, &domain, &low, &high);
    fprintf(writer->to,
            "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"%s\" depth=\"%d\" "
            "bridge_pci=\"%04x:[%02x-%02x]\"",
            FIRST_OTHER + writer->next++, is_host ? "0-1" : "1-1", depth, domain, low, high);
    if (!is_host)
        nccl_put_pci_attributes(writer, &writer->machine->pcis[element], 0x0604);
    fputs(">\n", writer->to);
    if (!is_host) {
        nccl_put_info(writer, WEIRI_TOPO_INFO_SWITCH, "1");
        nccl_put_pcie(writer, element);
    }
}

/* 1 if no other GPU of the file has this number: in dumps of processes that each see one GPU all
 * are number 0. */
static int nccl_has_own_number(const nccl_machine *machine, const char *number)
{
    const weiri_xml *xml = &machine->xml;
    int count = 0;
    for (int i = 0; i < machine->ngpus; i++) {
        const int gpu = weiri_xml_find(xml, xml->elements[machine->gpus[i]].child, "gpu");
        const char *other = gpu >= 0 ? weiri_xml_value(xml, gpu, "dev") : NULL;
        count += other && strcmp(other, number) == 0;
    }
    return count == 1;
}

static void nccl_put_gpu(nccl_writer *writer, int element)
{
    const weiri_xml *xml = &writer->machine->xml;
    const int gpu = weiri_xml_find(xml, xml->elements[element].child, "gpu");
    nccl_put_info(writer, WEIRI_TOPO_INFO_COMPUTE, "1");
    if (gpu < 0)
        return;
    const char *sm = weiri_xml_value(xml, gpu, "sm"), *gcn = weiri_xml_value(xml, gpu, "gcn");
    const char *number = weiri_xml_value(xml, gpu, "dev");
    char text[64];
    if (gcn)
        snprintf(text, sizeof text, "AMD GPU gfx%.20s",
                 strncmp(gcn, "gfx", 3) == 0 ? gcn + 3 : gcn);
    else
        snprintf(text, sizeof text, "NVIDIA GPU sm_%.10s", sm ? sm : "unknown");
    nccl_put_info(writer, WEIRI_TOPO_INFO_MODEL, text);
    if (sm)
        nccl_put_info(writer, WEIRI_TOPO_INFO_SM, sm);
    nccl_put_known_links(writer, gpu);
    if (gcn || !number || !nccl_has_own_number(writer->machine, number))
        return;
    snprintf(text, sizeof text, "cuda%.10s", number);
    fprintf(writer->to, "<object type=\"OSDev\" gp_index=\"%d\" subtype=\"CUDA\" osdev_type=\"5\"",
            FIRST_OTHER + writer->next++);
    nccl_put_attribute(writer, "name", text);
    fputs("/>\n", writer->to);
}

/* NCCL lists ports that are up. Those of sockets have number 0. */
static void nccl_put_net(nccl_writer *writer, int net)
{
    const weiri_xml *xml = &writer->machine->xml;
    const char *name = weiri_xml_value(xml, net, "name"), *port = weiri_xml_value(xml, net, "port");
    const char *speed = weiri_xml_value(xml, net, "speed"); /* Mbit/s */
    const double gbits = speed ? strtod(speed, NULL) / 1000 : 0;
    char text[32];
    if (!name)
        return;
    fprintf(writer->to, "<object type=\"OSDev\" gp_index=\"%d\" osdev_type=\"%d\"",
            FIRST_OTHER + writer->next++, port && atoi(port) > 0 ? 3 : 2);
    nccl_put_attribute(writer, "name", name);
    fputs(">\n", writer->to);
    nccl_put_info(writer, WEIRI_TOPO_INFO_LINK_STATE, "up");
    snprintf(text, sizeof text, "%g", gbits);
    if (gbits > 0 && gbits <= 10000) /* some plug-ins count other units */
        nccl_put_info(writer, WEIRI_TOPO_INFO_LINK_GBITS, text);
    fputs("</object>\n", writer->to);
}

static void nccl_put_device(nccl_writer *writer, int element)
{
    const weiri_xml *xml = &writer->machine->xml;
    const nccl_pci *pci = &writer->machine->pcis[element];
    fprintf(writer->to, "<object type=\"PCIDev\" gp_index=\"%d\"", FIRST_PCI + element);
    const int is_known = pci->class_id >> 8 == 0x03 || pci->class_id >> 8 == 0x12;
    nccl_put_pci_attributes(writer, pci, pci->is_gpu && !is_known ? 0x1200 : pci->class_id);
    fputs(">\n", writer->to);
    nccl_put_pcie(writer, element);
    if (pci->is_gpu)
        nccl_put_gpu(writer, element);
    const int nic = weiri_xml_find(xml, xml->elements[element].child, "nic");
    for (int net = nic < 0 ? -1 : weiri_xml_find(xml, xml->elements[nic].child, "net"); net >= 0;
         net = weiri_xml_find(xml, xml->elements[net].next, "net"))
        nccl_put_net(writer, net);
    if (nic < 0 && pci->class_id >> 8 == 0x02) /* NCCL's input files do not name it */
        fprintf(writer->to,
                "<object type=\"OSDev\" gp_index=\"%d\" osdev_type=\"%d\" name=\"nic%d\"/>\n",
                FIRST_OTHER + writer->next++, pci->class_id == 0x0207 ? 3 : 2, writer->nnics++);
    fputs("</object>\n", writer->to);
}

/* Recursion ends at the depth that nccl.c allows. */
static void nccl_put_pcis(nccl_writer *writer, int first, int depth)
{
    const weiri_xml *xml = &writer->machine->xml;
    for (int i = weiri_xml_find(xml, first, "pci"); i >= 0;
         i = weiri_xml_find(xml, xml->elements[i].next, "pci")) {
        if (depth == 0)
            nccl_put_bridge(writer, i, 1, 0);
        if (writer->machine->pcis[i].is_switch) {
            nccl_put_bridge(writer, i, 0, depth + 1);
            nccl_put_pcis(writer, xml->elements[i].child, depth + 1);
            fputs("</object>\n", writer->to);
        } else {
            nccl_put_device(writer, i);
        }
        if (depth == 0)
            fputs("</object>\n", writer->to);
    }
}

/* -------------------------------------------------------------- the machine */

static void nccl_put_processor(nccl_writer *writer, int cpu)
{
    static const char *const facts[][2] = {{"arch", "Architecture"},
                                           {"vendor", "CPUVendor"},
                                           {"familyid", "CPUFamilyNumber"},
                                           {"modelid", "CPUModelNumber"}};
    const weiri_xml *xml = &writer->machine->xml;
    const char *vendor = weiri_xml_value(xml, cpu, "vendor");
    const char *family = weiri_xml_value(xml, cpu, "familyid");
    const char *model = weiri_xml_value(xml, cpu, "modelid");
    const char *arch = weiri_xml_value(xml, cpu, "arch");
    char text[160];
    if (!vendor && !arch)
        return;
    snprintf(text, sizeof text, "%.40s%s%.20s%s%.20s", vendor ? vendor : arch,
             family ? " family " : "", family ? family : "", model ? " model " : "",
             model ? model : "");
    nccl_put_info(writer, "CPUModel", text);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (weiri_xml_value(xml, cpu, facts[i][0]))
            nccl_put_info(writer, facts[i][1], weiri_xml_value(xml, cpu, facts[i][0]));
}

static void nccl_put_cpu(nccl_writer *writer, int index)
{
    const nccl_cpu *cpu = &writer->machine->cpus[index];
    hwloc_bitmap_t node = hwloc_bitmap_alloc(), one = hwloc_bitmap_alloc();
    hwloc_bitmap_only(node, (unsigned)cpu->numa);
    nccl_open(writer, "Package", index, cpu->cpus, node);
    fputs(">\n", writer->to);
    nccl_put_processor(writer, cpu->element);
    nccl_open(writer, "NUMANode", cpu->numa, cpu->cpus, node);
    fputs(" local_memory=\"0\"/>\n", writer->to);
    for (int pu = hwloc_bitmap_first(cpu->cpus); pu >= 0; pu = hwloc_bitmap_next(cpu->cpus, pu)) {
        hwloc_bitmap_only(one, (unsigned)pu);
        nccl_open(writer, "PU", pu, one, node);
        fputs("/>\n", writer->to);
    }
    nccl_put_pcis(writer, writer->machine->xml.elements[cpu->element].child, 0);
    fputs("</object>\n", writer->to);
    hwloc_bitmap_free(node);
    hwloc_bitmap_free(one);
}

static void nccl_put_counted(FILE *to, const char *tag, const char *text)
{
    fprintf(to, "<%s length=\"%zu\">%s</%s>\n", tag, strlen(text), text, tag);
}

/* In MB/s, as hwloc reports NVLink; a GPU's own value is large. */
static void nccl_put_links(nccl_writer *writer)
{
    const nccl_machine *machine = writer->machine;
    const int n = machine->ngpus;
    double most = 0;
    for (int i = 0; i < n * n; i++)
        most += weiri_nccl_link_gbs(machine, i / n, i % n);
    if (n < 2 || most <= 0)
        return;
    fprintf(writer->to,
            "<distances2 type=\"PCIDev\" nbobjs=\"%d\" kind=\"9\" "
            "name=\"NVLinkBandwidth\" indexing=\"gp\">\n",
            n);
    for (int i = 0; i < n; i++) {
        char text[24];
        snprintf(text, sizeof text, "%d", FIRST_PCI + machine->gpus[i]);
        nccl_put_counted(writer->to, "indexes", text);
    }
    for (int i = 0; i < n * n; i++) {
        char text[40];
        snprintf(text, sizeof text, "%.0f",
                 i / n == i % n ? 1e6 : 1000 * weiri_nccl_link_gbs(machine, i / n, i % n));
        nccl_put_counted(writer->to, "u64values", text);
    }
    fputs("</distances2>\n", writer->to);
}

static void nccl_write(const nccl_machine *machine, FILE *to)
{
    nccl_writer writer = {machine, to, 0, 1};
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    char *all = NULL, *allowed = NULL;
    for (int i = 0; i < machine->ncpus; i++)
        hwloc_bitmap_set(nodes, (unsigned)machine->cpus[i].numa);
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
          "<topology version=\"2.0\">\n",
          to);
    nccl_open(&writer, "Machine", 0, machine->all, nodes);
    if (hwloc_bitmap_asprintf(&all, machine->all) >= 0 &&
        hwloc_bitmap_asprintf(&allowed, nodes) >= 0)
        fprintf(to, " allowed_cpuset=\"%s\" allowed_nodeset=\"%s\"", all, allowed);
    free(all);
    free(allowed);
    fputs(">\n", to);
    nccl_put_info(&writer, WEIRI_TOPO_INFO_SOURCE, "NCCL");
    if (machine->hides_threads)
        nccl_put_info(&writer, WEIRI_TOPO_INFO_THREADS, "unknown");
    for (int i = 0; i < machine->ncpus; i++)
        nccl_put_cpu(&writer, i);
    fputs("</object>\n", to);
    nccl_put_links(&writer);
    fputs("</topology>\n", to);
    hwloc_bitmap_free(nodes);
}

weir_status weiri_nccl_translate(const char *path, char **xml, size_t *bytes)
{
    nccl_machine machine;
    const weir_status status = weiri_nccl_read(path, &machine);
    if (status)
        return status;
    FILE *to = open_memstream(xml, bytes);
    if (to)
        nccl_write(&machine, to);
    weiri_nccl_free(&machine);
    return to && fclose(to) == 0
               ? WEIR_OK
               : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to translate %s", path);
}
