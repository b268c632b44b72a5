/*
 * NVSHMEM's collectives on a team as a peer of the benchmarks on GPUs, on its symmetric heap.
 * Written for NVSHMEM 3.8 (PyPI: nvidia-nvshmem-cu13; NVSHMEM is its folder nvidia/nvshmem). The
 * heap is sized by NVSHMEM_SYMMETRIC_SIZE; NVSHMEM_DISABLE_NVLS=1 keeps it off NVLink multicast.
 *
 *     c++ -O2 -shared -fPIC peer_nvshmem.cc -o nvshmem.so $(pkg-config --cflags weir) \
 *         -I$NVSHMEM/include -I$CUDA_HOME/include $NVSHMEM/lib/libnvshmem_host.so.3
 * -Wl,-rpath,$NVSHMEM/lib bench_allreduce -g 2 --peer ./nvshmem.so
 */
#include <nvshmem_host.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <weir/peer.h>

namespace {

struct Peer {
    const weir_peer_job *job;
    void *buffers[2];
};

int nvshmem_peer_probe(const weir_peer_job *job, weir_peer_about *about, char *why)
{
    const char *nvls = std::getenv("NVSHMEM_DISABLE_NVLS");
    snprintf(about->version, sizeof about->version, "%d.%d.%d", NVSHMEM_VENDOR_MAJOR_VERSION,
             NVSHMEM_VENDOR_MINOR_VERSION, NVSHMEM_VENDOR_PATCH_VERSION);
    snprintf(about->settings, sizeof about->settings, "NVSHMEM_DISABLE_NVLS=%s (%s)",
             nvls ? nvls : "0", nvls ? "environment" : "default");
    snprintf(why, WEIR_PEER_TEXT, "it works on GPUs; give --backend cuda");
    return job->device < 0;
}

int nvshmem_peer_create(const weir_peer_job *job, void **state, char *why)
{
    std::vector<nvshmemx_uniqueid_t> ids(static_cast<size_t>(job->nranks));
    nvshmemx_uniqueid_t &mine = ids[static_cast<size_t>(job->rank)];
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    mine = NVSHMEMX_UNIQUEID_INITIALIZER;
    int failed = job->rank == 0 ? nvshmemx_get_uniqueid(&mine) : 0;
    failed |= job->allgather(job->context, ids.data(), sizeof mine);
    if (!failed)
        failed = nvshmemx_set_attr_uniqueid_args(job->rank, job->nranks, &ids[0], &attributes);
    if (!failed)
        failed = nvshmemx_hostlib_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
    snprintf(why, WEIR_PEER_TEXT, "its initialisation fails (%d)", failed);
    if (!failed)
        *state = new Peer{job, {nullptr, nullptr}};
    return failed;
}

int nvshmem_peer_buffers(void *state, void **in, void **out, char *why)
{
    auto *peer = static_cast<Peer *>(state);
    for (int i = 0; i < 2; i++)
        peer->buffers[i] = nvshmem_malloc(peer->job->most_bytes[i]);
    *in = peer->buffers[0];
    *out = peer->buffers[1];
    snprintf(why, WEIR_PEER_TEXT, "its heap is too small; raise NVSHMEM_SYMMETRIC_SIZE");
    return !*in || !*out;
}

const char *nvshmem_peer_refuses(void *, const weir_call *call)
{
    if (call->dtype != WEIR_FLOAT)
        return "this peer has only float";
    switch (call->collective) {
    case WEIR_COLL_ALLREDUCE:
    case WEIR_COLL_REDUCE_SCATTER:
        return call->op == WEIR_SUM ? nullptr : "this peer has only sums";
    case WEIR_COLL_ALLGATHER:
    case WEIR_COLL_BROADCAST:
    case WEIR_COLL_ALLTOALL:
        return nullptr;
    default:
        return "it has no such collective on a team";
    }
}

int nvshmem_peer_run(void *state, const weir_call *c, char *why)
{
    (void)state;
    const nvshmem_team_t team = NVSHMEM_TEAM_WORLD;
    const auto *in = static_cast<const float *>(c->in);
    auto *out = static_cast<float *>(c->out);
    auto *stream = static_cast<cudaStream_t>(c->stream);
    int failed = -1;
    switch (c->collective) {
    case WEIR_COLL_ALLREDUCE:
        failed = nvshmemx_float_sum_reduce_on_stream(team, out, in, c->count, stream);
        break;
    case WEIR_COLL_REDUCE_SCATTER:
        failed = nvshmemx_float_sum_reducescatter_on_stream(team, out, in, c->count, stream);
        break;
    case WEIR_COLL_ALLGATHER:
        failed = nvshmemx_float_fcollect_on_stream(team, out, in, c->count, stream);
        break;
    case WEIR_COLL_BROADCAST:
        failed = nvshmemx_float_broadcast_on_stream(team, out, in, c->count, c->root, stream);
        break;
    case WEIR_COLL_ALLTOALL:
        failed = nvshmemx_float_alltoall_on_stream(team, out, in, c->count, stream);
        break;
    default:
        break;
    }
    snprintf(why, WEIR_PEER_TEXT, "NVSHMEM reports %d", failed);
    return failed;
}

void nvshmem_peer_destroy(void *state)
{
    auto *peer = static_cast<Peer *>(state);
    for (void *buffer : peer->buffers)
        if (buffer)
            nvshmem_free(buffer);
    nvshmemx_hostlib_finalize();
    delete peer;
}

} // namespace

const weir_peer *weir_peer_v1(void)
{
    static const weir_peer peer = {sizeof(weir_peer),    WEIR_PEER_ABI,       "nvshmem",
                                   nvshmem_peer_probe,   nvshmem_peer_create, nvshmem_peer_buffers,
                                   nvshmem_peer_refuses, nvshmem_peer_run,    nvshmem_peer_destroy};
    return &peer;
}
