/*
 * gloo as a peer of the benchmarks, over TCP on host memory, as PyTorch's backend "gloo" uses it.
 * Written for gloo as Debian 12 has it (libgloo-dev, 0.5.0). GLOO_IFACE names the interface (lo).
 *
 *     c++ -O2 -shared -fPIC peer_gloo.cc -o gloo.so $(pkg-config --cflags weir) -lgloo -lpthread
 *     bench_allreduce -g 2 --peer ./gloo.so        # or ./gloo.so:bcube instead of the ring
 */
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <weir/peer.h>

namespace {

struct Peer {
    const weir_peer_job *job;
    std::string folder; /* of the store */
    std::shared_ptr<gloo::rendezvous::Context> context;
    uint32_t tag = 0;
};

using Combine = void (*)(void *, const void *, const void *, size_t);

template <typename T> Combine combine_of(weir_op op)
{
    switch (op) {
    case WEIR_SUM:
        return gloo::sum<T>;
    case WEIR_PROD:
        return gloo::product<T>;
    case WEIR_MAX:
        return gloo::max<T>;
    case WEIR_MIN:
        return gloo::min<T>;
    default:
        return nullptr;
    }
}

/* Calls f with a null pointer of the type; 0 if gloo has no such type. */
template <typename F> bool with_type(weir_dtype dtype, F f)
{
    switch (dtype) {
    case WEIR_INT8:
        return f(static_cast<int8_t *>(nullptr));
    case WEIR_UINT8:
        return f(static_cast<uint8_t *>(nullptr));
    case WEIR_INT32:
        return f(static_cast<int32_t *>(nullptr));
    case WEIR_UINT32:
        return f(static_cast<uint32_t *>(nullptr));
    case WEIR_INT64:
        return f(static_cast<int64_t *>(nullptr));
    case WEIR_UINT64:
        return f(static_cast<uint64_t *>(nullptr));
    case WEIR_FLOAT:
        return f(static_cast<float *>(nullptr));
    case WEIR_DOUBLE:
        return f(static_cast<double *>(nullptr));
    default:
        return false;
    }
}

const char *interface_name()
{
    const char *named = std::getenv("GLOO_IFACE");
    return named && *named ? named : "lo";
}

int gloo_probe(const weir_peer_job *job, weir_peer_about *about, char *why)
{
    const std::string mode = job->mode;
    snprintf(about->version, sizeof about->version, "0.5.0");
    snprintf(about->settings, sizeof about->settings, "interface=%s (%s) algorithm=%s (%s)",
             interface_name(), std::getenv("GLOO_IFACE") ? "environment" : "default",
             mode == "bcube" ? "bcube" : "ring", mode.empty() ? "default" : "--peer");
    about->has_threads = 1;
    snprintf(why, WEIR_PEER_TEXT, "%s",
             job->device >= 0 ? "it works on host memory" : "its modes are ring and bcube");
    return job->device >= 0 || !(mode.empty() || mode == "ring" || mode == "bcube");
}

int gloo_create(const weir_peer_job *job, void **state, char *why)
{
    std::vector<char> names(static_cast<size_t>(job->nranks) * 64);
    char *mine = &names[static_cast<size_t>(job->rank) * 64];
    snprintf(mine, 64, "/tmp/gloo-peer-XXXXXX");
    if (job->rank == 0 && !mkdtemp(mine))
        return snprintf(why, WEIR_PEER_TEXT, "no folder for its store"), -1;
    if (job->allgather(job->context, names.data(), 64) != 0)
        return -1;
    try {
        auto peer = std::make_unique<Peer>();
        peer->job = job;
        peer->folder = names.data();
        gloo::rendezvous::FileStore store(peer->folder);
        gloo::transport::tcp::attr attr;
        attr.iface = interface_name();
        peer->context = std::make_shared<gloo::rendezvous::Context>(job->rank, job->nranks);
        auto device = gloo::transport::tcp::CreateDevice(attr);
        peer->context->connectFullMesh(store, device);
        *state = peer.release();
        return 0;
    } catch (const std::exception &error) {
        return snprintf(why, WEIR_PEER_TEXT, "%s", error.what()), -1;
    }
}

const char *gloo_refuses(void *, const weir_call *call)
{
    if (!with_type(call->dtype, [](auto) { return true; }))
        return "it has no such type in C++";
    switch (call->collective) {
    case WEIR_COLL_ALLREDUCE:
    case WEIR_COLL_REDUCE:
        return call->op == WEIR_AVG ? "it has no avg" : nullptr;
    case WEIR_COLL_ALLGATHER:
    case WEIR_COLL_BROADCAST:
    case WEIR_COLL_ALLTOALL:
    case WEIR_COLL_ALLTOALLV:
        return nullptr;
    default:
        return "it has no such collective";
    }
}

template <typename T> void make_call(Peer *peer, const weir_call *c)
{
    T *in = static_cast<T *>(const_cast<void *>(c->in)), *out = static_cast<T *>(c->out);
    const size_t n = c->count, ranks = static_cast<size_t>(peer->job->nranks);
    auto context = std::static_pointer_cast<gloo::Context>(peer->context);
    const uint32_t tag = peer->tag++;
    const auto finish = [&](auto &options, auto call) {
        options.setTag(tag);
        call(options);
    };
    if (c->collective == WEIR_COLL_ALLREDUCE) {
        gloo::AllreduceOptions o(context);
        o.setInput(in, n);
        o.setOutput(out, n);
        o.setReduceFunction(combine_of<T>(c->op));
        o.setAlgorithm(std::strcmp(peer->job->mode, "bcube") == 0
                           ? gloo::AllreduceOptions::Algorithm::BCUBE
                           : gloo::AllreduceOptions::Algorithm::RING);
        finish(o, [](auto &x) { gloo::allreduce(x); });
    } else if (c->collective == WEIR_COLL_REDUCE) {
        gloo::ReduceOptions o(context);
        std::vector<T> unused(peer->job->rank == c->root ? 0 : n);
        o.setInput(in, n);
        o.setOutput(peer->job->rank == c->root ? out : unused.data(), n);
        o.setRoot(c->root);
        o.setReduceFunction(combine_of<T>(c->op));
        finish(o, [](auto &x) { gloo::reduce(x); });
    } else if (c->collective == WEIR_COLL_ALLGATHER) {
        gloo::AllgatherOptions o(context);
        o.setInput(in, n);
        o.setOutput(out, n * ranks);
        finish(o, [](auto &x) { gloo::allgather(x); });
    } else if (c->collective == WEIR_COLL_BROADCAST) {
        gloo::BroadcastOptions o(context);
        if (peer->job->rank == c->root)
            o.setInput(in, n);
        o.setOutput(out, n);
        o.setRoot(c->root);
        finish(o, [](auto &x) { gloo::broadcast(x); });
    } else if (c->collective == WEIR_COLL_ALLTOALL) {
        gloo::AlltoallOptions o(context);
        o.setInput(in, n * ranks);
        o.setOutput(out, n * ranks);
        finish(o, [](auto &x) { gloo::alltoall(x); });
    } else {
        gloo::AlltoallvOptions o(context); /* whose blocks are packed, as the benchmark's are */
        const size_t *sent = c->splits->send_counts, *received = c->splits->recv_counts;
        o.setInput(in, std::vector<int64_t>(sent, sent + ranks));
        o.setOutput(out, std::vector<int64_t>(received, received + ranks));
        finish(o, [](auto &x) { gloo::alltoallv(x); });
    }
}

int gloo_run(void *state, const weir_call *call, char *why)
{
    try {
        with_type(call->dtype, [&](auto type) {
            make_call<std::remove_pointer_t<decltype(type)>>(static_cast<Peer *>(state), call);
            return true;
        });
        return 0;
    } catch (const std::exception &error) {
        return snprintf(why, WEIR_PEER_TEXT, "%s", error.what()), -1;
    }
}

void gloo_destroy(void *state)
{
    auto *peer = static_cast<Peer *>(state);
    peer->context->closeConnections();
    if (peer->job->rank == 0)
        std::filesystem::remove_all(peer->folder);
    delete peer;
}

} // namespace

const weir_peer *weir_peer_v1(void)
{
    static const weir_peer peer = {sizeof(weir_peer), WEIR_PEER_ABI, "gloo",
                                   gloo_probe,        gloo_create,   nullptr,
                                   gloo_refuses,      gloo_run,      gloo_destroy};
    return &peer;
}
