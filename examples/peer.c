/*
 * A peer in a file: an allreduce of floats over the ranks' exchange, measured next to weir.
 *
 *     cc -O2 -shared -fPIC peer.c -o peer.so $(pkg-config --cflags weir)
 *     bench_allreduce -g 2 -b 1K -e 32K -f 32 --peer ./peer.so
 */
#include <stdlib.h>
#include <string.h>
#include <weir/peer.h>

typedef struct gathered {
    const weir_peer_job *job;
    float blocks[]; /* of all ranks */
} gathered;

static int probe(const weir_peer_job *job, weir_peer_about *about, char *why)
{
    strcpy(about->version, "1.0");
    strcpy(why, "it works on host memory");
    return job->device >= 0;
}

static int create(const weir_peer_job *job, void **state, char *why)
{
    gathered *made = malloc(sizeof *made + (size_t)job->nranks * job->most_bytes[0]);
    strcpy(why, "no memory");
    if (made)
        made->job = job;
    *state = made;
    return made ? 0 : -1;
}

static const char *refuses(void *state, const weir_call *call)
{
    const int is_sum = call->collective == WEIR_COLL_ALLREDUCE && call->op == WEIR_SUM;
    return state && is_sum && call->dtype == WEIR_FLOAT ? NULL : "it has sums of floats only";
}

static int run(void *state, const weir_call *call, char *why)
{
    gathered *g = state;
    const size_t n = call->count, nranks = (size_t)g->job->nranks;
    float *out = call->out;
    memcpy(g->blocks + (size_t)g->job->rank * n, call->in, n * sizeof *out);
    strcpy(why, "a rank is lost");
    if (g->job->allgather(g->job->context, g->blocks, n * sizeof *out) != 0)
        return -1;
    memcpy(out, g->blocks, n * sizeof *out);
    for (size_t i = n; i < n * nranks; i++)
        out[i % n] += g->blocks[i];
    return 0;
}

const weir_peer *weir_peer_v1(void)
{
    static const weir_peer peer = {WEIR_PEER_INIT,   .name = "gathered", .probe = probe,
                                   .create = create, .refuses = refuses, .run = run,
                                   .destroy = free};
    return &peer;
}
