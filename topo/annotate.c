/*
 * What Linux reports and hwloc does not: the rate and state of a network link, the model of a GPU,
 * and which GPUs this container may use. Discovery adds it to hwloc's objects as info attributes,
 * which the device tables read; a recorded machine has them already.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/model.h"

static const char nvidia_gpus[] = "/proc/driver/nvidia/gpus";
static const char amd_nodes[] = "/sys/class/kfd/kfd/topology/nodes";

/* Reads the first line of a file, without its line feed. Returns 0 if there is none. */
static int read_line(const char *path, char *line, size_t bytes)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int found = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    if (found)
        line[strcspn(line, "\n")] = '\0';
    return found;
}

static void add_info(hwloc_obj_t object, const char *name, const char *value)
{
    if (!hwloc_obj_get_info_by_name(object, name))
        hwloc_obj_add_info(object, name, value);
}

/* A device is up if any of its ports is; the rate is the first up port's. */
static void annotate_openfabrics(hwloc_obj_t osdev)
{
    char path[256], line[64];
    int known = 0, up = 0;
    for (int port = 1; !up; port++) {
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/state", osdev->name, port);
        if (!read_line(path, line, sizeof line))
            break;
        known = 1;
        up = atoi(line) == 4; /* "4: ACTIVE" */
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/rate", osdev->name, port);
        if (up && read_line(path, line, sizeof line)) { /* "400 Gb/sec (4X NDR)" */
            line[strcspn(line, " ")] = '\0';
            add_info(osdev, WEIRI_TOPO_INFO_LINK_GBITS, line);
        }
    }
    if (known)
        add_info(osdev, WEIRI_TOPO_INFO_LINK_STATE, up ? "up" : "down");
}

static void annotate_network(hwloc_obj_t osdev)
{
    char path[256], line[64];
    snprintf(path, sizeof path, "/sys/class/net/%s/operstate", osdev->name);
    if (read_line(path, line, sizeof line) && (!strcmp(line, "up") || !strcmp(line, "down")))
        add_info(osdev, WEIRI_TOPO_INFO_LINK_STATE, line);
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", osdev->name);
    if (read_line(path, line, sizeof line) && atol(line) > 0) { /* Mbit/s */
        snprintf(line, sizeof line, "%g", (double)atol(line) / 1000);
        add_info(osdev, WEIRI_TOPO_INFO_LINK_GBITS, line);
    }
}

/* "Model: \t\t NVIDIA H200" */
static void annotate_nvidia_model(hwloc_obj_t pci, const char *information_path)
{
    char line[160];
    if (!read_line(information_path, line, sizeof line) || strncmp(line, "Model:", 6) != 0)
        return;
    const char *model = line + 6 + strspn(line + 6, " \t");
    if (*model)
        add_info(pci, WEIRI_TOPO_INFO_MODEL, model);
}

static int has_entries(const char *directory_path)
{
    DIR *directory = opendir(directory_path);
    if (!directory)
        return 0;
    int found = 0;
    for (struct dirent *entry; !found && (entry = readdir(directory));)
        found = entry->d_name[0] != '.';
    closedir(directory);
    return found;
}

/* sysfs shows every PCI device of the machine, even in a container that was given only some of the
 * GPUs; the driver's list contains only those. */
static void annotate_nvidia(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
    char path[128];
    snprintf(path, sizeof path, "%s/%04x:%02x:%02x.%x/information", nvidia_gpus, at->domain,
             at->bus, at->dev, at->func & 0xfu);
    if (access(path, R_OK) == 0)
        annotate_nvidia_model(pci, path);
    else if (has_entries(nvidia_gpus))
        add_info(pci, WEIRI_TOPO_INFO_HIDDEN, "1");
}

/* The value of a line "name value" of a file; -1 if there is none. */
static long read_property(const char *path, const char *name)
{
    char line[128];
    long value = -1;
    const size_t length = strlen(name);
    FILE *file = fopen(path, "r");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            value = atol(line + length);
    if (file)
        fclose(file);
    return value;
}

int weiri_topo_amd_computes(const char *folder, const struct hwloc_pcidev_attr_s *at)
{
    const long location = (long)at->bus << 8 | (long)at->dev << 3 | at->func;
    DIR *nodes = opendir(folder);
    int found = 0;
    for (struct dirent *node; nodes && !found && (node = readdir(nodes));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s/properties", folder, node->d_name);
        found = read_property(path, "simd_count") > 0 &&
                read_property(path, "location_id") == location &&
                (read_property(path, "domain") < 0 || read_property(path, "domain") == at->domain);
    }
    if (nodes)
        closedir(nodes);
    return found;
}

/* The model that an AMD card reports; empty on some. */
static void annotate_amd(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
    char path[128], model[96];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.%x/product_name", at->domain,
             at->bus, at->dev, at->func & 0xfu);
    if (read_line(path, model, sizeof model) && model[0])
        add_info(pci, WEIRI_TOPO_INFO_MODEL, model);
}

/* What a link can do: the speed that both ends have, which an idle GPU lowers for a while, and the
 * lanes that are in use. */
static void annotate_pcie(hwloc_obj_t object, const struct hwloc_pcidev_attr_s *at)
{
    static const char *const files[] = {"max_link_speed", "../max_link_speed",
                                        "current_link_width"};
    char path[128], lines[3][64], text[96];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.%x/%s", at->domain,
                 at->bus, at->dev, at->func & 0xfu, files[i]);
        if (!read_line(path, lines[i], sizeof lines[i]))
            lines[i][0] = '\0';
    }
    const double own = strtod(lines[0], NULL), above = strtod(lines[1], NULL);
    const char *speed = above > 0 && above < own ? lines[1] : lines[0];
    if (own <= 0 || atoi(lines[2]) <= 0 || atoi(lines[2]) > 32)
        return;
    snprintf(text, sizeof text, "%s x%d", speed, atoi(lines[2]));
    add_info(object, WEIRI_TOPO_INFO_PCIE, text);
}

void weiri_topo_annotate(hwloc_topology_t hwloc)
{
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_osdev(hwloc, object))) {
        if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            annotate_openfabrics(object);
        else if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)
            annotate_network(object);
    }
    object = NULL;
    while ((object = hwloc_get_next_pcidev(hwloc, object))) {
        const struct hwloc_pcidev_attr_s *at = &object->attr->pcidev;
        annotate_pcie(object, at);
        if (at->vendor_id == WEIRI_VENDOR_AMD && weiri_topo_amd_computes(amd_nodes, at))
            add_info(object, WEIRI_TOPO_INFO_COMPUTE, "1");
        if (weiri_topo_is_gpu(object) && at->vendor_id == WEIRI_VENDOR_NVIDIA)
            annotate_nvidia(object);
        else if (weiri_topo_is_gpu(object) && at->vendor_id == WEIRI_VENDOR_AMD)
            annotate_amd(object);
    }
    object = NULL;
    while ((object = hwloc_get_next_bridge(hwloc, object)))
        if (object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
            annotate_pcie(object, &object->attr->bridge.upstream.pci);
}
