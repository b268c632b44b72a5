/*
 * Plans: collectives described as data, in the JSON format of MSCCL++'s DSL. A plan is read from a
 * file or built call by call, checked, and run by an executor, on the host or on GPUs.
 *
 * The conventions of weir/weir.h apply. Functions are local and non-blocking unless their comment
 * says otherwise.
 */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include <weir/algo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------- plans */

/* An immutable description of a collective. Thread-safe. */
typedef struct weir_plan weir_plan;

/* The buffer of a chunk. */
typedef enum weir_plan_buffer {
    WEIR_PLAN_INPUT,   /* the caller's input */
    WEIR_PLAN_OUTPUT,  /* the caller's output */
    WEIR_PLAN_SCRATCH, /* the executor's scratch memory */
    WEIR_PLAN_BUFFERS
} weir_plan_buffer;

/* Read a plan from a file, or from text of `bytes` bytes, for which name stands in error lines.
 * They validate the structure (ids, ranges, limits), not the meaning: see weir_plan_check. Release
 * with weir_plan_free. WEIR_ERR_INVALID with the position in the text; WEIR_ERR_SYSTEM if the file
 * cannot be read; WEIR_ERR_UNSUPPORTED if this build has no JSON reader. */
WEIR_API weir_status weir_plan_read(const char *file, weir_plan **plan);
WEIR_API weir_status weir_plan_parse(const char *text, size_t bytes, const char *name,
                                     weir_plan **plan);
/* Releases a plan. Executors that ran it do not refer to it any more. NULL is allowed. */
WEIR_API void weir_plan_free(weir_plan *plan);

/* Return the plan's name, the name of its collective as written in the plan, and its number of
 * ranks. The strings live as long as the plan. */
WEIR_API const char *weir_plan_name(const weir_plan *plan);
WEIR_API const char *weir_plan_collective(const weir_plan *plan);
WEIR_API int weir_plan_nranks(const weir_plan *plan);
/* Returns 1 if input and output are the same memory, as weir/weir.h defines for the collective. */
WEIR_API int weir_plan_in_place(const weir_plan *plan);
/* Returns the range of message sizes that the plan serves: bytes of the input, for an allgather of
 * the output. *max_bytes is UINT64_MAX if the plan sets no limit. */
WEIR_API void weir_plan_range(const weir_plan *plan, uint64_t *min_bytes, uint64_t *max_bytes);

/* ------------------------------------------------------------------ building */

/*
 * A builder creates a plan call by call, for all ranks, as MSCCL++'s Python DSL does: buffers of
 * chunks, channels, and operations, each of which is appended to the thread block named in the
 * call.
 *
 *     weir_plan_spec spec = {.name = "swap", .collective = WEIR_COLL_ALLTOALL, .nranks = 2};
 *     weir_plan_builder *b = NULL;
 *     weir_plan *plan = NULL;
 *     weir_status status = weir_plan_builder_create(&spec, &b);
 *     for (int rank = 0; status == WEIR_OK && rank < 2; rank++) {
 *         const int peer = 1 - rank, block = 0;
 *         weir_plan_chan chan = weir_plan_memory_channel(b, rank, peer);
 *         weir_plan_chunks in = weir_plan_input(b, rank), out = weir_plan_output(b, rank);
 *         weir_plan_chunks there = weir_plan_output(b, peer);
 *         weir_plan_copy(weir_plan_slice(out, rank, 1), weir_plan_slice(in, rank, 1), block);
 *         weir_plan_relaxed_signal(chan, block, WEIR_PLAN_UNSYNCED);
 *         weir_plan_relaxed_wait(chan, block, WEIR_PLAN_AFTER);
 *         weir_plan_put(chan, weir_plan_slice(there, rank, 1), weir_plan_slice(in, peer, 1),
 *                       block);
 *         weir_plan_signal(chan, block, WEIR_PLAN_BEFORE);
 *         weir_plan_wait(chan, block, WEIR_PLAN_AFTER);
 *     }
 *     if (status == WEIR_OK)
 *         status = weir_plan_build(b, &plan);
 *
 * examples/plan.c is this program with comments, a proof and a run.
 *
 * Calls between these two return no status: after the first invalid call the others do nothing, and
 * weir_plan_build fails with WEIR_ERR_INVALID and an error line that names the call and the rank.
 * All are local and non-blocking.
 *
 * weir_plan_build transforms every thread block: it fuses neighbouring operations where a combined
 * operation exists (signals of several channels, a reduction and the puts of its result, a put and
 * its signal on a port channel); inserts fences (nop) between operations of a block that touch the
 * same chunk, and where a signal or wait asks for them; removes fences that order nothing; and
 * repeats each block for every instance, with the chunks divided between the instances.
 */

