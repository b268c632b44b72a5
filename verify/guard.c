/* Canary bytes around buffers: see forensics.h. */
#include "verify/forensics.h"

enum { CANARY_BYTES = 16384, USER_ALIGN = 4096 };

/* Depends on the position, so that copying a neighbouring canary, or writing any constant, changes
 * bytes. */
static inline uint8_t canary(size_t position)
{
    return (uint8_t)(position * 167 + (position >> 8) * 59 + 0x5a);
}

static void write_canaries(unsigned char *base, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        base[i] = canary(i);
}

static uint64_t count_changed(const unsigned char *base, size_t from, size_t to)
{
    uint64_t changed = 0;
    for (size_t i = from; i < to; i++)
        changed += base[i] != canary(i);
    return changed;
}

size_t weirv_guard_bytes(size_t user_bytes, size_t misalign_bytes)
{
    return CANARY_BYTES + (USER_ALIGN - 1) + misalign_bytes + user_bytes + CANARY_BYTES;
}

void *weirv_guard_place(weirv_guard *guard, void *base, size_t user_bytes, size_t misalign_bytes)
{
    uintptr_t start = (uintptr_t)base + CANARY_BYTES;
    uintptr_t aligned = (start + USER_ALIGN - 1) / USER_ALIGN * USER_ALIGN;
    size_t before = (size_t)(aligned - (uintptr_t)base) + misalign_bytes;
    guard->base = base;
    guard->total_bytes = weirv_guard_bytes(user_bytes, misalign_bytes);
    guard->user = (unsigned char *)base + before;
    guard->user_bytes = user_bytes;
    write_canaries(base, 0, before);
    write_canaries(base, before + user_bytes, guard->total_bytes);
    return guard->user;
}

uint64_t weirv_guard_check(const weirv_guard *guard)
{
    const unsigned char *base = guard->base;
    size_t before = (size_t)((const unsigned char *)guard->user - base);
    return count_changed(base, 0, before) +
           count_changed(base, before + guard->user_bytes, guard->total_bytes);
}

void weirv_guard_reach(const weirv_guard *guard, size_t *before_bytes, size_t *behind_bytes)
{
    const unsigned char *base = guard->base;
    size_t start = (size_t)((const unsigned char *)guard->user - base);
    size_t end = start + guard->user_bytes;
    *before_bytes = *behind_bytes = 0;
    for (size_t i = start; i-- > 0;)
        if (base[i] != canary(i))
            *before_bytes = start - i;
    for (size_t i = end; i < guard->total_bytes; i++)
        if (base[i] != canary(i))
            *behind_bytes = i - end + 1;
}
