/*
 * Where and with what the rows of a set were measured, as its manifests and rows state it: for the
 * summary at the beginning of a report. Local.
 */
#ifndef RESULTS_READ_ABOUT_H
#define RESULTS_READ_ABOUT_H

#include "results/read/rows.h"

enum { RESULTS_ABOUT_BYTES = 400 };

/* Different values are separated by "; ". Control characters are '?'. Empty: nothing is known. */
typedef struct results_about {
    char hosts[RESULTS_ABOUT_BYTES];   /* "node1; node2" */
    char devices[RESULTS_ABOUT_BYTES]; /* "4 NVIDIA H200; 64 cores, 1 NUMA node, 4 GPUs, ..." */
    char builds[RESULTS_ABOUT_BYTES];  /* "commit 6d8d16b (weir 0.1.0, release)" */
    char when[RESULTS_ABOUT_BYTES];    /* "2026-01-01T00:00:00Z", or the first to the last */
} results_about;

/* One line of a summary: "Hosts", "Devices", "Commits", "Measured". */
enum { RESULTS_ABOUT_LINES = 4 };
const char *results_about_name(int line);
const char *results_about_text(const results_about *about, int line);

/* Reads the manifests next to all CSV files of the set; invalid ones are reported in the set. */
void results_about_read(results_set *set, results_about *about);

#endif
