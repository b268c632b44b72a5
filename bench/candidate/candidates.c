/* The candidates of a run: see candidates.h. */
#include "bench/candidate/candidates.h"

#include "bench/candidate/fused.h"
#include "bench/candidate/quantized.h"
#include "bench/options/algo_words.h"
#include "bench/candidate/vendor.h"
#include "bench/job/cores.h"
#include "bench/sizes/shape.h"

#include <stdlib.h>
#include <string.h>

/* Opens a kernel in a file as a candidate. Collective. */
static weir_status open_kernel(bench_job *job, weir_collective collective,
                               const bench_algo_word *word, bench_candidate **made)
{
    int blocks, threads;
    weir_algo *algo = NULL;
    char *file = strndup(word->file, word->file_bytes);
    char *name = strndup(word->name, bench_algo_grid(word->name, &blocks, &threads));
    weir_status status = weir_algo_from_file(job->comm, file, name, collective, &algo);
    if (status == WEIR_OK) {
        status = bench_candidate_algo_open(job, algo, word->name, made);
        if (status == WEIR_OK)
            (*made)->is_users = 1;
        else
            weir_algo_destroy(algo);
    }
    free(name);
    free(file);
    return status;
}

static void add_candidate(bench_candidates *candidates, bench_candidate *made)
{
    candidates->list[candidates->count++] = made;
}

/* Adds the plan, and weir with its own selection or with forced algorithms. Collective if there are
 * plans or kernels in files. */
static weir_status add_weir(bench_job *job, const bench_options *options,
                            weir_collective collective, bench_candidates *candidates)
{
    bench_algo_word words[BENCH_CANDIDATES_MAX];
    const char *backend = weir_backend_name(weir_comm_backend(job->comm));
    if (job->groups[job->group].nnodes > 1)
        backend = "net"; /* the algorithm table's name for algorithms across nodes */
    const weir_collective call = bench_collective_call(collective);
    int count = bench_algos_list(options, call, backend, job->group_nranks, words);
    if (count < 0 || count + (options->plan != NULL) > BENCH_CANDIDATES_MAX)
        return bench_job_note(job, WEIR_ERR_INVALID, "more than %d algorithms to measure at once",
                              BENCH_CANDIDATES_MAX);
    bench_candidate *made = NULL;
    if (options->plan) {
        weir_plan *plan = job->plan;
        job->plan = NULL;
        weir_status status = bench_candidate_plan_open(job, options->plan, plan, &made);
        if (status != WEIR_OK)
            return status;
        if (options->unproved)
            bench_candidate_plan_skip_proof(made);
        add_candidate(candidates, made);
    }
    for (int i = 0; i < count; i++) {
        weir_status status = words[i].file ? open_kernel(job, call, &words[i], &made)
                                           : bench_candidate_weir_open(job, words[i].name, &made);
        if (status != WEIR_OK)
            return status;
        made->least_bytes = words[i].least_bytes;
        made->most_bytes = words[i].most_bytes;
        add_candidate(candidates, made);
    }
    return options->plan_dir ? bench_plan_dir_open(job, options, collective, candidates) : WEIR_OK;
}

/* Opens the plug-in that forces settings, and reads the table of --verify-nccl. Local. */
static weir_status open_tuner(bench_job *job, const bench_options *options,
                              bench_candidates *candidates)
{
    char problem[512] = "";
    const char *table = options->verify_nccl_path;
    if (bench_nccl_tuner_open(&candidates->tuner, problem, sizeof problem) != 0)
        return bench_job_note(job, WEIR_ERR_SYSTEM, "%s: %s",
                              table ? "--verify-nccl" : "--tune-nccl", problem);
    if (table && bench_tuner_read(table, &candidates->tuner.table, problem, sizeof problem) != 0)
        return bench_job_note(job, WEIR_ERR_INVALID, "--verify-nccl %s", problem);
    return WEIR_OK;
}

