/*
 * Conformance suite of bootstraps. Every rank calls boot_conformance() with the bootstrap under
 * test; it returns the number of failed expectations, each printed on standard error, and leaves
 * the bootstrap usable.
 */
#ifndef VERIFY_TESTS_CONFORMANCE_BOOT_CONFORMANCE_H
#define VERIFY_TESTS_CONFORMANCE_BOOT_CONFORMANCE_H

#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(failures, condition)                                                                \
    ((condition) ? (void)0 : boot_unexpected((failures), #condition, __FILE__, __LINE__))
#define EXPECT_OK(failures, call) EXPECT(failures, (call) == WEIR_OK)

static inline void boot_unexpected(int *failures, const char *condition, const char *file, int line)
{
    fprintf(stderr, "# %s:%d: not so: %s (last error: %s)\n", file, line, condition,
            weir_last_error());
    ++*failures;
}

static inline int boot_last_error_has(const char *text)
{
    return strstr(weir_last_error(), text) != NULL;
}

/* Byte i of a rank's data in a round. */
static inline unsigned char boot_pattern(int rank, int round, size_t i)
{
    return (unsigned char)(i * 7 + (i >> 8) + (size_t)rank * 31 + (size_t)round * 101 + 1);
}

static inline void boot_fill(unsigned char *data, size_t bytes, int rank, int round)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = boot_pattern(rank, round, i);
}

static inline int boot_filled(const unsigned char *data, size_t bytes, int rank, int round)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != boot_pattern(rank, round, i))
            return 0;
    return 1;
}

static inline void boot_check_allgather(weir_boot *boot, int *failures)
{
    static const size_t sizes[] = {0, 1, 7, 24, 4096, 65537, 1 << 20, 3};
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    for (int round = 0; round < (int)(sizeof sizes / sizeof *sizes); round++) {
        size_t bytes = sizes[round];
        unsigned char *all = calloc((size_t)nranks, bytes ? bytes : 1);
        boot_fill(all + (size_t)rank * bytes, bytes, rank, round);
        EXPECT_OK(failures, weir_boot_allgather(boot, all, bytes));
        for (int peer = 0; peer < nranks; peer++)
            EXPECT(failures, boot_filled(all + (size_t)peer * bytes, bytes, peer, round));
        free(all);
    }
    EXPECT_OK(failures, weir_boot_allgather(boot, NULL, 0));
}

/* Around the ring: several messages, small enough to be buffered, are sent to the right before any
 * is received from the left. */
static inline void boot_check_order(weir_boot *boot, int *failures)
{
    enum { MESSAGES = 20, BYTES = 300 };
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    unsigned char data[BYTES];
    if (nranks == 1)
        return;
    for (int i = 0; i < MESSAGES; i++) {
        boot_fill(data, BYTES - (size_t)i, rank, i);
        EXPECT_OK(failures,
                  weir_boot_send(boot, data, BYTES - (size_t)i, (rank + 1) % nranks, i % 3));
    }
    int left = (rank + nranks - 1) % nranks;
    for (int i = 0; i < MESSAGES; i++) {
        memset(data, 0, sizeof data);
        EXPECT_OK(failures, weir_boot_recv(boot, data, BYTES - (size_t)i, left, i % 3));
        EXPECT(failures, boot_filled(data, BYTES - (size_t)i, left, i));
    }
}

/* A message longer than any buffer, and an empty one. */
static inline void boot_check_sizes(weir_boot *boot, int *failures)
{
    enum { BYTES = 3 << 20 };
    int rank = weir_boot_rank(boot);
    if (weir_boot_nranks(boot) == 1)
        return;
    unsigned char *data = calloc(1, BYTES);
    boot_fill(data, rank == 0 ? BYTES : 0, 0, 5);
    if (rank == 0) {
        EXPECT_OK(failures, weir_boot_send(boot, data, BYTES, 1, 5));
        EXPECT_OK(failures, weir_boot_send(boot, NULL, 0, 1, 6));
    } else if (rank == 1) {
        EXPECT_OK(failures, weir_boot_recv(boot, data, BYTES, 0, 5));
        EXPECT(failures, boot_filled(data, BYTES, 0, 5));
        EXPECT_OK(failures, weir_boot_recv(boot, NULL, 0, 0, 6));
    }
    free(data);
}

