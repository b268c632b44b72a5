/*
 * libnccl-tuner-weir.so: what NCCL calls, in versions 3 to 6 of its interface (NCCL 2.22 to 2.31);
 * NCCL takes the newest that it knows. A row, or the benchmark's setting, becomes the cheapest
 * entry of NCCL's table of costs, unless NCCL has marked it as impossible. Without either, nothing
 * is changed: the number of channels stays 0, by which NCCL keeps its own.
 */
#include "bench/tuner/tuner.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, SYSTEM_ERROR = 2, LOG_WARN = 2, LOG_INFO = 3 };
#define TUNING 0x40ul /* the subsystem in NCCL's log */

typedef void tuner_log(int level, unsigned long subsystem, const char *file, int line,
                       const char *format, ...);

/* One communicator's. */
typedef struct tuner_state {
    tuner_table table;
    size_t nranks, nnodes;
} tuner_state;

EXPORT tuner_control bench_tuner_control;

static int tuner_init(size_t nranks, size_t nnodes, tuner_log *log, void **context)
{
    const char *path = getenv("NCCL_TUNER_CONFIG_FILE");
    char problem[512] = "";
    tuner_state *state = calloc(1, sizeof *state);
    if (!state)
        return SYSTEM_ERROR;
    state->nranks = nranks;
    state->nnodes = nnodes;
    if (path && *path && !bench_tuner_control.is_in_control &&
        bench_tuner_read(path, &state->table, problem, sizeof problem) != 0) {
        if (log)
            log(LOG_WARN, TUNING, __FILE__, __LINE__, "weir's tuner uses no table: %s", problem);
        else
            fprintf(stderr, "weir's tuner uses no table: %s\n", problem);
    }
    if (log)
        log(LOG_INFO, TUNING, __FILE__, __LINE__, "weir's tuner has %d rows", state->table.count);
    *context = state;
    return SUCCESS;
}

static int tuner_init_v5(void **context, uint64_t comm, size_t nranks, size_t nnodes,
                         tuner_log *log, void *domains, void *constants)
{
    (void)comm, (void)domains, (void)constants;
    return tuner_init(nranks, nnodes, log, context);
}

/* What the call should use; NULL: NCCL decides. */
static const tuner_setting *tuner_choose(const tuner_state *state, int collective, size_t bytes,
                                         int operations, int registered)
{
    if (bench_tuner_control.is_in_control)
        return bench_tuner_control.forces ? &bench_tuner_control.setting : NULL;
    const tuner_row *row = bench_tuner_find(&state->table, collective, bytes, (long)state->nnodes,
                                            (long)state->nranks, operations, registered);
    return row ? &row->setting : NULL;
}

static int tuner_ask(void *context, int collective, size_t bytes, int operations, float **costs,
                     int nalgorithms, int nprotocols, int registered, int *channels)
{
    const tuner_setting *chosen = tuner_choose(context, collective, bytes, operations, registered);
    float *table = (float *)costs; /* rows of nprotocols */
    tuner_control *control = bench_tuner_control.is_in_control ? &bench_tuner_control : NULL;
    if (control)
        control->asked = 1;
    *channels = 0;
    if (!chosen || chosen->algorithm >= nalgorithms || chosen->protocol >= nprotocols ||
        table[chosen->algorithm * nprotocols + chosen->protocol] < 0)
        return SUCCESS;
    table[chosen->algorithm * nprotocols + chosen->protocol] = 0;
    if (chosen->channels > 0)
        *channels = chosen->channels;
    if (control)
        control->applied = 1;
    return SUCCESS;
}

static int tuner_ask_v3(void *context, int collective, size_t bytes, int operations, float **costs,
                        int nalgorithms, int nprotocols, int *channels)
{
    return tuner_ask(context, collective, bytes, operations, costs, nalgorithms, nprotocols, -1,
                     channels);
}

static int tuner_end(void *context)
{
    tuner_state *state = context;
    if (state)
        bench_tuner_free(&state->table);
    free(state);
    return SUCCESS;
}

static const char tuner_name[] = "weir";

typedef struct tuner_v3 {
    const char *name;
    int (*init)(size_t, size_t, tuner_log *, void **);
    int (*ask)(void *, int, size_t, int, float **, int, int, int *);
    int (*end)(void *);
} tuner_v3;
EXPORT const tuner_v3 ncclTunerPlugin_v3 = {tuner_name, tuner_init, tuner_ask_v3, tuner_end};

typedef struct tuner_v4 {
    const char *name;
    int (*init)(size_t, size_t, tuner_log *, void **);
    int (*ask)(void *, int, size_t, int, float **, int, int, int, int *);
    int (*end)(void *);
} tuner_v4;
EXPORT const tuner_v4 ncclTunerPlugin_v4 = {tuner_name, tuner_init, tuner_ask, tuner_end};

/* Version 6 has a last function, which may be NULL: NCCL then keeps its sizes of chunks. */
typedef struct tuner_v6 {
    const char *name;
    int (*init)(void **, uint64_t, size_t, size_t, tuner_log *, void *, void *);
    int (*ask)(void *, int, size_t, int, float **, int, int, int, int *);
    int (*end)(void *);
    int (*chunk)(void *, int, size_t, int, int, int, size_t *);
} tuner_v6;
EXPORT const tuner_v6 ncclTunerPlugin_v5 = {tuner_name, tuner_init_v5, tuner_ask, tuner_end, NULL};
EXPORT const tuner_v6 ncclTunerPlugin_v6 = {tuner_name, tuner_init_v5, tuner_ask, tuner_end, NULL};
