/* The parts of the manifest, and its file: see manifest.h. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "bench/output/manifest.h"

#include "bench/statistics/bootstrap.h"
#include "bench/output/build_info.h"
#include "bench/options/environment.h"
#include "bench/options/paths.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;

static void put_build(bench_json *json)
{
    bench_json_key(json, "build");
    bench_json_open_object(json);
    bench_json_put_text(json, "version", WEIR_VERSION);
    bench_json_put_text(json, "commit", bench_build_commit());
    bench_json_put_text(json, "sources", bench_build_sources());
    bench_json_put_text(json, "kind", bench_build_kind());
    bench_json_put_text(json, "compiler", bench_build_compiler());
    bench_json_put_text(json, "flags", bench_build_flags());
    bench_json_close_object(json);
}

static void put_host(bench_json *json, const bench_job *job)
{
    struct utsname system;
    bench_json_key(json, "host");
    bench_json_open_object(json);
    bench_json_put_text(json, "name", job->host);
    if (uname(&system) == 0) {
        bench_json_put_text(json, "system", system.sysname);
        bench_json_put_text(json, "release", system.release);
        bench_json_put_text(json, "processor", system.machine);
    }
    bench_json_put_whole(json, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    bench_json_put_text(json, "topology", job->machine);
    bench_json_put_text(json, "topology_digest", job->digest);
    bench_json_close_object(json);
}

static void manifest_put_known(bench_json *json, const char *key, int value)
{
    if (value >= 0)
        bench_json_put_whole(json, key, value);
}

/* The state before the run, and its limits. */
static void put_nvml(bench_json *json, const bench_nvml_info *info)
{
    char reasons[BENCH_REASONS_BYTES];
    bench_clocks start;
    bench_clocks_clear(&start);
    if (info->has_start)
        bench_clocks_add(&start, &info->start);
    bench_json_key(json, "state");
    bench_json_open_object(json);
    if (info->problem[0])
        bench_json_put_text(json, "problem", info->problem);
    if (info->has_start) {
        bench_clocks_reasons(&start, reasons);
        bench_json_put_text(json, "driver", info->driver);
        bench_json_put_text(json, "throttle_reasons", reasons);
        manifest_put_known(json, "sm_mhz", start.sm_mhz);
        manifest_put_known(json, "memory_mhz", start.memory_mhz);
        manifest_put_known(json, "power_w", start.power_w);
        manifest_put_known(json, "temperature_c", start.temperature_c);
        manifest_put_known(json, "sm_mhz_most", info->sm_mhz_most);
        manifest_put_known(json, "memory_mhz_most", info->memory_mhz_most);
        manifest_put_known(json, "power_limit_w", info->power_w_most);
    }
    bench_json_close_object(json);
}

static void put_gpu(bench_json *json, const bench_rank_info *info)
{
    const bench_gpu_info *gpu = &info->gpu;
    bench_json_key(json, "gpu");
    bench_json_open_object(json);
    bench_json_put_whole(json, "device", info->device);
    bench_json_put_text(json, "name", gpu->name);
    bench_json_put_text(json, "bus", gpu->bus);
    bench_json_put_whole(json, "memory_bytes", (long long)gpu->memory_bytes);
    bench_json_put_whole(json, "free_bytes", (long long)gpu->free_bytes);
    bench_json_put_whole(json, "cache_bytes", (long long)gpu->cache_bytes);
    bench_json_put_whole(json, "cuda_runtime", gpu->runtime);
    bench_json_put_whole(json, "cuda_driver", gpu->driver);
    put_nvml(json, &info->nvml);
    bench_json_close_object(json);
}

static void put_ranks(bench_json *json, const bench_rank_info *infos, int nranks)
{
    bench_json_key(json, "ranks");
    bench_json_open_list(json);
    for (int i = 0; i < nranks; i++) {
        bench_json_open_object(json);
        bench_json_put_whole(json, "rank", infos[i].rank);
        bench_json_put_whole(json, "pid", infos[i].pid);
        bench_json_put_text(json, "host", infos[i].host);
        bench_json_put_text(json, "binding", infos[i].place);
        if (infos[i].gpu.name[0])
            put_gpu(json, &infos[i]);
        bench_json_close_object(json);
    }
    bench_json_close_list(json);
}

/* The program itself has no name here, and the kernel's part no path. */
static int put_library(struct dl_phdr_info *info, size_t bytes, void *json)
{
    (void)bytes;
    if (info->dlpi_name && strchr(info->dlpi_name, '/'))
        bench_json_text(json, info->dlpi_name);
    return 0;
}

static void put_libraries(bench_json *json)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    bench_json_put_text(json, "mpi", version);
    bench_json_key(json, "libraries");
    bench_json_open_list(json);
    dl_iterate_phdr(put_library, json);
    bench_json_close_list(json);
}

