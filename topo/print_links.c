/* Measured links as tables. */
#include "topo/measure.h"

static void print_matrix(const weiri_links *links, const double *values, int decimals, FILE *out)
{
    int n = links->endpoints;
    fprintf(out, "%5s", "to");
    for (int to = 0; to < n; to++)
        fprintf(out, "%8d", to);
    fprintf(out, "\n from\n");
    for (int from = 0; from < n; from++) {
        fprintf(out, "%5d", from);
        for (int to = 0; to < n; to++)
            if (from == to)
                fprintf(out, "%8s", "-");
            else
                fprintf(out, "%8.*f", decimals, values[from * n + to]);
        fputc('\n', out);
    }
}

/* "4 KiB" */
static void print_bytes(double bytes, FILE *out)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 3; unit++)
        bytes /= 1024;
    fprintf(out, "%6.4g %-4s", bytes, units[unit]);
}

void weiri_topo_print_links(const weiri_links *links, FILE *out)
{
    const char *what = links->backend[0] == 'h' ? "cores" : "GPUs";
    fprintf(out, "GB/s of one link alone, between %d %s (machine %s)\n", links->endpoints, what,
            links->machine);
    print_matrix(links, links->gbs, 1, out);
    fprintf(out, "\nmicroseconds until a word is seen\n");
    print_matrix(links, links->us, 2, out);
    fprintf(out, "\nGB/s of the slowest of all %s, each reading from the next one\n", what);
    for (int i = 0; i < links->nsizes; i++) {
        print_bytes(links->bytes[i], out);
        fprintf(out, "%8.1f\n", links->together_gbs[i]);
    }
}
