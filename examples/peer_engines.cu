/*
 * The allreduce kernels of inference engines as peers of the benchmarks on GPUs of one node,
 * without NVLink multicast: FlashInfer's trtllm and vllm (written for 0.7.4, PyPI:
 * flashinfer-python), and vLLM's own (0.33.0). Only headers of theirs are needed: $FLASHINFER is
 * the folder flashinfer/data of the package, $VLLM the folder csrc of vLLM's source.
 *
 *     nvcc -O3 -std=c++17 -arch=native -shared -Xcompiler -fPIC peer_engines.cu -o flashinfer.so
 * -lcuda \
 *         $(pkg-config --cflags weir) -DFLASHINFER -I$FLASHINFER/include
 * -I$FLASHINFER/spdlog/include
 *     nvcc -O3 -std=c++17 -arch=native -shared -Xcompiler -fPIC peer_engines.cu -o vllm.so -lcuda \
 *         $(pkg-config --cflags weir) -I$VLLM
 *     bench_allreduce -g 2 --backend cuda -G 20 -d bfloat16 --peer ./flashinfer.so:trtllm \
 *         --peer ./flashinfer.so:vllm --peer ./vllm.so
 *
 * The kernels of vLLM read the input of all ranks through CUDA IPC. The engines register inputs
 * once a CUDA graph has been captured; this file registers each address as it occurs, which needs
 * no exchange, because addresses differ by the same offsets on all ranks.
 */
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#ifdef FLASHINFER
#include <flashinfer/comm/trtllm_allreduce_fusion.cuh>
#include <flashinfer/comm/vllm_custom_all_reduce.cuh>
#else
#include <custom_all_reduce.cuh>
#endif

#include <weir/peer.h>

