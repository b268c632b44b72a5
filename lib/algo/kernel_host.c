/*
 * Kernels on the host: compiled by cc into a shared object, loaded with dlopen, run in the calling
 * thread as one block of one thread.
 */
#define _GNU_SOURCE
#include "algo/kernel.h"

#include "algo/process.h"
#include "base/config.h"
#include "base/env.h"
#include "base/error.h"
#include <weir/kernel.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OUTPUT_BYTES = 16384 };

/* A loaded kernel. */
typedef struct host_kernel {
    void *library;
    const weir_kernel_entry *entry;
    void *shared; /* WEIR_SHARED's memory; grows to the largest request */
    size_t shared_bytes;
} host_kernel;

static const char *const host_flags[] = {"-x",    "c",       "-std=gnu11", "-O3",
                                         "-fPIC", "-shared", "-pthread",   "-Wl,--no-undefined"};
enum { FLAGS = sizeof host_flags / sizeof *host_flags };

static const char *host_compiler(void)
{
    const char *given = weiri_env(WEIRI_ENV_CC);
    return given ? given : "cc";
}

/* Finds the file of a command as execvp does. 0 if there is none. */
static int host_find_command(const char *command, char *path)
{
    const char *list = getenv("PATH");
    if (strchr(command, '/'))
        return realpath(command, path) != NULL;
    for (const char *at = list ? list : "/bin:/usr/bin"; at;) {
        char candidate[PATH_MAX];
        int length = (int)strcspn(at, ":");
        int used = snprintf(candidate, sizeof candidate, "%.*s/%s", length, at, command);
        if (used < (int)sizeof candidate && realpath(candidate, path))
            return 1;
        at = at[length] ? at + length + 1 : NULL;
    }
    return 0;
}

/* Identifies the compiler by its file: path, size and time of modification. */
static weir_status host_identify(const weiri_kernel_job *job, weiri_hash *key)
{
    char path[PATH_MAX];
    struct stat about;
    (void)job;
    if (!host_find_command(host_compiler(), path) || stat(path, &about) != 0)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "no compiler for kernels: there is no command %s; install gcc, or set %s "
                          "to a C compiler",
                          host_compiler(), weiri_env_name(WEIRI_ENV_CC));
    weiri_hash_add(key, path, strlen(path));
    weiri_hash_add(key, &about.st_size, sizeof about.st_size);
    weiri_hash_add(key, &about.st_mtim, sizeof about.st_mtim);
    for (int i = 0; i < FLAGS; i++)
        weiri_hash_add(key, host_flags[i], strlen(host_flags[i]));
    return WEIR_OK;
}

static weir_status host_compile(const weiri_kernel_job *job, const char *path)
{
    char file[WEIRI_PATH_BYTES + 8], include[WEIRI_PATH_BYTES + 8];
    const char *argv[FLAGS + 8];
    int count = 0, exit_code = 0;
    /* A name must not be parsed as an option or as a file of options. */
    snprintf(file, sizeof file, "%s%s", strchr("-@", *job->file) ? "./" : "", job->file);
    snprintf(include, sizeof include, "-I%s", job->headers);
    argv[count++] = host_compiler();
    for (int i = 0; i < FLAGS; i++)
        argv[count++] = host_flags[i];
    argv[count++] = include;
    argv[count++] = "-o";
    argv[count++] = path;
    argv[count++] = file;
    argv[count++] = "-lm";
    argv[count] = NULL;
    char *output = malloc(OUTPUT_BYTES);
    if (!output)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a compiler's output");
    /* The other ranks wait at the bootstrap with the same timeout. */
    weir_status status =
        weiri_process_run(argv, weiri_config_timeout_ms(), output, OUTPUT_BYTES, &exit_code);
    if (status == WEIR_OK && exit_code)
        status = weiri_kernel_refuse_source(job, output);
    free(output);
    return status;
}

