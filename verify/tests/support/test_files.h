/* Files that tests write: below a synthetic root folder, and temporary ones. */
#ifndef VERIFY_TESTS_SUPPORT_TEST_FILES_H
#define VERIFY_TESTS_SUPPORT_TEST_FILES_H

#include "verify/tests/support/unit_test.h"

#include <sys/stat.h>
#include <unistd.h>

/* Writes text to the file root/path, creating the folders of the path. */
static inline void test_file_write(const char *root, const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = whole + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Writes bytes of text to a new file, whose name is stored in path; the caller unlinks it. */
static inline void test_file_temporary(const char *text, size_t bytes, char path[32])
{
    strcpy(path, "/tmp/weir-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
}

#endif
