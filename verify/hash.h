/*
 * The hash from which all input data are made. Indices are divided into strips of 4096. The key of
 * a strip is a strong 64-bit hash of (seed, rank, type, operation, strip). An element is a cheap
 * 32-bit hash of the key and its index in the strip; it is a bijection of that index and
 * vectorises.
 */
#ifndef VERIFY_HASH_H
#define VERIFY_HASH_H

#include <stdint.h>

enum { WEIRV_STRIP_ELEMENTS = 4096 };

typedef struct weirv_key {
    uint32_t add, flip;
} weirv_key;

static inline uint64_t weirv_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* kind: whatever else distinguishes data, such as the type and the operation. */
static inline weirv_key weirv_key_of(uint64_t kind, uint64_t rank, uint64_t seed, uint64_t strip)
{
    uint64_t h = weirv_mix64(seed + 0x9e3779b97f4a7c15ull);
    h = weirv_mix64(h ^ (rank << 16 | kind));
    h = weirv_mix64(h + 0x9e3779b97f4a7c15ull * (strip + 1));
    return (weirv_key){(uint32_t)h, (uint32_t)(h >> 32)};
}

static inline uint32_t weirv_hash_lane(weirv_key key, uint32_t lane)
{
    uint32_t h = key.add + lane * 0x9e3779b9u;
    h = (h ^ (h >> 15)) * 0x2c1b3c6du;
    h ^= key.flip;
    return h ^ (h >> 16);
}

/* The low half of a 64-bit element whose high half is h. */
static inline uint32_t weirv_hash_low(weirv_key key, uint32_t h)
{
    return h * 0x297a2d39u ^ key.add;
}

/* Maps h, uniform in 32 bits, to 0..n - 1. */
static inline uint32_t weirv_hash_below(uint32_t h, uint32_t n)
{
    return (uint32_t)((uint64_t)h * n >> 32);
}

#endif
