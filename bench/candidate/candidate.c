/*
 * What candidates share: the object with the implementation's state, common implementations of
 * ops, and weir's name.
 */
#include "bench/candidate/candidate.h"

#include "base/text.h"
#include "bench/sizes/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weir_status bench_candidate_create(bench_job *job, const bench_candidate_ops *ops,
                                   size_t state_bytes, bench_candidate **candidate)
{
    bench_candidate *made = calloc(1, sizeof *made);
    void *state = state_bytes ? calloc(1, state_bytes) : NULL;
    if (!made || (state_bytes && !state)) {
        free(state);
        free(made);
        return bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for a candidate");
    }
    *made = (bench_candidate){.ops = ops, .job = job, .state = state};
    *candidate = made;
    return WEIR_OK;
}

void bench_candidate_free(bench_candidate *self)
{
    if (self)
        free(self->state);
    free(self);
}

const weir_algo_info *bench_candidate_info(const bench_candidate *self, const char *algo)
{
    if (self->peer || self->is_foreign)
        return NULL;
    return weir_algo_info_find(weir_comm_algo_backend(self->job->comm),
                               self->operation->call.collective, algo);
}

void bench_candidate_name_weir(bench_candidate *self)
{
    snprintf(self->name, sizeof self->name, "weir");
    snprintf(self->transport, sizeof self->transport, "%s",
             weir_transport_name(weir_comm_transport(self->job->comm)));
}

const char *bench_candidate_needs_two(const bench_operation *operation)
{
    return operation->in_place && !bench_collective_in_place(operation->collective, 0)
               ? "needs two buffers"
               : NULL;
}

const void *bench_candidate_out(bench_candidate *self)
{
    return self->operation->call.out;
}

const char *bench_candidate_forced(bench_candidate *self)
{
    return self->forced;
}

void bench_candidate_name_peer(bench_candidate *self, const char *name, const char *version,
                               const char *mode)
{
    char one[21], two[21], three[21];
    snprintf(self->name, sizeof self->name, "%s:%s%s%s", weiri_text_shown(name, one, sizeof one),
             weiri_text_shown(version, two, sizeof two), *mode ? ":" : "",
             weiri_text_shown(mode, three, sizeof three));
}

void bench_candidate_keep_settings(bench_candidate *self, const char *settings)
{
    char *all = self->job->peer_settings;
    const size_t used = strlen(all), room = sizeof self->job->peer_settings - used;
    weiri_text_shown(settings, self->settings, sizeof self->settings);
    if (*settings)
        snprintf(all + used, room, " %s: %s;", self->name, self->settings);
}
