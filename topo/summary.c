/*
 * A machine in one line, and in sixteen digits. The digest covers what determines how fast ranks
 * communicate: measurements on machines with equal digests are comparable.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "topo/model.h"

const char *weiri_topo_processor(const weiri_topo *topo)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(topo->hwloc, HWLOC_OBJ_PACKAGE, 0);
    hwloc_obj_t described = package ? package : hwloc_get_root_obj(topo->hwloc);
    const char *model = hwloc_obj_get_info_by_name(described, "CPUModel");
    return model ? model : "";
}

/* ------------------------------------------------------------------ digest */

static void digest_add(uint64_t *digest, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* FNV-1a, 64 bits, over the text. */
static void digest_add(uint64_t *digest, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (const char *at = text; *at; at++)
        *digest = (*digest ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
}

static void add_cores(const weiri_topo *topo, uint64_t *digest)
{
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topo->hwloc, topo->core_type, core)))
        digest_add(digest, "core %d numa %d\n", hwloc_bitmap_weight(core->cpuset),
                   hwloc_bitmap_first(core->nodeset));
    for (hwloc_obj_type_t type = HWLOC_OBJ_L1CACHE; type <= HWLOC_OBJ_L5CACHE; type++) {
        hwloc_obj_t cache = NULL;
        while ((cache = hwloc_get_next_obj_by_type(topo->hwloc, type, cache)))
            digest_add(digest, "cache %u %" PRIu64 " %d\n", cache->attr->cache.depth,
                       (uint64_t)cache->attr->cache.size, hwloc_bitmap_weight(cache->cpuset));
    }
}

static void add_devices(const weiri_topo_table *table, const char *kind, uint64_t *digest)
{
    for (int i = 0; i < table->count; i++) {
        const weiri_topo_device *device = &table->entries[i].device;
        digest_add(digest, "%s %s %04x:%04x numa %d\n", kind, device->pci, device->vendor_id,
                   device->device_id, device->numa);
    }
}

static void add_distances(const weiri_topo *topo, uint64_t *digest)
{
    for (int a = 0; a < topo->gpus.count; a++) {
        for (int b = 0; b < topo->gpus.count; b++)
            digest_add(digest, "%d ", (int)weiri_topo_gpu_gpu(topo, a, b));
        for (int nic = 0; nic < topo->nics.count; nic++)
            digest_add(digest, "%d ", (int)weiri_topo_gpu_nic(topo, a, nic));
    }
}

void weiri_topo_digest(const weiri_topo *topo, char hex[WEIRI_TOPO_DIGEST_BYTES])
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    digest_add(&digest, "%s\npackages %d numa %d\n", weiri_topo_processor(topo), counts.packages,
               counts.numa_nodes);
    add_cores(topo, &digest);
    add_devices(&topo->gpus, "gpu", &digest);
    add_devices(&topo->nics, "nic", &digest);
    add_distances(topo, &digest);
    snprintf(hex, WEIRI_TOPO_DIGEST_BYTES, "%016" PRIx64, digest);
}

/* ----------------------------------------------------------------- summary */

typedef struct line_buffer {
    char *text;
    size_t bytes, used;
} line_buffer;

static void append(line_buffer *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(line_buffer *line, const char *format, ...)
{
    if (line->used >= line->bytes)
        return;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line->text + line->used, line->bytes - line->used, format, arguments);
    va_end(arguments);
    line->used += length > 0 ? (size_t)length : 0;
}

static void append_count(line_buffer *line, int count, const char *thing)
{
    if (count == 0)
        append(line, "no %s", thing);
    else
        append(line, "%d %s%s", count, thing, count == 1 ? "" : "s");
}

/* The model that all GPUs have in common, or "". */
static const char *common_model(const weiri_topo *topo)
{
    const weiri_topo_device *first = weiri_topo_gpu(topo, 0);
    for (int i = 1; i < topo->gpus.count; i++)
        if (strcmp(topo->gpus.entries[i].device.model, first->model) != 0)
            return "";
    return first ? first->model : "";
}

void weiri_topo_summary(const weiri_topo *topo, char *text, size_t bytes)
{
    line_buffer line = {text, bytes, 0};
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    if (counts.usable_cores < counts.cores)
        append(&line, "%d of ", counts.usable_cores);
    append_count(&line, counts.cores, "core");
    append(&line, ", ");
    append_count(&line, counts.numa_nodes, "NUMA node");
    append(&line, ", ");
    append_count(&line, counts.gpus, "GPU");
    if (common_model(topo)[0])
        append(&line, " (%s)", common_model(topo));
    append(&line, ", ");
    append_count(&line, counts.nics, "NIC");
    if (weiri_topo_processor(topo)[0])
        append(&line, ", %s", weiri_topo_processor(topo));
}
