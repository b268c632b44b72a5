/*
 * Plans: collectives described as data, in the JSON form of MSCCL++'s DSL. A plan is read or
 * built, checked, and run by an executor, on the host and on GPUs.
 *
 * Functions follow weir/weir.h: status codes, weir_last_error(), out-parameters on success only.
 * All are local and do not block, but where the comment says otherwise.
 */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include <weir/algo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------- plans */

typedef struct weir_plan weir_plan;

/* Where a chunk lies: the caller's input, the caller's output, or the executor's scratch. */
typedef enum weir_plan_buffer {
    WEIR_PLAN_INPUT,
    WEIR_PLAN_OUTPUT,
    WEIR_PLAN_SCRATCH,
    WEIR_PLAN_BUFFERS
} weir_plan_buffer;

/* Reads a plan from a file, or from text of so many bytes, which name stands for in
 * messages; its structure is validated (ids, ranges, limits), its meaning is not: see
 * weir_plan_check. The plan is the caller's. WEIR_ERR_INVALID: the message has the position,
 * what was expected and what to do; WEIR_ERR_SYSTEM: the file cannot be read;
 * WEIR_ERR_UNSUPPORTED: this build has no JSON reader. */
WEIR_API weir_status weir_plan_read(const char *file, weir_plan **plan);
WEIR_API weir_status weir_plan_parse(const char *text, size_t bytes, const char *name,
                                     weir_plan **plan);
/* NULL is allowed. Executors that ran it keep nothing of it. */
WEIR_API void weir_plan_free(weir_plan *plan);

/* Its name, and its collective as the plan has it. They live as long as the plan. */
WEIR_API const char *weir_plan_name(const weir_plan *plan);
WEIR_API const char *weir_plan_collective(const weir_plan *plan);
WEIR_API int weir_plan_nranks(const weir_plan *plan);
/* 1: input and output are meant to be the same memory, as weir/weir.h says for the collective. */
WEIR_API int weir_plan_in_place(const weir_plan *plan);
/* The bytes of a message that it serves: those of the input, of an allgather the output. */
WEIR_API void weir_plan_range(const weir_plan *plan, uint64_t *min_bytes, uint64_t *max_bytes);

/* ------------------------------------------------------------------ building
 *
 * A builder makes a plan call by call, for all ranks, as MSCCL++'s Python DSL does: buffers of
 * chunks, channels, and operations that are appended to the thread block that a call names.
 *
 *     weir_plan_spec spec = {.name = "swap", .collective = WEIR_COLL_ALLTOALL, .nranks = 2};
 *     weir_plan_builder_create(&spec, &b);
 *     for (int rank = 0; rank < 2; rank++) {
 *         weir_plan_chan to = weir_plan_memory_channel(b, rank, 1 - rank);
 *         weir_plan_put(to, weir_plan_slice(weir_plan_output(b, 1 - rank), rank, 1),
 *                       weir_plan_slice(weir_plan_input(b, rank), 1 - rank, 1), 0);
 *         ...
 *     }
 *     status = weir_plan_build(b, &plan);
 *
 * Calls between these two have no status: the first that is wrong is kept, the later ones do
 * nothing, and weir_plan_build fails with WEIR_ERR_INVALID and a message that names call and
 * rank. All is local; nothing blocks. A builder is used by one thread at a time.
 *
 * weir_plan_build then does, for every thread block: neighbouring operations become one where
 * an operation for both exists (signals of several channels, a reduction and the puts of its
 * result, a put and its signal on a port channel); fences (nop) are put between operations of
 * a block that touch the same chunk, and where a signal or wait asks for them; fences that
 * order nothing are left out; each block is repeated for every instance, with the chunks
 * divided between them. */

typedef struct weir_plan_builder weir_plan_builder;

/* What weir_plan_build leaves undone. */
enum {
    WEIR_PLAN_NO_FUSION = 1,  /* operations stay as they were called */
    WEIR_PLAN_NO_FENCES = 2,  /* none is added between operations that touch the same chunk */
    WEIR_PLAN_KEEP_FENCES = 4 /* those that order nothing stay, as the DSL has them */
};

typedef struct weir_plan_spec {
    const char *name; /* printable ASCII; copied */
    weir_collective collective;
    int nranks;
    int chunk_factor;     /* chunks of a rank's share; 0: 1. An allreduce's buffers, and those
                           * of a collective with a share for each rank, have nranks times as
                           * many; of a broadcast, reduce or sendrecv, just these. */
    int in_place;         /* input and output are the same memory, as weir/weir.h says */
    int instances;        /* how often each thread block is repeated; 0: 1 */
    int double_scratch;   /* launches use two scratch buffers in turn: a plan of packets whose
                           * ranks all hear from one another needs no other order */
    int reuse_resources;  /* kept in the file */
    weir_op op;           /* of its reductions. WEIR_SUM: whichever the caller gives */
    uint32_t nthreads;    /* of a thread block; 0: 1024 */
    uint32_t alignment;   /* bytes, a power of two; 0: 16 */
    uint64_t min_bytes;   /* of a message: of the input, of an allgather the output */
    uint64_t max_bytes;   /* 0: no limit */
    unsigned flags;       /* what to leave undone */
} weir_plan_spec;

