/*
 * The machine that results come from, if files beside them tell: its links as
 * weir-topo --measure wrote them (links.txt), its structure as weir-topo --json did
 * (topology.json). Local.
 */
#ifndef RESULTS_READ_MACHINE_H
#define RESULTS_READ_MACHINE_H

#include "base/links.h"
#include "results/read/rows.h"

#include <jansson.h>

typedef struct results_machine {
    weiri_links *links; /* NULL: none */
    json_t *topology;   /* NULL: none */
} results_machine;

/* Looks in the folder of the set's first row, and in those above up to the run's (three); links
 * may be named instead (links_path, NULL: look). 0, or -1: links_path cannot be read, noted in
 * the set; what else cannot be is noted and left out. */
int results_machine_read(results_set *set, const char *links_path, results_machine *machine);
void results_machine_free(results_machine *machine);

/* The time that the links allow at best for a row's bytes, as its bandwidth counts them, over
 * its median, in percent; NaN: not known. Rows of several machines, or of other memory than
 * the links', have none. */
double results_machine_pct(const results_machine *machine, const results_row *row, double median_us,
                           double busbw_gbs);

/* Sections of the page: a picture of the structure, and the links as a table whose cells are
 * shaded by their value. 1 if there is anything, else 0 and nothing is written. */
int results_machine_put(const results_machine *machine, FILE *page);

#endif
