/* The machine next to the results: its files, percent of its ceiling, the table of its links. */
#include "results/read/machine.h"

#include "results/read/load.h"
#include "results/output/print.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether a folder belongs to a run folder of ci/nightly, whose files about the machine are in the
 * folders above. In any other place, a file further up may describe another machine. */
static int is_inside_night(const char *folder)
{
    static const char *const inside[] = {"a", "b", "screen", "confirm"};
    const char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (strcmp(name, inside[i]) == 0)
            return 1;
    return 0;
}

/* Finds a file in the folder of a result or of its night. Returns 0 if there is none. */
static int find(const char *result, const char *name, char *path)
{
    char folder[PATH_MAX];
    size_t length = strlen(result);
    if (length >= sizeof folder)
        return 0;
    memcpy(folder, result, length + 1);
    for (;;) {
        char *end = strrchr(folder, '/');
        if (end)
            *end = '\0';
        int written = snprintf(path, PATH_MAX, "%s%s%s", end ? folder : "", end ? "/" : "", name);
        FILE *file = written < PATH_MAX ? results_open(path, RESULTS_FILE_BYTES) : NULL;
        if (file) {
            fclose(file);
            return 1;
        }
        if (!end || !is_inside_night(folder))
            return 0;
    }
}

static void read_links(results_set *set, const char *path, results_machine *machine)
{
    if (weiri_links_read(path, &machine->links) == WEIR_OK)
        return;
    results_note(set, path, 0, "%s; the links are left out", weir_last_error());
}

int results_machine_read(results_set *set, const char *links_path, results_machine *machine)
{
    char path[PATH_MAX];
    const char *result = set->count ? set->rows[0].path : "";
    *machine = (results_machine){NULL, NULL};
    if (links_path && weiri_links_read(links_path, &machine->links) != WEIR_OK) {
        results_note(set, links_path, 0,
                     "%s; --links names this file, so nothing is written without it",
                     weir_last_error());
        return -1;
    }
    if (!links_path && find(result, "links.txt", path))
        read_links(set, path, machine);
    if (find(result, "topology.json", path)) {
        json_error_t error;
        machine->topology = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
        if (!machine->topology)
            results_note(set, path, error.line, "%s; left out", error.text);
    }
    return 0;
}

void results_machine_free(results_machine *machine)
{
    weiri_links_free(machine->links);
    json_decref(machine->topology);
}

double results_machine_pct(const results_machine *machine, const results_row *row, double median_us,
                           double busbw_gbs)
{
    const weiri_links *links = machine->links;
    if (!links || row->nnodes > 1 || !(median_us > 0) || !(busbw_gbs > 0) ||
        (row->text[RESULTS_BACKEND][0] && strcmp(row->text[RESULTS_BACKEND], links->backend) != 0))
        return NAN;
    return 100 * weiri_links_floor_us(links, busbw_gbs * median_us * 1e3) / median_us;
}

/* -------------------------------------------------------------------- a table */

static double most_of(const double *values, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

void results_heat_put(FILE *page, const results_heat *heat)
{
    const int n = heat->count;
    const double most = most_of(heat->values, n * n);
    fputs("<table class=\"heat\"><caption>", page);
    results_put_xml(page, heat->caption);
    fputs("</caption><thead><tr><th scope=\"col\">from \\ to</th>", page);
    for (int to = 0; to < n; to++)
        fprintf(page, "<th class=\"n\" scope=\"col\">%d</th>", to);
    fputs("</tr></thead><tbody>\n", page);
    for (int from = 0; from < n; from++) {
        fprintf(page, "<tr><th scope=\"row\">%d</th>", from);
        for (int to = 0; to < n; to++) {
            const double value = heat->values[from * n + to];
            const int is_marked = heat->marks && heat->marks[from * n + to];
            if (from == to || isnan(value))
                fputs("<td class=\"n\"></td>", page);
            else
                fprintf(page, "<td class=\"n%s\" style=\"--heat:%.0f%%\">%.*f%s</td>",
                        is_marked ? " regressed" : "", most > 0 ? 70 * value / most : 0,
                        heat->decimals, value, is_marked ? "!" : "");
        }
        fputs("</tr>\n", page);
    }
    fputs("</tbody></table>\n", page);
}

static void put_matrix(FILE *page, const weiri_links *links, const double *values, int decimals,
                       const char *caption)
{
    results_heat_put(page, &(results_heat){.values = values,
                                           .count = links->endpoints,
                                           .decimals = decimals,
                                           .caption = caption});
}

static void put_links(FILE *page, const weiri_links *links)
{
    const char *what = strcmp(links->backend, "cuda") == 0 ? "GPUs" : "cores";
    enum { SHOWN = 64, MIB = 1 << 20 };
    fprintf(page, "<h3>Links between %d %s</h3>\n<p>", links->endpoints, what);
    for (int i = 0; i < links->nsizes; i++)
        fprintf(page, "%s%.1f GB/s at %.0f %s", i ? ", " : "All at once, each gets ",
                links->together_gbs[i], links->bytes[i] / (links->bytes[i] < MIB ? 1024 : MIB),
                links->bytes[i] < MIB ? "KiB" : "MiB");
    fputs(".</p>\n", page);
    if (links->endpoints > SHOWN)
        return;
    fputs("<div class=\"scroll\" tabindex=\"0\">", page);
    put_matrix(page, links, links->gbs, 1, "GB/s of one link alone");
    fputs("</div>\n<div class=\"scroll\" tabindex=\"0\">", page);
    put_matrix(page, links, links->us, 2, "Microseconds until a stored word is seen");
    fputs("</div>\n", page);
}

int results_machine_put(const results_machine *machine, FILE *page)
{
    if (!machine->links && !machine->topology)
        return 0;
    fputs("<section id=\"machine\">\n<h2>The machine</h2>\n", page);
    if (machine->topology)
        results_topology_put(machine->topology, page);
    if (machine->links)
        put_links(page, machine->links);
    fputs("</section>\n", page);
    return 1;
}
