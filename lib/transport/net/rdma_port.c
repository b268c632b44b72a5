/*
 * Reads the RDMA ports of this node from /sys/class/infiniband: the state, rate, link layer and
 * GIDs of each port from NAME/ports/N/{state,rate,link_layer} and
 * NAME/ports/N/{gids/I,gid_attrs/types/I,gid_attrs/ndevs/I}; the path of the PCI device, which
 * determines the distance to a GPU, from the link NAME/device.
 */
#define _GNU_SOURCE
#include "transport/net/rdma_port.h"

#include "base/c_locale.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many entries of a port's GID table are read. Hosts use the first few; reading stops after
 * GIDS_EMPTY empty entries in a row, since each entry is a file. */
enum { GIDS_LOOKED_AT = 128, GIDS_EMPTY = 16, PATH_BYTES = 512 };

/* Reads the first line of the file with the formatted name, without the line's end. Returns 0 if it
 * cannot be read. */
__attribute__((format(printf, 3, 4))) static int read_line(char *line, size_t bytes,
                                                           const char *format, ...)
{
    char path[PATH_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    line[0] = '\0';
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int found = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return found;
}

static int parse_gid(const char *text, unsigned char bytes[16])
{
    static const unsigned char none[16];
    return inet_pton(AF_INET6, text, bytes) == 1 && memcmp(bytes, none, 16) != 0;
}

static void read_gids(const char *ports_path, weiri_rdma_port *port)
{
    char line[128];
    int empty = 0;
    for (int index = 0;
         index < GIDS_LOOKED_AT && empty < GIDS_EMPTY && port->ngids < WEIRI_RDMA_GIDS; index++) {
        weiri_rdma_gid *gid = &port->gids[port->ngids];
        if (!read_line(line, sizeof line, "%s/%d/gids/%d", ports_path, port->port, index))
            break;
        empty++;
        if (!parse_gid(line, gid->bytes))
            continue;
        empty = 0;
        gid->index = index;
        gid->type = port->ethernet ? WEIRI_GID_ROCE_1 : WEIRI_GID_IB;
        if (read_line(line, sizeof line, "%s/%d/gid_attrs/types/%d", ports_path, port->port,
                      index) &&
            strcmp(line, "RoCE v2") == 0)
            gid->type = WEIRI_GID_ROCE_2;
        if (!port->netdev[0] &&
            read_line(line, sizeof line, "%s/%d/gid_attrs/ndevs/%d", ports_path, port->port, index))
            snprintf(port->netdev, sizeof port->netdev, "%.31s", line);
        port->ngids++;
    }
}

/* "4: ACTIVE" */
static void read_state(const char *ports_path, weiri_rdma_port *port)
{
    char line[128];
    snprintf(port->state, sizeof port->state, "unknown");
    if (!read_line(line, sizeof line, "%s/%d/state", ports_path, port->port))
        return;
    port->active = atoi(line) == 4;
    const char *word = strstr(line, ": ");
    snprintf(port->state, sizeof port->state, "%.23s", word ? word + 2 : line);
}

/* Returns the target of a device's link, relative to sys: "/devices/pci0000:00/...". */
static int device_path(const char *sys, const char *link, char path[WEIRI_RDMA_PATH_BYTES])
{
    char real[PATH_MAX], root[PATH_MAX];
    if (!realpath(link, real) || !realpath(sys, root))
        return 0;
    size_t skip = strlen(root);
    if (strncmp(real, root, skip) != 0 || strlen(real + skip) >= WEIRI_RDMA_PATH_BYTES)
        return 0;
    memcpy(path, real + skip, strlen(real + skip) + 1);
    return 1;
}

/* Returns the number of the only NUMA node with processors; -1 if there are several. A kernel
 * without NUMA lists none, which is node 0. */
static int only_numa(const char *sys)
{
    char list[64]; /* "0-1", "0,2" */
    if (!read_line(list, sizeof list, "%s/devices/system/node/has_cpu", sys))
        return 0;
    return strpbrk(list, ",-") ? -1 : atoi(list);
}

/* Returns a device's NUMA node. Machines with a single NUMA node may report none. */
static int numa_of(const char *sys, const char *link)
{
    char line[32];
    const int numa = read_line(line, sizeof line, "%s/numa_node", link) ? atoi(line) : -1;
    return numa < 0 ? only_numa(sys) : numa;
}

/* The kernel writes addresses in lower case. */
static void pci_link(const char *sys, const char *address, char link[PATH_BYTES])
{
    int length = snprintf(link, PATH_BYTES, "%s/bus/pci/devices/", sys);
    for (; *address && length + 1 < PATH_BYTES; address++)
        link[length++] = (char)tolower((unsigned char)*address);
    link[length] = '\0';
}

int weiri_rdma_pci_path(const char *sys, const char *address, char path[WEIRI_RDMA_PATH_BYTES])
{
    char link[PATH_BYTES];
    pci_link(sys, address, link);
    return device_path(sys, link, path);
}

int weiri_rdma_numa_of(const char *sys, const char *address)
{
    char link[PATH_BYTES];
    pci_link(sys, address, link);
    return numa_of(sys, link);
}

/* Fills in the path and NUMA node of the PCI device, or of the network interface if the RDMA device
 * has no PCI device. */
static void read_place(const char *sys, weiri_rdma_port *port)
{
    char link[PATH_BYTES], own[WEIRI_RDMA_PATH_BYTES];
    snprintf(link, sizeof link, "%s/class/infiniband/%s", sys, port->device);
    port->is_software = device_path(sys, link, own) && strncmp(own, "/devices/virtual/", 17) == 0;
    snprintf(link, sizeof link, "%s/class/infiniband/%s/device", sys, port->device);
    if (!device_path(sys, link, port->path) && port->netdev[0]) {
        snprintf(link, sizeof link, "%s/class/net/%s/device", sys, port->netdev);
        if (!device_path(sys, link, port->path))
            port->path[0] = '\0';
    }
    port->numa = numa_of(sys, link);
}

static void read_port(const char *sys, const char *device, int number, weiri_rdma_port *port)
{
    char ports_path[PATH_BYTES], line[128];
    *port = (weiri_rdma_port){.port = number, .numa = -1};
    snprintf(port->device, sizeof port->device, "%.63s", device);
    snprintf(ports_path, sizeof ports_path, "%s/class/infiniband/%.63s/ports", sys, device);
    read_state(ports_path, port);
    if (read_line(line, sizeof line, "%s/%d/link_layer", ports_path, number))
        port->ethernet = strcmp(line, "Ethernet") == 0;
    if (read_line(line, sizeof line, "%s/%d/rate", ports_path, number)) /* "100 Gb/sec (4X EDR)" */
        port->gbits = weiri_strtod(line, NULL);
    read_gids(ports_path, port);
    read_place(sys, port);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int no_dot(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Adds a device's ports to a table that grows. */
static weir_status add_ports(const char *sys, const char *device, weiri_rdma_port **ports,
                             int *count)
{
    char path[PATH_BYTES];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/class/infiniband/%.63s/ports", sys, device);
    int nentries = scandir(path, &entries, no_dot, by_name);
    weir_status status = WEIR_OK;
    for (int i = 0; i < nentries; i++) {
        weiri_rdma_port *grown = realloc(*ports, (size_t)(*count + 1) * sizeof *grown);
        if (grown) {
            *ports = grown;
            read_port(sys, device, atoi(entries[i]->d_name), &grown[(*count)++]);
        } else {
            status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d RDMA ports", *count + 1);
        }
        free(entries[i]);
    }
    if (nentries >= 0)
        free(entries);
    return status;
}

weir_status weiri_rdma_ports(const char *sys, weiri_rdma_port **ports, int *count)
{
    char path[PATH_BYTES];
    struct dirent **entries;
    weiri_rdma_port *found = NULL;
    weir_status status = WEIR_OK;
    int nfound = 0;
    snprintf(path, sizeof path, "%s/class/infiniband", sys);
    int nentries = scandir(path, &entries, no_dot, by_name);
    for (int i = 0; i < nentries; i++) {
        if (status == WEIR_OK)
            status = add_ports(sys, entries[i]->d_name, &found, &nfound);
        free(entries[i]);
    }
    if (nentries >= 0)
        free(entries);
    if (status != WEIR_OK) {
        free(found);
        return status;
    }
    *ports = found;
    *count = nfound;
    return WEIR_OK;
}

/* --------------------------------------------------------------- this process */

/* Whether a list of the kernel's ("0-3,8") has the cpu. */
static int list_has(const char *list, int cpu)
{
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list)
            return 0;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (cpu >= first && cpu <= last)
            return 1;
        list = *end == ',' ? end + 1 : end;
    }
    return 0;
}

static int all_on_node(const cpu_set_t *cpus, const char *list)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, cpus) && !list_has(list, cpu))
            return 0;
    return 1;
}

int weiri_rdma_own_numa(const char *sys)
{
    enum { NODES = 256 };
    cpu_set_t cpus;
    char list[4096];
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return -1;
    for (int node = 0; node < NODES; node++)
        if (read_line(list, sizeof list, "%s/devices/system/node/node%d/cpulist", sys, node) &&
            all_on_node(&cpus, list))
            return node;
    return -1;
}
