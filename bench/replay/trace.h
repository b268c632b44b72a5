/*
 * A recorded job: the communicators, and the calls of each rank in the order of issue. Readers of
 * files build it with the functions of read.h; bench_replay runs it again.
 */
#ifndef BENCH_REPLAY_TRACE_H
#define BENCH_REPLAY_TRACE_H

#include <weir/weir.h>

#include <math.h>
#include <stdio.h>

enum {
    REPLAY_RANKS_MAX = WEIR_RANKS_MAX,
    REPLAY_COMMS_MAX = 1 << 16,
    REPLAY_NOTES_MAX = 64,        /* different notes; further ones are only counted */
    REPLAY_BUFFERS_MAX = 1 << 24, /* numbers of buffers */
    REPLAY_NAME_BYTES = 64        /* of a communicator, with the end */
};
#define REPLAY_COUNT_MAX ((uint64_t)1 << 40) /* elements of a call, and of all splits of one */

/* The calls. The comments give what count counts, which is NCCL's meaning. */
typedef enum replay_kind {
    REPLAY_ALLREDUCE,      /* elements of each buffer */
    REPLAY_REDUCE_SCATTER, /* elements that each rank receives */
    REPLAY_ALLGATHER,      /* elements that each rank sends */
    REPLAY_BROADCAST,      /* elements of each buffer */
    REPLAY_REDUCE,         /* elements of each buffer */
    REPLAY_ALLTOALL,       /* elements for each rank */
    REPLAY_ALLTOALLV,      /* not used: see splits */
    REPLAY_GATHER,         /* elements that each rank sends */
    REPLAY_SCATTER,        /* elements that each rank receives */
    REPLAY_SEND,           /* elements */
    REPLAY_RECV,           /* elements */
    REPLAY_BARRIER,        /* not used */
    REPLAY_KINDS
} replay_kind;

#define REPLAY_NO_SPLITS UINT64_MAX
#define REPLAY_UNKNOWN UINT64_MAX /* a split that the file does not have; replay_match finds it */

/* One call of one rank. 10^7 of them must fit in memory: 56 bytes. */
typedef struct replay_call {
    double start_s;   /* readers: from any time that all ranks share; later from the first call of
                         the trace; NAN: unknown */
    uint64_t count;   /* elements */
    uint64_t splits;  /* alltoallv: where replay_trace.splits has the elements sent to each rank of
                         the communicator, then those received from each */
    float duration_s; /* NAN: unknown */
    uint32_t comm;    /* index in replay_trace.comms */
    uint32_t line;    /* of the file, from 1; 0: the file has no lines */
    int32_t peer;     /* root, destination or source: a rank of the communicator; -1: none */
    int32_t group;    /* calls of a rank that follow each other and have the same number were issued
                         within one ncclGroup; -1: none */
    int32_t buffers;  /* calls of a rank with the same number used the same memory; -1: unknown */
    uint16_t file;    /* index in replay_trace.files */
    uint8_t kind;     /* replay_kind */
    uint8_t dtype;    /* weir_dtype */
    uint8_t op;       /* weir_op: allreduce, reduce_scatter, reduce */
    uint8_t in_place; /* 1: as the collective's in-place form in weir.h */
    uint8_t unregistered; /* 1: the buffers were in no memory of the communicator; 0: they were, or
                             it is unknown */
    uint8_t stream;       /* streams, or threads, of a rank are numbered from 0; 0 if unknown */
} replay_call;

#define REPLAY_CALL_INIT                                                                           \
    {                                                                                              \
        NAN, 0, REPLAY_NO_SPLITS, NAN, 0, 0, -1, -1, -1, 0, REPLAY_ALLREDUCE, WEIR_INT8, WEIR_SUM, \
            0, 0, 0                                                                                \
    }

/* Memory that is freed at once. */
typedef struct replay_pool {
    void *last;
    int has_failed; /* memory was lacking */
} replay_pool;

typedef struct replay_comm {
    char name[REPLAY_NAME_BYTES];
    int nranks;
    int *ranks;   /* the job's rank of each of its ranks; -1: unknown, which replay_read resolves */
    uint8_t lane; /* communicators in different lanes had calls in flight together: see match.h */
} replay_comm;

/* The calls of one rank, in order of issue. */
typedef struct replay_rank {
    replay_call *calls;
    size_t count, room;
    char *
        place; /* the node and the cpus on which the rank could run, "node7 0-3,8"; NULL: unknown */
} replay_rank;

/* What a file has and the trace lacks: one entry for all notes of the same text. */
typedef struct replay_note_entry {
    char text[200];
    uint16_t file;
    uint32_t line; /* of the first */
    uint64_t count;
} replay_note_entry;

typedef struct replay_trace {
    replay_pool pool; /* of members of communicators, places and names */
    replay_comm *comms;
    int ncomms;
    size_t comms_room;
    replay_rank *ranks; /* REPLAY_RANKS_MAX entries, of which nranks are in use */
    int nranks;
    uint64_t *splits;
    size_t nsplits, splits_room;
    char **files;
    int nfiles;
    replay_note_entry notes[REPLAY_NOTES_MAX];
    int nnotes;
    uint64_t more_notes; /* that had no room */
    int is_cut;          /* a file ends in the middle, as that of a killed job: ranks may have got
                            further than others */
    const char *format;  /* "weir's text"; of the first file */
} replay_trace;

/* Returns "allreduce", "send" and so on; NULL for an invalid value. Pure. */
const char *replay_kind_name(replay_kind kind);
/* Returns the kind, or the weir_dtype, that a name means in any format; -1: none. Pure. */
int replay_kind_parse(const char *name);
int replay_dtype_parse(const char *name);
/* Whether a call of the kind combines elements by an operation; whether it has a root. Pure. */
int replay_kind_has_op(replay_kind kind);
int replay_kind_has_root(replay_kind kind);
int replay_is_message(const replay_call *call);
/* Returns the calls of all ranks. Pure. */
size_t replay_calls(const replay_trace *trace);
/* Returns the rank of the communicator that a rank of the job has; -1: it is none of its. Pure. */
int replay_comm_rank(const replay_comm *comm, int rank);
/* Returns zeroed memory for so many entries. NULL: there is none, and has_failed is set. */
void *replay_take(replay_pool *pool, size_t count, size_t bytes);
char *replay_take_text(replay_pool *pool, const char *text);
void replay_pool_free(replay_pool *pool);
/* Makes room for one more entry of so many bytes in a list of malloc'd memory. 0; -1: no memory. */
int replay_grow(void *list, size_t count, size_t *room, size_t bytes);
/* Fails with a line that says what to do. */
weir_status replay_no_memory(void);
/* Frees a trace; NULL is allowed. */
void replay_trace_free(replay_trace *trace);
/* Prints the notes, one line each: "FILE:LINE: TEXT", with how many more there are. */
void replay_notes_print(const replay_trace *trace, FILE *to);

/* --ranks: makes the calls of nranks ranks from those of rank 0. There is a rule only if every
 * communicator has all ranks and every rank makes the same calls, without sends, receives and
 * counts for each rank. allreduce, broadcast, reduce and barrier stay as they are; of the others
 * the larger buffer keeps its size, rounded up to a whole element for each rank. A root must exist.
 * WEIR_ERR_INVALID if there is no rule; the error line names the call. */
weir_status replay_scale(replay_trace *trace, int nranks);

/* Writes the trace as text, which replay_read reads: see docs/user/replay.md. 0, or -1 and errno is
 * set. */
int replay_text_write(const replay_trace *trace, FILE *to);

#endif