namespace {

enum { MOST_RANKS = 8, RANK_DATA_BYTES = 8 << 20, HIDDEN = 4096, BARRIER_FLAGS = 256 };
const size_t VLLM_LIMIT = 8 << 20; /* the default max_size of vLLM */

struct Peer {
    const weir_peer_job *job;
    int is_vllm;
    char *buffers[2], *peers[MOST_RANKS]; /* peers: the inputs of all ranks, as seen here */
    std::vector<void *> own, opened;
    std::unique_ptr<vllm::CustomAllreduce> vllm;
    void **workspaces[2]; /* of trtllm, in GPU memory: of elements with 16 and 32 bits */
};

void check(cudaError_t error)
{
    if (error != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(error));
}

/* Runs f, whose exceptions become the reason. */
template <typename F> int guarded(char *why, F f)
{
    try {
        f();
        return 0;
    } catch (const std::exception &error) {
        std::string text = error.what();
        text = text.substr(0, text.find('\n'));
        snprintf(why, WEIR_PEER_TEXT, "%s", text.c_str());
        return -1;
    }
}

/* Allocates zeroed memory on every rank, and opens that of all others. Collective. */
char *share(Peer *peer, size_t bytes, char **all)
{
    const weir_peer_job *job = peer->job;
    std::vector<cudaIpcMemHandle_t> handles(static_cast<size_t>(job->nranks));
    void *mine = nullptr;
    const cudaError_t error = cudaMalloc(&mine, bytes);
    if (error == cudaSuccess) {
        peer->own.push_back(mine);
        check(cudaMemset(mine, 0, bytes));
        check(cudaIpcGetMemHandle(&handles[job->rank], mine));
    }
    if (job->allgather(job->context, handles.data(), sizeof handles[0]) != 0)
        throw std::runtime_error("a rank is lost");
    check(error);
    for (int rank = 0; rank < job->nranks; rank++) {
        void *opened = mine;
        if (rank != job->rank) {
            check(cudaIpcOpenMemHandle(&opened, handles[rank], cudaIpcMemLazyEnablePeerAccess));
            peer->opened.push_back(opened);
        }
        all[rank] = static_cast<char *>(opened);
    }
    return static_cast<char *>(mine);
}

void *allocate(Peer *peer, size_t bytes)
{
    void *memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    peer->own.push_back(memory);
    return memory;
}

/* ------------------------------------------------------------------- vllm */

void vllm_create(Peer *peer)
{
    char *all[MOST_RANKS];
    vllm::Signal *signals[MOST_RANKS];
    share(peer, sizeof(vllm::Signal) + VLLM_LIMIT, all);
    for (int rank = 0; rank < peer->job->nranks; rank++)
        signals[rank] = reinterpret_cast<vllm::Signal *>(all[rank]);
    peer->vllm = std::make_unique<vllm::CustomAllreduce>(signals, allocate(peer, RANK_DATA_BYTES),
                                                         RANK_DATA_BYTES, peer->job->rank,
                                                         peer->job->nranks, true);
}

/* What the class reads to find the input on all ranks. */
void vllm_register(Peer *peer, const void *in)
{
    void *all[MOST_RANKS] = {};
    for (int rank = 0; rank < peer->job->nranks; rank++)
        all[rank] = peer->peers[rank] + (static_cast<const char *>(in) - peer->buffers[0]);
    peer->vllm->register_buffer(all);
}

template <typename T> void vllm_run(Peer *peer, const weir_call *call)
{
    auto *stream = static_cast<cudaStream_t>(call->stream);
    auto *in = static_cast<T *>(const_cast<void *>(call->in));
    auto *out = static_cast<T *>(call->out);
    const int count = static_cast<int>(call->count);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaStreamCaptureStatus capture;
    check(cudaStreamIsCapturing(stream, &capture));
    if (capture == cudaStreamCaptureStatusNone && !peer->vllm->buffers_.count(in))
        vllm_register(peer, in);
#ifdef FLASHINFER
    peer->vllm->allreduce(stream, in, out, count, vllm::kMaxBlocks);
#else
    peer->vllm->allreduce(stream, in, out, count);
#endif
    if (capture == cudaStreamCaptureStatusNone)
        return;
    peer->vllm->graph_unreg_buffers_.clear(); /* the kernel has the entry that is filled now */
    check(cudaThreadExchangeStreamCaptureMode(&mode));
    vllm_register(peer, in);
    check(cudaThreadExchangeStreamCaptureMode(&mode));
}

/* ----------------------------------------------------------------- trtllm */

#ifdef FLASHINFER

namespace trtllm = flashinfer::trtllm_allreduce_fusion;

/* The memory that trtllm_create_ipc_workspace_for_all_reduce_fusion prepares. A buffer of -0 is one
 * into which nothing has been written. Collective. */
void **trtllm_workspace(Peer *peer, unsigned negative_zero)
{
    const size_t ranks = static_cast<size_t>(peer->job->nranks);
    const size_t bytes = (peer->job->most_bytes[0] + 4095) / 4096 * 4096, comm = ranks * bytes;
    const size_t sizes[] = {comm, ranks * BARRIER_FLAGS * sizeof(int), 3 * comm};
    const int flags[5] = {0, 0, 0, static_cast<int>(comm), 0};
    std::vector<void *> workspace;
    for (size_t size : sizes) {
        char *all[MOST_RANKS];
        void *mine = share(peer, size, all);
        workspace.insert(workspace.end(), all, all + ranks);
        if (size == sizes[2] &&
            cuMemsetD32(reinterpret_cast<CUdeviceptr>(mine), negative_zero, size / 4))
            throw std::runtime_error("its memory cannot be set");
    }
    void *flag = allocate(peer, sizeof flags);
    check(cudaMemcpy(flag, flags, sizeof flags, cudaMemcpyHostToDevice));
    workspace.push_back(flag);
    auto **device = static_cast<void **>(allocate(peer, workspace.size() * sizeof(void *)));
    check(cudaMemcpy(device, workspace.data(), workspace.size() * sizeof(void *),
                     cudaMemcpyHostToDevice));
    return device;
}

void trtllm_create(Peer *peer)
{
    peer->workspaces[0] = trtllm_workspace(peer, 0x80008000u);
    peer->workspaces[1] = trtllm_workspace(peer, 0x80000000u);
}

template <typename T> cudaError_t trtllm_launch(const trtllm::AllReduceFusionParams<T> &p, int pdl)
{
    constexpr auto pattern = trtllm::AllReduceFusionPattern::kAllReduce;
    switch (p.nranks) {
    case 2:
        return trtllm::allreduce_fusion_kernel_launcher<pattern, T, 2, false>(p, pdl);
    case 4:
        return trtllm::allreduce_fusion_kernel_launcher<pattern, T, 4, false>(p, pdl);
    default:
        return trtllm::allreduce_fusion_kernel_launcher<pattern, T, 8, false>(p, pdl);
    }
}

/* As FlashInfer chooses: one shot up to so many MiB of 2 * ranks * message. */
bool trtllm_is_oneshot(size_t bytes, int nranks)
{
    const size_t limit = nranks == 2 ? 512 : nranks == 4 ? 64 : 42;
    return bytes * 2 * static_cast<size_t>(nranks) <= limit << 20;
}

template <typename T> void trtllm_run(Peer *peer, const weir_call *call)
{
    trtllm::AllReduceFusionParams<T> p = {};
    p.nranks = peer->job->nranks;
    p.rank = peer->job->rank;
    p.size = static_cast<int>(call->count);
    p.hidden_dim = call->count < HIDDEN ? p.size : HIDDEN;
    p.workspace = peer->workspaces[sizeof(T) == 4];
    p.allreduce_in = const_cast<void *>(call->in);
    p.allreduce_out = call->out;
    p.use_oneshot = trtllm_is_oneshot(call->count * sizeof(T), p.nranks);
    p.stream = static_cast<cudaStream_t>(call->stream);
    p.pattern = trtllm::AllReduceFusionPattern::kAllReduce;
    p.trigger_completion_at_end = true;
    check(trtllm_launch(p, std::strcmp(peer->job->mode, "trtllm-pdl") == 0));
}

#endif

/* --------------------------------------------------------------- the peer */

int engines_probe(const weir_peer_job *job, weir_peer_about *about, char *why)
{
    const std::string mode = job->mode;
#ifdef FLASHINFER
    const bool known = mode.empty() || mode == "trtllm" || mode == "trtllm-pdl" || mode == "vllm";
    snprintf(about->version, sizeof about->version, "0.7.4");
#else
    const bool known = mode.empty();
    snprintf(about->version, sizeof about->version, "0.33.0");
#endif
    snprintf(about->settings, sizeof about->settings, "multicast=0 (peer)");
    snprintf(why, WEIR_PEER_TEXT, "%s",
             job->device < 0   ? "it works on GPUs; give --backend cuda"
             : job->nnodes > 1 ? "its ranks must be on one node"
             : known           ? "it has 2, 4 or 8 ranks"
                               : "its modes are trtllm, trtllm-pdl and vllm, with FlashInfer");
    return job->device < 0 || job->nnodes > 1 || !known ||
           (job->nranks != 2 && job->nranks != 4 && job->nranks != 8);
}

int engines_create(const weir_peer_job *job, void **state, char *why)
{
    auto peer = std::make_unique<Peer>();
    peer->job = job;
#ifdef FLASHINFER
    peer->is_vllm = std::strcmp(job->mode, "vllm") == 0;
#else
    peer->is_vllm = 1;
#endif
    const int failed = guarded(why, [&] {
        if (peer->is_vllm)
            vllm_create(peer.get());
#ifdef FLASHINFER
        else
            trtllm_create(peer.get());
#endif
        check(cudaDeviceSynchronize());
    });
    *state = peer.release();
    return failed;
}

int engines_buffers(void *state, void **in, void **out, char *why)
{
    auto *peer = static_cast<Peer *>(state);
    return guarded(why, [&] {
        peer->buffers[0] = share(peer, peer->job->most_bytes[0], peer->peers);
        peer->buffers[1] = static_cast<char *>(allocate(peer, peer->job->most_bytes[1]));
        *in = peer->buffers[0];
        *out = peer->buffers[1];
    });
}

const char *engines_refuses(void *state, const weir_call *call)
{
    const auto *peer = static_cast<const Peer *>(state);
    const size_t element = call->dtype == WEIR_FLOAT ? 4 : 2, bytes = call->count * element;
    if (call->collective != WEIR_COLL_ALLREDUCE || call->op != WEIR_SUM)
        return "this peer has only sums by allreduce";
    if (call->dtype != WEIR_FLOAT && call->dtype != WEIR_HALF && call->dtype != WEIR_BFLOAT16)
        return "it has only float, half and bfloat16";
    if (bytes % 16)
        return "its messages are multiples of 16 B";
    if (peer->is_vllm && bytes > VLLM_LIMIT)
        return "its users have a limit of 8 MiB";
    if (peer->is_vllm && call->in == call->out)
        return "it needs two buffers";
    if (!peer->is_vllm && call->count > HIDDEN && call->count % HIDDEN)
        return "this peer's rows have 4096 elements";
    return nullptr;
}

template <typename T> void engines_call(Peer *peer, const weir_call *call)
{
    if (peer->is_vllm)
        vllm_run<T>(peer, call);
#ifdef FLASHINFER
    else
        trtllm_run<T>(peer, call);
#endif
}

int engines_run(void *state, const weir_call *call, char *why)
{
    auto *peer = static_cast<Peer *>(state);
    return guarded(why, [&] {
        if (call->dtype == WEIR_FLOAT)
            engines_call<float>(peer, call);
        else if (call->dtype == WEIR_HALF)
            engines_call<half>(peer, call);
        else
            engines_call<nv_bfloat16>(peer, call);
    });
}

void engines_destroy(void *state)
{
    auto *peer = static_cast<Peer *>(state);
    for (void *memory : peer->opened)
        cudaIpcCloseMemHandle(memory);
    std::vector<char> all(static_cast<size_t>(peer->job->nranks));
    peer->job->allgather(peer->job->context, all.data(), 1); /* all have closed */
    for (void *memory : peer->own)
        cudaFree(memory);
    delete peer;
}

} // namespace

const weir_peer *weir_peer_v1(void)
{
#ifdef FLASHINFER
    const char *name = "flashinfer";
#else
    const char *name = "vllm";
#endif
    static const weir_peer peer = {sizeof(weir_peer), WEIR_PEER_ABI,  name,
                                   engines_probe,     engines_create, engines_buffers,
                                   engines_refuses,   engines_run,    engines_destroy};
    return &peer;
}
