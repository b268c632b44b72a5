/*
 * Compiles, loads, launches and frees kernels of any backend. Compilation is collective: the first
 * rank of each node compiles into the cache (cache.h), the others load from it; the ranks agree on
 * each phase and compare the hashes of their sources.
 */
#include "algo/kernel.h"

#include "base/error.h"
#include "base/log.h"
#include <weir/kernel.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------- compilation */

static weir_status kernel_make_key(weiri_kernel_job *job, const weiri_kernel_backend *backend)
{
    static const char version[] = WEIR_VERSION;
    const int32_t abi = WEIR_KERNEL_ABI;
    job->key = job->source.hash;
    weiri_hash_add(&job->key, version, sizeof version);
    weiri_hash_add(&job->key, &abi, sizeof abi);
    weiri_hash_add(&job->key, backend->kind, strlen(backend->kind));
    return backend->identify(job, &job->key);
}

/* Everything before compilation: checks the arguments, reads the source, opens the cache. */
static weir_status kernel_prepare(weiri_kernel_job *job, const weir_kernel *kernel)
{
    if (!job->file || !kernel->name || !*kernel->name)
        return weiri_fail(WEIR_ERR_INVALID, "weir_kernel_compile: file and name are required");
    if (strlen(job->file) >= WEIRI_PATH_BYTES)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_kernel_compile: the path has %zu bytes; at most %d are supported",
                          strlen(job->file), WEIRI_PATH_BYTES - 1);
    if (!kernel->backend)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "this build has no CUDA and cannot compile kernels for GPUs");
    weir_status status = weiri_headers_folder(job->headers);
    if (status == WEIR_OK)
        status = weiri_source_read(job->file, job->headers, &job->source);
    if (status == WEIR_OK)
        status = kernel_make_key(job, kernel->backend);
    if (status == WEIR_OK)
        status = weiri_cache_open(!job->source.opaque, &job->cache);
    return status;
}

static weir_status kernel_compile(weiri_kernel_job *job, const weiri_kernel_backend *backend)
{
    char path[WEIRI_PATH_BYTES];
    weir_status status = weiri_cache_begin(&job->cache, path);
    if (status != WEIR_OK)
        return status;
    status = backend->compile(job, path);
    if (status == WEIR_OK)
        status = weiri_cache_end(&job->cache, &job->key, backend->kind, path);
    if (status != WEIR_OK)
        unlink(path);
    return status;
}

/* Writes the path of the kernel's cache entry, which is compiled if it does not exist. */
static weir_status kernel_find_or_compile(weiri_kernel_job *job, weir_kernel *kernel, char *path)
{
    if (weiri_cache_find(&job->cache, &job->key, kernel->backend->kind, path)) {
        kernel->cached = 1;
        return WEIR_OK;
    }
    kernel->cached = 0;
    weir_status status = kernel_compile(job, kernel->backend);
    if (status == WEIR_OK && !weiri_cache_find(&job->cache, &job->key, kernel->backend->kind, path))
        status = weiri_fail(WEIR_ERR_SYSTEM, "%s was removed while it was in use", path);
    return status;
}

static weir_status kernel_load(const weiri_kernel_job *job, weir_kernel *kernel, const char *path)
{
    int missing = 0;
    weir_status status = kernel->backend->load(kernel, path, &missing);
    char names[200];
    if (status == WEIR_OK || !missing)
        return status;
    weiri_source_kernels(&job->source, names, sizeof names);
    return weiri_fail(WEIR_ERR_INVALID, "%s has no kernel '%s' (WEIR_KERNEL); it has: %s",
                      job->file, kernel->name, names);
}

