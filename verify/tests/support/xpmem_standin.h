/* The interface of xpmem_standin.c: that of libxpmem, and what tests use beyond it. */
#ifndef VERIFY_TESTS_SUPPORT_XPMEM_STANDIN_H
#define VERIFY_TESTS_SUPPORT_XPMEM_STANDIN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct xpmem_standin_address {
    int64_t permit;
    off_t offset;
} xpmem_standin_address;

/* What this process holds, and how often it has attached memory. */
typedef struct xpmem_standin_counts {
    int segments, permits, attachments, attaches;
} xpmem_standin_counts;

/* Allocates from the arena, at a multiple of spacing from its beginning (0: of a page); the first
 * unused place, so that memory that was freed is given out again. NULL: none left. */
void *xpmem_standin_alloc(size_t bytes, size_t spacing);
void xpmem_standin_free(void *pointer);
/* Takes all pages from the arena: accesses to it raise SIGBUS, here and where it is attached. */
int xpmem_standin_vanish(void);
xpmem_standin_counts xpmem_standin_count(void);

int xpmem_version(void);
int64_t xpmem_make(void *address, size_t bytes, int permit_type, void *mode);
int xpmem_remove(int64_t segment);
int64_t xpmem_get(int64_t segment, int flags, int permit_type, void *mode);
int xpmem_release(int64_t permit);
void *xpmem_attach(xpmem_standin_address from, size_t bytes, void *wanted);
int xpmem_detach(void *at);

#endif
