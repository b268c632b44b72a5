/* The parts of the manifest, and its file: see manifest.h. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "bench/output/manifest.h"

#include "bench/statistics/bootstrap.h"
#include "bench/options/environment.h"
#include "bench/options/parse.h"
#include "bench/options/paths.h"
#include "bench/output/output_file.h"
#include "base/mpi_open.h"
#include "base/write_file.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;

static void put_build(weiri_json_writer *json)
{
    weiri_json_put_object(json, "build");
    weiri_json_put_text(json, "version", WEIR_VERSION);
    weiri_json_put_text(json, "commit", bench_built.commit);
    weiri_json_put_text(json, "sources", bench_built.sources);
    weiri_json_put_text(json, "kind", bench_built.kind);
    weiri_json_put_text(json, "compiler", bench_built.compiler);
    weiri_json_put_text(json, "flags", bench_built.flags);
    weiri_json_close_object(json);
}

static void put_host(weiri_json_writer *json, const bench_job *job)
{
    struct utsname system;
    weiri_json_put_object(json, "host");
    weiri_json_put_text(json, "name", job->host);
    if (uname(&system) == 0) {
        weiri_json_put_text(json, "system", system.sysname);
        weiri_json_put_text(json, "release", system.release);
        weiri_json_put_text(json, "processor", system.machine);
    }
    weiri_json_put_whole(json, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    weiri_json_put_text(json, "topology", job->machine);
    weiri_json_put_text(json, "topology_digest", job->digest);
    weiri_json_close_object(json);
}

static void put_known(weiri_json_writer *json, const char *key, int value)
{
    if (value >= 0)
        weiri_json_put_whole(json, key, value);
}

void bench_manifest_put_clocks(weiri_json_writer *json, const bench_clocks *clocks)
{
    char reasons[BENCH_REASONS_BYTES];
    bench_clocks_reasons(clocks, reasons);
    weiri_json_put_text(json, "throttle_reasons", reasons);
    put_known(json, "sm_mhz", clocks->sm_mhz);
    put_known(json, "memory_mhz", clocks->memory_mhz);
    put_known(json, "power_w", clocks->power_w);
    put_known(json, "temperature_c", clocks->temperature_c);
}

/* The state before the run, and its limits. */
static void put_nvml(weiri_json_writer *json, const bench_nvml_info *info)
{
    bench_clocks start;
    bench_clocks_clear(&start);
    if (info->has_start)
        bench_clocks_add(&start, &info->start);
    weiri_json_put_object(json, "state");
    if (info->problem[0])
        weiri_json_put_text(json, "problem", info->problem);
    if (info->has_start) {
        weiri_json_put_text(json, "driver", info->driver);
        bench_manifest_put_clocks(json, &start);
        put_known(json, "sm_mhz_most", info->sm_mhz_most);
        put_known(json, "memory_mhz_most", info->memory_mhz_most);
        put_known(json, "power_limit_w", info->power_w_most);
    }
    weiri_json_close_object(json);
}

static void put_gpu(weiri_json_writer *json, const bench_rank_info *info)
{
    const bench_gpu_info *gpu = &info->gpu;
    weiri_json_put_object(json, "gpu");
    weiri_json_put_whole(json, "device", info->device);
    weiri_json_put_text(json, "name", gpu->name);
    weiri_json_put_text(json, "bus", gpu->bus);
    weiri_json_put_whole(json, "memory_bytes", (long long)gpu->memory_bytes);
    weiri_json_put_whole(json, "free_bytes", (long long)gpu->free_bytes);
    weiri_json_put_whole(json, "cache_bytes", (long long)gpu->cache_bytes);
    weiri_json_put_whole(json, "cuda_runtime", gpu->runtime);
    weiri_json_put_whole(json, "cuda_driver", gpu->driver);
    put_nvml(json, &info->nvml);
    weiri_json_close_object(json);
}