typedef struct weir_plan_builder weir_plan_builder;

/* Transformations that weir_plan_build omits. */
enum {
    WEIR_PLAN_NO_FUSION = 1,  /* operations are not fused */
    WEIR_PLAN_NO_FENCES = 2,  /* none are inserted between operations that touch the same chunk */
    WEIR_PLAN_KEEP_FENCES = 4 /* fences that order nothing are kept, as in the DSL */
};

/* The properties of a plan to be built. Unset fields are 0. */
typedef struct weir_plan_spec {
    const char *name; /* printable ASCII; copied */
    weir_collective collective;
    int nranks;
    int chunk_factor;    /* 0: 1. Buffers of a broadcast, reduce or sendrecv have this many
                          * chunks. Buffers of an allreduce, and those that hold a block for
                          * each rank, have nranks times as many. */
    int in_place;        /* input and output are the same memory, as weir/weir.h defines */
    int instances;       /* copies of each thread block; 0: 1 */
    int double_scratch;  /* launches alternate between two scratch buffers: a plan of packets in
                          * which every rank receives from all others needs no other
                          * synchronisation between launches */
    int reuse_resources; /* written to the file; no effect */
    weir_op op;          /* of its reductions; WEIR_SUM: the operation that the caller passes */
    uint32_t nthreads;   /* threads per block; 0: 1024 */
    uint32_t alignment;  /* bytes, a power of two; 0: 16 */
    uint64_t min_bytes;  /* smallest message: bytes of the input, for an allgather of the output */
    uint64_t max_bytes;  /* largest message; 0: no limit */
    unsigned flags;      /* transformations to omit */
} weir_plan_spec;

/* Creates a builder. Release with weir_plan_build or weir_plan_builder_free. WEIR_ERR_INVALID if
 * the spec is invalid. */
WEIR_API weir_status weir_plan_builder_create(const weir_plan_spec *spec,
                                              weir_plan_builder **builder);
/* Completes a plan, validates its structure, and frees the builder whatever it returns. Release the
 * plan with weir_plan_free. WEIR_ERR_INVALID for the first invalid call, or a signal without a
 * matching wait. */
WEIR_API weir_status weir_plan_build(weir_plan_builder *builder, weir_plan **plan);
/* Frees a builder without building its plan. NULL is allowed. */
WEIR_API void weir_plan_builder_free(weir_plan_builder *builder);

/* Consecutive chunks of one rank's buffer. Chunks, channels and semaphores are values that live as
 * long as the builder. */
typedef struct weir_plan_chunks {
    weir_plan_builder *builder;
    int rank;
    weir_plan_buffer buffer;
    uint32_t index, size;
} weir_plan_chunks;

/* Return all chunks of a rank's input or output, and allocate `size` chunks of its scratch. */
WEIR_API weir_plan_chunks weir_plan_input(weir_plan_builder *builder, int rank);
WEIR_API weir_plan_chunks weir_plan_output(weir_plan_builder *builder, int rank);
WEIR_API weir_plan_chunks weir_plan_scratch(weir_plan_builder *builder, int rank, int size);
/* Returns `size` chunks starting at index first; the DSL's buffer[first : first + size]. */
WEIR_API weir_plan_chunks weir_plan_slice(weir_plan_chunks chunks, int first, int size);

/* A rank's end of a channel to a peer. The k-th channel of a type that a rank creates to a peer is
 * connected with the k-th one of that type that the peer creates to the rank. */
typedef struct weir_plan_chan {
    weir_plan_builder *builder;
    int rank, peer, is_port;
    uint32_t index;
} weir_plan_chan;
/* Create a rank's end of a memory channel, or of a port channel, to a peer; the peer's end is
 * another call. Never fail: a wrong rank is an error of weir_plan_build. */
WEIR_API weir_plan_chan weir_plan_memory_channel(weir_plan_builder *builder, int rank, int peer);
WEIR_API weir_plan_chan weir_plan_port_channel(weir_plan_builder *builder, int rank, int peer);