/* Messages sent before a barrier are received after it, none lost. */
static inline void boot_check_message_across_barrier(weir_boot *boot, int *failures)
{
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    int first = rank * 10, second = rank * 10 + 1;
    int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
    if (nranks > 1) {
        EXPECT_OK(failures, weir_boot_send(boot, &first, sizeof first, right, 1));
        EXPECT_OK(failures, weir_boot_send(boot, &second, sizeof second, right, 2));
    }
    EXPECT_OK(failures, weir_boot_barrier(boot));
    if (nranks > 1) {
        EXPECT_OK(failures, weir_boot_recv(boot, &first, sizeof first, left, 1));
        EXPECT_OK(failures, weir_boot_recv(boot, &second, sizeof second, left, 2));
        EXPECT(failures, first == left * 10 && second == left * 10 + 1);
    }
}

/* A wrong tag and a wrong length are reported; the receive buffer stays unchanged and the next
 * message is received correctly. */
static inline void boot_check_mismatch(weir_boot *boot, int *failures)
{
    int rank = weir_boot_rank(boot);
    int value = 41;
    if (weir_boot_nranks(boot) == 1)
        return;
    if (rank == 1) {
        EXPECT_OK(failures, weir_boot_send(boot, &value, sizeof value, 0, 77));
        EXPECT_OK(failures, weir_boot_send(boot, &value, 2, 0, 78));
        EXPECT_OK(failures, weir_boot_send(boot, &value, sizeof value, 0, 79));
    } else if (rank == 0) {
        int got = 7;
        EXPECT(failures, weir_boot_recv(boot, &got, sizeof got, 1, 12) == WEIR_ERR_MISMATCH);
        EXPECT(failures, boot_last_error_has("tag 12") && boot_last_error_has("tag 77") &&
                             boot_last_error_has("rank 1"));
        EXPECT(failures, weir_boot_recv(boot, &got, sizeof got, 1, 78) == WEIR_ERR_MISMATCH);
        EXPECT(failures, boot_last_error_has("4 bytes") && boot_last_error_has("2 bytes"));
        EXPECT(failures, got == 7);
        EXPECT_OK(failures, weir_boot_recv(boot, &got, sizeof got, 1, 79));
        EXPECT(failures, got == 41);
    }
}

static inline void boot_check_arguments(weir_boot *boot, int *failures)
{
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot), value = 0;
    int invalid[] = {-1, nranks, rank};
    for (int i = 0; i < 3; i++) {
        EXPECT(failures,
               weir_boot_send(boot, &value, sizeof value, invalid[i], 0) == WEIR_ERR_INVALID);
        EXPECT(failures,
               weir_boot_recv(boot, &value, sizeof value, invalid[i], 0) == WEIR_ERR_INVALID);
    }
    EXPECT(failures, weir_boot_allgather(boot, NULL, 8) == WEIR_ERR_INVALID);
}

/* Every rank gets the worst status, of the lowest rank on a tie, and that rank's error text. */
static inline void boot_check_agree(weir_boot *boot, int *failures)
{
    int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    char who[32];
    EXPECT_OK(failures, weir_boot_agree(boot, WEIR_OK));
    for (int culprit = 0; culprit < nranks; culprit++) {
        weir_status mine = WEIR_OK;
        if (rank == culprit) /* fails, and so has an error text */
            mine = weir_dtype_parse("quadruple", &(weir_dtype){0});
        EXPECT(failures, weir_boot_agree(boot, mine) == WEIR_ERR_INVALID);
        snprintf(who, sizeof who, "rank %d failed", culprit);
        EXPECT(failures, boot_last_error_has(who) && boot_last_error_has("'quadruple'"));
    }
    weir_status worst = nranks > 1 ? WEIR_ERR_TIMEOUT : WEIR_ERR_SYSTEM;
    EXPECT(failures,
           weir_boot_agree(boot, rank == 0 ? WEIR_ERR_SYSTEM : WEIR_ERR_TIMEOUT) == worst);
    snprintf(who, sizeof who, "rank %d failed", nranks > 1 ? 1 : 0);
    EXPECT(failures, boot_last_error_has(who));
    EXPECT_OK(failures, weir_boot_agree(boot, WEIR_OK));
}

static inline int boot_conformance(weir_boot *boot, int rank, int nranks, const char *name)
{
    int failures = 0;
    EXPECT(&failures, weir_boot_rank(boot) == rank);
    EXPECT(&failures, weir_boot_nranks(boot) == nranks);
    EXPECT(&failures, strcmp(weir_boot_name(boot), name) == 0);
    boot_check_allgather(boot, &failures);
    boot_check_order(boot, &failures);
    boot_check_sizes(boot, &failures);
    boot_check_message_across_barrier(boot, &failures);
    boot_check_mismatch(boot, &failures);
    boot_check_arguments(boot, &failures);
    boot_check_agree(boot, &failures);
    EXPECT_OK(&failures, weir_boot_barrier(boot));
    return failures;
}

#endif