static weir_status host_load(weir_kernel *kernel, const char *path, int *missing)
{
    char symbol[256];
    host_kernel *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a kernel");
    made->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!made->library) {
        free(made);
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "cannot load the compiled kernel: %s (is %s on a file system mounted "
                          "noexec? if so, set %s to another folder)",
                          dlerror(), path, weiri_env_name(WEIRI_ENV_CACHE_HOME));
    }
    int length = snprintf(symbol, sizeof symbol, "weir_kernel_%s", kernel->name);
    if (length < (int)sizeof symbol)
        made->entry = dlsym(made->library, symbol);
    if (!made->entry || made->entry->abi != WEIR_KERNEL_ABI) {
        *missing = !made->entry;
        dlclose(made->library);
        free(made);
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: kernel %s was compiled for another version of weir", kernel->file,
                          kernel->name);
    }
    kernel->loaded = made;
    return WEIR_OK;
}

static void host_unload(weir_kernel *kernel)
{
    host_kernel *loaded = kernel->loaded;
    dlclose(loaded->library);
    free(loaded->shared);
    free(loaded);
}

static weir_status host_reserve_shared(const weir_kernel *kernel, host_kernel *loaded, size_t bytes)
{
    if (bytes <= loaded->shared_bytes)
        return WEIR_OK;
    free(loaded->shared);
    loaded->shared_bytes = 0;
    loaded->shared = aligned_alloc(WEIR_LINE_BYTES, (bytes + WEIR_LINE_BYTES - 1) /
                                                        WEIR_LINE_BYTES * WEIR_LINE_BYTES);
    if (!loaded->shared)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "kernel %s: no memory for %zu shared bytes",
                          kernel->name, bytes);
    loaded->shared_bytes = bytes;
    return WEIR_OK;
}

/* Sets the error line for a kernel that failed, from the record of its last wait if that timed out,
 * and aborts the communicator. */
static weir_status host_fail_launch(const weir_kernel *kernel, weir_status status)
{
    weir_comm *comm = weiri_comm_node(kernel->comm);
    const weir_wait_record *record = &comm->where->wait;
    int rank = weiri_comm_parent_rank(comm, comm->rank);
    if (status == WEIR_ERR_TIMEOUT && record->kind != WEIR_WAIT_NONE)
        weiri_fail(status,
                   "rank %d: deadline of %llu ms passed in kernel %s; it waits for rank %lld: "
                   "expected %llu, seen %llu",
                   rank, (unsigned long long)(comm->guard.timeout_ns / 1000000), kernel->name,
                   (long long)record->peer, (unsigned long long)record->expected,
                   (unsigned long long)record->seen);
    else
        weiri_fail(status, "rank %d: kernel %s of %s failed: %s", rank, kernel->name, kernel->file,
                   weir_status_text(status));
    weiri_comm_abort_for(comm, WEIRI_ABORT_FAILED);
    weir_store_release(&comm->where->answered, 1);
    return status;
}

static weir_status host_launch(weir_kernel *kernel, int blocks, int threads, size_t shared_bytes,
                               weir_stream stream, const weir_params *params)
{
    host_kernel *loaded = kernel->loaded;
    (void)blocks;
    (void)threads;
    if (stream)
        return weiri_fail(WEIR_ERR_INVALID,
                          "kernel %s: the host backend takes no stream; pass NULL", kernel->name);
    weir_status status = weiri_kernel_check_params(kernel, params, loaded->entry->args_bytes);
    if (status == WEIR_OK)
        status = host_reserve_shared(kernel, loaded, shared_bytes);
    if (status != WEIR_OK)
        return status;
    status = (weir_status)loaded->entry->run(params->bytes, loaded->shared);
    return status == WEIR_OK ? WEIR_OK : host_fail_launch(kernel, status);
}

const weiri_kernel_backend weiri_kernel_host = {
    .kind = "so",
    .identify = host_identify,
    .compile = host_compile,
    .load = host_load,
    .launch = host_launch,
    .unload = host_unload,
};