/* A switch channel: the same buffer of several ranks at once; ranks == NULL means all ranks. */
typedef struct weir_plan_switch {
    weir_plan_builder *builder;
    uint32_t index;
} weir_plan_switch;
/* Creates a switch channel of the nranks ranks listed, or of all if ranks is NULL, on one buffer of
 * each. */
WEIR_API weir_plan_switch weir_plan_switch_channel(weir_plan_builder *builder,
                                                   weir_plan_buffer buffer, const int *ranks,
                                                   int nranks);

/* A counting semaphore between the thread blocks of a rank, with its initial value. */
typedef struct weir_plan_semaphore {
    weir_plan_builder *builder;
    int rank;
    uint32_t index;
} weir_plan_semaphore;
/* Creates a semaphore between the thread blocks of a rank. */
WEIR_API weir_plan_semaphore weir_plan_semaphore_create(weir_plan_builder *builder, int rank,
                                                        int value);

/* Returns a number that stands for a group of thread blocks wherever a call takes a block; each
 * block of the group processes a part of the bytes. */
WEIR_API int weir_plan_group(weir_plan_builder *builder, const int *blocks, int count);

/* Fences around an operation. BEFORE: earlier operations of the block complete before it; AFTER:
 * later ones start after it. */
typedef enum weir_plan_sync {
    WEIR_PLAN_UNSYNCED,
    WEIR_PLAN_BEFORE,
    WEIR_PLAN_AFTER,
    WEIR_PLAN_BOTH
} weir_plan_sync;

/* Synchronisation. Relaxed signals and waits do not order data. A barrier synchronises the blocks
 * of a group; for a single block it is a fence. flush waits until the sources of earlier puts over
 * a port channel may be overwritten. */
