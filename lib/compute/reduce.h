/*
 * Element-wise reduction of several buffers into one: the arithmetic of all host collectives. The
 * loops (reduce_body.h) are compiled once for each instruction set, and selected at run time.
 * Results do not depend on the instruction set, alignment, count or streaming: sources are combined
 * in order, without reassociation or fused multiply-add. Only the sign and payload of a NaN are
 * unspecified.
 */
#ifndef WEIR_COMPUTE_REDUCE_H
#define WEIR_COMPUTE_REDUCE_H

#include <weir/weir.h>

/*
 * dst[i] = src[0][i] op src[1][i] op ... src[nsrc - 1][i], for i < count
 * elements, with the meaning of weir_op in weir/weir.h; WEIR_AVG then divides by
 * divisor (at least 1; other operations ignore it; it may exceed nsrc when src
 * hold partial sums). nsrc is at least 1; each element is rounded once, however
 * many sources there are. Pointers may have any alignment. dst may be one of the
 * sources; otherwise they must not overlap.
 * Local, no errors. streaming != 0 stores around the caches, which pays when
 * dst is not read soon and the working set exceeds
 * weiri_streaming_threshold_bytes(); those stores are ordered before any later
 * store when the function returns.
 */
typedef void (*weiri_reduce_fn)(void *dst, const void *const *src, int nsrc, size_t count,
                                uint64_t divisor, int streaming);

/* Returns the fastest function for this processor; NULL if dtype or op is invalid. Thread-safe. */
weiri_reduce_fn weiri_reduce_get(weir_dtype dtype, weir_op op);

/* Calls the function of weiri_reduce_get; does nothing if dtype or op is invalid. */
void weiri_reduce(void *dst, const void *const *src, int nsrc, size_t count, weir_dtype dtype,
                  weir_op op, uint64_t divisor, int streaming);

/* Returns the widest instruction set that weiri_reduce_get uses: "plain", "avx2" or "avx512". */
const char *weiri_reduce_isa(void);

/* weiri_reduce_get for a named instruction set; NULL if the name is unknown or the processor lacks
 * it. */
weiri_reduce_fn weiri_reduce_get_isa(const char *isa, weir_dtype dtype, weir_op op);

/* ------------------------------------- between reduce.c and its loops only */

typedef weiri_reduce_fn weiri_reduce_table[WEIR_DTYPE_COUNT][WEIR_OP_COUNT];

extern const weiri_reduce_table weiri_reduce_plain;
extern const weiri_reduce_table weiri_reduce_avx2;
extern const weiri_reduce_table weiri_reduce_avx512;

#endif
