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

/* ------------------------------------------------------------------ messages */

/* Length of the line at `at`, without the newline. */
static int line_length(const char *at)
{
    return (int)strcspn(at, "\n");
}

static const char *line_containing(const char *output, const char *word)
{
    const char *found = strstr(output, word);
    while (found && found > output && found[-1] != '\n')
        found--;
    return found;
}

/* Rewrites "file(3): error" (NVRTC) as "file:3: error" (cc), in place. */
static void diagnostic_use_colons(char *line)
{
    char *open = strstr(line, "): error");
    char *digits = open;
    while (digits && digits > line && isdigit((unsigned char)digits[-1]))
        digits--;
    if (!digits || digits == open || digits == line || digits[-1] != '(')
        return;
    digits[-1] = ':';
    memmove(open, open + 1, strlen(open));
}

weir_status weiri_kernel_refuse_source(const weiri_kernel_job *job, const char *output)
{
    static const char *const words[] = {"undefined reference", "error:", "error"};
    char line[400];
    const char *chosen = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words && !chosen; i++)
        chosen = line_containing(output, words[i]);
    if (!chosen)
        chosen = output;
    snprintf(line, sizeof line, "%.*s", line_length(chosen), chosen);
    diagnostic_use_colons(line);
    weiri_log(WEIRI_LOG_INFO, "output of the compiler for %s:\n%s", job->file, output);
    const char *name = strrchr(job->file, '/') ? strrchr(job->file, '/') + 1 : job->file;
    int has_place = strncmp(line, job->file, strlen(job->file)) == 0;
    return weiri_fail(WEIR_ERR_INVALID, "%s%s%s (WEIR_LOG=info shows the compiler's whole output)",
                      has_place ? "" : name, has_place ? "" : " does not compile: ", line);
}

weir_status weiri_kernel_check_params(const weir_kernel *kernel, const weir_params *params,
                                      size_t expected_bytes)
{
    size_t unit = params->alignment ? params->alignment : 1;
    size_t bytes = (params->used_bytes + unit - 1) / unit * unit;
    if (params->failed)
        return weiri_fail(WEIR_ERR_INVALID,
                          "kernel %s: the parameter was not packed: it has more than %d bytes, or "
                          "an alignment is not a power of two up to 16",
                          kernel->name, WEIR_PARAMS_BYTES);
    if (bytes != expected_bytes)
        return weiri_fail(WEIR_ERR_INVALID,
                          "kernel %s of %s takes a parameter of %zu bytes, not %zu: pack all "
                          "members of its structure, in order",
                          kernel->name, kernel->file, expected_bytes, bytes);
    return WEIR_OK;
}

/* ---------------------------------------------------------------- compilation */

static const weiri_kernel_backend *kernel_backend_of(const weir_comm *comm)
{
    return comm->gpu ? weiri_kernel_gpu() : &weiri_kernel_host;
}

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
    if (status == WEIR_OK &&
        !weiri_cache_find(&job->cache, &job->key, kernel->backend->kind, path))
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
                                "%zu differs from rank 0", job->file, rank);
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
    made->backend = kernel_backend_of(comm);
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
    weiri_kernel_job *job = calloc(1, sizeof *job);
    weir_status status = kernel_new(comm, file, name, &made);
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
