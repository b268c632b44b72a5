/*
 * The links of a machine, as measured: what bytes can do at best, against which collectives
 * are held. weir-topo --measure writes the file; benchmarks and reports read it.
 *
 * The file is text, a line each, words between blanks, '#' begins a comment:
 *
 *   weir-links 1
 *   machine DIGEST          of the machine's structure (topo/topo.h)
 *   backend host|cuda       whose memory
 *   endpoints N             cores or GPUs, numbered from 0
 *   pair FROM TO GBS US     TO reads what FROM has written: bandwidth of one such link
 *                           alone, and the time until a word that FROM stores is seen
 *   together BYTES GBS      every endpoint reads so many bytes from the next one at the
 *                           same time: what the slowest gets; in order of BYTES
 *
 * GBS is 1e9 bytes a second, US microseconds; 0 stands for "not measured".
 */
#ifndef WEIR_BASE_LINKS_H
#define WEIR_BASE_LINKS_H

#include <weir/weir.h>

#include <stdio.h>

enum { WEIRI_LINKS_ENDPOINTS_MAX = 256, WEIRI_LINKS_SIZES_MAX = 32, WEIRI_LINKS_WORD_BYTES = 24 };

typedef struct weiri_links {
    char machine[WEIRI_LINKS_WORD_BYTES], backend[WEIRI_LINKS_WORD_BYTES];
    int endpoints;
    double *gbs, *us; /* endpoints x endpoints: row FROM, column TO; 0 on the diagonal */
    int nsizes;
    double bytes[WEIRI_LINKS_SIZES_MAX], together_gbs[WEIRI_LINKS_SIZES_MAX];
} weiri_links;

/* Zeroed, for so many endpoints, 1 to the maximum. WEIR_ERR_NO_MEMORY. */
weir_status weiri_links_create(int endpoints, weiri_links **links);
/* Reads a file. WEIR_ERR_INVALID names file and line, what was expected; WEIR_ERR_SYSTEM: it
 * cannot be read. */
weir_status weiri_links_read(const char *path, weiri_links **links);
/* Write errors stay in to (ferror). */
void weiri_links_write(const weiri_links *links, FILE *to);
/* NULL is allowed. */
void weiri_links_free(weiri_links *links);

/* The shortest time in which so many bytes can come to every endpoint: the latency of the
 * fastest link, and the bytes at the bandwidth that all links together have for them (between
 * measured sizes in proportion to the logarithm of the bytes). 0: not measured. */
double weiri_links_floor_us(const weiri_links *links, double bytes);

#endif
