/*
 * MPI as a candidate of bench_moe, as it is used by hand: rows are packed in the order of their
 * destinations, counts are exchanged by MPI_Alltoall and rows by MPI_Alltoallv, and what arrives is
 * copied to its experts; combine goes the same way back and adds the weighted rows. In the layouts
 * with one row for each token rows are received at their places, and experts and weights are
 * exchanged as well.
 */
#include "bench/moe/moe_trial.h"

#include "bench/job/mpi_comm.h"

#include <stdlib.h>
#include <string.h>

/* A bin is an expert, or in other layouts a rank. own_bins counts the bins of one rank. */
typedef struct mpi_moe {
    MPI_Datatype row, choices; /* a row; topk numbers of 4 bytes */
    int by_expert, bins, own_bins;
    char *packed, *arrived; /* rows to be sent, and received ones before they are placed */
    int *position;          /* [tokens, topk]: of a choice in packed; -1: none */
    int *counts, *received; /* [bins]: rows sent; [nranks, own_bins]: rows received */
    int *sends, *send_at, *recvs, *recv_at; /* [nranks] */
    int32_t *experts, *token_experts;
    float *weights, *token_weights, *sum;
} mpi_moe;

static void mpi_close(moe_candidate *c)
{
    mpi_moe *m = c->state;
    if (!m)
        return;
    MPI_Type_free(&m->row);
    MPI_Type_free(&m->choices);
    free(m->packed);
    free(m->arrived);
    free(m->position);
    free(m->counts);
    free(m->received);
    free(m->sends);
    free(m->send_at);
    free(m->recvs);
    free(m->recv_at);
    free(m->token_experts);
    free(m->token_weights);
    free(m->sum);
    free(m);
    c->state = NULL;
}

static int mpi_alloc(const moe_candidate *c, mpi_moe *m)
{
    const bench_moe_trial *t = c->trial;
    const size_t n = (size_t)t->nranks, tokens = (size_t)t->tokens, k = (size_t)t->config.topk;
    m->packed = malloc(tokens * k * c->info.row_bytes);
    m->arrived = malloc(((size_t)c->info.recv_rows + 1) * c->info.row_bytes);
    m->position = malloc(tokens * k * sizeof(int));
    m->counts = malloc((size_t)m->bins * sizeof(int));
    m->received = malloc(n * (size_t)m->own_bins * sizeof(int));
    m->sends = malloc(n * sizeof(int));
    m->send_at = malloc(n * sizeof(int));
    m->recvs = malloc(n * sizeof(int));
    m->recv_at = malloc(n * sizeof(int));
    m->token_experts = malloc(tokens * k * k * sizeof(int32_t));
    m->token_weights = malloc(tokens * k * k * sizeof(float));
    m->sum = malloc((size_t)t->config.hidden * sizeof(float));
    return m->packed && m->arrived && m->position && m->counts && m->received && m->sends &&
           m->send_at && m->recvs && m->recv_at && m->token_experts && m->token_weights && m->sum;
}

static weir_status mpi_check(const bench_moe_trial *t)
{
    return t->config.dtype == WEIR_HALF
               ? bench_job_note(t->job, WEIR_ERR_UNSUPPORTED,
                                "--peer mpi adds rows of bfloat16 and float; use -d")
               : WEIR_OK;
}

static weir_status mpi_open_local(moe_candidate *c)
{
    const bench_moe_trial *t = c->trial;
    const size_t rows = (size_t)c->info.recv_rows;
    mpi_moe *m = calloc(1, sizeof *m);
    c->state = m;
    if (!m)
        return bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for MPI's buffers");
    m->by_expert = t->config.layout == WEIR_MOE_EXPERT_MAJOR;
    m->bins = m->by_expert ? t->config.experts : t->nranks;
    m->own_bins = m->bins / t->nranks;
    MPI_Type_contiguous((int)c->info.row_bytes, MPI_BYTE, &m->row);
    MPI_Type_commit(&m->row);
    MPI_Type_contiguous(t->config.topk * 4, MPI_BYTE, &m->choices);
    MPI_Type_commit(&m->choices);
    c->info.recv_bytes = rows * c->info.row_bytes;
    c->tolerance = 8.0 / 256;
    return mpi_alloc(c, m)
               ? WEIR_OK
               : bench_job_note(t->job, WEIR_ERR_NO_MEMORY, "no memory for MPI's buffers");
}

static weir_status mpi_open(moe_candidate *c)
{
    return bench_job_agree(c->trial->job, mpi_open_local(c), "mpi");
}

/* ----------------------------------------------------------------- dispatch */

