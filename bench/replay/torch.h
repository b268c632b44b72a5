/*
 * What PyTorch records about a call, in the three formats that have it: the profiler's events
 * (kineto.c), execution traces (execution_trace.c), and Chakra's nodes made of these (chakra.c).
 * One file has the calls of one rank. They are kept until the file ends, because only then its rank
 * is known, and put in order of time, because the profiler writes thread by thread.
 */
#ifndef BENCH_REPLAY_TORCH_H
#define BENCH_REPLAY_TORCH_H

#include "bench/replay/read.h"

enum { REPLAY_TORCH_NAME = 64 };

/* The parameters of one call. Numbers are -1 if the file does not have them. */
typedef struct replay_torch_call {
    char name[REPLAY_TORCH_NAME], dtype[REPLAY_TORCH_NAME], group[REPLAY_TORCH_NAME];
    int64_t in, out;                  /* elements */
    int64_t rank;                     /* of the group: the root, the peer, or the caller itself */
    int64_t size, start, stride;      /* of the group: its ranks, the first one's rank in the job */
    const char *ranks;                /* of the job, in the group: "[0, 2, 4]"; "": unknown */
    const char *in_split, *out_split; /* rows for each rank: "[1, 2]" */
    int64_t order;                    /* calls with less were issued before */
    int64_t time_ns;                  /* since 1970 or another time of all ranks; -1: unknown */
    int64_t number;                   /* of the record, in the order of begins; -1: none */
    int64_t id;                       /* by which kernels refer to it; -1: none */
    int is_in_place; /* 1: known to be; PyTorch's calls with one buffer always are */
    long line;
} replay_torch_call;

#define REPLAY_TORCH_CALL_INIT                                                                     \
    {                                                                                              \
        "", "", "", -1, -1, -1, -1, -1, -1, "", "", "", 0, -1, -1, -1, 0, 0                        \
    }

typedef struct replay_torch replay_torch;

/* Begins a file of the current format; ends it: adds its calls to the rank's. rank: -1 if the file
 * does not say whose it is. */
weir_status replay_torch_begin(replay_reader *reader, replay_torch **torch);
weir_status replay_torch_end(replay_torch *torch, int64_t rank);
/* The format's finish function. */
weir_status replay_torch_finish(replay_reader *reader, int failed);

/* Learns which ranks process groups have, from the text of a JSON list of objects with pg_name and
 * ranks, or of a string with it. Changes the text. */
weir_status replay_torch_groups(replay_torch *torch, char *text);
/* Adds a call, or notes why not. */
weir_status replay_torch_add(replay_torch *torch, const replay_torch_call *call);
/* Says how long a kernel of the call with this id ran, and on which stream. */
weir_status replay_torch_kernel(replay_torch *torch, int64_t id, double duration_s, int64_t stream);

/* Adds a call from the values of record_param_comms, and from the types of its inputs and outputs.
 * Changes the texts. */
weir_status replay_torch_add_values(replay_torch *torch, replay_torch_call *call, char *inputs,
                                    char *input_types, char *outputs, char *output_types);

#endif
