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
#include "coll/internode/stager.h"
#include "comm/gpu/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
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
    size_t pinned_bytes; /* of the lanes */
    uint64_t late;       /* copies that were begun, ever */
    char *seen, *device; /* the two mappings of its memory */
    size_t used;
    weir_stream foreign, captured; /* streams of another GPU, and of a capture */
    int is_late; /* launches wait for standin_sync; otherwise they run in the call */
    struct standin_step *queue, *graph; /* not yet run, and captured */
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
    return !bytes || !standin.used || standin_holds(pointer, bytes) ? WEIR_OK : WEIR_ERR_INVALID;
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

/* ------------------------------------------------------------------- kernels */

static __thread uint32_t standin_block, standin_blocks; /* of the block that this thread runs */

static inline void standin_share(void *to, const void *from, uint64_t bytes, uint32_t worker,
                                 uint32_t many)
{
    const uint64_t share = (bytes + many - 1) / many, at = share * worker;
    if (at < bytes)
        memcpy((char *)standin_find(to) + at, (const char *)standin_find(from) + at,
               bytes - at < share ? bytes - at : share);
}

#define WEIRI_STAGER_FN static inline
#define WEIRI_STAGER_SYNC() (void)0
#define WEIRI_STAGER_SHARED(type, name) type name = 0
#define WEIRI_STAGER_COPY(to, from, bytes, worker, many)                                           \
    standin_share(to, from, bytes, worker, many)
#define WEIRI_STAGER_MOST(word, value) (*(word) = *(word) > (value) ? *(word) : (value))
#define WEIRI_STAGER_END(state, epoch)                                                             \
    __atomic_fetch_add(&(state)->turns,                                                            \
                       standin_block ? 1 : (1 << WEIRI_GPU_EPOCH_SHIFT) - (standin_blocks - 1),    \
                       __ATOMIC_RELAXED)
#include "coll/internode/stager_kernel.h"

/* What a stream does: the kernel of a call, or stores of words. */
typedef struct standin_step {
    struct standin_step *next;
    weiri_stager_args args;
    uint32_t blocks; /* 0: stores */
    uint64_t *to;
    size_t count;
    uint64_t words[];
} standin_step;

typedef struct standin_block_of {
    const standin_step *step;
    uint32_t block;
} standin_block_of;

static void *standin_run_block(void *opaque)
{
    const standin_block_of *of = opaque;
    standin_block = of->block;
    standin_blocks = of->step->blocks;
    weiri_stager_run(&of->step->args, of->block, of->step->blocks, 0, 1);
    return NULL;
}

/* Runs a step; its blocks concurrently. */
static inline void standin_run(const standin_step *step)
{
    enum { MOST = WEIRI_COMM_LANES * WEIRI_STAGER_BLOCKS };
    pthread_t threads[MOST];
    standin_block_of blocks[MOST];
    if (!step->blocks)
        memcpy(step->to, step->words, step->count * sizeof *step->words);
    for (uint32_t i = 0; i < step->blocks; i++) {
        blocks[i] = (standin_block_of){step, i};
        if (pthread_create(&threads[i], NULL, standin_run_block, &blocks[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < step->blocks; i++)
        pthread_join(threads[i], NULL);
}

/* Takes a step: into the graph if the stream is being captured, else into the stream. */
static inline weir_status standin_enqueue(weir_stream stream, standin_step *step)
{
    standin_step **at = stream && stream == standin.captured ? &standin.graph : &standin.queue;
    if (at == &standin.queue && !standin.is_late) {
        standin_run(step);
        free(step);
        return WEIR_OK;
    }
    while (*at)
        at = &(*at)->next;
    *at = step;
    return WEIR_OK;
}

/* Runs what the stream holds: only then if standin.is_late. */
static inline void standin_sync(void)
{
    while (standin.queue) {
        standin_step *step = standin.queue;
        standin_run(step);
        standin.queue = step->next;
        free(step);
    }
}

static inline void standin_replay(void)
{
    for (const standin_step *step = standin.graph; step; step = step->next)
        standin_run(step);
}

static inline void standin_drop_graph(void)
{
    while (standin.graph) {
        standin_step *step = standin.graph;
        standin.graph = step->next;
        free(step);
    }
}

static inline weir_status standin_launch(weir_comm *comm, weir_stream stream, int lanes,
                                         weiri_stager_args *args)
{
    standin_step *step = calloc(1, sizeof *step);
    (void)comm;
    if (!step)
        return WEIR_ERR_NO_MEMORY;
    standin.late++;
    step->args = *args;
    step->args.counts.send_counts = standin_find(args->counts.send_counts);
    step->args.counts.send_displs = standin_find(args->counts.send_displs);
    step->args.counts.recv_counts = standin_find(args->counts.recv_counts);
    step->args.counts.recv_displs = standin_find(args->counts.recv_displs);
    step->blocks = (uint32_t)lanes * (uint32_t)args->request.blocks;
    return standin_enqueue(stream, step);
}

static inline weir_status standin_store(weir_comm *comm, weir_stream stream, uint64_t *to,
                                        const uint64_t *words, size_t count)
{
    standin_step *step = calloc(1, sizeof *step + count * sizeof *words);
    (void)comm;
    if (!step)
        return WEIR_ERR_NO_MEMORY;
    step->to = to;
    step->count = count;
    memcpy(step->words, words, count * sizeof *words);
    return standin_enqueue(stream, step);
}

static inline weir_status standin_open(weir_comm *comm, void *memory, size_t bytes, char **there,
                                       weiri_gpu_state **state, uint64_t **words, size_t nwords)
{
    (void)comm;
    standin.pinned_bytes = bytes;
    *there = memory;
    *state = calloc(1, sizeof **state);
    *words = calloc(nwords, sizeof **words);
    standin.pins++;
    if (!*state || !*words)
        return WEIR_ERR_NO_MEMORY;
    (*state)->turns = (uint64_t)1 << WEIRI_GPU_EPOCH_SHIFT;
    return WEIR_OK;
}

static inline void standin_close(weir_comm *comm, void *memory, weiri_gpu_state *state,
                                 uint64_t *words)
{
    (void)comm, (void)memory;
    standin.pins -= state != NULL;
    free(state);
    free(words);
}

static inline weir_guard standin_guard(const weir_comm *comm)
{
    weir_guard guard = comm->guard;
    guard.spins = 1;
    guard.record = &comm->where->wait;
    return guard;
}

/* Gives a communicator across nodes, of the host backend, such GPUs. Collective. */
static inline weir_status standin_attach(weir_comm *comm)
{
    static const weiri_stager_ops stager = {.open = standin_open,
                                            .close = standin_close,
                                            .store = standin_store,
                                            .launch = standin_launch};
    static const weiri_gpu_ops ops = {.copy = standin_copy,
                                      .begin_copy = standin_begin_copy,
                                      .poll = standin_poll,
                                      .await = standin_await,
                                      .captures = standin_captures,
                                      .check_stream = standin_check_stream,
                                      .check_buffer = standin_check_buffer,
                                      .guard = standin_guard,
                                      .stager = &stager,
                                      .pin = standin_pin,
                                      .unpin = standin_unpin};
    static struct weiri_gpu gpu = {.ops = &ops};
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_status status =
        weiri_comm_create_node(comm->local_boot, &config, comm, comm->members, &comm->gpu_comm);
    if (status != WEIR_OK)
        return status;
    comm->gpu = &gpu;
    config.timeout_ms = (int)(comm->guard.timeout_ns / 1000000);
    return weiri_comm_open_lanes(comm, &config);
}

#endif
