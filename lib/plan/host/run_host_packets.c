/*
 * Packets on the host: 8 bytes with 4 bytes of data and 4 bytes of flag, stored and loaded in one
 * access. On x86-64 two packets are accessed with one aligned vector instruction, each half of
 * which is atomic. Also the separate flags that run_host.h describes.
 */
#include "plan/host/run_host.h"

#if defined(__SSE2__)
#include <emmintrin.h>

enum { STEP = 16 }; /* bytes of data */

static size_t plan_host_pack_vectors(uint64_t *packets, const char *from, size_t bytes,
                                     uint32_t flag)
{
    const __m128i flags = _mm_set1_epi32((int)flag);
    size_t at = 0;
    for (; at + STEP <= bytes; at += STEP) {
        const __m128i data = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
        __m128i *to = (__m128i *)(void *)(packets + at / 4);
        _mm_store_si128(to, _mm_unpacklo_epi32(data, flags));
        _mm_store_si128(to + 1, _mm_unpackhi_epi32(data, flags));
    }
    return at;
}

static size_t plan_host_unpack_vectors(char *to, const uint64_t *packets, size_t bytes,
                                       uint32_t flag)
{
    const __m128 flags = _mm_castsi128_ps(_mm_set1_epi32((int)flag));
    size_t at = 0;
    for (; at + STEP <= bytes; at += STEP) {
        const __m128i *from = (const __m128i *)(const void *)(packets + at / 4);
        const __m128 low = _mm_castsi128_ps(_mm_load_si128(from));
        const __m128 high = _mm_castsi128_ps(_mm_load_si128(from + 1));
        const __m128i seen = _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
        if (_mm_movemask_epi8(_mm_cmpeq_epi32(seen, _mm_castps_si128(flags))) != 0xffff)
            break;
        _mm_storeu_si128((__m128i *)(void *)(to + at),
                         _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0))));
    }
    return at;
}
#else
static size_t plan_host_pack_vectors(uint64_t *packets, const char *from, size_t bytes,
                                     uint32_t flag)
{
    (void)packets;
    (void)from;
    (void)bytes;
    (void)flag;
    return 0;
}

static size_t plan_host_unpack_vectors(char *to, const uint64_t *packets, size_t bytes,
                                       uint32_t flag)
{
    (void)to;
    (void)packets;
    (void)bytes;
    (void)flag;
    return 0;
}
#endif

static size_t plan_host_word_bytes(size_t at, size_t data_bytes)
{
    size_t left = at < data_bytes ? data_bytes - at : 0;
    return left < 4 ? left : 4;
}

void weiri_host_pack(uint64_t *packets, const char *from, size_t data_bytes, size_t line_bytes,
                     uint32_t flag)
{
    for (size_t at = plan_host_pack_vectors(packets, from, data_bytes, flag); at < line_bytes;
         at += 4) {
        uint32_t word = weir_word_load(from + at, plan_host_word_bytes(at, data_bytes));
        weir_store_relaxed(packets + at / 4, weir_packet_make(word, flag));
    }
}

size_t weiri_host_unpack(char *to, const uint64_t *packets, size_t data_bytes, size_t line_bytes,
                         uint32_t flag)
{
    size_t at = plan_host_unpack_vectors(to, packets, data_bytes, flag);
    for (; at < line_bytes; at += 8) {
        uint32_t low, high;
        if (!weir_packet_read(packets + at / 4, flag, &low) ||
            !weir_packet_read(packets + at / 4 + 1, flag, &high))
            break;
        weir_word_store(to + at, low, plan_host_word_bytes(at, data_bytes));
        weir_word_store(to + at + 4, high, plan_host_word_bytes(at + 4, data_bytes));
    }
    return at;
}

/* ----------------------------------------------------------- separate flags */

static uint64_t plan_host_repeat_flag(uint32_t flag)
{
    return flag * UINT64_C(0x0101010101010101);
}

static int plan_host_is_aligned_word(const uint8_t *flags, size_t left)
{
    return (uintptr_t)flags % 8 == 0 && left >= 8;
}

void weiri_host_mark(uint8_t *flags, size_t line_bytes, uint32_t flag)
{
    for (size_t i = 0, count = line_bytes / 8; i < count;) {
        if (plan_host_is_aligned_word(flags + i, count - i)) {
            weir_store_release((uint64_t *)(void *)(flags + i), plan_host_repeat_flag(flag));
            i += 8;
        } else {
            __atomic_store_n(flags + i, (uint8_t)flag, __ATOMIC_RELEASE);
            i++;
        }
    }
}

size_t weiri_host_arrived(const uint8_t *flags, size_t line_bytes, uint32_t flag)
{
    const size_t count = line_bytes / 8;
    size_t i = 0;
    while (i < count) {
        if (plan_host_is_aligned_word(flags + i, count - i) &&
            weir_load_acquire((const uint64_t *)(const void *)(flags + i)) ==
                plan_host_repeat_flag(flag))
            i += 8;
        else if (__atomic_load_n(flags + i, __ATOMIC_ACQUIRE) == flag)
            i++;
        else
            break;
    }
    return i * 8;
}

uint32_t weiri_host_flag_at(const weiri_host_launch *launch, const void *packet)
{
    if (launch->own->has_separate_flags)
        return __atomic_load_n((const uint8_t *)packet, __ATOMIC_RELAXED);
    return (uint32_t)(weir_load_relaxed(packet) >> 32);
}