/* The builder is the caller's until weir_plan_build. WEIR_ERR_INVALID: the spec. */
WEIR_API weir_status weir_plan_builder_create(const weir_plan_spec *spec,
                                              weir_plan_builder **builder);
/* Frees the builder, whatever it returns. The plan is the caller's; it is validated.
 * WEIR_ERR_INVALID: the first wrong call, or a signal without its wait. */
WEIR_API weir_status weir_plan_build(weir_plan_builder *builder, weir_plan **plan);
/* For a builder that is given up; NULL is allowed. */
WEIR_API void weir_plan_builder_free(weir_plan_builder *builder);

/* Chunks of one rank's buffer that lie side by side. */
typedef struct weir_plan_chunks {
    weir_plan_builder *builder;
    int rank;
    weir_plan_buffer buffer;
    uint32_t index, size;
} weir_plan_chunks;

/* A rank's whole input, whole output, and so many more chunks of its scratch. */
WEIR_API weir_plan_chunks weir_plan_input(weir_plan_builder *builder, int rank);
WEIR_API weir_plan_chunks weir_plan_output(weir_plan_builder *builder, int rank);
WEIR_API weir_plan_chunks weir_plan_scratch(weir_plan_builder *builder, int rank, int size);
/* size chunks of these, from the first-th on; the DSL's buffer[first : first + size]. */
WEIR_API weir_plan_chunks weir_plan_slice(weir_plan_chunks chunks, int first, int size);

/* The rank's end of a channel to a peer. The k-th that it makes to this peer is one channel
 * with the k-th of that type that the peer makes to the rank. */
typedef struct weir_plan_chan {
    weir_plan_builder *builder;
    int rank, peer, is_port;
    uint32_t index;
} weir_plan_chan;
WEIR_API weir_plan_chan weir_plan_memory_channel(weir_plan_builder *builder, int rank, int peer);
WEIR_API weir_plan_chan weir_plan_port_channel(weir_plan_builder *builder, int rank, int peer);

/* A channel to the same buffer of all these ranks at once; ranks NULL: of all nranks. */
typedef struct weir_plan_switch {
    weir_plan_builder *builder;
    uint32_t index;
} weir_plan_switch;
WEIR_API weir_plan_switch weir_plan_switch_channel(weir_plan_builder *builder,
                                                   weir_plan_buffer buffer, const int *ranks,
                                                   int nranks);

/* A counting semaphore between thread blocks of a rank. */
typedef struct weir_plan_semaphore {
    weir_plan_builder *builder;
    int rank;
    uint32_t index;
} weir_plan_semaphore;
WEIR_API weir_plan_semaphore weir_plan_semaphore_create(weir_plan_builder *builder, int rank,
                                                        int value);

/* A number that stands for several thread blocks wherever a call takes a thread block, block:
 * each of them handles its part of the bytes. */
WEIR_API int weir_plan_group(weir_plan_builder *builder, const int *blocks, int count);

/* Fences around an operation: its block's earlier ones are done before it, its later ones
 * start after it. */
typedef enum weir_plan_sync {
    WEIR_PLAN_UNSYNCED,
    WEIR_PLAN_BEFORE,
    WEIR_PLAN_AFTER,
    WEIR_PLAN_BOTH
} weir_plan_sync;

/* Order. relaxed ones order nothing but themselves. A barrier of a rank is for the blocks of
 * a group; of one block, it is a fence. flush waits until the puts over a port channel have
 * left their source. */