static void manifest_put_environment(bench_json *json)
{
    bench_json_key(json, "environment");
    bench_json_open_object(json);
    for (char **variable = environ; *variable; variable++) {
        char name[64];
        size_t length = strcspn(*variable, "=");
        if (length >= sizeof name || !bench_environment_allows(*variable))
            continue;
        memcpy(name, *variable, length);
        name[length] = '\0';
        bench_json_put_text(json, name, *variable + length + 1);
    }
    bench_json_close_object(json);
}

static void put_words(bench_json *json, const bench_options *o)
{
    bench_json_put_text(json, "backend", o->words.backend);
    bench_json_put_text(json, "transport", o->words.transport);
    bench_json_put_text(json, "algo", o->algo);
    bench_json_put_text(json, "verify", bench_options_verifies(o) ? o->words.verify : "off");
    bench_json_put_text(json, "mode", o->words.mode);
    bench_json_put_text(json, "buffers", o->words.buffers);
    bench_json_put_text(json, "dist", o->dist);
    bench_json_put_text(json, "counts", o->words.counts);
    bench_json_key(json, "peers");
    bench_json_open_list(json);
    for (int i = 0; i < o->npeers; i++)
        bench_json_text(json, o->peers[i].text);
    bench_json_close_list(json);
}

/* 0 iterations and -1 warm-ups mean that the run finds the number. */
static void put_options(bench_json *json, const bench_options *o)
{
    bench_json_key(json, "options");
    bench_json_open_object(json);
    put_words(json, o);
    bench_json_put_text(json, "dtype",
                        o->dtype == BENCH_ALL ? "all" : weir_dtype_name((weir_dtype)o->dtype));
    bench_json_put_text(json, "op", o->op == BENCH_ALL ? "all" : weir_op_name((weir_op)o->op));
    bench_json_put_whole(json, "root", o->root);
    bench_json_put_whole(json, "min_bytes", (long long)o->min_bytes);
    bench_json_put_whole(json, "max_bytes", (long long)o->max_bytes);
    bench_json_put_whole(json, "step_bytes", (long long)o->step_bytes);
    bench_json_put_whole(json, "step_factor", (long long)o->step_factor);
    bench_json_put_whole(json, "iterations", o->iterations);
    bench_json_put_real(json, "until", o->until);
    bench_json_put_whole(json, "warmups", o->warmups);
    bench_json_put_whole(json, "aggregate", o->aggregate);
    bench_json_put_whole(json, "cold", o->cold);
    bench_json_put_whole(json, "determinism", o->determinism);
    bench_json_put_whole(json, "cycles", o->cycles);
    bench_json_put_whole(json, "checks", o->checks);
    bench_json_put_whole(json, "blocking", o->blocking);
    bench_json_put_whole(json, "rank_time", o->rank_time);
    bench_json_put_whole(json, "registration", o->registration);
    bench_json_put_whole(json, "unalign_elements", o->unalign_elements);
    bench_json_put_whole(json, "timeout_s", o->timeout_s);
    bench_json_put_whole(json, "seed", (long long)o->seed);
    bench_json_close_object(json);
}

void bench_manifest_put(bench_json *json, const bench_run *run, const bench_rank_info *infos)
{
    bench_json_open_object(json);
    bench_json_put_whole(json, "schema", BENCH_MANIFEST_SCHEMA);
    bench_json_put_text(json, "run_id", run->id);
    bench_json_put_text(json, "utc", run->utc);
    bench_json_put_text(json, "program", run->job->program);
    bench_json_key(json, "arguments");
    bench_json_open_list(json);
    for (int i = 1; i < run->argc; i++)
        bench_json_text(json, run->argv[i]);
    bench_json_close_list(json);
    put_build(json);
    put_host(json, run->job);
    bench_json_put_whole(json, "nnodes", run->job->nnodes);
    put_ranks(json, infos, run->job->nranks);
    put_libraries(json);
    bench_json_put_text(json, "intervals", bench_bootstrap_method());
    manifest_put_environment(json);
    put_options(json, run->options);
    bench_json_close_object(json);
}

weir_status bench_manifest_write(const bench_run *run, const bench_rank_info *infos)
{
    const bench_options *options = run->options;
    char path[PATH_MAX] = "";
    struct stat kind;
    if (!options->csv_path || stat(options->csv_path, &kind) != 0 || !S_ISREG(kind.st_mode))
        return WEIR_OK;
    errno = ENAMETOOLONG;
    FILE *file =
        bench_paths_manifest(options->csv_path, path, sizeof path) == 0 ? fopen(path, "w") : NULL;
    if (!file)
        return bench_job_note(run->job, WEIR_ERR_INVALID,
                              "--csv %s: its manifest %s: %s; give a folder that can be written",
                              options->csv_path, path, strerror(errno));
    bench_json json = {.file = file};
    bench_manifest_put(&json, run, infos);
    fputc('\n', file);
    int broken = ferror(file);
    broken |= fclose(file) != 0;
    if (broken)
        return bench_job_note(run->job, WEIR_ERR_SYSTEM,
                              "%s: not all could be written; is the disk full?", path);
    return WEIR_OK;
}
