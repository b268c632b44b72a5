/* What contenders share: the object with the implementation's state, the answers that most
 * of them give, and how weir itself is named. */
#include "bench/candidate/candidate.h"

#include <stdio.h>
#include <stdlib.h>

weir_status bench_contender_create(bench_job *job, const bench_contender_ops *ops,
                                   size_t state_bytes, bench_contender **contender)
{
    bench_contender *made = calloc(1, sizeof *made);
    void *state = state_bytes ? calloc(1, state_bytes) : NULL;
    if (!made || (state_bytes && !state)) {
        free(state);
        free(made);
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for a contender");
    }
    *made = (bench_contender){.ops = ops, .job = job, .state = state};
    *contender = made;
    return WEIR_OK;
}

void bench_contender_free(bench_contender *self)
{
    if (self)
        free(self->state);
    free(self);
}

void bench_contender_name_weir(bench_contender *self)
{
    snprintf(self->name, sizeof self->name, "weir");
    snprintf(self->transport, sizeof self->transport, "%s",
             weir_transport_name(weir_comm_transport(self->job->comm)));
}

const void *bench_contender_out(bench_contender *self)
{
    return self->call->out;
}

const char *bench_contender_forced(bench_contender *self)
{
    return self->forced;
}
