/* Computations of --beside on GPUs: kernels of compute_kernels.cu, and cuBLAS, of which a few
 * functions are declared here, so that neither its headers nor the library are needed to build.
 */
#include "bench/gpu/compute.h"

#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <stdlib.h>

typedef struct blas {
    int (*create)(void **);
    int (*destroy)(void *);
    int (*set_stream)(void *, cudaStream_t);
    int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *,
                int, int, const void *, void *, int, int, int, int);
} blas;

struct bench_gpu_compute_state {
    bench_note *note;
    const bench_with *with;
    cudaStream_t stream;
    int processors;
    void *library, *handle;
    blas blas;
    void *operands[3];
    size_t bytes[3];
};

const void *bench_gpu_fill_kernel(void);
const void *bench_gpu_stream_kernel(void);
const void *bench_gpu_flops_kernel(void);

static weir_status compute_check(bench_gpu_compute_state *s, cudaError_t error)
{
    return error == cudaSuccess
               ? WEIR_OK
               : bench_note_write(s->note, WEIR_ERR_SYSTEM, "--beside %s: CUDA: %s", s->with->text,
                                  cudaGetErrorString(error));
}

static weir_status compute_launch(bench_gpu_compute_state *s, const void *kernel, int blocks,
                                  void **arguments)
{
    enum { THREADS = 256 };
    return compute_check(s, cudaLaunchKernel(kernel, (dim3){(unsigned)blocks, 1, 1},
                                             (dim3){THREADS, 1, 1}, arguments, 0, s->stream));
}

static weir_status blas_open(bench_gpu_compute_state *s)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    for (int i = 0; i < 3 && !s->library; i++)
        s->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (s->library) {
        *(void **)&s->blas.create = dlsym(s->library, "cublasCreate_v2");
        *(void **)&s->blas.destroy = dlsym(s->library, "cublasDestroy_v2");
        *(void **)&s->blas.set_stream = dlsym(s->library, "cublasSetStream_v2");
        *(void **)&s->blas.gemm = dlsym(s->library, "cublasGemmEx");
    }
    if (!s->blas.create || !s->blas.destroy || !s->blas.set_stream || !s->blas.gemm)
        return bench_note_write(
            s->note, WEIR_ERR_UNSUPPORTED,
            "--beside %s: cuBLAS (libcublas.so.13 or .12) cannot be opened; add "
            "its folder to LD_LIBRARY_PATH",
            s->with->text);
    if (s->blas.create(&s->handle) != 0 || s->blas.set_stream(s->handle, s->stream) != 0)
        return bench_note_write(s->note, WEIR_ERR_SYSTEM, "--beside %s: cuBLAS does not start",
                                s->with->text);
    return WEIR_OK;
}

/* Random elements, because the power and so the clock of a product depends on them. */
static weir_status compute_fill(bench_gpu_compute_state *s)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < 2 && status == WEIR_OK; i++) {
        unsigned long long words = s->bytes[i] / 4;
        int is_half = s->with->dtype != WEIR_FLOAT;
        void *arguments[] = {&s->operands[i], &words, &is_half};
        if (words)
            status = compute_launch(s, bench_gpu_fill_kernel(), 4 * s->processors, arguments);
    }
    return status;
}

weir_status bench_gpu_compute_open(bench_gpu *gpu, bench_note *note, const bench_with *with,
                                   void *const operands[3], const size_t bytes[3],
                                   bench_gpu_compute_state **state)
{
    int device = 0;
    bench_gpu_compute_state *s = calloc(1, sizeof *s);
    if (!s)
        return bench_note_write(note, WEIR_ERR_NO_MEMORY, "no memory for --beside");
    s->note = note;
    s->with = with;
    s->stream = (cudaStream_t)bench_gpu_stream(gpu);
    for (int i = 0; i < 3; i++) {
        s->operands[i] = operands[i];
        s->bytes[i] = bytes[i];
    }
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&s->processors, cudaDevAttrMultiProcessorCount, device);
    weir_status status = compute_check(s, error);
    if (status == WEIR_OK)
        status = compute_fill(s);
    if (status == WEIR_OK && with->computes == BENCH_COMPUTE_GEMM)
        status = blas_open(s);
    if (status == WEIR_OK)
        *state = s;
    else
        bench_gpu_compute_close(s);
    return status;
}

/* cuBLAS counts columns first: B A of its view is the row-major A B. */
static weir_status compute_gemm(bench_gpu_compute_state *s)
{
    enum { REAL_FLOAT = 0, REAL_HALF = 2, REAL_BFLOAT16 = 14, COMPUTE_FLOAT = 68, ALGO = -1 };
    static const float one = 1, zero = 0;
    const bench_with *w = s->with;
    const int type = w->dtype == WEIR_FLOAT  ? REAL_FLOAT
                     : w->dtype == WEIR_HALF ? REAL_HALF
                                             : REAL_BFLOAT16;
    const int m = (int)w->m, n = (int)w->n, k = (int)w->k;
    const int failed =
        s->blas.gemm(s->handle, 0, 0, n, m, k, &one, s->operands[1], type, n, s->operands[0], type,
                     k, &zero, s->operands[2], type, n, COMPUTE_FLOAT, ALGO);
    return failed ? bench_note_write(s->note, WEIR_ERR_SYSTEM, "--beside %s: cuBLAS: error %d",
                                     w->text, failed)
                  : WEIR_OK;
}

weir_status bench_gpu_compute_enqueue(bench_gpu_compute_state *s)
{
    enum { BLOCKS_EACH = 8, WAVES = 4 };
    unsigned long long vectors = s->bytes[0] / 16;
    void *sink = NULL;
    void *stream[] = {&s->operands[1], &s->operands[0], &vectors}, *flops[] = {&sink};
    if (s->with->computes == BENCH_COMPUTE_GEMM)
        return compute_gemm(s);
    if (s->with->computes == BENCH_COMPUTE_STREAM)
        return compute_launch(s, bench_gpu_stream_kernel(), BLOCKS_EACH * s->processors, stream);
    return compute_launch(s, bench_gpu_flops_kernel(), WAVES * BLOCKS_EACH * s->processors, flops);
}

void bench_gpu_compute_close(bench_gpu_compute_state *s)
{
    if (s->handle)
        s->blas.destroy(s->handle);
    free(s); /* cuBLAS stays loaded: CUDA keeps its kernels */
}
