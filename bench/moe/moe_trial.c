/* The oracle of a row, the buffers of candidates, and the bytes that are moved: see moe_trial.h. */
#include "bench/moe/moe_trial.h"

#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"

#include <stdlib.h>
#include <string.h>

/* Checks that all ranks of all groups have read the same trace, whose file may be another one on
 * each node. Collective; agreed. */
static weir_status check_trace(const bench_moe_trial *t)
{
    const uint64_t most = ((uint64_t)1 << 52) - 1; /* a double's */
    const uint64_t hash = weirv_moe_trace_hash(t->oracle);
    double all[] = {(double)(hash & most), -(double)(hash & most)};
    bench_exchange_reduce(t->job, BENCH_FOLD_MAX, all, 2, all);
    weir_status status = WEIR_OK;
    if (all[0] + all[1] != 0)
        status = bench_job_note(t->job, WEIR_ERR_INVALID,
                                "--routing trace:%s: ranks have read other choices than rank 0 "
                                "under this name; give all nodes the same file",
                                t->options->trace);
    return bench_job_agree(t->job, status, "routing");
}

int bench_moe_experts(const bench_moe_options *o, int nranks)
{
    enum { EACH = 4 };
    return o->experts ? o->experts : EACH * nranks;
}

/* Opens the oracle, and gives its messages the job's numbers of ranks. Groups have different data,
 * so that it is noticed if one gets another's. */
static weir_status open_oracle(bench_moe_trial *t)
{
    enum { APART = 48 };
    const bench_moe_options *o = t->options;
    const uint64_t seed = o->common.seed + ((uint64_t)t->job->group << APART);
    const weirv_moe_shape shape = {t->nranks,    t->config, (weirv_moe_spread)o->spread,
                                   o->parameter, o->trace,  seed};
    char problem[WEIRV_MOE_MESSAGE];
    t->names = malloc((size_t)t->nranks * sizeof *t->names);
    if (!t->names)
        return bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for %d ranks", t->nranks);
    if (weirv_moe_open(&shape, &t->oracle, problem))
        return bench_job_note(t->job, WEIR_ERR_INVALID, "%s", problem);
    for (int rank = 0; rank < t->nranks; rank++)
        t->names[rank] = bench_job_rank_of(t->job, rank);
    weirv_moe_name_ranks(t->oracle, t->names);
    return WEIR_OK;
}

weir_status bench_moe_trial_open(bench_moe_trial *t, bench_job *job, const bench_moe_options *o,
                                 int tokens)
{
    weir_moe_config config = WEIR_MOE_CONFIG_INIT;
    config.experts = bench_moe_experts(o, job->group_nranks);
    config.topk = o->topk;
    config.max_tokens = tokens;
    config.hidden = o->hidden;
    config.dtype = (weir_dtype)o->common.dtype;
    config.dispatch_dtype = o->fp8 ? WEIR_FP8_E4M3 : config.dtype;
    config.layout = (weir_moe_layout)o->layout;
    config.alignment = o->layout == WEIR_MOE_EXPERT_MAJOR ? o->alignment : 0;
    config.registered = o->common.buffers != BENCH_BUFFERS_PLAIN;
    config.max_blocks = o->max_blocks;
    *t = (bench_moe_trial){.job = job,
                           .options = o,
                           .tokens = tokens,
                           .rank = job->group_rank,
                           .nranks = job->group_nranks,
                           .config = config};
    weir_status status = bench_job_agree(job, open_oracle(t), "expected data");
    return status == WEIR_OK && o->trace ? check_trace(t) : status;
}

void bench_moe_trial_close(bench_moe_trial *t)
{
    weirv_moe_close(t->oracle);
    free(t->names);
    t->oracle = NULL;
    t->names = NULL;
}

/* ------------------------------------------------------------------ buffers */

static void *candidate_buffer(moe_candidate *c, int index, size_t bytes, weir_status *status)
{
    void *memory = NULL;
    if (*status != WEIR_OK)
        return NULL;
    if (c->trial->job->gpu) {
        *status = bench_gpu_mirror_alloc(c->trial->job->gpu, bytes ? bytes : 1, &memory);
        return memory;
    }
    if (c->trial->options->common.buffers == BENCH_BUFFERS_PLAIN) {
        memory = calloc(bytes ? bytes : 1, 1);
        if (!memory)
            *status =
                bench_job_note(c->trial->job, WEIR_ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
        return memory;
    }
    *status = weir_mem_alloc(c->trial->job->comm, bytes, &c->memory[index]);
    return *status == WEIR_OK ? weir_mem_pointer(c->memory[index]) : NULL;
}

/* The rows that a rank receives are as many as three versions need, not as there could be. */
static int candidate_rows(const bench_moe_trial *t)
{
    int rows = 1;
    for (int version = 0; version < WEIRV_MOE_VERSIONS; version++)
        for (int rank = 0; rank < t->nranks; rank++) {
            const int end = weirv_moe_end_row(t->oracle, version, rank);
            rows = end > rows ? end : rows;
        }
    return rows;
}

static weir_status candidate_alloc(moe_candidate *c)
{
    const bench_moe_trial *t = c->trial;
    const size_t row = c->info.row_bytes, k = (size_t)t->config.topk;
    const size_t rows = (size_t)c->info.recv_rows, tokens = (size_t)t->tokens;
    weir_status status = WEIR_OK;
    int index = 0;
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++)
        c->x[v] = candidate_buffer(c, index++, tokens * row, &status);
    c->rows = candidate_buffer(c, index++, (rows + 1) * row, &status);
    c->outputs = candidate_buffer(c, index++, rows * row, &status);
    c->out = candidate_buffer(c, index++, tokens * row, &status);
    c->scales = calloc(rows + 1, sizeof(float) * (size_t)(c->info.scales_per_row + 1));
    c->row_weights = calloc((rows + 1) * k, sizeof(float));
    c->row_experts = calloc((rows + 1) * k, sizeof(int32_t));
    c->counts = calloc((size_t)c->info.local_experts, sizeof(int32_t));
    c->offsets = calloc((size_t)c->info.local_experts, sizeof(int32_t));
    c->kept = calloc(1, row + sizeof(float) * (size_t)(c->info.scales_per_row + 1));
    int failed =
        !c->scales || !c->row_weights || !c->row_experts || !c->counts || !c->offsets || !c->kept;
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++) {
        c->weights[v] = calloc(tokens * k, sizeof(float));
        failed |= !c->weights[v];
    }
    if (failed && status == WEIR_OK)
        status = bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for the results");
    return status;
}

