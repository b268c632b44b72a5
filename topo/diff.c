/*
 * What differs between two machines, in words: for a node that is slower than others of its kind.
 * Devices are paired by their PCI addresses, or, where no address is common, by their numbers.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/model.h"

typedef struct topo_diff {
    const weiri_topo *a, *b;
    const char *name_a, *name_b;
    int *gpus, *nics;    /* of b by number in a; -1: missing in b */
    int found, is_mixed; /* 1: NCCL has described one of the two */
    char subject[160];   /* the device that is compared, before what differs */
    FILE *out;
} topo_diff;

__attribute__((format(printf, 2, 3))) static void diff_say(topo_diff *diff, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(diff->out, format, arguments);
    va_end(arguments);
    fputc('\n', diff->out);
    diff->found++;
}

/* ------------------------------------------------------------------ pairing */

/* The numbers in b of a's devices; NULL without memory. */
static int *diff_pair(const weiri_topo_table *a, const weiri_topo_table *b)
{
    int *pairs = calloc((size_t)a->count + 1, sizeof *pairs), common = 0;
    for (int i = 0; pairs && i < a->count; i++) {
        pairs[i] = weiri_topo_find(b, a->entries[i].device.pci);
        common += pairs[i] >= 0;
    }
    for (int i = 0; pairs && !common && i < a->count; i++)
        pairs[i] = i < b->count ? i : -1;
    return pairs;
}

static void diff_report_missing(topo_diff *diff, const char *kind, const weiri_topo_table *a,
                                const weiri_topo_table *b, const int *pairs)
{
    for (int i = 0; i < a->count; i++)
        if (pairs[i] < 0)
            diff_say(diff, "%s %d (%s, %s) is missing in %s", kind, i, a->entries[i].device.name,
                     a->entries[i].device.pci, diff->name_b);
    for (int j = 0; j < b->count; j++) {
        int i = 0;
        while (i < a->count && pairs[i] != j)
            i++;
        if (i == a->count)
            diff_say(diff, "%s %d (%s, %s) of %s is missing in %s", kind, j,
                     b->entries[j].device.name, b->entries[j].device.pci, diff->name_b,
                     diff->name_a);
    }
}

/* ------------------------------------------------------------------ devices */

/* Links have few rates: a difference of 1% is rounding. */
static int diff_is_other(double a, double b)
{
    return fabs(a - b) > 0.01 * fmax(fabs(a), fabs(b));
}

static void diff_text(topo_diff *diff, const char *what, const char *a, const char *b)
{
    if (*a && *b && strcmp(a, b) != 0)
        diff_say(diff, "%s%s: %s in %s, %s in %s", diff->subject, what, a, diff->name_a, b,
                 diff->name_b);
}

/* unit: with a blank before it. An unknown rate differs from none. */
static void diff_rate(topo_diff *diff, const char *what, double a, double b, const char *unit)
{
    if (a > 0 && b > 0 && diff_is_other(a, b))
        diff_say(diff, "%s%s: %g%s in %s, %g%s in %s", diff->subject, what, round(a * 10) / 10,
                 unit, diff->name_a, round(b * 10) / 10, unit, diff->name_b);
}

static void diff_number(topo_diff *diff, const char *what, int a, int b)
{
    if (a != b)
        diff_say(diff, "%s%s: %d in %s, %d in %s", diff->subject, what, a, diff->name_a, b,
                 diff->name_b);
}

