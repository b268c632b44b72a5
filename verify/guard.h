/*
 * Guarded buffers: canary bytes around a user's buffer that show writes
 * outside it. The caller owns the memory (registered or unregistered memory);
 * only its layout is decided here:
 *
 *   base | >= 4096 canary bytes | user bytes | >= 4096 canary bytes | end
 */
#ifndef VERIFY_GUARD_H
#define VERIFY_GUARD_H

#include <stddef.h>
#include <stdint.h>

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
void *weirv_guard_place(weirv_guard *guard, void *base, size_t user_bytes,
                        size_t misalign_bytes);
/* Returns the number of canary bytes that were changed. Local. */
uint64_t weirv_guard_check(const weirv_guard *guard);
/* Returns how far the furthest changed bytes lie before the user's first byte and after the last
 * one; 0 if none is changed. Local. */
void weirv_guard_reach(const weirv_guard *guard, size_t *before_bytes, size_t *behind_bytes);

#endif
