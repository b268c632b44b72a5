/*
 * A peer in a file (weir/peer.h) with the fault that its mode names, on the last rank where a fault
 * is of one rank. Without a mode it is an allreduce without a fault, by the benchmark's exchange.
 */
#include <weir/peer.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef FAULTY_ABI
#define FAULTY_ABI WEIR_PEER_ABI
#endif

typedef struct faulty {
    const weir_peer_job *job;
    pid_t made_in;
} faulty;

static int is(const weir_peer_job *job, const char *fault)
{
    return strcmp(job->mode, fault) == 0 && job->rank == job->nranks - 1;
}

static void crash_or_hang(const weir_peer_job *job, const char *where)
{
    char fault[32];
    snprintf(fault, sizeof fault, "crash-%s", where);
    if (is(job, fault))
        raise(SIGSEGV);
    snprintf(fault, sizeof fault, "hang-%s", where);
    while (is(job, fault))
        pause();
    snprintf(fault, sizeof fault, "exit-%s", where);
    if (is(job, fault))
        exit(7);
}

static int faulty_probe(const weir_peer_job *job, weir_peer_about *about, char *why)
{
    crash_or_hang(job, "probe");
    snprintf(about->version, sizeof about->version, "1.2");
    snprintf(about->settings, sizeof about->settings, "FAULTY_DEPTH=3 (file)");
    about->has_threads = strcmp(job->mode, "threads") == 0;
    if (!is(job, "absent"))
        return 0;
    snprintf(why, WEIR_PEER_TEXT, "there is no such device");
    return -1;
}

static int faulty_create(const weir_peer_job *job, void **state, char *why)
{
    crash_or_hang(job, "create");
    faulty *made = calloc(1, sizeof *made);
    char all[64] = {0};
    made->job = job;
    made->made_in = getpid();
    *state = made;
    all[job->rank] = (char)(job->rank + 1);
    if (!is(job, "unlike") && (job->allgather(job->context, all, 1) || all[0] != 1))
        snprintf(why, WEIR_PEER_TEXT, "the exchange fails");
    else if (is(job, "memory"))
        snprintf(why, WEIR_PEER_TEXT, "it needs 1 TB of memory");
    else
        return 0;
    return -1;
}

static const char *faulty_refuses(void *state, const weir_call *call)
{
    (void)state;
    if (call->collective != WEIR_COLL_ALLREDUCE)
        return "it has only allreduce";
    return call->dtype == WEIR_FLOAT ? NULL : "it has only float";
}

/* The sum of two numbers; if it must be rounded, with few digits. */
static float coarse_sum(float a, float b)
{
    const float sum = a + b;
    return (double)sum == (double)a + (double)b ? sum : (float)((int)(sum * 64) / 64.0);
}

/* Each rank's own input times the number of ranks is right where all inputs are equal, which the
 * benchmark's data are not; so the inputs are exchanged. */
static int faulty_run(void *state, const weir_call *call, char *why)
{
    const faulty *self = state;
    const weir_peer_job *job = self->job;
    const size_t bytes = call->count * sizeof(float);
    float *all = malloc((size_t)job->nranks * bytes + 1), *out = call->out;
    if (call->count > 256)
        crash_or_hang(job, "run");
    if (call->count > 256 && is(job, "fails")) {
        snprintf(why, WEIR_PEER_TEXT, "no memory for %zu elements", call->count);
        return -1;
    }
    memcpy((char *)all + (size_t)job->rank * bytes, call->in, bytes);
    if (job->allgather(job->context, all, bytes) != 0)
        return -1;
    for (size_t i = 0; i < call->count; i++) {
        out[i] = 0;
        for (int rank = 0; rank < job->nranks; rank++)
            out[i] = strcmp(job->mode, "coarse") == 0
                         ? coarse_sum(out[i], all[(size_t)rank * call->count + i])
                         : out[i] + all[(size_t)rank * call->count + i];
    }
    if (is(job, "wrong") && call->count)
        out[call->count / 2] += 1;
    free(all);
    return 0;
}

static void faulty_destroy(void *state)
{
    free(state);
}

static const weir_peer faulty_peer = {.size = sizeof(weir_peer),
                                      .abi = FAULTY_ABI,
                                      .name = "faulty",
                                      .probe = faulty_probe,
                                      .create = faulty_create,
                                      .refuses = faulty_refuses,
                                      .run = faulty_run,
                                      .destroy = faulty_destroy};

const weir_peer *weir_peer_v1(void)
{
    return &faulty_peer;
}
