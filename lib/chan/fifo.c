/*
 * The memory of a FIFO. The tail, in a separate cache line, and the slots after it lie in host
 * memory. The producers' two words, head and tail_seen, lie in GPU memory if producers are kernels.
 */
#define _GNU_SOURCE
#include "chan/fifo.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    DEFAULT_SLOTS = 512,
    SLOTS_MAX = 1 << 20,
    HEAD_AT = 0,
    TAIL_SEEN_AT = 16, /* index in words, so that it has its own cache line */
    HEADS = 32,
    SLOTS_AT_BYTES = 128,
};

static size_t round_to_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Determines the addresses that producers of this backend use. */
static weir_status fifo_map_for_producers(weiri_fifo *fifo, char **there)
{
    const weir_comm *comm = fifo->comm;
    static const uint64_t zeros[HEADS];
    void *pinned = fifo->memory, *heads = NULL;
    weir_status status = WEIR_OK;
    if (comm->gpu) {
        status = comm->gpu->ops->pin(fifo->comm, fifo->memory, fifo->bytes, &pinned);
        fifo->pinned = status == WEIR_OK;
        if (status == WEIR_OK)
            status = comm->gpu->ops->keep(fifo->comm, zeros, sizeof zeros, &heads);
    } else if (posix_memalign(&heads, 128, sizeof zeros) != 0) {
        heads = NULL;
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a FIFO's counters");
    } else {
        memset(heads, 0, sizeof zeros);
    }
    fifo->heads = heads;
    *there = pinned;
    return status;
}

weir_status weiri_fifo_create(weir_comm *comm, unsigned slots, int wake, const uint64_t *asleep,
                              weiri_fifo *fifo)
{
    uint32_t shift = 0;
    char *there = NULL;
    if (!slots)
        slots = DEFAULT_SLOTS;
    if (slots > SLOTS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "fifo_slots is %u; at most %d", slots, SLOTS_MAX);
    while (1u << shift < slots)
        shift++;
    *fifo = (weiri_fifo){.comm = comm};
    fifo->bytes = round_to_pages(SLOTS_AT_BYTES + (sizeof(uint64_t) * WEIR_FIFO_WORDS << shift));
    fifo->memory =
        mmap(NULL, fifo->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fifo->memory == MAP_FAILED) {
        fifo->memory = NULL;
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a FIFO of %u slots", 1u << shift);
    }
    weir_status status = fifo_map_for_producers(fifo, &there);
    if (status != WEIR_OK) {
        weiri_fifo_destroy(fifo);
        return status;
    }
    fifo->end =
        (weiri_fifo_end){.slots = (uint64_t *)(void *)((char *)fifo->memory + SLOTS_AT_BYTES),
                         .tail = fifo->memory,
                         .shift = shift};
    fifo->device = (weir_fifo_dev){.slots = (uint64_t *)(void *)(there + SLOTS_AT_BYTES),
                                   .head = fifo->heads + HEAD_AT,
                                   .tail_seen = fifo->heads + TAIL_SEEN_AT,
                                   .tail = (uint64_t *)(void *)there,
                                   .shift = shift,
                                   .wake = comm->gpu ? -1 : wake,
                                   .asleep = comm->gpu ? NULL : asleep,
                                   .guard = comm->gpu ? comm->gpu->ops->guard(comm) : comm->guard};
    return WEIR_OK;
}

void weiri_fifo_destroy(weiri_fifo *fifo)
{
    if (!fifo->memory)
        return;
    if (!fifo->comm->gpu)
        free(fifo->heads);
    else if (fifo->heads)
        fifo->comm->gpu->ops->release(fifo->comm, fifo->heads);
    if (fifo->pinned)
        fifo->comm->gpu->ops->unpin(fifo->comm, fifo->memory);
    munmap(fifo->memory, fifo->bytes);
    fifo->memory = NULL;
}

weir_status weiri_fifo_head(const weiri_fifo *fifo, uint64_t *head)
{
    if (fifo->comm->gpu)
        return fifo->comm->gpu->ops->copy(fifo->comm, head, fifo->heads + HEAD_AT, sizeof *head);
    *head = weir_load_acquire(fifo->heads + HEAD_AT);
    return WEIR_OK;
}
