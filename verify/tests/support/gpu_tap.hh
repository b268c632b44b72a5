/*
 * TAP output of a C++ test program: call ok() for each test case, and end main with `return
 * tap_done();`.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_TAP_HH
#define VERIFY_TESTS_SUPPORT_GPU_TAP_HH

#include <cstdarg>
#include <cstdio>
#include <string>

static int tap_count, tap_failed;

/* Reports one test case; why: the reason of a failure, which may have several lines. */
static inline __attribute__((format(printf, 3, 4))) void ok(bool good, const std::string &why,
                                                            const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%sok %d - ", good ? "" : "not ", ++tap_count);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    if (!good) {
        tap_failed++;
        for (size_t at = 0, end; at < why.size(); at = end + 1) {
            end = why.find('\n', at) == std::string::npos ? why.size() : why.find('\n', at);
            printf("# %s\n", why.substr(at, end - at).c_str());
        }
    }
    fflush(stdout);
}

static inline int tap_done()
{
    printf("1..%d\n", tap_count);
    return tap_failed != 0;
}

#endif
