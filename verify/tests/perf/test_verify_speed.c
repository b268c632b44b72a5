/*
 * Proves that the exact oracle is not slow. As a test it requires little, because nodes may be
 * loaded: no type and operation may be much slower than sums of floats. With --bench it prints the
 * GB/s of memcpy and, for each type and operation, the best of several passes of writing an input,
 * comparing an input, and comparing a result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verify/exact.h"
#include "verify/expected.h"
#include "verify/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NRANKS = 8, LEAST_SHARE = 40 };

typedef struct speeds {
    double fill, compare, check; /* bytes a second */
} speeds;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Keeps the best of a speed. */
static void note(double *best, size_t bytes, double began_s)
{
    double speed = (double)bytes / (now_s() - began_s);
    *best = speed > *best ? speed : *best;
}

static double memcpy_speed(void *to, const void *from, size_t bytes, int passes)
{
    double best = 0;
    memset(to, 1, bytes);
    for (int i = 0; i < passes; i++) {
        double began_s = now_s();
        memcpy(to, from, bytes);
        note(&best, bytes, began_s);
    }
    return best;
}

/* Sets wrong if a comparison finds what is not there. */
static speeds measure(weirv_case *c, void *buffer, size_t bytes, int passes, int *wrong)
{
    speeds best = {0, 0, 0};
    weirv_result found = {0};
    c->count = bytes / weir_dtype_bytes(c->dtype);
    weirv_fill_input(c, buffer);
    for (int i = 0; i < passes; i++) {
        double began_s = now_s();
        weirv_fill_input(c, buffer);
        note(&best.fill, bytes, began_s);
        began_s = now_s();
        *wrong |= weirv_input_changed(c, buffer) != 0;
        note(&best.compare, bytes, began_s);
    }
    for (size_t at = 0; at < c->count;)
        at +=
            weirv_expected(c, at, c->count - at, (char *)buffer + at * weir_dtype_bytes(c->dtype));
    for (int i = 0; i < passes; i++) {
        double began_s = now_s();
        weirv_check_exact(c, buffer, &found);
        note(&best.check, bytes, began_s);
    }
    *wrong |= found.wrong != 0;
    return best;
}

static weirv_case make_case(weir_collective collective, int dtype, int op)
{
    return (weirv_case){.collective = collective,
                        .dtype = (weir_dtype)dtype,
                        .op = (weir_op)op,
                        .rank = 3,
                        .nranks = NRANKS,
                        .seed = 7,
                        .exact = 1};
}

/* Elements a second of what takes longest, in one type and operation. */
static double slowest(int dtype, int op, void *buffer, size_t bytes)
{
    int wrong = 0;
    weirv_case c = make_case(WEIR_COLL_ALLREDUCE, dtype, op);
    speeds best = measure(&c, buffer, bytes, 3, &wrong);
    assert_false(wrong);
    double least = best.fill < best.compare ? best.fill : best.compare;
    least = least < best.check ? least : best.check;
    return least / (double)weir_dtype_bytes((weir_dtype)dtype);
}

static void no_type_is_slow(void **state)
{
    const size_t bytes = 64 << 10;
    char *buffer = malloc(bytes);
    (void)state;
    assert_non_null(buffer);
    double usual = slowest(WEIR_FLOAT, WEIR_SUM, buffer, bytes);
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int op = 0; op < WEIR_OP_COUNT; op++) {
            double speed = slowest(dtype, op, buffer, bytes);
            if (speed * LEAST_SHARE < usual)
                fail_msg("%s %s: %.3g elements a second, float sum %.3g",
                         weir_dtype_name((weir_dtype)dtype), weir_op_name((weir_op)op), speed,
                         usual);
        }
    free(buffer);
}

static int print_speeds(size_t bytes)
{
    char *buffer = malloc(bytes), *other = malloc(bytes);
    int wrong = 0, moves = 0;
    if (!buffer || !other)
        return 3;
    memset(buffer, 1, bytes);
    printf("memcpy of %zu bytes: %.2f GB/s\n", bytes, memcpy_speed(other, buffer, bytes, 5) * 1e-9);
    printf("%-10s %-5s %8s %8s %8s\n", "type", "op", "fill", "input", "result");
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int op = 0; op <= WEIR_OP_COUNT; op++) {
            moves = op == WEIR_OP_COUNT;
            weirv_case c = make_case(moves ? WEIR_COLL_SENDRECV : WEIR_COLL_ALLREDUCE, dtype,
                                     moves ? WEIR_SUM : op);
            speeds best = measure(&c, buffer, bytes, 3, &wrong);
            printf("%-10s %-5s %8.2f %8.2f %8.2f\n", weir_dtype_name((weir_dtype)dtype),
                   moves ? "none" : weir_op_name((weir_op)op), best.fill * 1e-9,
                   best.compare * 1e-9, best.check * 1e-9);
        }
    free(other);
    free(buffer);
    return wrong;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_type_is_slow)};
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return print_speeds((size_t)16 << 20);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
