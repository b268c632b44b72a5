/* Writes NCCL's description of a machine as hwloc XML (version 2). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/model.h"
#include "topo/nccl.h"

/* Numbers of objects: hwloc's running number of a PCI device follows from its element. */
enum { FIRST_PCI = 1 << 21, FIRST_OTHER = 1 << 22 };

/* hwloc's numbers. */
enum { OSDEV_NETWORK = 2, OSDEV_OPENFABRICS = 3, OSDEV_COPROC = 5 };

typedef struct nccl_writer {
    const nccl_machine *machine;
    FILE *to;
    int nnics; /* without a name in the file */
    int next;  /* running number of the next object without a fixed one */
} nccl_writer;

#define nccl_put_info(writer, name, ...)                                                           \
    (fprintf((writer)->to, "<info name=\"%s\"", name),                                             \
     weiri_xml_put_attribute((writer)->to, "value", __VA_ARGS__), fputs("/>\n", (writer)->to))

static void nccl_put_set(nccl_writer *writer, const char *name, hwloc_const_bitmap_t set)
{
    char *text = NULL;
    hwloc_bitmap_asprintf(&text, set);
    fprintf(writer->to, " %s=\"%s\"", name, text ? text : "");
    free(text);
}

static void nccl_open(nccl_writer *writer, const char *type, long number, hwloc_const_bitmap_t cpus,
                      hwloc_const_bitmap_t nodes)
{
    fprintf(writer->to, "<object type=\"%s\" os_index=\"%ld\" gp_index=\"%d\"", type, number,
            FIRST_OTHER + writer->next++);
    nccl_put_set(writer, "cpuset", cpus);
    nccl_put_set(writer, "complete_cpuset", cpus);
    nccl_put_set(writer, "nodeset", nodes);
    nccl_put_set(writer, "complete_nodeset", nodes);
}

/* ------------------------------------------------------------------ devices */

/* The attributes of a PCI device, and the speed and lanes of its link as the file has them. */
static void nccl_put_pci(nccl_writer *writer, const weiri_xml_element *element, unsigned class_id)
{
    const nccl_pci *pci = weiri_nccl_pci(writer->machine, element);
    fprintf(writer->to,
            " pci_busid=\"%04x:%02x:%02x.%x\" pci_type=\"%04x [%04lx:%04lx] [0000:0000] 00\" "
            "pci_link_speed=\"%f\">\n",
            pci->bus.domain, pci->bus.bus, pci->bus.device, pci->bus.function, class_id,
            (unsigned long)pci->vendor, (unsigned long)pci->device, pci->pcie_gbs);
    if (pci->pcie_gbs > 0)
        nccl_put_info(writer, WEIRI_TOPO_INFO_PCIE, "%.40s x%.10s",
                      weiri_xml_value(element, "link_speed"),
                      weiri_xml_value(element, "link_width"));
}

/* The links of a GPU as the file has them; "-" is an unknown class. */
static void nccl_put_known_links(nccl_writer *writer, const weiri_xml_element *gpu)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    for (const weiri_xml_element *link = weiri_nccl_link(gpu->child); to && link;
         link = weiri_nccl_link(link->next)) {
        const char *class_id = weiri_xml_value(link, "tclass");
        const int digits = class_id ? (int)strspn(class_id, "0123456789abcdefx") : 0;
        fprintf(to, "%s %s %ld %.*s;", link->words[0], weiri_xml_value(link, "target"),
                weiri_xml_number(link, "count", 0, 1024, 1),
                digits > 8 ? 8
                : digits   ? digits
                           : 1,
                digits ? class_id : "-");
    }
    if (to && fclose(to) == 0 && *text)
        nccl_put_info(writer, WEIRI_TOPO_INFO_LINKS, "%s", text);
    free(text);
}

