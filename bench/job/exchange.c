/* Exchanges of small values over the bootstrap: see exchange.h. */
#include "bench/job/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 0x6a6f62 }; /* "job" */

_Noreturn void bench_exchange_fail(const bench_job *job)
{
    char why[512];
    snprintf(why, sizeof why, "%s", weir_last_error());
    fflush(stdout);
    bench_watch_give_up(&job->watch, job->all, why);
}

static void exchange_send(const bench_job *job, const void *data, size_t bytes, int peer)
{
    if (weir_boot_send(job->boot, data, bytes, peer, TAG) != WEIR_OK)
        bench_exchange_fail(job);
}

static void exchange_receive(const bench_job *job, void *data, size_t bytes, int peer)
{
    if (weir_boot_recv(job->boot, data, bytes, peer, TAG) != WEIR_OK)
        bench_exchange_fail(job);
}

void bench_exchange_broadcast(const bench_job *job, void *data, size_t bytes, int root)
{
    if (job->rank != root) {
        exchange_receive(job, data, bytes, root);
        return;
    }
    for (int peer = 0; peer < job->nranks; peer++)
        if (peer != root)
            exchange_send(job, data, bytes, peer);
}

void bench_exchange_gather(const bench_job *job, const void *mine, size_t bytes, void *all)
{
    if (job->rank != 0) {
        exchange_send(job, mine, bytes, 0);
        return;
    }
    memcpy(all, mine, bytes);
    for (int peer = 1; peer < job->nranks; peer++)
        exchange_receive(job, (char *)all + (size_t)peer * bytes, bytes, peer);
}

void *bench_exchange_collect(const bench_job *job, const void *mine, size_t bytes)
{
    void *all = job->rank == 0 ? calloc((size_t)job->nranks, bytes) : NULL;
    int able = job->rank != 0 || all;
    bench_exchange_broadcast(job, &able, sizeof able, 0);
    if (able)
        bench_exchange_gather(job, mine, bytes, all);
    return all;
}

int bench_exchange_group(const bench_job *job, void *all, size_t bytes)
{
    char *blocks = calloc((size_t)job->nranks, bytes ? bytes : 1), *to = all;
    if (bench_exchange_fold(job, BENCH_FOLD_MIN, blocks != NULL) < 1) {
        free(blocks);
        return -1;
    }
    memcpy(blocks + (size_t)job->rank * bytes, to + (size_t)job->group_rank * bytes, bytes);
    if (weir_boot_allgather(job->boot, blocks, bytes) != WEIR_OK)
        bench_exchange_fail(job);
    for (int rank = 0; rank < job->nranks; rank++)
        if (job->group_of[rank] == job->group) {
            memcpy(to, blocks + (size_t)rank * bytes, bytes);
            to += bytes;
        }
    free(blocks);
    return 0;
}

int bench_exchange_share(const bench_job *job, void *data, size_t bytes)
{
    if (job->ngroups == 1) {
        bench_exchange_broadcast(job, data, bytes, 0);
        return 0;
    }
    char *all = calloc((size_t)job->group_nranks, bytes);
    if (bench_exchange_fold(job, BENCH_FOLD_MIN, all != NULL) < 1) {
        free(all);
        return -1;
    }
    memcpy(all + (size_t)job->group_rank * bytes, data, bytes);
    const int failed = bench_exchange_group(job, all, bytes);
    if (!failed)
        memcpy(data, all, bytes);
    free(all);
    return failed;
}

static double fold_two(bench_fold fold, double a, double b)
{
    switch (fold) {
    case BENCH_FOLD_MIN:
        return b < a ? b : a;
    case BENCH_FOLD_MAX:
        return b > a ? b : a;
    case BENCH_FOLD_SUM:
        break;
    }
    return a + b;
}

double bench_exchange_fold(const bench_job *job, bench_fold fold, double mine)
{
    double *all = job->values;
    all[job->rank] = mine;
    if (weir_boot_allgather(job->boot, all, sizeof *all) != WEIR_OK)
        bench_exchange_fail(job);
    double folded = all[0];
    for (int rank = 1; rank < job->nranks; rank++)
        folded = fold_two(fold, folded, all[rank]);
    return folded;
}

/* Combines the values of each group's ranks, or, without groups, of all. The leader of a group is
 * the first of its ranks. */
static void reduce(const bench_job *job, bench_fold fold, const double *mine, int count, int groups,
                   double *result)
{
    enum { PART = 512 };
    double part[PART];
    for (int at = 0, n; at < count; at += n) {
        n = count - at < PART ? count - at : PART;
        size_t bytes = (size_t)n * sizeof *mine;
        if (job->rank != 0) {
            exchange_send(job, mine + at, bytes, 0);
            continue;
        }
        memmove(result + at, mine + at, bytes);
        for (int peer = 1; peer < job->nranks; peer++) {
            const int group = groups ? job->group_of[peer] : 0;
            double *to = result + (size_t)group * (size_t)count + at;
            exchange_receive(job, part, bytes, peer);
            if (groups && job->groups[group].leader == peer)
                memcpy(to, part, bytes);
            else
                for (int i = 0; i < n; i++)
                    to[i] = fold_two(fold, to[i], part[i]);
        }
    }
}

void bench_exchange_reduce(const bench_job *job, bench_fold fold, const double *mine, int count,
                           double *result)
{
    reduce(job, fold, mine, count, 0, result);
}

void bench_exchange_reduce_groups(const bench_job *job, bench_fold fold, const double *mine,
                                  int count, double *result)
{
    reduce(job, fold, mine, count, 1, result);
}