static void diff_device(topo_diff *diff, const char *kind, int number, const weiri_topo_device *a,
                        const weiri_topo_device *b)
{
    static const char *const states[] = {"", "down", "up"};
    const int is_half = !diff_is_other(a->pcie_gbs, 2 * b->pcie_gbs) ||
                        !diff_is_other(2 * a->pcie_gbs, b->pcie_gbs);
    snprintf(diff->subject, sizeof diff->subject, "%s %d (%s)", kind, number, a->pci);
    diff_text(diff, ", address", a->pci, b->pci);
    if (!diff->is_mixed)
        diff_text(diff, ", model", a->model, b->model);
    diff_number(diff, ", NUMA node", a->numa, b->numa);
    diff_rate(diff,
              is_half ? ", PCIe link (half as wide, such as x8, or half as fast)" : ", PCIe link",
              a->pcie_gbs, b->pcie_gbs, " GB/s");
    snprintf(diff->subject, sizeof diff->subject, "%s %d (%s) %s", kind, number, a->pci, a->name);
    diff_rate(diff, ", network link", a->link_gbits, b->link_gbits, " Gbit/s");
    diff_text(diff, ", port", states[a->link_up + 1], states[b->link_up + 1]);
}

/* ---------------------------------------------------------------- distances */

/* Adds the names of the devices that a GPU shares a component with, as one machine or the other has
 * them. Returns how many devices only one of the two has. */
static int diff_neighbours(const topo_diff *diff, int gpu, weiri_topo_path level, int is_nic,
                           char text[2][256])
{
    const weiri_topo_table *table = is_nic ? &diff->a->nics : &diff->a->gpus;
    const int *pairs = is_nic ? diff->nics : diff->gpus;
    int others = 0;
    for (int i = 0; i < table->count; i++) {
        if (pairs[i] < 0 || (!is_nic && i == gpu))
            continue;
        const weiri_topo_path paths[] = {
            is_nic ? weiri_topo_gpu_nic(diff->a, gpu, i) : weiri_topo_gpu_gpu(diff->a, gpu, i),
            is_nic ? weiri_topo_gpu_nic(diff->b, diff->gpus[gpu], pairs[i])
                   : weiri_topo_gpu_gpu(diff->b, diff->gpus[gpu], pairs[i])};
        for (int side = 0; side < 2; side++) {
            const size_t used = strlen(text[side]);
            if (paths[side] <= level)
                snprintf(text[side] + used, sizeof text[side] - used, "%s%s", used ? ", " : "",
                         table->entries[i].device.name);
        }
        others += (paths[0] <= level) != (paths[1] <= level);
    }
    return others;
}

static void diff_shares(topo_diff *diff, int gpu)
{
    static const char *const shared[] = {
        [WEIRI_TOPO_SAME_SWITCH] = "a PCIe switch", [WEIRI_TOPO_SAME_ROOT] = "a PCIe root complex"};
    for (int level = WEIRI_TOPO_SAME_SWITCH; level <= WEIRI_TOPO_SAME_ROOT; level++) {
        char text[2][256] = {"", ""};
        const int others = diff_neighbours(diff, gpu, (weiri_topo_path)level, 0, text) +
                           diff_neighbours(diff, gpu, (weiri_topo_path)level, 1, text);
        if (!others)
            continue;
        diff_say(diff, "GPU %d (%s) shares %s with %s in %s, with %s in %s", gpu,
                 weiri_topo_gpu(diff->a, gpu)->pci, shared[level], text[0][0] ? text[0] : "none",
                 diff->name_a, text[1][0] ? text[1] : "none", diff->name_b);
        return; /* what shares a switch shares a root complex */
    }
}

static double diff_most_nvlink(const weiri_topo *topo, int gpu)
{
    double most = 0;
    for (int i = 0; gpu >= 0 && i < topo->gpus.count; i++)
        most = fmax(most, weiri_topo_nvlink_gbs(topo, gpu, i));
    return most;
}

/* A GPU that has no link at all is one line, not one per peer. Returns 1 then. */
static int diff_lost_nvlink(topo_diff *diff, int gpu, int says)
{
    const double a = diff_most_nvlink(diff->a, gpu), b = diff_most_nvlink(diff->b, diff->gpus[gpu]);
    if (!(a > 0) == !(b > 0))
        return 0;
    if (says)
        diff_say(diff, "GPU %d (%s) has NVLink of %g GB/s in %s, none in %s", gpu,
                 weiri_topo_gpu(diff->a, gpu)->pci, fmax(a, b), a > 0 ? diff->name_a : diff->name_b,
                 a > 0 ? diff->name_b : diff->name_a);
    return 1;
}

