/*
 * Redirected puts of the tcp transport. A receiver that knows where the data of a put belong
 * (weiri_net_ops.land) has their payload read from the socket directly into that memory, without a
 * copy in the memory that the put names. The sender does not know of it. A put that has begun to
 * arrive before it was redirected arrives where it says.
 */
#include "transport/net/tcp.h"

#include <stdlib.h>
#include <string.h>

static uint64_t landing_memory_id(const weiri_net_mem *mem)
{
    return ((const weiri_tcp_mem *)mem)->id;
}

static weiri_tcp_landing *landing_find(weiri_tcp_endpoint *end, uint64_t memory, uint64_t at)
{
    for (int i = 0; end->nlandings && i < WEIRI_NET_LANDINGS; i++)
        if (end->landings[i].memory == memory && end->landings[i].at == at)
            return &end->landings[i];
    return NULL;
}

void weiri_tcp_land(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at, uint64_t bytes,
                    char *to)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    uint64_t memory = landing_memory_id(mem);
    if (landing_find(end, memory, at))
        return;
    if (!end->landings)
        end->landings = calloc(WEIRI_NET_LANDINGS, sizeof *end->landings);
    for (int i = 0; end->landings && i < WEIRI_NET_LANDINGS; i++) {
        weiri_tcp_landing *landing = &end->landings[i];
        if (landing->memory)
            continue;
        *landing = (weiri_tcp_landing){.memory = memory, .at = at, .bytes = bytes, .to = to};
        end->nlandings++;
        return;
    }
}

void weiri_tcp_landing_begin(weiri_tcp_stream *stream, uint64_t memory, uint64_t at, uint64_t bytes)
{
    weiri_tcp_landing *landing = landing_find(stream->endpoint, memory, at);
    if (!landing || landing->bytes != bytes || landing->has_begun)
        return;
    landing->has_begun = 1;
    stream->landing = landing;
    stream->payload = landing->to;
}

/* Sends the rest of a payload that is arriving to the memory that the put names, and copies there
 * what has arrived. */
static void landing_revoke(weiri_tcp_endpoint *end, const weiri_tcp_landing *landing,
                           const weiri_net_mem *mem)
{
    for (int i = 0; i < end->nstreams; i++) {
        weiri_tcp_stream *stream = end->streams[i];
        if (stream->landing != landing)
            continue;
        size_t done = landing->bytes - stream->payload_left;
        memcpy(mem->base + landing->at, landing->to, done);
        stream->payload = mem->base + landing->at + done;
        stream->landing = NULL;
    }
}

int weiri_tcp_landed(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at)
{
    weiri_tcp_endpoint *end = (weiri_tcp_endpoint *)endpoint;
    weiri_tcp_landing *landing = landing_find(end, landing_memory_id(mem), at);
    if (!landing)
        return 0;
    int has_ended = landing->has_ended;
    if (landing->has_begun && !has_ended)
        landing_revoke(end, landing, mem);
    *landing = (weiri_tcp_landing){.memory = 0};
    end->nlandings--;
    return has_ended;
}
