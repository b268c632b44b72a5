/*
 * Test double: a GPU whose memory a network transport must stage. The memory is mapped twice: at
 * the registered address without access rights, so that a transport that loads, stores or passes
 * it to a socket or a device fails; and at the address that the test and the double's copies use.
 * Copies are performed late, in order, after their completion has been queried a few times.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#ifndef VERIFY_TESTS_SUPPORT_STAGING_STANDIN_H
#define VERIFY_TESTS_SUPPORT_STAGING_STANDIN_H

#include "transport/net/staging.h"
#include "verify/tests/conformance/net_conformance.h"

#include <sys/mman.h>

enum { MOST_COPIES = 256, ASKED = 3 };

/* ------------------------------------------------------------------- memory */

/* The one memory of a rank, which all networks that it opens use in turn. */
static char *room_seen, *room_registered;
static size_t room_bytes;

static inline unsigned char *make_room(size_t bytes, void **registered)
{
    if (room_bytes == bytes) {
        *registered = room_registered;
        return (unsigned char *)room_seen;
    }
    int fd = memfd_create("staged", MFD_CLOEXEC);
    assert_true(room_bytes == 0 && fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    room_seen = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    room_registered = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    assert_true(room_seen != MAP_FAILED && room_registered != MAP_FAILED);
    room_bytes = bytes;
    close(fd);
    *registered = room_registered;
    return (unsigned char *)room_seen;
}

/* Where a copy sees memory that was registered; NULL: it was not. */
static inline char *seen_at(const void *registered)
{
    const char *at = registered;
    if (at < room_registered || at >= room_registered + room_bytes)
        return NULL;
    return room_seen + (at - room_registered);
}

/* ------------------------------------------------------------------- copies */

typedef struct late_copy {
    const weiri_staging_slot *slot;
    char *to;
    const char *from;
    size_t bytes;
} late_copy;

typedef struct standin {
    late_copy list[MOST_COPIES];
    int count, asked;
} standin;

static uint64_t copies_made;

static inline void perform_first(standin *gpu)
{
    memcpy(gpu->list[0].to, gpu->list[0].from, gpu->list[0].bytes);
    memmove(gpu->list, gpu->list + 1, (size_t)--gpu->count * sizeof *gpu->list);
    gpu->asked = 0;
    copies_made++;
}

static inline weir_status standin_open(const void *memory, void **context)
{
    assert_non_null(seen_at(memory));
    *context = calloc(1, sizeof(standin));
    return WEIR_OK;
}

static inline int standin_holds(void *context, const void *memory)
{
    (void)context;
    return seen_at(memory) != NULL;
}

static inline void standin_close(void *context)
{
    assert_int_equal(((standin *)context)->count, 0); /* buffers were closed before */
    free(context);
}

static inline weir_status standin_slot_open(void *context, size_t bytes, weiri_staging_slot *slot)
{
    (void)context;
    /* The event holds the length. The buffer is a separate mapping, so that leaks can be counted.
     */
    void *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(buffer != MAP_FAILED);
    *slot = (weiri_staging_slot){.buffer = buffer, .event = (void *)(uintptr_t)bytes};
    return WEIR_OK;
}

static inline weir_status standin_is_done(void *context, const weiri_staging_slot *slot, int *done)
{
    standin *gpu = context;
    if (gpu->count > 0 && ++gpu->asked >= ASKED)
        perform_first(gpu);
    *done = 1;
    for (int i = 0; i < gpu->count; i++)
        *done &= gpu->list[i].slot != slot;
    return WEIR_OK;
}

static inline void standin_slot_close(void *context, weiri_staging_slot *slot)
{
    for (int done = 0; !done;)
        standin_is_done(context, slot, &done);
    munmap(slot->buffer, (uintptr_t)slot->event);
    *slot = (weiri_staging_slot){.buffer = NULL};
}

static inline weir_status standin_copy_out(void *context, weiri_staging_slot *slot,
                                           const void *from, size_t bytes)
{
    standin *gpu = context;
    assert_true(bytes <= WEIRI_STAGING_BUFFER_BYTES && gpu->count < MOST_COPIES);
    memset(slot->buffer, 0x55, bytes); /* sent too early, it would be wrong */
    gpu->list[gpu->count++] = (late_copy){slot, slot->buffer, seen_at(from), bytes};
    return WEIR_OK;
}

static inline weir_status standin_copy_in(void *context, weiri_staging_slot *slot, void *to,
                                          size_t bytes)
{
    standin *gpu = context;
    assert_true(bytes <= WEIRI_STAGING_BUFFER_BYTES && gpu->count < MOST_COPIES);
    gpu->list[gpu->count++] = (late_copy){slot, seen_at(to), slot->buffer, bytes};
    return WEIR_OK;
}

static inline const weiri_staging_ops *standin_ops(void)
{
    static const weiri_staging_ops ops = {.open = standin_open,
                                          .holds = standin_holds,
                                          .close = standin_close,
                                          .slot_open = standin_slot_open,
                                          .slot_close = standin_slot_close,
                                          .copy_out = standin_copy_out,
                                          .copy_in = standin_copy_in,
                                          .is_done = standin_is_done};
    return &ops;
}

#endif