static int bin_of(const moe_candidate *c, const mpi_moe *m, int expert)
{
    return m->by_expert || expert < 0 ? expert : expert / c->info.local_experts;
}

/* The choice of a token that its row for the same rank was packed for; -1: none. */
static int same_bin(const moe_candidate *c, const mpi_moe *m, const int32_t *experts, int choice)
{
    for (int i = 0; !m->by_expert && i < choice; i++)
        if (experts[i] >= 0 && bin_of(c, m, experts[i]) == bin_of(c, m, experts[choice]))
            return i;
    return -1;
}

static void copy_choices(const moe_candidate *c, mpi_moe *m, const int32_t *experts,
                         const float *weights, int bin, int at)
{
    const int k = c->trial->config.topk;
    for (int i = 0; i < k; i++) {
        const int is_there = experts[i] >= 0 && bin_of(c, m, experts[i]) == bin;
        m->token_experts[at * k + i] = is_there ? experts[i] % c->info.local_experts : -1;
        m->token_weights[at * k + i] = is_there ? weights[i] : 0;
    }
}

/* Packs rows by bin. */
static void mpi_pack(moe_candidate *c, mpi_moe *m, int version)
{
    const bench_moe_trial *t = c->trial;
    const int k = t->config.topk, n = t->nranks;
    const int tokens = weirv_moe_tokens(t->oracle, version, t->rank);
    const int32_t *experts = weirv_moe_experts(t->oracle, version, t->rank);
    memset(m->counts, 0, (size_t)m->bins * sizeof(int));
    for (int i = 0; i < tokens * k; i++)
        if (experts[i] >= 0 && same_bin(c, m, experts + i / k * k, i % k) < 0)
            m->counts[bin_of(c, m, experts[i])]++;
    for (int rank = 0, at = 0; rank < n; rank++) {
        m->send_at[rank] = at;
        for (int own = 0; own < m->own_bins; own++)
            at += m->counts[rank * m->own_bins + own];
        m->sends[rank] = at - m->send_at[rank];
    }
    int *next = m->received; /* not yet in use */
    for (int bin = 0, at = 0; bin < m->bins; bin++) {
        next[bin] = at;
        at += m->counts[bin];
    }
    for (int i = 0; i < tokens * k; i++) {
        const int bin = bin_of(c, m, experts[i]);
        const int same = bin < 0 ? -1 : same_bin(c, m, experts + i / k * k, i % k);
        m->position[i] = bin < 0 ? -1 : same >= 0 ? m->position[i / k * k + same] : next[bin]++;
        if (bin < 0 || same >= 0)
            continue;
        memcpy(m->packed + (size_t)m->position[i] * c->info.row_bytes,
               c->x[version] + (size_t)(i / k) * c->info.row_bytes, c->info.row_bytes);
        if (!m->by_expert)
            copy_choices(c, m, experts + i / k * k, c->weights[version] + i / k * k, bin,
                         m->position[i]);
    }
}

static void mpi_receive_at(const moe_candidate *c, mpi_moe *m)
{
    for (int rank = 0, at = 0; rank < c->trial->nranks; rank++) {
        m->recvs[rank] = 0;
        for (int own = 0; own < m->own_bins; own++)
            m->recvs[rank] += m->received[rank * m->own_bins + own];
        m->recv_at[rank] =
            c->trial->config.layout == WEIR_MOE_RANK_MAJOR ? rank * c->trial->tokens : at;
        at += m->recvs[rank];
    }
}

/* Copies runs of rows between `arrived`, ordered by rank, and a buffer ordered by expert. */
static void mpi_move_runs(moe_candidate *c, mpi_moe *m, char *by_expert, int is_back)
{
    const int n = c->trial->nranks, alignment = c->trial->options->alignment;
    int first = 0;
    for (int own = 0; own < m->own_bins; own++) {
        int row = first;
        for (int rank = 0; rank < n; rank++) {
            int from = m->recv_at[rank];
            for (int before = 0; before < own; before++)
                from += m->received[rank * m->own_bins + before];
            const size_t bytes = (size_t)m->received[rank * m->own_bins + own] * c->info.row_bytes;
            char *here = m->arrived + (size_t)from * c->info.row_bytes;
            char *there = by_expert + (size_t)row * c->info.row_bytes;
            memcpy(is_back ? here : there, is_back ? there : here, bytes);
            row += m->received[rank * m->own_bins + own];
        }
        if (!is_back) {
            c->counts[own] = row - first;
            c->offsets[own] = first;
            memset(by_expert + (size_t)row * c->info.row_bytes, 0,
                   (size_t)((alignment - (row - first) % alignment) % alignment) *
                       c->info.row_bytes);
        }
        first += (row - first + alignment - 1) / alignment * alignment;
    }
}