static void diff_nvlink(topo_diff *diff, int gpu)
{
    if (diff_lost_nvlink(diff, gpu, 1))
        return;
    for (int to = gpu + 1; to < diff->a->gpus.count; to++) {
        if (diff->gpus[to] < 0 || diff_lost_nvlink(diff, to, 0))
            continue;
        const double a = weiri_topo_nvlink_gbs(diff->a, gpu, to);
        const double b = weiri_topo_nvlink_gbs(diff->b, diff->gpus[gpu], diff->gpus[to]);
        if (diff_is_other(a, b))
            diff_say(diff, "GPUs %d and %d: NVLink of %g GB/s in %s, %g GB/s in %s", gpu, to, a,
                     diff->name_a, b, diff->name_b);
    }
}

static void diff_processors(topo_diff *diff)
{
    weiri_topo_counts a, b;
    weiri_topo_count(diff->a, &a);
    weiri_topo_count(diff->b, &b);
    diff_text(diff, "processor", weiri_topo_processor(diff->a), weiri_topo_processor(diff->b));
    diff_number(diff, "packages", a.packages, b.packages);
    diff_number(diff, "NUMA nodes", a.numa_nodes, b.numa_nodes);
    if (!weiri_topo_knows_threads(diff->a) || !weiri_topo_knows_threads(diff->b))
        return;
    diff_number(diff, "cores", a.cores, b.cores);
    diff_number(diff, "hardware threads", a.pus, b.pus);
}

static void diff_all(topo_diff *diff)
{
    diff_processors(diff);
    diff_report_missing(diff, "GPU", &diff->a->gpus, &diff->b->gpus, diff->gpus);
    diff_report_missing(diff, "NIC", &diff->a->nics, &diff->b->nics, diff->nics);
    for (int i = 0; i < diff->a->gpus.count; i++) {
        if (diff->gpus[i] < 0)
            continue;
        diff_device(diff, "GPU", i, weiri_topo_gpu(diff->a, i),
                    weiri_topo_gpu(diff->b, diff->gpus[i]));
        diff_shares(diff, i);
        diff_nvlink(diff, i);
    }
    for (int i = 0; i < diff->a->nics.count; i++)
        if (diff->nics[i] >= 0)
            diff_device(diff, "NIC", i, weiri_topo_nic(diff->a, i),
                        weiri_topo_nic(diff->b, diff->nics[i]));
    if (!diff->found)
        fprintf(diff->out, "no difference between %s and %s\n", diff->name_a, diff->name_b);
}

static weir_status diff_machines(topo_diff *diff)
{
    diff->gpus = diff_pair(&diff->a->gpus, &diff->b->gpus);
    diff->nics = diff_pair(&diff->a->nics, &diff->b->nics);
    const int ready = diff->gpus && diff->nics;
    if (ready)
        diff_all(diff);
    free(diff->gpus);
    free(diff->nics);
    return ready ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to compare two machines");
}

weir_status weiri_topo_diff(const weiri_topo *a, const char *name_a, const weiri_topo *b,
                            const char *name_b, FILE *out, int *found)
{
    topo_diff diff = {.a = a, .b = b, .name_a = name_a, .name_b = name_b, .out = out};
    weiri_topo *view = NULL;
    weir_status status = WEIR_OK;
    diff.is_mixed = weiri_topo_is_nccl(a) != weiri_topo_is_nccl(b);
    if (diff.is_mixed) {
        const int is_a = weiri_topo_is_nccl(b);
        status = weiri_topo_nccl_view(is_a ? a : b, &view);
        *(is_a ? &diff.a : &diff.b) = view;
    }
    if (!status)
        status = diff_machines(&diff);
    weiri_topo_destroy(view);
    *found = diff.found;
    return status;
}