WEIR_API void weir_plan_signal(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_wait(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_relaxed_signal(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_relaxed_wait(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_flush(weir_plan_chan chan, int block, weir_plan_sync sync);
WEIR_API void weir_plan_acquire(weir_plan_semaphore semaphore, int block, weir_plan_sync sync);
WEIR_API void weir_plan_release(weir_plan_semaphore semaphore, int block, weir_plan_sync sync);
WEIR_API void weir_plan_barrier(weir_plan_builder *builder, int rank, int block);

/* Moves, all of as many chunks as the source. put: from the channel's rank to its peer; get:
 * the other way; copy: on one rank. put_signal and put_signal_flush are for port channels. */
WEIR_API void weir_plan_put(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                            int block);
WEIR_API void weir_plan_put_signal(weir_plan_chan chan, weir_plan_chunks dst,
                                   weir_plan_chunks src, int block);
WEIR_API void weir_plan_put_signal_flush(weir_plan_chan chan, weir_plan_chunks dst,
                                         weir_plan_chunks src, int block);
WEIR_API void weir_plan_get(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                            int block);
WEIR_API void weir_plan_copy(weir_plan_chunks dst, weir_plan_chunks src, int block);

/* Moves of packets, which lie in scratch: data to the peer's packets, the rank's packets on
 * to the peer's, data to packets, packets to data. Over a port channel, put_packets takes
 * what are packets already. */
WEIR_API void weir_plan_put_packets(weir_plan_chan chan, weir_plan_chunks dst,
                                    weir_plan_chunks src, int block);
WEIR_API void weir_plan_forward_packets(weir_plan_chan chan, weir_plan_chunks dst,
                                        weir_plan_chunks src, int block);
WEIR_API void weir_plan_copy_packets(weir_plan_chunks dst, weir_plan_chunks src, int block);
WEIR_API void weir_plan_unpack_packets(weir_plan_chunks dst, weir_plan_chunks src, int block);

/* Reductions: dst = src reduced with the others, in this order. dst may be src. The others are
 * the rank's own, or packets of its own, or the channel's peer's. */
WEIR_API void weir_plan_reduce(weir_plan_chunks dst, weir_plan_chunks src,
                               const weir_plan_chunks *others, int nothers, int block);
WEIR_API void weir_plan_reduce_packets(weir_plan_chunks dst, weir_plan_chunks src,
                                       const weir_plan_chunks *others, int nothers, int block);
WEIR_API void weir_plan_read_reduce(weir_plan_chan chan, weir_plan_chunks dst,
                                    weir_plan_chunks src, const weir_plan_chunks *others,
                                    int nothers, int block);

/* Of a switch channel: dst is the reduction over all its ranks' chunks from index on, and
 * these chunks of all its ranks become src. dst and src tell which rank does it. */
WEIR_API void weir_plan_switch_reduce(weir_plan_switch group, int index, weir_plan_chunks dst,
                                      int block);
WEIR_API void weir_plan_switch_broadcast(weir_plan_switch group, weir_plan_chunks src, int index,
                                         int block);
WEIR_API void weir_plan_switch_broadcast_packets(weir_plan_switch group, weir_plan_chunks src,
                                                 int index, int block);

/* What is called between these two runs again and again, on unit_bytes of each chunk
 * reference at a time, until num_chunks chunks are done; no reference is longer. The DSL's
 * LoopIterationContext. */
WEIR_API void weir_plan_pipeline_begin(weir_plan_builder *builder, uint64_t unit_bytes,
                                       int num_chunks);
WEIR_API void weir_plan_pipeline_end(weir_plan_builder *builder);

/* ------------------------------------------------------------------- writing */

/* Writes a plan as JSON, as MSCCL++'s DSL does: to a file, which is replaced, or to memory:
 * text is the caller's to free(), of so many bytes without its NUL. Reading it gives the same
 * plan. WEIR_ERR_SYSTEM: the file cannot be written; WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_plan_write(const weir_plan *plan, const char *file);
WEIR_API weir_status weir_plan_print(const weir_plan *plan, char **text, size_t *bytes);

/* ----------------------------------------------------------------- executor */

/* A weir_executor (weir/algo.h) runs plans on a communicator's ranks. */

/* Collective, blocking. The executor is the caller's; the communicator must outlive it.
 * WEIR_ERR_UNSUPPORTED: the communicator's backend runs no plans. */
WEIR_API weir_status weir_executor_create(weir_comm *comm, weir_executor **executor);
/*
 * Runs a plan: collective, every rank gives the same plan (each its own copy, of the same
 * content), lengths, type and operation. in and out are what the plan's collective has in
 * weir/weir.h, of in_bytes and out_bytes: as long on every rank, broadcast's and reduce's too,
 * where in (out) may be NULL on ranks that do not read (write) it. In place as weir/weir.h says
 * for the collective, of unknown ones in == out; a plan for use in place may be called with
 * two buffers, and one for two in place, at the price of a copy; all ranks are in place or
 * none, but for broadcast and reduce, where each may be. Memory of weir_mem_alloc is used as
 * it is; other memory is copied where peers have to reach it.
 *
 * op is what the plan reduces with: WEIR_AVG sums, and divides the output at the end. A plan
 * that names an operation other than sum may be called with that one only.
 *
 * On the host it blocks until out is complete and in may be written again; stream is NULL.
 * On GPUs, of one host, the work goes into the stream, and may be captured in a graph once
 * the plan has run with these lengths; what such a call needs lives as long as the executor.
 * What peers have to reach must be memory of weir_mem_alloc or weir_mem_register that they
 * know, as after weir_comm_barrier; where that is not so in the first call with a plan and
 * lengths, this and later ones are served by copies; where it was and no longer is, a call is
 * refused, and the communicator aborted.
 * The first call with a plan or with other lengths, or in place, makes what they need (a
 * context); an executor keeps the contexts of its latest calls, so that later ones just run.
 *
 * WEIR_ERR_INVALID: the plan is for another number of ranks, the lengths are outside its range
 * or no whole elements, the operation is not the plan's, a buffer is missing: nothing has
 * run. WEIR_ERR_MISMATCH: ranks called with different plans or lengths, which is found where
 * a context is made. WEIR_ERR_UNSUPPORTED: ranks of two machines share a memory or switch
 * channel. Otherwise as collectives in weir/weir.h.
 */
WEIR_API weir_status weir_executor_run(weir_executor *executor, const weir_plan *plan,
                                       const void *in, void *out, uint64_t in_bytes,
                                       uint64_t out_bytes, weir_dtype dtype, weir_op op,
                                       weir_stream stream);
WEIR_API weir_comm *weir_executor_comm(const weir_executor *executor);
/* The plan as an algorithm of its name (of which 31 characters count), for weir_algo_execute
 * with an executor and for collections. Local. The plan stays the caller's and must outlive the
 * algorithm. WEIR_ERR_INVALID: its collective is none that weir knows. */
WEIR_API weir_status weir_algo_from_plan(const weir_plan *plan, weir_algo **algo);
/* Collective; waits until all ranks have ended their calls (deadline). NULL is allowed. */
WEIR_API void weir_executor_destroy(weir_executor *executor);

/* ------------------------------------------------------------------- checking */

/* What can be wrong with a plan. */
typedef enum weir_plan_fault {
    WEIR_PLAN_FAULT_RESULT,   /* an output chunk is not what the collective says */
    WEIR_PLAN_FAULT_DEADLOCK, /* some wait never ends */
    WEIR_PLAN_FAULT_RACE,     /* nothing orders two accesses to a chunk, of which one writes */
    WEIR_PLAN_FAULT_BALANCE,  /* a channel or semaphore is not after a launch as before it */
    WEIR_PLAN_FAULT_BARRIER,  /* other thread blocks come to a barrier than it is for */
} weir_plan_fault;

enum { WEIR_PLAN_VIOLATIONS_MAX = 16, WEIR_PLAN_TEXT_MAX = 512 };
#define WEIR_PLAN_NOWHERE UINT32_MAX

typedef struct weir_plan_violation {
    weir_plan_fault fault;
    int rank;
    uint32_t block; /* id of the thread block; WEIR_PLAN_NOWHERE: of the rank as such */
    uint32_t op;    /* of the thread block, bodies of pipelines included; or NOWHERE */
    char text[WEIR_PLAN_TEXT_MAX]; /* the counter-example */
} weir_plan_violation;

typedef struct weir_plan_report {
    int proves_result;  /* 0: the collective is unknown; all but its result is proved */
    int root;           /* of a broadcast or reduce: which rank the plan has as root */
    int all_lengths;    /* 1: for every length; 0: parts of groups of thread blocks make too many
                           cases, of which the shorter lengths' were looked at */
    unsigned max_turns; /* of pipelines: up to so many turns with data; 0: there are none */
    unsigned nworlds;   /* cases of division into parts and turns that were run */
    unsigned nviolations;
    weir_plan_violation violations[WEIR_PLAN_VIOLATIONS_MAX]; /* one for each fault and op */
} weir_plan_report;

/* Proves, by running all ranks' programs with symbols for data, for the plan's number of ranks
 * and in-placeness and for every length, that it computes its collective, ends, has no race,
 * and can be launched again and again; lib/plan/README.md says under which memory model.
 * Local, takes milliseconds to seconds. report may be NULL; it is written with WEIR_OK, and
 * with WEIR_ERR_INVALID where violations were found, of which the first is the message too.
 * WEIR_ERR_UNSUPPORTED: the plan is too large for the checker. */
WEIR_API weir_status weir_plan_check(const weir_plan *plan, weir_plan_report *report);
/* Whether the executor checks a plan before it first runs, as it does unless told not to; one
 * that fails is refused (WEIR_ERR_INVALID) and nothing has run. Local; alike on all ranks. */
WEIR_API void weir_executor_set_checks(weir_executor *executor, int checks);
/* "result", "deadlock", "race", "balance", "barrier". Static. */
WEIR_API const char *weir_plan_fault_name(weir_plan_fault fault);

#ifdef __cplusplus
}
#endif

#endif