static void nccl_put_bridge(nccl_writer *writer, const weiri_xml_element *element, int is_host)
{
    const nccl_pci *pci = weiri_nccl_pci(writer->machine, element);
    fprintf(writer->to,
            "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"%s\" depth=\"%d\" "
            "bridge_pci=\"%04x:[%02x-%02x]\"",
            FIRST_OTHER + writer->next++, is_host ? "0-1" : "1-1", is_host ? 0 : pci->depth,
            pci->bus.domain, pci->low, pci->high);
    if (is_host) {
        fputs(">\n", writer->to);
        return;
    }
    nccl_put_pci(writer, element, 0x0604);
    nccl_put_info(writer, WEIRI_TOPO_INFO_SWITCH, "1");
}

static void nccl_open_osdev(nccl_writer *writer, int type)
{
    fprintf(writer->to, "<object type=\"OSDev\" gp_index=\"%d\" osdev_type=\"%d\"",
            FIRST_OTHER + writer->next++, type);
}

/* 1 if no other GPU of the file has this number: in dumps of processes that each see one GPU all
 * are number 0. */
static int nccl_has_own_number(const nccl_machine *machine, const char *number)
{
    int count = 0;
    for (int i = 0; i < machine->ngpus; i++) {
        const char *other = weiri_xml_value(machine->gpus[i]->gpu, "dev");
        count += other && strcmp(other, number) == 0;
    }
    return count == 1;
}

static void nccl_put_gpu(nccl_writer *writer, const weiri_xml_element *gpu)
{
    const char *sm = weiri_xml_value(gpu, "sm"), *gcn = weiri_xml_value(gpu, "gcn");
    const char *number = weiri_xml_value(gpu, "dev");
    nccl_put_info(writer, WEIRI_TOPO_INFO_COMPUTE, "1");
    if (!gpu)
        return;
    if (gcn)
        nccl_put_info(writer, WEIRI_TOPO_INFO_MODEL, "AMD GPU gfx%.20s",
                      strncmp(gcn, "gfx", 3) == 0 ? gcn + 3 : gcn);
    else
        nccl_put_info(writer, WEIRI_TOPO_INFO_MODEL, "NVIDIA GPU sm_%.10s", sm ? sm : "unknown");
    if (sm)
        nccl_put_info(writer, WEIRI_TOPO_INFO_SM, "%s", sm);
    nccl_put_known_links(writer, gpu);
    if (gcn || !number || !nccl_has_own_number(writer->machine, number))
        return;
    nccl_open_osdev(writer, OSDEV_COPROC);
    weiri_xml_put_attribute(writer->to, "name", "cuda%.10s", number);
    fputs(" subtype=\"CUDA\"/>\n", writer->to);
}

/* NCCL lists ports that are up. Those of sockets have number 0. */
static void nccl_put_net(nccl_writer *writer, const weiri_xml_element *net)
{
    const char *name = weiri_xml_value(net, "name"), *port = weiri_xml_value(net, "port");
    const char *speed = weiri_xml_value(net, "speed"); /* Mbit/s */
    const double gbits = speed ? strtod(speed, NULL) / 1000 : 0;
    if (!name)
        return;
    nccl_open_osdev(writer, port && atoi(port) > 0 ? OSDEV_OPENFABRICS : OSDEV_NETWORK);
    weiri_xml_put_attribute(writer->to, "name", "%s", name);
    fputs(">\n", writer->to);
    nccl_put_info(writer, WEIRI_TOPO_INFO_LINK_STATE, "up");
    if (gbits > 0 && gbits <= 10000) /* some plug-ins count other units */
        nccl_put_info(writer, WEIRI_TOPO_INFO_LINK_GBITS, "%g", gbits);
    fputs("</object>\n", writer->to);
}