/* Adds the library's settings, or its table, next to its default. Local. */
static weir_status add_settings(const bench_options *options, weir_collective collective,
                                bench_candidate *nccl, bench_candidates *candidates)
{
    bench_nccl_setting settings[BENCH_NCCL_SETTINGS_MAX];
    const int tunes = options->tune_nccl_path != NULL;
    const int count = tunes ? bench_nccl_settings(collective, settings) : 1;
    weir_status status = WEIR_OK;
    for (int i = 0; i < count && status == WEIR_OK && candidates->count < BENCH_CANDIDATES_MAX;
         i++) {
        status = bench_candidate_nccl_tuned(nccl, tunes ? &settings[i] : NULL,
                                            &candidates->list[candidates->count]);
        candidates->count += status == WEIR_OK;
    }
    return status;
}

/* Adds a vendor's library, each mode as a candidate. Collective; agreed; the first failure is
 * reported. */
static weir_status add_vendor(bench_job *job, const bench_options *options,
                              weir_collective collective, const bench_peer *peer,
                              const bench_buffers *buffers, bench_candidates *candidates)
{
    const int is_tuned = options->tune_nccl_path || options->verify_nccl_path;
    const unsigned modes = peer->modes;
    bench_vendor vendor;
    char why[600] = "";
    weir_status status = WEIR_OK;
    if (!job->gpu)
        status = bench_job_note(job, WEIR_ERR_INVALID,
                                "--peer %s: it works on GPUs; give "
                                "--backend cuda, or --peer mpi",
                                peer->text);
    else if (bench_vendor_open(peer->path, &vendor, why, sizeof why) != WEIR_OK)
        status = bench_job_note(job, WEIR_ERR_SYSTEM,
                                "--peer %s: %s; name the library by "
                                "WEIR_NCCL_SO or --peer PATH",
                                peer->text, why);
    if (status == WEIR_OK && is_tuned) {
        status = open_tuner(job, options, candidates);
        vendor.tuner = &candidates->tuner;
    }
    status = bench_job_agree(job, status, "vendor library");
    if (status == WEIR_OK)
        bench_cores_check(job, vendor.name);
    for (int mode = 0; mode < BENCH_NCCL_MODES && status == WEIR_OK; mode++) {
        if (!(modes >> mode & 1) || !bench_nccl_has_mode(&vendor, (bench_nccl_mode)mode) ||
            candidates->count == BENCH_CANDIDATES_MAX)
            continue;
        status = bench_candidate_nccl_open(job, buffers, &vendor, (bench_nccl_mode)mode,
                                           &candidates->list[candidates->count]);
        candidates->count += status == WEIR_OK;
        if (status == WEIR_OK && is_tuned && mode == BENCH_NCCL_DEFAULT)
            status =
                bench_job_agree(job,
                                add_settings(options, collective,
                                             candidates->list[candidates->count - 1], candidates),
                                "candidates");
        if (status == WEIR_ERR_UNSUPPORTED && mode != BENCH_NCCL_DEFAULT && modes != 1u << mode)
            status = WEIR_OK; /* reported; the other modes continue */
    }
    return status;
}

/* Adds one peer. Collective; agreed. */
static weir_status add_peer(bench_job *job, const bench_options *options,
                            weir_collective collective, const bench_peer *peer,
                            const bench_buffers *buffers, bench_candidates *candidates)
{
    bench_candidate **made = &candidates->list[candidates->count];
    weir_status status = WEIR_ERR_INTERNAL;
    switch (peer->kind) {
    case BENCH_PEER_MPI:
        status = bench_candidate_mpi_open(job, made);
        break;
    case BENCH_PEER_VENDOR:
        return add_vendor(job, options, collective, peer, buffers, candidates);
    case BENCH_PEER_COPIES:
        status = bench_candidate_copies_open(job, buffers, made);
        break;
    case BENCH_PEER_FILE:
        status = bench_candidate_file_open(job, buffers, peer, made);
        break;
    case BENCH_PEER_PYTHON:
        status = bench_candidate_python_open(job, buffers, peer, made);
        break;
    case BENCH_PEER_NCCL_EP:
    case BENCH_PEER_UNKNOWN:
        break;
    }
    candidates->count += status == WEIR_OK;
    return bench_job_agree(job, status, "candidates");
}

/* Adds the vendor's library again, in each of its modes: measured while the computation of --beside
 * runs. */
