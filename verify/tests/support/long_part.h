/*
 * Parts of C tests that only long runs (make test-long, or TEST_LONG=1) include; long.inc is the
 * same for shell tests. verify/tests/run lists what a short run leaves out.
 */
#ifndef VERIFY_TESTS_SUPPORT_LONG_PART_H
#define VERIFY_TESTS_SUPPORT_LONG_PART_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int is_long_run(void)
{
    const char *value = getenv("TEST_LONG");
    return value && strcmp(value, "1") == 0;
}

/* Whether this is a long run. In a short one prints the text, which says what is left out. */
static inline int long_part(const char *text)
{
    if (is_long_run())
        return 1;
    printf("# left out: %s\n", text);
    return 0;
}

#endif