static void nccl_put_device(nccl_writer *writer, const weiri_xml_element *element)
{
    const nccl_pci *pci = weiri_nccl_pci(writer->machine, element);
    const weiri_xml_element *nic = weiri_xml_child(element, "nic");
    const int is_known = pci->class_id >> 8 == 0x03 || pci->class_id >> 8 == 0x12;
    fprintf(writer->to, "<object type=\"PCIDev\" gp_index=\"%d\"",
            FIRST_PCI + (int)(element - writer->machine->xml.elements));
    nccl_put_pci(writer, element, pci->is_gpu && !is_known ? 0x1200 : pci->class_id);
    if (pci->is_gpu)
        nccl_put_gpu(writer, pci->gpu);
    for (const weiri_xml_element *net = weiri_xml_child(nic, "net"); net;
         net = weiri_xml_find(net->next, "net"))
        nccl_put_net(writer, net);
    if (!nic && pci->class_id >> 8 == 0x02) { /* NCCL's input files do not name it */
        nccl_open_osdev(writer, pci->class_id == 0x0207 ? OSDEV_OPENFABRICS : OSDEV_NETWORK);
        fprintf(writer->to, " name=\"nic%d\"/>\n", writer->nnics++);
    }
    fputs("</object>\n", writer->to);
}

/* Recursion ends at the depth that nccl.c allows. */
static void nccl_put_pcis(nccl_writer *writer, const weiri_xml_element *above)
{
    for (const weiri_xml_element *pci = weiri_xml_child(above, "pci"); pci;
         pci = weiri_xml_find(pci->next, "pci")) {
        const int is_first = weiri_nccl_pci(writer->machine, pci)->depth == 1;
        if (is_first)
            nccl_put_bridge(writer, pci, 1);
        if (weiri_nccl_pci(writer->machine, pci)->is_switch) {
            nccl_put_bridge(writer, pci, 0);
            nccl_put_pcis(writer, pci);
            fputs("</object>\n", writer->to);
        } else {
            nccl_put_device(writer, pci);
        }
        if (is_first)
            fputs("</object>\n", writer->to);
    }
}

/* -------------------------------------------------------------- the machine */

static void nccl_put_processor(nccl_writer *writer, const weiri_xml_element *cpu)
{
    const char *values[WEIRI_NCCL_FACTS];
    for (int i = 0; i < WEIRI_NCCL_FACTS; i++) {
        values[i] = weiri_xml_value(cpu, weiri_nccl_facts[i][0]);
        if (values[i])
            nccl_put_info(writer, weiri_nccl_facts[i][1], "%s", values[i]);
    }
    if (values[0] || values[1])
        nccl_put_info(writer, "CPUModel", "%.40s%s%.20s%s%.20s", values[1] ? values[1] : values[0],
                      values[2] ? " family " : "", values[2] ? values[2] : "",
                      values[3] ? " model " : "", values[3] ? values[3] : "");
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
    nccl_put_pcis(writer, cpu->element);
    fputs("</object>\n", writer->to);
    hwloc_bitmap_free(node);
    hwloc_bitmap_free(one);
}

static void nccl_put_counted(FILE *to, const char *tag, double number)
{
    char text[40];
    const int length = snprintf(text, sizeof text, "%.0f", number);
    fprintf(to, "<%s length=\"%d\">%s</%s>\n", tag, length, text, tag);
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
    for (int i = 0; i < n; i++)
        nccl_put_counted(writer->to, "indexes",
                         FIRST_PCI + (double)(machine->gpus[i] - machine->pcis));
    for (int i = 0; i < n * n; i++)
        nccl_put_counted(writer->to, "u64values",
                         i / n == i % n ? 1e6 : 1000 * weiri_nccl_link_gbs(machine, i / n, i % n));
    fputs("</distances2>\n", writer->to);
}

static void nccl_write(const nccl_machine *machine, FILE *to)
{
    nccl_writer writer = {machine, to, 0, 1};
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    for (int i = 0; i < machine->ncpus; i++)
        hwloc_bitmap_set(nodes, (unsigned)machine->cpus[i].numa);
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
          "<topology version=\"2.0\">\n",
          to);
    nccl_open(&writer, "Machine", 0, machine->all, nodes);
    nccl_put_set(&writer, "allowed_cpuset", machine->all);
    nccl_put_set(&writer, "allowed_nodeset", nodes);
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
    FILE *to = status ? NULL : open_memstream(xml, bytes);
    if (to)
        nccl_write(&machine, to);
    weiri_nccl_free(&machine);
    return status ? status
           : to && fclose(to) == 0
               ? WEIR_OK
               : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to translate %s", path);
}
