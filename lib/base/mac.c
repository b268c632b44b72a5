/* SipHash-2-4 with a result of 128 bits; words are little endian. */
#include "base/mac.h"

#include "base/error.h"

#include <errno.h>
#include <sys/random.h>

typedef struct siphash_state {
    uint64_t v0, v1, v2, v3;
} siphash_state;

static uint64_t siphash_rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void siphash_rounds(siphash_state *s, int count)
{
    for (int i = 0; i < count; i++) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = siphash_rotate(s->v1, 13) ^ s->v0;
        s->v3 = siphash_rotate(s->v3, 16) ^ s->v2;
        s->v0 = siphash_rotate(s->v0, 32) + s->v3;
        s->v2 += s->v1;
        s->v3 = siphash_rotate(s->v3, 21) ^ s->v0;
        s->v1 = siphash_rotate(s->v1, 17) ^ s->v2;
        s->v2 = siphash_rotate(s->v2, 32);
    }
}

static void siphash_absorb(siphash_state *s, uint64_t word)
{
    s->v3 ^= word;
    siphash_rounds(s, 2);
    s->v0 ^= word;
}

static uint64_t siphash_load(const uint8_t *from, size_t bytes)
{
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++)
        word |= (uint64_t)from[i] << (8 * i);
    return word;
}

static void siphash_store(uint8_t *to, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(word >> (8 * i));
}

void weiri_mac(const uint8_t key[WEIRI_KEY_BYTES], const void *data, size_t bytes,
               uint8_t mac[WEIRI_MAC_BYTES])
{
    const uint8_t *from = data;
    uint64_t k0 = siphash_load(key, 8), k1 = siphash_load(key + 8, 8);
    siphash_state s = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee,
                       k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    size_t tail = bytes % 8;
    for (size_t at = 0; at + 8 <= bytes; at += 8)
        siphash_absorb(&s, siphash_load(from + at, 8));
    siphash_absorb(&s,
                   (uint64_t)bytes << 56 | (tail ? siphash_load(from + bytes - tail, tail) : 0));
    s.v2 ^= 0xee;
    siphash_rounds(&s, 4);
    siphash_store(mac, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
    s.v1 ^= 0xdd;
    siphash_rounds(&s, 4);
    siphash_store(mac + 8, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
}

int weiri_mac_equal(const uint8_t a[WEIRI_MAC_BYTES], const uint8_t b[WEIRI_MAC_BYTES])
{
    volatile uint8_t different = 0;
    for (int i = 0; i < WEIRI_MAC_BYTES; i++)
        different = (uint8_t)(different | (a[i] ^ b[i]));
    return different == 0;
}

weir_status weiri_random(void *data, size_t bytes)
{
    uint8_t *to = data;
    while (bytes > 0) {
        ssize_t got = getrandom(to, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot read random bytes");
        to += got;
        bytes -= (size_t)got;
    }
    return WEIR_OK;
}
