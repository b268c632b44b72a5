/*
 * Test double for the GPUs of a communicator across nodes: a second communicator of the node's
 * ranks, in host memory, performs the collectives that would run on GPUs. Copies are performed
 * late, after their completion has been queried a few times, so code that does not wait for them
 * uses stale data. Memory of standin_alloc is mapped twice: where the test sees it, and without
 * access rights at the address of the "device", so code that loads or stores there fails.
 */
#ifndef VERIFY_TESTS_SUPPORT_DEVICE_STANDIN_H
#define VERIFY_TESTS_SUPPORT_DEVICE_STANDIN_H

#include "comm/internode/internode_comm.h"
#include "comm/gpu/gpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STANDIN_COPIES = 64, STANDIN_ASKED = 3 };

static struct {
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } begun[STANDIN_COPIES];
    int count, asked;
    int pins;            /* that were not undone */
    uint64_t late;       /* copies that were begun, ever */
    char *seen, *device; /* the two mappings of its memory */
    size_t used;
    weir_stream foreign, captured; /* streams of another GPU, and of a capture */
} standin;

/* ------------------------------------------------------------------- memory */

enum { STANDIN_BYTES = 8 << 20 };

/* Makes all memory free. */
static inline int standin_clear(void)
{
    if (!standin.seen) {
        FILE *file = tmpfile();
        if (!file || ftruncate(fileno(file), STANDIN_BYTES) != 0)
            return 0;
        const int fd = fileno(file);
        standin.seen = mmap(NULL, STANDIN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        standin.device = mmap(NULL, STANDIN_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
        fclose(file);
    }
    standin.used = 0;
    return standin.seen != MAP_FAILED && standin.device != MAP_FAILED;
}

/* Returns where the test sees new memory, which is zero; NULL: there is no more. */
static inline void *standin_alloc(size_t bytes)
{
    const size_t at = standin.used;
    bytes = (bytes + 63) / 64 * 64;
    if (!standin.seen || bytes > STANDIN_BYTES - at)
        return NULL;
    standin.used += bytes;
    return memset(standin.seen + at, 0, bytes);
}

/* Returns the address of the device of what the test sees there. */
static inline void *standin_address(const void *seen)
{
    return seen ? standin.device + ((const char *)seen - standin.seen) : NULL;
}

static inline int standin_holds(const void *pointer, size_t bytes)
{
    const char *at = pointer;
    return standin.device && at >= standin.device && at < standin.device + standin.used &&
           bytes <= (size_t)(standin.device + standin.used - at);
}

/* Where a copy finds memory of the device, or of the host. */
static inline void *standin_find(const void *pointer)
{
    return standin_holds(pointer, 0) ? standin.seen + ((const char *)pointer - standin.device)
                                     : (void *)(uintptr_t)pointer;
}

/* ------------------------------------------------------------------- copies */

static inline weir_status standin_copy(weir_comm *comm, void *to, const void *from, size_t bytes)
{
    (void)comm;
    memcpy(standin_find(to), standin_find(from), bytes);
    return WEIR_OK;
}

static inline void standin_perform(void)
{
    for (int i = 0; i < standin.count; i++)
        memcpy(standin_find(standin.begun[i].to), standin_find(standin.begun[i].from),
               standin.begun[i].bytes);
    standin.count = 0;
}

static inline weir_status standin_begin_copy(weir_comm *comm, void *to, const void *from,
                                             size_t bytes, weir_stream stream)
{
    (void)comm, (void)stream;
    if (standin.count == STANDIN_COPIES)
        return WEIR_ERR_SYSTEM;
    standin.begun[standin.count].to = to;
    standin.begun[standin.count].from = from;
    standin.begun[standin.count++].bytes = bytes;
    standin.asked = 0;
    standin.late++;
    return WEIR_OK;
}

static inline weir_status standin_poll(weir_comm *comm, weir_stream stream, uint64_t *ended)
{
    (void)comm, (void)stream;
    if (standin.count && ++standin.asked >= STANDIN_ASKED)
        standin_perform();
    *ended = standin.count == 0;
    return WEIR_OK;
}

static inline weir_status standin_await(weir_comm *comm, weir_stream stream)
{
    (void)comm, (void)stream;
    standin_perform();
    return WEIR_OK;
}

/* ------------------------------------------------------------------- checks */

static inline int standin_captures(const weir_comm *comm, weir_stream stream)
{
    (void)comm;
    return stream && stream == standin.captured;
}

static inline weir_status standin_check_stream(const weir_comm *comm, weir_stream stream)
{
    (void)comm;
    return stream && stream == standin.foreign ? WEIR_ERR_INVALID : WEIR_OK;
}

static inline weir_status standin_check_buffer(const weir_comm *comm, const void *pointer,
                                               size_t bytes)
{
    (void)comm;
    return standin_holds(pointer, bytes) ? WEIR_OK : WEIR_ERR_INVALID;
}

/* ------------------------------------------------------------------- set-up */

static inline weir_status standin_pin(weir_comm *comm, void *memory, size_t bytes, void **there)
{
    (void)comm, (void)bytes;
    *there = memory;
    standin.pins++;
    return WEIR_OK;
}

static inline void standin_unpin(weir_comm *comm, void *memory)
{
    (void)comm, (void)memory;
    standin.pins--;
}

/* Gives a communicator across nodes, of the host backend, such GPUs. Collective. */
static inline weir_status standin_attach(weir_comm *comm)
{
    static const weiri_gpu_ops ops = {.copy = standin_copy,
                                      .begin_copy = standin_begin_copy,
                                      .poll = standin_poll,
                                      .await = standin_await,
                                      .captures = standin_captures,
                                      .check_stream = standin_check_stream,
                                      .check_buffer = standin_check_buffer,
                                      .pin = standin_pin,
                                      .unpin = standin_unpin};
    static struct weiri_gpu gpu = {.ops = &ops};
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_status status =
        weiri_comm_create_node(comm->local_boot, &config, comm, comm->members, &comm->gpu_comm);
    if (status == WEIR_OK)
        comm->gpu = &gpu;
    return status;
}

#endif
