/* Cores for the threads of peers: see cores.h. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "bench/job/cores.h"

#include "bench/job/exchange.h"

#include <sched.h>
#include <string.h>

bench_cores bench_cores_widen(const bench_job *job)
{
    bench_cores before = {.known = 0};
    before.known = sched_getaffinity(0, sizeof before.set, (cpu_set_t *)before.set) == 0;
    bench_cores_restore(&job->all_cores);
    return before;
}

void bench_cores_restore(const bench_cores *cores)
{
    if (cores->known)
        (void)sched_setaffinity(0, sizeof cores->set, (const cpu_set_t *)cores->set);
}

void bench_cores_check(bench_job *job, const char *peer)
{
    const double least = bench_exchange_fold(job, BENCH_FOLD_MIN, job->process_cores);
    const double is_bound =
        bench_exchange_fold(job, BENCH_FOLD_MAX, strcmp(job->binding, "launcher") == 0);
    if (!(least > 0 && least < 2))
        return;
    job->starves_peers = 1;
    bench_warning_add(
        job, "cores",
        "%s has threads of its own, and a rank's process may use %.2g core: they wait "
        "for each other; weir-compare does not judge rows of such peers (column "
        "unjudged); %s",
        peer, least,
        is_bound > 0 ? "start the ranks with mpirun --bind-to none, or with ci/mpirun"
                     : "give each rank two cores or more");
}
