/*
 * The map of --guest: which PCI address a virtual machine gives to a device of its host, a pair of
 * addresses a line, and which hardware threads of the guest stand for a NUMA node of the host:
 *
 *   0000:1b:00.0  0000:05:00.0       # host, guest
 *   numa 0  0  0-47                  # host's node, guest's node, guest's hardware threads
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "programs/numbers.h"
#include "topo/nccl.h"
#include "topo/nccl_export.h"

enum { LINE_BYTES = 65536 };

const struct guest_device *weiri_guest_device(const topo_guest *guest, const char *pci)
{
    for (int i = 0; i < guest->ndevices; i++)
        if (strcmp(guest->devices[i].host, pci) == 0)
            return &guest->devices[i];
    return NULL;
}

const struct guest_node *weiri_guest_node(const topo_guest *guest, int numa)
{
    for (int i = 0; i < guest->nnodes; i++)
        if (guest->nodes[i].host == numa)
            return &guest->nodes[i];
    return NULL;
}

/* Writes an address in four, two, two and one digits. Returns -1 if text is none. */
static int guest_address(const char *text, char pci[16])
{
    const char *colon = strchr(text, ':');
    char full[32];
    nccl_bus bus;
    snprintf(full, sizeof full, "%s%s", colon && strchr(colon + 1, ':') ? "" : "0000:", text);
    if (strlen(text) > 12 || !weiri_nccl_address(full, &bus) || bus.bus > 0xff)
        return -1;
    snprintf(pci, 16, "%04x:%02x:%02x.%x", bus.domain & 0xffff, bus.bus & 0xff, bus.device & 0x1f,
             bus.function & 7);
    return 0;
}

/* Returns the reason for which a pair cannot be used, or NULL. */
static const char *guest_add_device(topo_guest *guest, const weiri_topo *topo, char *words[4],
                                    int line)
{
    struct guest_device made = {.line = line};
    if (guest_address(words[0], made.host) != 0 || guest_address(words[1], made.guest) != 0)
        return "expected two PCI addresses such as 0000:1b:00.0, the host's and the guest's";
    if (weiri_topo_find(&topo->gpus, made.host) < 0 && weiri_topo_find(&topo->nics, made.host) < 0)
        return "no GPU or NIC of the host has the first address (weir-topo lists them)";
    for (int i = 0; i < guest->ndevices; i++)
        if (!strcmp(guest->devices[i].host, made.host) ||
            !strcmp(guest->devices[i].guest, made.guest))
            return "an address that an earlier line has; give each device one line";
    if (guest->ndevices == GUEST_DEVICES_MOST)
        return "more than 512 devices";
    guest->devices[guest->ndevices++] = made;
    return NULL;
}

static const char *guest_add_node(topo_guest *guest, char *words[4])
{
    struct guest_node made = {.cpus = NULL};
    if (weiri_whole_read(words[1], 0, 1023, &made.host) != 0 ||
        weiri_whole_read(words[2], 0, 1023, &made.guest) != 0)
        return "expected numa HOST-NODE GUEST-NODE GUEST-CPUS, such as numa 0 0 0-47";
    for (int i = 0; i < guest->nnodes; i++)
        if (guest->nodes[i].host == made.host || guest->nodes[i].guest == made.guest)
            return "a node that an earlier line has; NCCL knows nodes by their numbers, so give "
                   "each node of the host another one, even if the guest has only one";
    if (guest->nnodes == GUEST_NODES_MOST)
        return "more than 64 nodes";
    made.cpus = hwloc_bitmap_alloc();
    if (made.cpus && strspn(words[3], "0123456789,-") == strlen(words[3]) &&
        hwloc_bitmap_list_sscanf(made.cpus, words[3]) == 0 && !hwloc_bitmap_iszero(made.cpus) &&
        hwloc_bitmap_last(made.cpus) >= 0) {
        guest->nodes[guest->nnodes++] = made;
        return NULL;
    }
    hwloc_bitmap_free(made.cpus);
    return "the last word is no list of hardware threads, such as 0-47,96-143";
}

static weir_status guest_refuse(const char *path, int line, const char *problem)
{
    char shown[512];
    return weiri_fail(WEIR_ERR_INVALID, "%s:%d: %s", weiri_text_shown(path, shown, sizeof shown),
                      line, problem);
}

static weir_status guest_read_lines(FILE *file, const char *path, const weiri_topo *topo,
                                    topo_guest *guest)
{
    char *text = malloc(LINE_BYTES);
    const char *problem = text ? NULL : "no memory for a line";
    int line = 0;
    while (!problem && fgets(text, LINE_BYTES, file)) {
        char *words[4] = {NULL}, *rest = text;
        int nwords = 0;
        line++;
        text[strcspn(text, "#\r\n")] = '\0';
        for (char *word; (word = strtok_r(rest, " \t", &rest)); nwords++)
            if (nwords < 4)
                words[nwords] = word;
        if (nwords == 0)
            continue;
        if (strcmp(words[0], "numa") == 0)
            problem = nwords == 4 ? guest_add_node(guest, words)
                                  : "expected numa HOST-NODE GUEST-NODE GUEST-CPUS";
        else
            problem = nwords == 2 ? guest_add_device(guest, topo, words, line)
                                  : "expected two PCI addresses, the host's and the guest's";
    }
    free(text);
    if (!problem && guest->ndevices == 0)
        problem = "the map has no device: a line is two PCI addresses, the host's and the guest's";
    return problem ? guest_refuse(path, line ? line : 1, problem) : WEIR_OK;
}

/* Every node with a device of the map must have a line. */
static weir_status guest_check_nodes(const char *path, const weiri_topo *topo,
                                     const topo_guest *guest)
{
    const weiri_topo_table *tables[] = {&topo->gpus, &topo->nics};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < tables[t]->count; i++) {
            const weiri_topo_device *device = &tables[t]->entries[i].device;
            const struct guest_device *mapped = weiri_guest_device(guest, device->pci);
            char problem[160];
            snprintf(problem, sizeof problem,
                     "%s is on NUMA node %d of the host: add a line numa %d GUEST-NODE GUEST-CPUS",
                     device->pci, device->numa, device->numa);
            if (mapped && device->numa >= 0 && !weiri_guest_node(guest, device->numa))
                return guest_refuse(path, mapped->line, problem);
        }
    return WEIR_OK;
}

weir_status weiri_guest_read(const char *path, const weiri_topo *topo, topo_guest *guest)
{
    memset(guest, 0, sizeof *guest);
    FILE *file = fopen(path, "re");
    if (!file)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "%s: cannot read the map", path);
    weir_status status = guest_read_lines(file, path, topo, guest);
    fclose(file);
    if (!status)
        status = guest_check_nodes(path, topo, guest);
    if (status)
        weiri_guest_free(guest);
    return status;
}

void weiri_guest_free(topo_guest *guest)
{
    for (int i = 0; i < guest->nnodes; i++)
        hwloc_bitmap_free(guest->nodes[i].cpus);
    guest->nnodes = 0;
}