static void candidate_fill(moe_candidate *c)
{
    const bench_moe_trial *t = c->trial;
    const int rank = t->rank;
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++) {
        weirv_moe_fill_tokens(t->oracle, v, v, rank, c->x[v]);
        memcpy(c->weights[v], weirv_moe_weights(t->oracle, v, rank),
               (size_t)t->tokens * (size_t)t->config.topk * sizeof(float));
    }
}

const moe_candidate_ops *bench_moe_peer(const bench_moe_options *o)
{
    switch (o->common.npeers ? o->common.peers[0].kind : BENCH_PEER_UNKNOWN) {
    case BENCH_PEER_MPI:
        return &bench_moe_mpi;
    case BENCH_PEER_NCCL_EP:
        return &bench_moe_nccl_ep;
    default:
        return NULL;
    }
}

weir_status bench_moe_candidate_open(moe_candidate *c, const moe_candidate_ops *ops,
                                     const bench_moe_trial *t)
{
    *c = (moe_candidate){.ops = ops, .trial = t};
    const int experts = t->config.experts / t->nranks;
    const weir_moe_config *config = &t->config;
    c->info = (weir_moe_info){.local_experts = experts,
                              .first_expert = experts * t->rank,
                              .recv_rows = candidate_rows(t),
                              .scales_per_row = t->options->fp8 ? (config->hidden + 127) / 128 : 0,
                              .row_bytes = (size_t)config->hidden * weir_dtype_bytes(config->dtype),
                              .recv_row_bytes = (size_t)config->hidden *
                                                weir_dtype_bytes(config->dispatch_dtype)};
    c->mirror_rows = (size_t)c->info.recv_rows;
    weir_status status = bench_job_agree(t->job, candidate_alloc(c), "buffers");
    if (status == WEIR_OK) {
        candidate_fill(c);
        status = ops->open(c);
    }
    if (status != WEIR_OK)
        bench_moe_candidate_close(c);
    return status;
}

void bench_moe_candidate_close(moe_candidate *c)
{
    char *const plain[] = {c->x[0], c->x[1], c->x[2], c->rows, c->outputs, c->out};
    c->ops->close(c);
    for (int i = 0; i < WEIRV_MOE_VERSIONS + 3; i++) {
        if (c->trial->job->gpu)
            bench_gpu_mirror_free(c->trial->job->gpu, plain[i]);
        else if (c->trial->options->common.buffers == BENCH_BUFFERS_PLAIN)
            free(plain[i]);
        weir_mem_free(c->memory[i]);
    }
    for (int v = 0; v < WEIRV_MOE_VERSIONS; v++)
        free(c->weights[v]);
    free(c->scales);
    free(c->row_weights);
    free(c->row_experts);
    free(c->counts);
    free(c->offsets);
    free(c->kept);
    *c = (moe_candidate){.ops = c->ops};
}

/* ------------------------------------------------------------------- volume */

/* Adds up what one rank receives: all choices, choices from other ranks, and tokens from other
 * ranks. */
static void volume_of_rank(const bench_moe_trial *t, int version, int rank, double *all,
                           double *choices, double *tokens)
{
    const int local = t->config.experts / t->nranks, k = t->config.topk;
    for (int source = 0; source < t->nranks; source++) {
        const int32_t *experts = weirv_moe_experts(t->oracle, version, source);
        for (int token = 0; token < weirv_moe_tokens(t->oracle, version, source); token++) {
            int here = 0;
            for (int choice = 0; choice < k; choice++) {
                const int32_t expert = experts[token * k + choice];
                here += expert >= 0 && expert / local == rank;
            }
            *all += here;
            *choices += source == rank ? 0 : here;
            *tokens += source != rank && here;
        }
    }
}

moe_volume bench_moe_volume(const bench_moe_trial *t, size_t row_bytes)
{
    moe_volume volume = {0, 0, 0};
    for (int version = 0; version < WEIRV_MOE_VERSIONS; version++) {
        double most[3] = {0, 0, 0};
        for (int rank = 0; rank < t->nranks; rank++) {
            double rows[3] = {0, 0, 0};
            volume_of_rank(t, version, rank, &rows[0], &rows[1], &rows[2]);
            for (int i = 0; i < 3; i++)
                most[i] = rows[i] > most[i] ? rows[i] : most[i];
        }
        volume.rows_bytes += most[0] * (double)row_bytes / WEIRV_MOE_VERSIONS;
        volume.expert_bytes += most[1] * (double)row_bytes / WEIRV_MOE_VERSIONS;
        volume.link_bytes += most[2] * (double)row_bytes / WEIRV_MOE_VERSIONS;
    }
    return volume;
}
