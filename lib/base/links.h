/*
 * The measured links of a node: upper bounds of bandwidth and lower bounds of latency, with which
 * collectives are compared. weir-topo --measure writes the file; benchmarks and reports read it.
 *
 * The file is text, one record per line, words separated by blanks, comments from '#' on:
 *
 *   weir-links 1
 *   machine DIGEST          digest of the hardware (topo/topo.h)
 *   backend host|cuda       whose memory was measured
 *   endpoints N             cores or GPUs, numbered from 0
 *   pair FROM TO GBS US     TO reads what FROM has written: bandwidth of this link alone, and
 *                           the time until a word that FROM stores is seen
 *   together BYTES GBS      every endpoint reads BYTES from the next one at the same time:
 *                           bandwidth of the slowest; in increasing order of BYTES
 *
 * GBS is 1e9 bytes per second, US microseconds; 0 means "not measured".
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

/* Creates zeroed links of this many endpoints, 1 to the maximum. */
weir_status weiri_links_create(int endpoints, weiri_links **links);
/* Reads a file. WEIR_ERR_INVALID with file and line if it is malformed; WEIR_ERR_SYSTEM if it
 * cannot be read. */
weir_status weiri_links_read(const char *path, weiri_links **links);
/* Writes the file; the caller checks ferror. */
void weiri_links_write(const weiri_links *links, FILE *to);
/* Frees links; NULL is allowed. */
void weiri_links_free(weiri_links *links);

/* Describes the two links of a pair whose bandwidths differ most, if one has less than 3/4 of the
 * other's: both directions of real hardware are equal. Returns 1 if there is such a pair, else
 * 0. */
int weiri_links_asymmetry(const weiri_links *links, char *text, size_t bytes);
/* Returns a lower bound of the time in which every endpoint can receive this many bytes: the
 * latency of the fastest link plus the bytes at the bandwidth of all links together, which is
 * interpolated between measured sizes by the logarithm of the bytes. 0 if not measured. */
double weiri_links_floor_us(const weiri_links *links, double bytes);

#endif
