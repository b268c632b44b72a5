/*
 * Distributions of alltoallv (--dist): each follows its definition, all ranks compute the same
 * counts, the heaviest rank moves the requested size, and invalid files and names are rejected with
 * a message.
 */
#include "bench/sizes/dist.h"
#include "bench/options/options.h"
#include "bench/sizes/shape.h"
#include "verify/tests/support/unit_test.h"

#include <unistd.h>

enum { SIZE = 1 << 20, MOST_RANKS = 9 };

static char path[] = "/tmp/weir-dist-XXXXXX";
static char problem[BENCH_PROBLEM_BYTES];

/* Opens a distribution. The text must outlive it. */
static bench_dist opened(const char *text, int nranks, uint64_t seed)
{
    bench_dist dist;
    *problem = '\0';
    assert_int_equal(bench_dist_parse(text, &dist), WEIR_OK);
    if (bench_dist_open(&dist, nranks, seed, problem) != WEIR_OK)
        fail_msg("%s: %s", text, problem);
    return dist;
}

/* The option for a file with the text. */
static const char *file_with(const char *word, const char *text)
{
    static char option[64];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    snprintf(option, sizeof option, "%s:%s", word, path);
    return option;
}

static size_t bytes_of(const bench_dist *dist, int step, int from, int to, int nranks)
{
    return 4 * bench_dist_elements(dist, step, SIZE / 4 / (size_t)nranks, 4, from, to, nranks);
}

/* Sets the bytes that each rank sends and receives; returns the largest of them. */
static size_t totals(const bench_dist *dist, int step, int nranks, size_t *sent, size_t *received)
{
    size_t most = 0;
    for (int rank = 0; rank < nranks; rank++) {
        sent[rank] = received[rank] = 0;
        for (int peer = 0; peer < nranks; peer++) {
            sent[rank] += bytes_of(dist, step, rank, peer, nranks);
            received[rank] += bytes_of(dist, step, peer, rank, nranks);
        }
        most = sent[rank] > most ? sent[rank] : most;
        most = received[rank] > most ? received[rank] : most;
    }
    return most;
}

/* The heaviest rank moves the size, up to the rounding of parts to 16 bytes, and the shape agrees
 * on every rank. */
TEST(heaviest_rank_moves_the_requested_size)
{
    static const char *const words[] = {"uniform", "spread:0.5", "zipf:0", "zipf:1.2",
                                        "zipf:20", "hot:1",      "hot:2"};
    size_t sent[MOST_RANKS], received[MOST_RANKS];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int n = 2; n <= MOST_RANKS; n++) {
            bench_dist dist = opened(words[i], n, i);
            size_t most = totals(&dist, 0, n, sent, received);
            size_t unit = 16 * (size_t)n * (size_t)n;
            if (most > SIZE || most + unit < SIZE)
                fail_msg("%s, %d ranks: the most is %zu", words[i], n, most);
            for (int rank = 0; rank < n; rank++) {
                bench_shape shape = bench_shape_make(WEIR_COLL_ALLTOALLV, SIZE, 4, rank, n, &dist);
                size_t count = SIZE / 4 / (size_t)n & ~(size_t)3;
                size_t mine = 0;
                for (int peer = 0; peer < n; peer++)
                    mine += bench_dist_elements(&dist, 0, count, 4, peer, rank, n);
                assert_int_equal(shape.recv_elements, mine);
                assert_true(shape.bytes >= 4 * shape.recv_elements &&
                            shape.bytes >= 4 * shape.send_elements);
            }
            bench_dist_close(&dist);
        }
}

/* All ranks prefer the same receivers: the weights follow the formula, in an order that the seed
 * determines. */
TEST(zipf_follows_its_formula)
{
    size_t sent[4], received[4], other[4], sorted[4];
    bench_dist dist = opened("zipf:1", 4, 7);
    totals(&dist, 0, 4, sent, received);
    memcpy(sorted, received, sizeof sorted);
    for (int i = 0; i < 4; i++)
        for (int j = i + 1; j < 4; j++)
            if (sorted[j] > sorted[i]) {
                size_t kept = sorted[i];
                sorted[i] = sorted[j];
                sorted[j] = kept;
            }
    for (int place = 0; place < 4; place++)
        assert_true(sorted[place] <= SIZE / (size_t)(place + 1) &&
                    sorted[place] + 64 >= SIZE / (size_t)(place + 1));
    for (int from = 1; from < 4; from++)
        for (int to = 0; to < 4; to++)
            assert_int_equal(bytes_of(&dist, 0, from, to, 4), bytes_of(&dist, 0, 0, to, 4));
    int differs = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        bench_dist next = opened("zipf:1", 4, seed);
        totals(&next, 0, 4, sent, other);
        differs |= memcmp(other, received, sizeof other) != 0;
        bench_dist_close(&next);
    }
    assert_true(differs);
    bench_dist_close(&dist);
}

