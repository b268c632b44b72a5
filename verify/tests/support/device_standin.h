/*
 * Test double for the GPUs of a communicator across nodes: a second communicator of the node's
 * ranks, in host memory, performs the collectives that would run on GPUs. Copies are performed
 * late, after their completion has been queried a few times, so code that does not wait for them
 * uses stale data.
 */
#ifndef VERIFY_TESTS_SUPPORT_DEVICE_STANDIN_H
#define VERIFY_TESTS_SUPPORT_DEVICE_STANDIN_H

#include "comm/internode/internode_comm.h"
#include "comm/gpu/gpu.h"

#include <string.h>

enum { STANDIN_COPIES = 64, STANDIN_ASKED = 3 };

static struct {
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } begun[STANDIN_COPIES];
    int count, asked;
    int pins;      /* that were not undone */
    uint64_t late; /* copies that were begun, ever */
} standin;

static inline weir_status standin_copy(weir_comm *comm, void *to, const void *from, size_t bytes)
{
    (void)comm;
    memcpy(to, from, bytes);
    return WEIR_OK;
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
    if (standin.count && ++standin.asked >= STANDIN_ASKED) {
        for (int i = 0; i < standin.count; i++)
            memcpy(standin.begun[i].to, standin.begun[i].from, standin.begun[i].bytes);
        standin.count = 0;
    }
    *ended = standin.count == 0;
    return WEIR_OK;
}

static inline weir_status standin_await(weir_comm *comm, weir_stream stream)
{
    (void)comm, (void)stream;
    return WEIR_OK;
}

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
