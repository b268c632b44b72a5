/* The findings of all ranks about wrong data, told in rank order by rank 0. */
#include "bench/measure/trial.h"

#include <stdlib.h>
#include <string.h>

enum { FINDINGS_BYTES = 1024, RANKS_TOLD = 8 };

/* This rank's lines. */
static void find(const bench_trial *trial, bench_candidate *contender, char *text)
{
    const weirv_case *data = &trial->data;
    const void *out = bench_trial_result(trial, contender);
    size_t used = 0;
    if (data->special)
        weirv_explain_special(data, out, text, FINDINGS_BYTES);
    else
        weirv_explain(data, out, data->seed - 1, text, FINDINGS_BYTES);
    used = strlen(text);
    if (contender->ops->result(contender) == trial->operation.call.out)
        weirv_explain_input(data, trial->layout.in, text + used, FINDINGS_BYTES - used);
    for (int i = 0; i < trial->layout.nguards; i++) {
        used += strlen(text + used);
        weirv_explain_guard(&trial->layout.guards[i], i == 0 && trial->layout.nguards == 2
                            ? "the input" : "the output", text + used, FINDINGS_BYTES - used);
    }
}

static void tell(const bench_job *job, int rank, char *text)
{
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        bench_job_say(job, "rank %d: %s", rank, line);
    }
}

void bench_trial_explain(const bench_trial *trial, bench_candidate *contender)
{
    const bench_job *job = trial->job;
    char mine[FINDINGS_BYTES];
    char *all = job->rank == 0 ? malloc((size_t)job->nranks * FINDINGS_BYTES) : NULL;
    find(trial, contender, mine);
    if (job->rank == 0 && !all)
        MPI_Abort(job->mpi, 3); /* some KiB, and peers wait */
    MPI_Gather(mine, FINDINGS_BYTES, MPI_BYTE, all, FINDINGS_BYTES, MPI_BYTE, 0, job->mpi);
    int told = 0, more = 0;
    for (int rank = 0; all && rank < job->nranks; rank++) {
        char *text = all + (size_t)rank * FINDINGS_BYTES;
        if (*text && told < RANKS_TOLD)
            tell(job, rank, text);
        more += *text && told >= RANKS_TOLD;
        told += *text != '\0';
    }
    if (more)
        bench_job_say(job, "and %d more ranks with wrong data", more);
    free(all);
}