TEST(hot_receivers_get_90_percent)
{
    size_t sent[8], received[8], hot = 0, cold = 0;
    bench_dist dist = opened("hot:2", 8, 3);
    totals(&dist, 0, 8, sent, received);
    for (int rank = 0; rank < 8; rank++)
        *(received[rank] > SIZE / 2 ? &hot : &cold) += received[rank];
    assert_true(hot > 2 * (SIZE - 256) && hot <= 2 * SIZE);
    assert_true(cold * 9 > hot - 8192 && cold * 9 < hot + 8192); /* 10% and 90% */
    bench_dist_close(&dist);
    dist = opened("hot:8", 8, 3);
    assert_int_equal(bytes_of(&dist, 0, 2, 5, 8), SIZE / 8);
    bench_dist_close(&dist);
}

TEST(matrix_and_trace_files_set_the_weights)
{
    bench_dist dist = opened(file_with("matrix", "# weights\n0 1 # first\n\n,3, 0\n"), 2, 1);
    assert_int_equal(dist.nsteps, 1);
    assert_int_equal(bytes_of(&dist, 0, 1, 0, 2), SIZE);
    assert_int_equal(bytes_of(&dist, 0, 0, 1, 2), SIZE / 3 & ~15);
    assert_int_equal(bytes_of(&dist, 0, 0, 0, 2), 0);
    bench_dist_close(&dist);
    /* Each matrix of a trace is scaled by itself, so that every step moves the size. */
    dist = opened(file_with("trace", "0 1\n1 0\n\n# next\n\n0 0\n5e300 5e300\n"), 2, 1);
    assert_int_equal(dist.nsteps, 2);
    assert_int_equal(bytes_of(&dist, 0, 0, 1, 2), SIZE);
    assert_int_equal(bytes_of(&dist, 1, 1, 0, 2), SIZE / 2);
    assert_int_equal(bytes_of(&dist, 1, 0, 1, 2), 0);
    bench_shape shape = bench_shape_make(WEIR_COLL_ALLTOALLV, SIZE, 4, 0, 2, &dist);
    assert_int_equal(shape.bytes, SIZE);
    assert_int_equal(shape.send_elements, SIZE / 4); /* of the first step */
    bench_dist_close(&dist);
}

TEST(wrong_files_are_rejected_with_the_line_number)
{
    static const struct {
        const char *word, *text, *says;
    } bad[] = {
        {"matrix", "1 1\n1 x\n", ":2: 'x' is no weight"},
        {"matrix", "1 1\n1 -1\n", ":2: '-1' is no weight"},
        {"matrix", "1 nan\n1 1\n", ":1: 'nan' is no weight"},
        {"matrix", "1 1 1\n1 1 1\n1 1 1\n", ":1: 3 weights, but there are 2 ranks"},
        {"matrix", "1 1\n1\n", ":2: 1 weight, but"},
        {"matrix", "1 1\n1 1\n1 1\n", ":3: a row too many"},
        {"matrix", "1 1\n", "ends after 1 of 2 rows"},
        {"matrix", "0 0\n0 0\n", "all weights of the matrix are 0"},
        {"matrix", "# nothing\n", "no weights"},
        {"trace", "1 1\n\n1 1\n1 1\n", ":2: the matrix ends after 1 of 2 rows"},
        {"trace", "1 1\n1 1\n\n0 0\n0 0\n", ":5: all weights of the matrix are 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bench_dist dist;
        assert_int_equal(bench_dist_parse(file_with(bad[i].word, bad[i].text), &dist), WEIR_OK);
        *problem = '\0';
        assert_int_equal(bench_dist_open(&dist, 2, 1, problem), WEIR_ERR_INVALID);
        if (!strstr(problem, bad[i].says) || strchr(problem, '\n'))
            fail_msg("'%s' does not say '%s'", problem, bad[i].says);
    }
}

TEST(wrong_distribution_names_are_rejected)
{
    static const char *const words[] = {"",        "spread",  "spread:", "spread:1.1", "zipf",
                                        "zipf:-1", "zipf:x",  "zipf:21", "hot:0",      "hot:1.5",
                                        "hot:",    "matrix:", "trace",   "uniform:1",  "hot:nan"};
    bench_dist dist;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (bench_dist_parse(words[i], &dist) == WEIR_OK)
            fail_msg("'%s' was taken", words[i]);
    assert_int_equal(bench_dist_parse("hot:3", &dist), WEIR_OK);
    assert_int_equal(bench_dist_open(&dist, 2, 1, problem), WEIR_ERR_INVALID);
    assert_non_null(strstr(problem, "there are 2 ranks"));
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0)
        return 3;
    close(fd);
    int failed = run_all_tests("bench_dist");
    unlink(path);
    return failed;
}
