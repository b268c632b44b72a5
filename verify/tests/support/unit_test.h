/*
 * The frame of a C test program. TEST(name) { ... } defines a test and registers it, so that no
 * list of tests has to be kept; main() calls run_all_tests(), which runs the registered tests in
 * the order of the file and prints TAP. TEST_CASE("text", function, value), without a semicolon,
 * registers a function once more, with *state pointing at the value. Included by one source of a
 * program: a test is registered under its line.
 */
#ifndef VERIFY_TESTS_SUPPORT_UNIT_TEST_H
#define VERIFY_TESTS_SUPPORT_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEST_LINES_MAX = 1000 };

static struct CMUnitTest tests_by_line[TEST_LINES_MAX]; /* cmocka skips empty rows */

#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, setup, teardown)                                                           \
    static void name(void **state);                                                                \
    TEST_REGISTER(__LINE__, #name, name, setup, teardown, NULL)                                    \
    static void name(void **state __attribute__((unused)))
#define TEST_CASE(text, function, value) TEST_REGISTER(__LINE__, text, function, NULL, NULL, value)
#define TEST_REGISTER(line, ...) TEST_REGISTER_AT(line, __VA_ARGS__)
#define TEST_REGISTER_AT(line, ...)                                                                \
    __attribute__((constructor)) static void test_register_##line(void)                            \
    {                                                                                              \
        tests_by_line[line] = (struct CMUnitTest){__VA_ARGS__};                                    \
    }

/* The exit code of main(): 0 if all tests passed. */
static inline int run_all_tests(const char *group)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name(group, tests_by_line, NULL, NULL);
}

/* The next of a sequence of pseudo-random numbers of 53 bits (xorshift64); *x is not 0. */
static inline uint64_t test_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x >> 11;
}

/* The same as a fraction from 0 to 1, excluding 1. */
static inline double test_random_fraction(uint64_t *x)
{
    return (double)test_random(x) / 9007199254740992.0;
}

#endif
