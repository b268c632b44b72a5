/* The counts of alltoallv: see splits.h. */
#include "bench/trial/splits.h"

#include "base/contract.h"
#include "bench/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 5, MPI_ARRAYS = 4 };

/* Counts in device memory are the library's uint64_t. */
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "counts are 64 bits");

static size_t words_of_step(const bench_splits *splits)
{
    return (size_t)ARRAYS * (size_t)splits->job->group_nranks;
}

weir_status bench_splits_open(bench_splits *splits, bench_job *job, const bench_dist *dist,
                              int on_device)
{
    *splits = (bench_splits){.job = job, .dist = dist, .on_device = on_device};
    size_t steps = (size_t)dist->nsteps, words = steps * words_of_step(splits);
    splits->counts = calloc(words, sizeof *splits->counts);
    splits->mpi_counts = calloc(words, sizeof *splits->mpi_counts);
    if (!splits->counts || !splits->mpi_counts)
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for counts");
    if (on_device && job->gpu)
        return bench_gpu_alloc(job->gpu, words * sizeof *splits->counts, &splits->device);
    return WEIR_OK;
}

void bench_splits_close(bench_splits *splits)
{
    free(splits->counts);
    free(splits->mpi_counts);
    if (splits->device)
        bench_gpu_free(splits->job->gpu, splits->device);
    memset(splits, 0, sizeof *splits);
}

/* Fills one step: this rank's block sizes and packed displacements. */
static void fill_step(const bench_splits *splits, int step, size_t count, size_t element_bytes)
{
    int rank = splits->job->group_rank, nranks = splits->job->group_nranks;
    size_t n = (size_t)nranks, sent = 0, received = 0;
    size_t *counts = splits->counts + (size_t)step * words_of_step(splits);
    const bench_dist *dist = splits->dist;
    for (int peer = 0; peer < nranks; peer++) {
        size_t send = bench_dist_elements(dist, step, count, element_bytes, rank, peer, nranks);
        size_t recv = bench_dist_elements(dist, step, count, element_bytes, peer, rank, nranks);
        size_t before = 0, at = (size_t)peer;
        for (int to = 0; to < rank; to++)
            before += bench_dist_elements(dist, step, count, element_bytes, peer, to, nranks);
        counts[at] = send;
        counts[n + at] = sent;
        counts[2 * n + at] = recv;
        counts[3 * n + at] = received;
        counts[4 * n + at] = before;
        sent += send;
        received += recv;
    }
    int *mpi_counts = splits->mpi_counts + (size_t)step * MPI_ARRAYS * n;
    for (size_t i = 0; i < MPI_ARRAYS * n; i++)
        mpi_counts[i] = (int)counts[i];
}

weir_status bench_splits_fill(bench_splits *splits, size_t count, size_t element_bytes)
{
    splits->step = 0;
    for (int step = 0; step < splits->dist->nsteps; step++)
        fill_step(splits, step, count, element_bytes);
    if (!splits->device)
        return WEIR_OK;
    size_t words = (size_t)splits->dist->nsteps * words_of_step(splits);
    return bench_gpu_push(splits->job->gpu, splits->device, splits->counts,
                          words * sizeof *splits->counts);
}

weir_status bench_splits_fill_rooted(bench_splits *splits, const weirv_case *data)
{
    const size_t n = (size_t)data->nranks, root = (size_t)data->root, own = (size_t)data->rank;
    const int gathers = (int)data->collective == WEIRI_COLL_GATHER;
    size_t *many = splits->counts + (gathers ? 2 * n : 0); /* the root's, with displacements */
    size_t *one = splits->counts + (gathers ? 0 : 2 * n);
    memset(splits->counts, 0, words_of_step(splits) * sizeof *splits->counts);
    splits->step = 0;
    for (size_t peer = 0; own == root && peer < n; peer++) {
        many[peer] = data->count;
        many[n + peer] = peer * data->count;
    }
    one[root] = data->count;
    if (own == root && data->in_place)
        many[root] = one[root] = 0;
    return WEIR_OK;
}

void bench_splits_point(const bench_splits *splits, int step, weirv_case *data,
                        bench_operation *operation)
{
    size_t n = (size_t)splits->job->group_nranks, at = (size_t)step * words_of_step(splits);
    const size_t *counts = splits->counts + at;
    data->send_counts = counts;
    data->send_displs = counts + n;
    data->recv_counts = counts + 2 * n;
    data->recv_displs = counts + 3 * n;
    data->recv_from = counts + 4 * n;
    if (!operation)
        return;
    operation->splits =
        (weir_splits){data->send_counts, data->send_displs, data->recv_counts, data->recv_displs};
    operation->call.splits = &operation->splits;
    operation->mpi_counts = splits->mpi_counts + (size_t)step * MPI_ARRAYS * n;
    if (splits->on_device) {
        const uint64_t *words = splits->device ? (const uint64_t *)splits->device + at
                                               : (const uint64_t *)(const void *)counts;
        operation->device_splits =
            (weir_device_splits){words, words + n, words + 2 * n, words + 3 * n};
        operation->call.device_splits = &operation->device_splits;
    }
}

int bench_splits_after(const bench_splits *splits, int step, uint64_t operations)
{
    uint64_t steps = (uint64_t)splits->dist->nsteps;
    return (int)(((uint64_t)step + operations) % steps);
}
