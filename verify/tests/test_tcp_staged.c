/*
 * The tcp wire with memory that it cannot touch, staged: the whole conformance suite, with
 * a stand-in for the GPU. Its memory is mapped twice: where it is registered, without any
 * access, so that a wire that loads, stores or hands it to a socket fails; and where the
 * test and the stand-in's copies see it. Copies are carried out late, in order, when they
 * have been asked after a few times.
 */
#define _GNU_SOURCE /* memfd_create */

#include "transport/tcp.h"
#include "wire_conformance.h"

#include <sys/mman.h>

enum { MOST_COPIES = 256, ASKED = 3 };

/* ------------------------------------------------------------------- memory */

/* The one room of a rank. */
static char *room_seen, *room_registered;
static size_t room_bytes;

static unsigned char *make_room(size_t bytes, void **registered)
{
    int fd = memfd_create("staged", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    room_seen = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    room_registered = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    assert_true(room_seen != MAP_FAILED && room_registered != MAP_FAILED);
    room_bytes = bytes;
    close(fd);
    *registered = room_registered;
    return (unsigned char *)room_seen;
}

/* Where a copy sees memory that was registered; NULL: it was not. */
static char *seen_at(const void *registered)
{
    const char *at = registered;
    if (at < room_registered || at >= room_registered + room_bytes)
        return NULL;
    return room_seen + (at - room_registered);
}

/* ------------------------------------------------------------------- copies */

typedef struct late_copy {
    const weiri_tcp_slot *slot;
    char *to;
    const char *from;
    size_t bytes;
} late_copy;

typedef struct standin {
    late_copy list[MOST_COPIES];
    int count, asked;
} standin;

static uint64_t copies_made;

static void carry_out_first(standin *gpu)
{
    memcpy(gpu->list[0].to, gpu->list[0].from, gpu->list[0].bytes);
    memmove(gpu->list, gpu->list + 1, (size_t)--gpu->count * sizeof *gpu->list);
    gpu->asked = 0;
    copies_made++;
}

static weir_status standin_open(const void *memory, void **context)
{
    assert_non_null(seen_at(memory));
    *context = calloc(1, sizeof(standin));
    return WEIR_OK;
}

static int standin_holds(void *context, const void *memory)
{
    (void)context;
    return seen_at(memory) != NULL;
}

static void standin_close(void *context)
{
    assert_int_equal(((standin *)context)->count, 0); /* buffers were closed before */
    free(context);
}

static weir_status standin_slot_open(void *context, weiri_tcp_slot *slot)
{
    (void)context;
    *slot = (weiri_tcp_slot){.buffer = malloc(WEIRI_TCP_SLOT_BYTES)};
    return WEIR_OK;
}

static weir_status standin_is_done(void *context, const weiri_tcp_slot *slot, int *done)
{
    standin *gpu = context;
    if (gpu->count > 0 && ++gpu->asked >= ASKED)
        carry_out_first(gpu);
    *done = 1;
    for (int i = 0; i < gpu->count; i++)
        *done &= gpu->list[i].slot != slot;
    return WEIR_OK;
}

static void standin_slot_close(void *context, weiri_tcp_slot *slot)
{
    for (int done = 0; !done;)
        standin_is_done(context, slot, &done);
    free(slot->buffer);
    *slot = (weiri_tcp_slot){.buffer = NULL};
}

static weir_status standin_copy_out(void *context, weiri_tcp_slot *slot, const void *from,
                                    size_t bytes)
{
    standin *gpu = context;
    assert_true(bytes <= WEIRI_TCP_SLOT_BYTES && gpu->count < MOST_COPIES);
    memset(slot->buffer, 0x55, bytes); /* whoever sends it too early is found out */
    gpu->list[gpu->count++] = (late_copy){slot, slot->buffer, seen_at(from), bytes};
    return WEIR_OK;
}

static weir_status standin_copy_in(void *context, weiri_tcp_slot *slot, void *to, size_t bytes)
{
    standin *gpu = context;
    assert_true(bytes <= WEIRI_TCP_SLOT_BYTES && gpu->count < MOST_COPIES);
    gpu->list[gpu->count++] = (late_copy){slot, seen_at(to), slot->buffer, bytes};
    return WEIR_OK;
}

static const weiri_tcp_stage_ops standin_ops = {.open = standin_open,
                                                .holds = standin_holds,
                                                .close = standin_close,
                                                .slot_open = standin_slot_open,
                                                .slot_close = standin_slot_close,
                                                .copy_out = standin_copy_out,
                                                .copy_in = standin_copy_in,
                                                .is_done = standin_is_done};

static void adapt(weiri_wire *wire)
{
    ((weiri_tcp_wire *)wire)->stage_ops = &standin_ops;
}

/* -------------------------------------------------------------------- tests */

static const wire_bed bed = {WEIRI_WIRE_CUDA, adapt, make_room};

static int conform_staged(weir_boot *boot, void *argument)
{
    (void)argument;
    wire_bed_used = &bed;
    int failures = wire_conformance(boot, WEIR_TRANSPORT_TCP);
    EXPECT(&failures, copies_made > 0);
    return failures;
}

static int silent_staged(weir_boot *boot, void *argument)
{
    (void)argument;
    wire_bed_used = &bed;
    return wire_fault_silent(boot, WEIR_TRANSPORT_TCP);
}

static void test_staged_memory_conforms(void **state)
{
    (void)state;
    run_ranks(2, conform_staged, NULL);
    run_ranks(3, conform_staged, NULL);
}

static void test_one_stream_suffices(void **state)
{
    (void)state;
    setenv("WEIR_SOCKET_STREAMS", "1", 1);
    run_ranks(2, conform_staged, NULL);
    unsetenv("WEIR_SOCKET_STREAMS");
}

static void test_deadline_holds(void **state)
{
    (void)state;
    run_ranks(2, silent_staged, NULL);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_staged_memory_conforms),
        cmocka_unit_test(test_one_stream_suffices),
        cmocka_unit_test(test_deadline_holds),
    };
    return cmocka_run_group_tests_name("tcp_staged", tests, NULL, NULL);
}
