/*
 * Bulk copies: every byte is copied and none around the destination changes, at every misalignment
 * of source and destination, for every kind of copy; the size above which streaming is advised is
 * plausible; stores to peers are slow if all copies of a group were.
 */
#include "compute/copy.h"
#include "verify/tests/support/unit_test.h"

enum {
    MAX_BYTES = 20011,
    MAX_SHIFT = 64, /* a cache line: the start of the streamed part differs with each */
    GUARD_BYTES = 64,
    GUARD = 0xa5
};

typedef void (*copy_fn)(void *dst, const void *src, size_t bytes);

static uint8_t source[MAX_BYTES + MAX_SHIFT];
static _Alignas(64) uint8_t room[GUARD_BYTES + MAX_SHIFT + MAX_BYTES + GUARD_BYTES];

/* Whether copy is exact for one placement. */
static int check_copy(copy_fn copy, size_t bytes, size_t dst_shift, size_t src_shift)
{
    uint8_t *dst = room + GUARD_BYTES + dst_shift;
    memset(dst - GUARD_BYTES, GUARD, bytes + 2 * (size_t)GUARD_BYTES);
    copy(dst, source + src_shift, bytes);
    if (memcmp(dst, source + src_shift, bytes) != 0)
        return 0;
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (dst[-1 - (long)i] != GUARD || dst[bytes + i] != GUARD)
            return 0;
    return 1;
}

static void check_all(copy_fn copy)
{
    static const size_t large[] = {255,  256,  257,  1023, 2047,  2048,
                                   2049, 2111, 4096, 8191, 16384, MAX_BYTES};
    for (size_t bytes = 0; bytes <= 200; bytes++)
        for (size_t shift = 0; shift < 8; shift++)
            if (!check_copy(copy, bytes, shift, bytes % 8))
                fail_msg("%zu bytes, destination shifted by %zu", bytes, shift);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        for (size_t shift = 0; shift < MAX_SHIFT; shift++)
            if (!check_copy(copy, large[i], shift, (3 * shift + i) % MAX_SHIFT))
                fail_msg("%zu bytes, destination shifted by %zu", large[i], shift);
}

static void note_paces(uint64_t first_ns, uint64_t others_ns)
{
    weiri_copy_note_pace(64, first_ns);
    for (int i = 0; i < 3; i++)
        weiri_copy_note_pace(64, others_ns);
}

/* The first test, so that no copy has been timed before. */
TEST(stores_to_peers_are_slow_if_the_fastest_of_four_copies_was)
{
    note_paces(9, 9000);
    assert_true(weiri_copy_to_peers_is_slow());
    assert_true(weiri_copy_to_peers_is_far());
    note_paces(4, 9000);
    assert_false(weiri_copy_to_peers_is_slow());
    assert_true(weiri_copy_to_peers_is_far());
    note_paces(3, 9000);
    assert_false(weiri_copy_to_peers_is_slow());
    assert_false(weiri_copy_to_peers_is_far());
    note_paces(9000, 9);
    int calls = 1;
    while (weiri_copy_to_peers_is_slow())
        assert_in_range(++calls, 1, 2000); /* a verdict ends */
    while (weiri_copy_to_peers_is_far())
        assert_in_range(++calls, 1, 4000);
    note_paces(9, 9);
    check_all(weiri_copy_to_peer);
}

TEST(copies_are_exact_at_every_alignment)
{
    check_all(weiri_copy);
}

TEST(streaming_copies_are_exact_at_every_alignment)
{
    check_all(weiri_copy_streaming);
}

TEST(copies_to_and_from_peers_are_exact_at_every_alignment)
{
    check_all(weiri_copy_to_peer);
    check_all(weiri_copy_from_peer);
}

TEST(unfetched_copies_are_exact_at_every_alignment)
{
    check_all(weiri_copy_unfetched);
}

TEST(buffers_beyond_the_own_cache_are_copied_unfetched_except_on_amd)
{
    weiri_copy_assume_streams_to_peers(0);
    assert_false(weiri_copies_unfetched(65536));
    assert_true(weiri_copies_unfetched((size_t)1 << 30));
    weiri_copy_assume_streams_to_peers(1);
    assert_false(weiri_copies_unfetched((size_t)1 << 30));
}

static void copy_one_too_many(void *dst, const void *src, size_t bytes)
{
    weiri_copy(dst, src, bytes + 1);
}

static void copy_one_too_few(void *dst, const void *src, size_t bytes)
{
    weiri_copy(dst, src, bytes - 1);
}

TEST(injected_faults_are_detected)
{
    assert_true(check_copy(weiri_copy, 100, 1, 2));
    assert_false(check_copy(copy_one_too_many, 100, 1, 2));
    assert_false(check_copy(copy_one_too_few, 100, 1, 2));
}

TEST(empty_copies_accept_null)
{
    weiri_copy(NULL, NULL, 0);
    weiri_copy_streaming(NULL, NULL, 0);
    weiri_copy_to_peer(NULL, NULL, 0);
    weiri_copy_from_peer(NULL, NULL, 0);
    weiri_copy_unfetched(NULL, NULL, 0);
}

TEST(streaming_threshold_is_a_plausible_cache_size)
{
    size_t bytes = weiri_streaming_threshold_bytes();
    assert_in_range(bytes, (size_t)256 << 10, (size_t)4 << 30);
    assert_int_equal(bytes, weiri_streaming_threshold_bytes());
}

static void fill_source(void)
{
    /* Never the guard byte, so that an unwritten byte is seen, and without a short period. */
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 2654435761u >> 13 | 8) & 0x5f;
}

int main(void)
{
    fill_source();
    return run_all_tests("copy");
}
