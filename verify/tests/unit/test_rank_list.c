/*
 * Proves that lists of ranks in error lines end in dots if they are long. The Makefile compiles
 * this file with the checks of buffers that distributions switch on, which end the process if a
 * size that is passed exceeds its buffer, even if nothing is written there.
 */
#include "boot/ranks.h"

#include "verify/tests/support/unit_test.h"

#include <string.h>

TEST(a_short_list_has_all_ranks)
{
    weiri_ranks ranks = {0};
    weiri_ranks_add(&ranks, 2);
    assert_string_equal(weiri_ranks_noun(&ranks), "rank");
    weiri_ranks_add(&ranks, 5);
    assert_string_equal(ranks.list, "2, 5");
    assert_string_equal(weiri_ranks_have(&ranks), "have");
}

TEST(a_long_list_ends_in_dots_within_its_buffer)
{
    weiri_ranks ranks = {0};
    for (int rank = 0; rank < 4097; rank++)
        weiri_ranks_add(&ranks, 1000000 + rank);
    assert_int_equal(ranks.count, 4097);
    assert_true(strlen(ranks.list) < sizeof ranks.list);
    assert_string_equal(ranks.list + strlen(ranks.list) - 5, ", ...");
}

int main(void)
{
    return run_all_tests("rank_list");
}
