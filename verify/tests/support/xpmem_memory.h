/*
 * Unregistered memory that peers can attach, for tests: from the stand-in for libxpmem, which
 * xpmem_load brings in, or with TEST_XPMEM=real from mmap, for the kernel module.
 */
#ifndef VERIFY_TESTS_SUPPORT_XPMEM_MEMORY_H
#define VERIFY_TESTS_SUPPORT_XPMEM_MEMORY_H

#include "verify/tests/support/xpmem_standin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    void *handle;
    void *(*alloc)(size_t bytes, size_t spacing);
    void (*free)(void *pointer);
    int (*vanish)(void);
    xpmem_standin_counts (*count)(void);
} xpmem_standin;

/* Whether the test runs with the kernel module. */
static inline int xpmem_is_real(void)
{
    const char *word = getenv("TEST_XPMEM");
    return word && strcmp(word, "real") == 0;
}

/* Loads the stand-in, which lies next to the test program. The library then finds it by its name.
 * Returns 1 if that succeeded, or none is wanted. */
static inline int xpmem_load(void)
{
    char path[4096];
    if (xpmem_is_real() || xpmem_standin.handle)
        return 1;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "/libxpmem.so.0");
    path[length > 0 ? length : 0] = '\0';
    char *end = strrchr(path, '/');
    if (!end)
        return 0;
    memcpy(end, "/libxpmem.so.0", sizeof "/libxpmem.so.0");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "# %s\n", dlerror());
        return 0;
    }
    *(void **)&xpmem_standin.alloc = dlsym(handle, "xpmem_standin_alloc");
    *(void **)&xpmem_standin.free = dlsym(handle, "xpmem_standin_free");
    *(void **)&xpmem_standin.vanish = dlsym(handle, "xpmem_standin_vanish");
    *(void **)&xpmem_standin.count = dlsym(handle, "xpmem_standin_count");
    xpmem_standin.handle = handle;
    return xpmem_standin.alloc && xpmem_standin.free && xpmem_standin.vanish && xpmem_standin.count;
}

static inline void *xpmem_memory(size_t bytes)
{
    if (!xpmem_is_real())
        return xpmem_standin.alloc(bytes, 0);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static inline void xpmem_memory_free(void *at, size_t bytes)
{
    if (xpmem_is_real())
        munmap(at, bytes);
    else
        xpmem_standin.free(at);
}

#endif