WEIR_API void weir_plan_signal(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_wait(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_relaxed_signal(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_relaxed_wait(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_flush(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_acquire(weir_plan_semaphore semaphore, int block, weir_plan_sync sync);
WEIR_API void weir_plan_release(weir_plan_semaphore semaphore, int block, weir_plan_sync sync);
WEIR_API void weir_plan_barrier(weir_plan_builder *builder, int rank, int block);

/* Copies; dst and src have equal sizes. put copies from the channel's rank to its peer, get from
 * the peer, copy within a rank. put_signal and put_signal_flush are for port channels. */
WEIR_API void weir_plan_put(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                            int block);
WEIR_API void weir_plan_put_signal(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                                   int block);
WEIR_API void weir_plan_put_signal_flush(weir_plan_chan chan, weir_plan_chunks dst,
                                         weir_plan_chunks src, int block);
WEIR_API void weir_plan_get(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                            int block);
WEIR_API void weir_plan_copy(weir_plan_chunks dst, weir_plan_chunks src, int block);

/* Copies of LL packets, which are in scratch memory: data to the peer's packets (put), this rank's
 * packets to the peer's (forward), data to packets (copy), packets to data (unpack). Over a port
 * channel the source of put_packets must already be packets. */
WEIR_API void weir_plan_put_packets(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                                    int block);
WEIR_API void weir_plan_forward_packets(weir_plan_chan chan, weir_plan_chunks dst,
                                        weir_plan_chunks src, int block);
WEIR_API void weir_plan_copy_packets(weir_plan_chunks dst, weir_plan_chunks src, int block);
WEIR_API void weir_plan_unpack_packets(weir_plan_chunks dst, weir_plan_chunks src, int block);

/* Reductions: dst = src combined with the others, in this order. dst may be src. The others are
 * chunks of the same rank, packets of the same rank, or (read_reduce) chunks of the channel's
 * peer. */
WEIR_API void weir_plan_reduce(weir_plan_chunks dst, weir_plan_chunks src,
                               const weir_plan_chunks *others, int nothers, int block);
WEIR_API void weir_plan_reduce_packets(weir_plan_chunks dst, weir_plan_chunks src,
                                       const weir_plan_chunks *others, int nothers, int block);
WEIR_API void weir_plan_read_reduce(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                                    const weir_plan_chunks *others, int nothers, int block);

/* Operations of a switch channel on the chunks from index on of all its ranks: reduce combines them
 * into dst, broadcast copies src to them. The rank of dst or src executes the operation. */
WEIR_API void weir_plan_switch_reduce(weir_plan_switch group, int index, weir_plan_chunks dst,
                                      int block);
WEIR_API void weir_plan_switch_broadcast(weir_plan_switch group, weir_plan_chunks src, int index,
                                         int block);
WEIR_API void weir_plan_switch_broadcast_packets(weir_plan_switch group, weir_plan_chunks src,
                                                 int index, int block);

/* The operations between these calls form a loop: each iteration processes unit_bytes of every
 * chunk reference, until num_chunks chunks are done; no reference may be longer. The DSL's
 * LoopIterationContext. */
WEIR_API void weir_plan_pipeline_begin(weir_plan_builder *builder, uint64_t unit_bytes,
                                       int num_chunks);
WEIR_API void weir_plan_pipeline_end(weir_plan_builder *builder);

/* ------------------------------------------------------------------- writing */

/* Write a plan in the JSON format of MSCCL++'s DSL: to a file, which is replaced at once or, after
 * an error, left as it was; or to memory, which the caller releases with free(); *bytes does not
 * count the terminating NUL. Reading the text yields an equal plan. WEIR_ERR_SYSTEM if the file
 * cannot be written. */
WEIR_API weir_status weir_plan_write(const weir_plan *plan, const char *file);
WEIR_API weir_status weir_plan_print(const weir_plan *plan, char **text, size_t *bytes);

/* ----------------------------------------------------------------- executor */

/* A weir_executor (weir/algo.h) runs plans on a communicator's ranks. The functions that take one
 * are not thread-safe. */

/* Creates an executor. Collective, blocking. Release with weir_executor_destroy, before the
 * communicator. WEIR_ERR_UNSUPPORTED if the communicator's backend cannot run plans. */
WEIR_API weir_status weir_executor_create(weir_comm *comm, weir_executor **executor);
/*
 * Runs a plan. Collective: every rank passes an equal plan, and the same lengths, dtype and op.
 *
 * in and out have in_bytes and out_bytes, which are equal on all ranks, and the meaning that
 * weir/weir.h gives them for the plan's collective. For broadcast and reduce, ranks that do not
 * read in (write out) may pass NULL for it. A call is in place as weir/weir.h defines for the
 * collective, for unknown collectives if in == out; on GPUs either all ranks are in place or none,
 * except for broadcast and reduce. A plan for in-place use may be called with two buffers and vice
 * versa; that costs a copy. Memory of weir_mem_alloc is used directly; other memory is copied if
 * peers must access it.
 *
 * op is the operation of the plan's reductions; WEIR_AVG computes the sum and divides the output at
 * the end. A plan that names an operation other than sum must be called with that operation.
 *
 * On the host the call blocks until out is complete and in may be overwritten; stream is NULL. On
 * GPUs (of one node) the work is enqueued into stream, which may be captured in a graph once the
 * plan has run with these lengths; the graph must not be replayed after the executor is destroyed.
 * Memory that peers must access has to come from weir_mem_alloc or weir_mem_register and be known
 * to them, as it is after a weir_comm_barrier. If it is not at the first call with a plan and
 * lengths, this and later calls use copies; if it was but no longer is, the call is rejected and
 * the communicator aborted.
 *
 * The first call with a plan, or with other lengths or placement, creates a context with its
 * resources. The executor keeps the contexts of its latest calls, which later calls reuse.
 *
 * WEIR_ERR_INVALID if the plan is for another number of ranks, the lengths are outside its range or
 * not whole elements, the operation is not the plan's, or a buffer is missing; nothing has run
 * then. WEIR_ERR_MISMATCH if ranks passed different plans or lengths, which is checked when a
 * context is created. WEIR_ERR_UNSUPPORTED if ranks of two nodes share a memory or switch channel.
 * Otherwise the errors of collectives in weir/weir.h.
 */
WEIR_API weir_status weir_executor_run(weir_executor *executor, const weir_plan *plan,
                                       const void *in, void *out, uint64_t in_bytes,
                                       uint64_t out_bytes, weir_dtype dtype, weir_op op,
                                       weir_stream stream);
/* The same for a weir_call (weir/weir.h), of which it reads in, out, in_bytes, out_bytes, dtype, op
 * and stream. WEIR_ERR_INVALID also as weir_run for a call of another version. */
WEIR_API weir_status weir_executor_run_call(weir_executor *executor, const weir_plan *plan,
                                            const weir_call *call);
/* Returns the communicator. */
WEIR_API weir_comm *weir_executor_comm(const weir_executor *executor);
/* Creates an algorithm that runs a plan, for collections and for weir_algo_execute with an
 * executor. It has the plan's name, of which 31 characters count. Local. The plan must outlive the
 * algorithm. WEIR_ERR_INVALID if weir does not know the plan's collective. */
WEIR_API weir_status weir_algo_from_plan(const weir_plan *plan, weir_algo **algo);
/* Destroys an executor. Collective; waits until all ranks have completed their calls, up to the
 * deadline. NULL is allowed. */
WEIR_API void weir_executor_destroy(weir_executor *executor);

/* ------------------------------------------------------------------- checking */

/* The classes of errors that weir_plan_check finds. */
typedef enum weir_plan_fault {
    WEIR_PLAN_FAULT_RESULT,   /* an output chunk differs from the collective's definition */
    WEIR_PLAN_FAULT_DEADLOCK, /* a wait never ends */
    WEIR_PLAN_FAULT_RACE,     /* two accesses to a chunk, one of them a write, are unordered */
    WEIR_PLAN_FAULT_BALANCE,  /* a channel or semaphore is in another state after a launch */
    WEIR_PLAN_FAULT_BARRIER,  /* a barrier is entered by other thread blocks than declared */
} weir_plan_fault;

enum { WEIR_PLAN_VIOLATIONS_MAX = 16, WEIR_PLAN_TEXT_MAX = 768 };
#define WEIR_PLAN_NOWHERE UINT32_MAX

/* One error of a plan. */
typedef struct weir_plan_violation {
    weir_plan_fault fault;
    int rank;
    uint32_t block; /* id of the thread block; WEIR_PLAN_NOWHERE if it concerns the rank */
    uint32_t op;    /* index in the thread block, counting bodies of pipelines; or NOWHERE */
    /* The counterexample, the lengths at which it was found, and how to correct the plan:
     * "...; fix: ..." */
    char text[WEIR_PLAN_TEXT_MAX];
} weir_plan_violation;

/* The result of a check. */
typedef struct weir_plan_report {
    int proves_result;  /* 0: the collective is unknown, so its result was not checked */
    int root;           /* the root of a broadcast or reduce */
    int all_lengths;    /* 1: proved for every length in the plan's range; 0: only for chunks of up
                           to max_chunk_bytes */
    unsigned max_turns; /* 0: pipelines may have any number of iterations; else the largest number
                           for which the plan is proved */
    unsigned nworlds;   /* different divisions of messages that were executed */
    unsigned nviolations;
    /* At most one for each fault and operation. */
    weir_plan_violation violations[WEIR_PLAN_VIOLATIONS_MAX];
    /* all_lengths 0: the longest chunk for which the plan is proved. A chunk is a rank's block of
     * the message divided by its number of chunks, rounded up to the alignment. Executors reject
     * calls with longer chunks. */
    uint64_t max_chunk_bytes;
} weir_plan_report;

/* Checks a plan by executing all ranks' programs symbolically. Proves for every message length that
 * the plan computes its collective, terminates, has no data race, and can be launched repeatedly;
 * docs/user/plans-proof.md says what that includes. Local, thread-safe; takes milliseconds to
 * seconds. report may be NULL; it is written on WEIR_OK, and on WEIR_ERR_INVALID, which means that
 * violations were found; the first one is also the error line. WEIR_ERR_UNSUPPORTED if the plan is
 * too large for the checker. */
WEIR_API weir_status weir_plan_check(const weir_plan *plan, weir_plan_report *report);
/* Like weir_plan_check, but also rejects what only weir's and MSCCL++'s executors are known to
 * execute correctly: packet operations of a thread block on the same chunk without a fence between
 * them, a packet that is copied onto itself, and a barrier that several groups of thread blocks
 * use. */
WEIR_API weir_status weir_plan_check_strict(const weir_plan *plan, weir_plan_report *report);
/* Enables (the default) or disables weir_plan_check before a plan's first run; a run of a plan that
 * fails the check returns WEIR_ERR_INVALID without executing anything. Local; call it with the same
 * value on all ranks. */
WEIR_API void weir_executor_set_checks(weir_executor *executor, int checks);
/* Returns "result", "deadlock", "race", "balance" or "barrier". */
WEIR_API const char *weir_plan_fault_name(weir_plan_fault fault);

#ifdef __cplusplus
}
#endif

#endif