static weir_status add_peers_beside(bench_job *job, const bench_options *options, int first,
                                    bench_candidates *candidates)
{
    weir_status status = WEIR_OK;
    const int end = candidates->count;
    const int computes = options->nrivals && options->rivals[0].computes != BENCH_COMPUTE_NONE;
    for (int i = first; computes && i < end && status == WEIR_OK; i++) {
        if (candidates->count == BENCH_CANDIDATES_MAX)
            break;
        status = bench_candidate_with_open(job, options, candidates->list[i],
                                           &candidates->list[candidates->count]);
        candidates->count += status == WEIR_OK;
    }
    return status;
}

/* Inserts the first candidate. If there is no room, the last one is left out. Collective. */
static void candidates_begin_with(bench_candidates *candidates, bench_candidate *first)
{
    if (candidates->count == BENCH_CANDIDATES_MAX) {
        bench_candidate *last = candidates->list[--candidates->count];
        last->ops->close(last);
    }
    memmove(candidates->list + 1, candidates->list,
            (size_t)candidates->count * sizeof *candidates->list);
    candidates->list[0] = first;
    candidates->count++;
}

/* --fuse: weir_allreduce_norm, then what was there, each followed by the norm alone. Collective;
 * agreed. */
static weir_status fuse_all(bench_job *job, const bench_options *options,
                            bench_candidates *candidates)
{
    bench_candidate *fused = NULL;
    weir_status status = bench_candidate_fused_open(job, options, NULL, &fused);
    for (int i = 0; i < candidates->count && status == WEIR_OK; i++)
        status =
            bench_candidate_fused_open(job, options, candidates->list[i], &candidates->list[i]);
    if (status == WEIR_OK)
        candidates_begin_with(candidates, fused);
    else if (fused)
        fused->ops->close(fused);
    return status;
}

/* --wire: weir_allreduce_quantized, then what was there, with which the ratios compare it.
 * Collective; agreed. */
static weir_status add_quantized(bench_job *job, const bench_options *options,
                                 bench_candidates *candidates)
{
    bench_candidate *quantized = NULL;
    weir_status status = bench_candidate_quantized_open(job, options, &quantized);
    status = bench_job_agree(job, status, "--wire");
    if (status != WEIR_OK) {
        if (quantized)
            quantized->ops->close(quantized);
        return status;
    }
    for (int i = 0; i < candidates->count; i++) {
        candidates->list[i]->runs_weir |= !candidates->list[i]->peer;
        candidates->list[i]->peer = 1;
    }
    candidates_begin_with(candidates, quantized);
    return WEIR_OK;
}

weir_status bench_candidates_open(bench_job *job, const bench_options *options,
                                  weir_collective collective, const bench_buffers *buffers,
                                  bench_candidates *candidates)
{
    candidates->count = 0;
    candidates->tuner = (bench_nccl_tuner){0};
    weir_status status = add_weir(job, options, collective, candidates);
    status = bench_job_agree(job, status, "candidates");
    if (status == WEIR_OK && options->nrivals && candidates->count < BENCH_CANDIDATES_MAX) {
        status =
            bench_candidate_with_open(job, options, NULL, &candidates->list[candidates->count]);
        candidates->count += status == WEIR_OK;
    }
    for (int i = 0; i < options->npeers && status == WEIR_OK; i++) {
        if (candidates->count == BENCH_CANDIDATES_MAX)
            break;
        const int before = candidates->count;
        status = add_peer(job, options, collective, &options->peers[i], buffers, candidates);
        if (status == WEIR_OK && options->peers[i].kind == BENCH_PEER_VENDOR)
            status = add_peers_beside(job, options, before, candidates);
    }
    if (status == WEIR_OK && options->fuse)
        status = fuse_all(job, options, candidates);
    if (status == WEIR_OK && options->wire)
        status = add_quantized(job, options, candidates);
    return status;
}

void bench_candidates_close(bench_candidates *candidates)
{
    for (int i = 0; i < candidates->count; i++)
        candidates->list[i]->ops->close(candidates->list[i]);
    bench_tuner_free(&candidates->tuner.table);
    candidates->count = 0;
}
