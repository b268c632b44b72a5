/*
 * The machine on which results were measured, if files next to them describe it: its links
 * (links.txt of weir-topo --measure) and its structure (topology.json of weir-topo --json). Local.
 */
#ifndef RESULTS_READ_MACHINE_H
#define RESULTS_READ_MACHINE_H

#include "base/links.h"
#include "results/read/rows.h"

#include <jansson.h>
#include <stdio.h>

typedef struct results_machine {
    weiri_links *links; /* NULL: none */
    json_t *topology;   /* NULL: none */
} results_machine;

/* Looks for the files in the folder of the set's first row and up to three folders above, as far as
 * the run's. links_path names the file of links instead (NULL: look for it). Returns 0, or -1 after
 * reporting that links_path cannot be read. Other unreadable files are reported and ignored. */
int results_machine_read(results_set *set, const char *links_path, results_machine *machine);
void results_machine_free(results_machine *machine);

/* The least time that the links allow for a row's bytes, counted as by its bandwidth, divided by
 * its median, in percent. NaN if unknown, for rows of several nodes, or if the row's memory is of
 * another kind than the links'. */
double results_machine_pct(const results_machine *machine, const results_row *row, double median_us,
                           double busbw_gbs);

/* Writes the page's sections about the machine: a picture of the structure, and the links as a
 * table with shaded cells. Returns 1, or 0 if there is nothing to write. */
int results_machine_put(const results_machine *machine, FILE *page);

/* A table of what each of count things reaches with each other one. */
typedef struct results_heat {
    const double *values; /* count x count; NaN: unknown */
    const char *marks;    /* 1: a value that is conspicuous; NULL: none is */
    int count, decimals;
    const char *caption;
} results_heat;

/* Writes a table: higher values get a stronger shade, and each cell also contains the number. */
void results_heat_put(FILE *page, const results_heat *heat);

/* Draws the structure as SVG (lib/programs/picture.h). The file is not trusted: texts are escaped,
 * numbers are bounded, and what does not fit is left out. */
void results_topology_put(const json_t *topology, FILE *page);

/*
 * Manifests: JSON files next to CSV files that describe how a run was measured. Read into pairs of
 * a path and a value, such as build.commit and 77a4130. Local.
 */

typedef struct results_fact {
    const char *path, *value; /* memory of the set */
} results_fact;

typedef struct results_manifest {
    results_fact *facts; /* ascending by path; freed by results_manifest_free */
    size_t count;
    const char *file; /* NULL: none was found */
    char fault[160];  /* why it is no JSON, and so has no facts; else empty */
    int fault_line;
} results_manifest;

/* Reads the manifest next to the first of the set's CSV files that has one. Those that are no JSON
 * were reported when the CSV was read. */
void results_manifest_read(results_set *set, results_manifest *made);
/* Reads the manifest next to one CSV file. Returns 0, or -1 if there is none. Call
 * results_manifest_free in either case. */
int results_manifest_read_file(results_set *set, const char *csv, results_manifest *made);
void results_manifest_free(results_manifest *made);

/* Calls `different` for each path whose values differ; a NULL value means that the side lacks it.
 * Leaves out paths that differ between any two runs (run_id, utc, pid, ...). */
typedef void results_difference(void *context, const char *path, const char *a, const char *b);
void results_manifest_diff(const results_manifest *a, const results_manifest *b,
                           results_difference *different, void *context);

#endif