/* Fails unless all ranks have the same source; kernels of different sources could deadlock. */
static weir_status kernel_compare_sources(const weiri_kernel_job *job)
{
    size_t n = (size_t)job->comm->nranks, rank = 0;
    weiri_hash *all = calloc(n, sizeof *all);
    weir_status status = weir_boot_agree(
        job->comm->boot, all ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for hashes"));
    if (status == WEIR_OK) {
        all[job->comm->rank] = job->source.hash;
        status = weir_boot_allgather(job->comm->boot, all, sizeof *all);
    }
    while (status == WEIR_OK && ++rank < n)
        if (memcmp(&all[rank], &all[0], sizeof *all) != 0)
            status = weiri_fail(WEIR_ERR_MISMATCH,
                                "%s or a file that it includes is not the same on all ranks: rank "
                                "%zu differs from rank 0",
                                job->file, rank);
    free(all);
    return status;
}

static weir_status kernel_compile_on_all(weiri_kernel_job *job, weir_kernel *kernel)
{
    char path[WEIRI_PATH_BYTES] = "";
    int first = job->comm->local_rank == 0;
    weir_status status = kernel_prepare(job, kernel);
    if (status == WEIR_OK && first)
        status = kernel_find_or_compile(job, kernel, path);
    status = weir_boot_agree(job->comm->boot, status);
    if (status == WEIR_OK)
        status = kernel_compare_sources(job);
    if (status != WEIR_OK)
        return status;
    if (!first)
        status = kernel_find_or_compile(job, kernel, path);
    if (status == WEIR_OK)
        status = kernel_load(job, kernel, path);
    return weir_boot_agree(job->comm->boot, status);
}

static weir_status kernel_new(weir_comm *comm, const char *file, const char *name,
                              weir_kernel **kernel)
{
    weir_kernel *made = calloc(1, sizeof *made);
    *kernel = made;
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a kernel");
    made->comm = comm;
    made->backend = comm->gpu ? weiri_kernel_gpu() : &weiri_kernel_host;
    made->file = file ? strdup(file) : NULL;
    made->name = name ? strdup(name) : NULL;
    if ((file && !made->file) || (name && !made->name))
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a kernel");
    return WEIR_OK;
}

weir_status weir_kernel_compile(weir_comm *comm, const char *file, const char *name,
                                weir_kernel **kernel)
{
    if (!comm || !kernel)
        return weiri_fail(WEIR_ERR_INVALID, "weir_kernel_compile: comm and kernel are required");
    weir_kernel *made = NULL;
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_kernel_compile");
    if (status != WEIR_OK)
        return status;
    weiri_kernel_job *job = calloc(1, sizeof *job);
    status = kernel_new(comm, file, name, &made);
    if (status == WEIR_OK && !job)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to compile a kernel");
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK) {
        job->comm = comm;
        job->file = made->file;
        status = kernel_compile_on_all(job, made);
        weiri_source_free(&job->source);
        weiri_cache_close(&job->cache);
    }
    free(job);
    status = weiri_setup_end(&setup, status);
    if (status == WEIR_OK)
        *kernel = made;
    else
        weir_kernel_free(made);
    return status;
}

/* -------------------------------------------------------------------- launch */

weir_status weir_kernel_launch(weir_kernel *kernel, int blocks, int threads, size_t shared_bytes,
                               weir_stream stream, const weir_params *params)
{
    if (!kernel || !params)
        return weiri_fail(WEIR_ERR_INVALID, "weir_kernel_launch: kernel and params are required");
    if (blocks < 1 || threads < 1)
        return weiri_fail(WEIR_ERR_INVALID,
                          "kernel %s: a launch of %d blocks of %d threads; expected 1 or more of "
                          "each",
                          kernel->name, blocks, threads);
    return kernel->backend->launch(kernel, blocks, threads, shared_bytes, stream, params);
}

void weir_kernel_free(weir_kernel *kernel)
{
    if (!kernel)
        return;
    if (kernel->loaded)
        kernel->backend->unload(kernel);
    free(kernel->file);
    free(kernel->name);
    free(kernel);
}

const char *weir_kernel_name(const weir_kernel *kernel)
{
    return kernel->name;
}

int weir_kernel_is_cached(const weir_kernel *kernel)
{
    return kernel->cached;
}
