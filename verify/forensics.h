/*
 * Diagnosis of an output that the exact oracle rejects: the runs of wrong elements, and for each
 * run a hypothesis about the fault. A hypothesis is reported only if it reproduces the run element
 * by element.
 */
#ifndef VERIFY_FORENSICS_H
#define VERIFY_FORENSICS_H

#include "verify/expected.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Guarded buffers: canary bytes around a user's buffer that show writes
 * outside it. The caller owns the memory (registered or unregistered memory);
 * only its layout is decided here:
 *
 *   base | >= 16384 canary bytes | user bytes | >= 16384 canary bytes | end
 */
typedef struct weirv_guard {
    void *base;
    size_t total_bytes;
    void *user;
    size_t user_bytes;
} weirv_guard;

/* Returns the bytes that `base` must have for a buffer of user_bytes. Local. */
size_t weirv_guard_bytes(size_t user_bytes, size_t misalign_bytes);
/* Lays a buffer out in `base` (weirv_guard_bytes of it), writes the canaries, and returns the
 * user's part: page-aligned, plus misalign_bytes. Leaves the user's bytes unchanged. Local. */
void *weirv_guard_place(weirv_guard *guard, void *base, size_t user_bytes, size_t misalign_bytes);
/* Returns the number of canary bytes that were changed. Local. */
uint64_t weirv_guard_check(const weirv_guard *guard);
/* Returns how far the furthest changed bytes lie before the user's first byte and after the last
 * one; 0 if none is changed. Local. */
void weirv_guard_reach(const weirv_guard *guard, size_t *before_bytes, size_t *behind_bytes);

/* Writes lines, each ended by a newline and all terminated, of at most bytes:
 *
 *   elements 256..511, 256 wrong: got 3, expected 5 (element 256): sum lacks rank 2
 *
 * Nothing where all is right, and for inexact data of reductions. c->seed must
 * be that of the call, previous_seed that of the one before. Local. */
void weirv_explain(const weirv_case *c, const void *out, uint64_t previous_seed, char *text,
                   size_t bytes);
/* Writes a line about changed input elements, or about changed canaries around the buffer called
 * `name`. Local. */
void weirv_explain_input(const weirv_case *c, const void *in, char *text, size_t bytes);
void weirv_explain_guard(const weirv_guard *guard, const char *name, char *text, size_t bytes);

#endif