static void put_ranks(weiri_json_writer *json, const bench_rank_info *infos, const bench_job *job)
{
    weiri_json_put_list(json, "ranks");
    for (int i = 0; i < job->nranks; i++) {
        weiri_json_open_object(json);
        weiri_json_put_whole(json, "rank", infos[i].rank);
        if (job->ngroups > 1)
            weiri_json_put_whole(json, "group", infos[i].group);
        weiri_json_put_whole(json, "pid", infos[i].pid);
        weiri_json_put_text(json, "host", infos[i].host);
        weiri_json_put_text(json, "binding", infos[i].place);
        if (infos[i].gpu.name[0])
            put_gpu(json, &infos[i]);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

/* The program itself has no name here, and the kernel's part no path. */
static int put_library(struct dl_phdr_info *info, size_t bytes, void *json)
{
    (void)bytes;
    if (info->dlpi_name && strchr(info->dlpi_name, '/'))
        weiri_json_add_text(json, info->dlpi_name);
    return 0;
}

static void put_libraries(weiri_json_writer *json, const bench_job *job)
{
    char version[8192]; /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH */
    bench_mpi_version(job->mpi, version, sizeof version);
    weiri_json_put_text(json, "mpi", version);
    weiri_json_put_text(json, "mpi_library", job->mpi ? weiri_mpi_file() : "");
    weiri_json_put_text(json, "mpi_abi", job->mpi ? weiri_mpi_abi() : "");
    weiri_json_put_text(json, "launcher", bench_launcher_name(job->launcher));
    weiri_json_put_list(json, "libraries");
    dl_iterate_phdr(put_library, json);
    weiri_json_close_list(json);
}

static void manifest_put_environment(weiri_json_writer *json)
{
    weiri_json_put_object(json, "environment");
    for (char **variable = environ; *variable; variable++) {
        char name[64];
        size_t length = strcspn(*variable, "=");
        if (length >= sizeof name || !bench_environment_allows(*variable))
            continue;
        memcpy(name, *variable, length);
        name[length] = '\0';
        weiri_json_put_text(json, name, *variable + length + 1);
    }
    weiri_json_close_object(json);
}

/* The members of the manifest, in an object that is open. */
static void put_members(weiri_json_writer *json, const bench_run *run, const bench_rank_info *infos)
{
    weiri_json_put_whole(json, "schema", BENCH_MANIFEST_SCHEMA);
    weiri_json_put_text(json, "run_id", run->id);
    weiri_json_put_text(json, "utc", run->utc);
    weiri_json_put_text(json, "program", run->job->program);
    weiri_json_put_list(json, "arguments");
    for (int i = 1; i < run->argc; i++)
        weiri_json_add_text(json, run->argv[i]);
    weiri_json_close_list(json);
    put_build(json);
    put_host(json, run->job);
    weiri_json_put_whole(json, "nnodes", run->job->nnodes);
    put_ranks(json, infos, run->job);
    put_libraries(json, run->job);
    weiri_json_put_text(json, "intervals", bench_bootstrap_method());
    manifest_put_environment(json);
    /* The options that the benchmarks of collectives have; options of every benchmark begin with
     * them. 0 iterations and -1 warm-ups mean that the run finds the number. */
    weiri_json_put_object(json, "options");
    weiri_options_put(&bench_options_table, run->options, json);
    weiri_json_close_object(json);
    bench_warnings_put(json, &run->job->warnings);
}

void bench_manifest_put(weiri_json_writer *json, const bench_run *run, const bench_rank_info *infos)
{
    weiri_json_open_object(json);
    put_members(json, run, infos);
    weiri_json_close_object(json);
}

/* What the file is written from. */
typedef struct manifest_file {
    const bench_run *run;
    const bench_rank_info *infos;
    int is_complete;
} manifest_file;

static void manifest_write_to(const void *context, FILE *to)
{
    const manifest_file *manifest = context;
    weiri_json_writer json = {.file = to};
    weiri_json_open_object(&json);
    put_members(&json, manifest->run, manifest->infos);
    weiri_json_put_flag(&json, "complete", manifest->is_complete);
    weiri_json_close_object(&json);
    fputc('\n', to);
}

weir_status bench_manifest_write(const bench_run *run, const bench_rank_info *infos,
                                 int is_complete)
{
    const bench_options *options = run->options;
    const manifest_file manifest = {run, infos, is_complete};
    char path[PATH_MAX] = "", reason[BENCH_OUTPUT_REASON_BYTES] = "its name is too long";
    struct stat kind;
    if (!options->csv_path || stat(options->csv_path, &kind) != 0 || !S_ISREG(kind.st_mode))
        return WEIR_OK;
    if (bench_paths_manifest(options->csv_path, path, sizeof path) != 0 ||
        bench_output_try(path, reason) != 0)
        return bench_job_note(run->job, WEIR_ERR_INVALID, "--csv %s: its manifest %s: %s",
                              options->csv_path, path, reason);
    if (weiri_write_file(path, manifest_write_to, &manifest) != 0) {
        const int error = errno;
        if (weiri_write_refuses_path(error))
            return bench_job_note(run->job, WEIR_ERR_INVALID, "--csv %s: its manifest %s: %s",
                                  options->csv_path, path, strerror(error));
        return bench_job_note(run->job, WEIR_ERR_SYSTEM,
                              "%s: not all could be written; is the disk full? (%s)", path,
                              strerror(error));
    }
    return WEIR_OK;
}