static void mpi_count_experts(moe_candidate *c, const mpi_moe *m)
{
    const int k = c->trial->config.topk;
    memset(c->counts, 0, (size_t)c->info.local_experts * sizeof *c->counts);
    for (int rank = 0; rank < c->trial->nranks; rank++)
        for (int i = m->recv_at[rank] * k; i < (m->recv_at[rank] + m->recvs[rank]) * k; i++)
            if (c->row_experts[i] >= 0)
                c->counts[c->row_experts[i]]++;
}

static weir_status mpi_dispatch(moe_candidate *c, int version)
{
    mpi_moe *m = c->state;
    MPI_Comm comm = c->trial->job->mpi->group;
    mpi_pack(c, m, version);
    MPI_Alltoall(m->counts, m->own_bins, MPI_INT, m->received, m->own_bins, MPI_INT, comm);
    mpi_receive_at(c, m);
    MPI_Alltoallv(m->packed, m->sends, m->send_at, m->row, m->by_expert ? m->arrived : c->rows,
                  m->recvs, m->recv_at, m->row, comm);
    if (m->by_expert) {
        mpi_move_runs(c, m, c->rows, 0);
        return WEIR_OK;
    }
    MPI_Alltoallv(m->token_experts, m->sends, m->send_at, m->choices, c->row_experts, m->recvs,
                  m->recv_at, m->choices, comm);
    MPI_Alltoallv(m->token_weights, m->sends, m->send_at, m->choices, c->row_weights, m->recvs,
                  m->recv_at, m->choices, comm);
    mpi_count_experts(c, m);
    return WEIR_OK;
}

/* ------------------------------------------------------------------ combine */

static void add_bfloat16(float *restrict sum, const uint16_t *restrict row, float weight, int count)
{
    for (int i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)row[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        sum[i] += value * weight;
    }
}

static void add_float(float *restrict sum, const float *restrict row, float weight, int count)
{
    for (int i = 0; i < count; i++)
        sum[i] += row[i] * weight;
}

static void store_bfloat16(uint16_t *restrict out, const float *restrict sum, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &sum[i], sizeof bits);
        out[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static void mpi_add(moe_candidate *c, mpi_moe *m, int version, int token)
{
    const weir_moe_config *config = &c->trial->config;
    const int k = config->topk;
    const int32_t *experts =
        weirv_moe_experts(c->trial->oracle, version, c->trial->rank) + token * k;
    char *out = c->out + (size_t)token * c->info.row_bytes;
    memset(m->sum, 0, (size_t)config->hidden * sizeof(float));
    for (int choice = 0; choice < k; choice++) {
        if (experts[choice] < 0 || same_bin(c, m, experts, choice) >= 0)
            continue;
        const char *row = m->packed + (size_t)m->position[token * k + choice] * c->info.row_bytes;
        const float weight = m->by_expert ? c->weights[version][token * k + choice] : 1;
        if (config->dtype == WEIR_FLOAT)
            add_float(m->sum, (const float *)(const void *)row, weight, config->hidden);
        else
            add_bfloat16(m->sum, (const uint16_t *)(const void *)row, weight, config->hidden);
    }
    if (config->dtype == WEIR_FLOAT)
        memcpy(out, m->sum, c->info.row_bytes);
    else
        store_bfloat16((uint16_t *)(void *)out, m->sum, config->hidden);
}

static weir_status mpi_combine(moe_candidate *c, int version)
{
    mpi_moe *m = c->state;
    char *outputs = c->adds_rows ? c->rows : c->outputs;
    const int tokens = weirv_moe_tokens(c->trial->oracle, version, c->trial->rank);
    if (m->by_expert)
        mpi_move_runs(c, m, outputs, 1);
    MPI_Alltoallv(m->by_expert ? m->arrived : outputs, m->recvs, m->recv_at, m->row, m->packed,
                  m->sends, m->send_at, m->row, c->trial->job->mpi->group);
    for (int token = 0; token < tokens; token++)
        mpi_add(c, m, version, token);
    return WEIR_OK;
}

const moe_candidate_ops bench_moe_mpi = {.name = "mpi",
                                         .title = "MPI",
                                         .algo = "alltoallv",
                                         .check = mpi_check,
                                         .open = mpi_open,
                                         .close = mpi_close,
                                         .dispatch = mpi_dispatch,
                                         .combine = mpi_combine};
