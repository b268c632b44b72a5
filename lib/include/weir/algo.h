/*
 * Algorithms as objects: built-in algorithms, kernels compiled at run time, plans, and custom
 * algorithms, found in a collection and executed by one function. The conventions of weir/weir.h
 * (status, errors, local and collective, ownership, threads) apply to every function.
 */
#ifndef WEIR_ALGO_H
#define WEIR_ALGO_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ kernels */

/* A kernel compiled at run time for the backend of one communicator. */
typedef struct weir_kernel weir_kernel;

/*
 * Compiles `file`, which includes weir/kernel.h, and loads its kernel `name`: with WEIR_CC (default
 * cc) and dlopen on the host backend, with NVRTC on the cuda backend. Collective, blocking: the
 * first rank of each node compiles, the others load the result from the cache, and either all ranks
 * get the kernel or none. Release with weir_kernel_free; comm must outlive it.
 *
 * The cache is the folder weir in XDG_CACHE_HOME, else in ~/.cache; only the user may be able to
 * write it. An entry is named by a hash of the source, of all files that it includes, of the
 * compiler and its flags, and of weir's version. Where no such folder can exist, a temporary one
 * is used.
 *
 * WEIR_ERR_INVALID if the file cannot be read, does not compile (the error line is the compiler's,
 * with file and line number) or lacks the kernel (the error line lists those that it has);
 * WEIR_ERR_MISMATCH if the ranks' files differ; WEIR_ERR_SYSTEM if there is no compiler, or if
 * other users can write the cache folder.
 */
WEIR_API weir_status weir_kernel_compile(weir_comm *comm, const char *file, const char *name,
                                         weir_kernel **kernel);
/* Releases a kernel. Local. All of its launches must have completed. NULL is allowed. */
WEIR_API void weir_kernel_free(weir_kernel *kernel);
/* Returns the kernel's name, which lives as long as the kernel. */
WEIR_API const char *weir_kernel_name(const weir_kernel *kernel);
/* Returns 1 if this rank found the compiled code in the cache, else 0. */
WEIR_API int weir_kernel_is_cached(const weir_kernel *kernel);

/* The bytes of a kernel's parameter, laid out as a compiler lays out the structure: members in
 * order, each at its natural alignment. Clear it, then make one call for each member. */
enum { WEIR_PARAMS_BYTES = 4096 };
typedef struct weir_params {
    size_t used_bytes, alignment;
    int failed; /* a member did not fit; weir_kernel_launch reports it */
    unsigned char bytes[WEIR_PARAMS_BYTES] __attribute__((aligned(16)));
} weir_params;

/* Clear a parameter, and append one member. Local. They do not fail; weir_kernel_launch reports
 * what did not fit. weir_params_bytes appends any plain data; its alignment is a power of two, at
 * most 16. */
WEIR_API void weir_params_clear(weir_params *params);
WEIR_API void weir_params_int32(weir_params *params, int32_t value);
WEIR_API void weir_params_uint32(weir_params *params, uint32_t value);
WEIR_API void weir_params_int64(weir_params *params, int64_t value);
WEIR_API void weir_params_uint64(weir_params *params, uint64_t value);
WEIR_API void weir_params_float(weir_params *params, float value);
WEIR_API void weir_params_double(weir_params *params, double value);
WEIR_API void weir_params_pointer(weir_params *params, const void *value);
WEIR_API void weir_params_bytes(weir_params *params, const void *data, size_t bytes,
                                size_t alignment);

/*
 * Launches a kernel with a parameter, which is copied. Local. On the cuda backend it enqueues a
 * grid of `blocks` x `threads` on stream, which may be captured in a graph, and returns without
 * waiting for it. On the host backend the launch is one block of one thread, whatever grid is
 * requested; it runs in the calling thread and has completed on return, and stream is NULL.
 * shared_bytes is the size of the memory that WEIR_SHARED declares.
 *
 * WEIR_ERR_INVALID if the parameter's length differs from that of the kernel's structure, or if the
 * grid does not fit on the GPU at once (its blocks may wait for each other); the error line gives
 * the number of blocks that fit. A status passed to weir_kernel_fail is returned here on the host
 * backend, and by weir_comm_check on the cuda backend; the communicator is aborted.
 */
WEIR_API weir_status weir_kernel_launch(weir_kernel *kernel, int blocks, int threads,
                                        size_t shared_bytes, weir_stream stream,
                                        const weir_params *params);

/* --------------------------------------------------------------- algorithms */

/* An implementation of a collective. */
typedef struct weir_algo weir_algo;
/* Executes plans; see weir/plan.h. */
typedef struct weir_executor weir_executor;

/* A named argument for a custom algorithm: data that the algorithm reads during the call. The last
 * entry of a list has a NULL name. */
typedef struct weir_algo_extra {
    const char *name;
    const void *pointer;
} weir_algo_extra;

/* Returns the pointer of the call's extra of that name; NULL if it has none. Thread-safe. */
WEIR_API const void *weir_call_extra(const weir_call *call, const char *name);

/* Identifies a context: calls with equal keys can share it. */
typedef struct weir_algo_key {
    uint64_t words[8];
} weir_algo_key;

/*
 * A custom algorithm: an ops table and a state. Callbacks return WEIR_OK, or an error that they got
 * from a function of the library, whose error line is then the call's. The table must outlive the
 * algorithm. The call that callbacks receive has in_bytes and out_bytes set, the algorithm's
 * collective, and the scratch memory of the collection; its counts are set if the caller set them.
 *
 * A context holds resources that a launch needs and that are expensive to create: channels,
 * registered memory, mapped buffers of peers. All ranks use the same context in a call. Before each
 * launch, the ranks compare through shared memory (between nodes: the bootstrap) which of their
 * contexts match the call's key; they use one that matches on every rank, or all create a new one.
 * A key may therefore contain values that differ between ranks, such as addresses. An algorithm
 * whose keys are equal on all ranks in every call, for example because they consist of sizes and
 * types, sets keys_alike, which saves that exchange; if its keys do differ, a call fails at its
 * deadline.
 */
typedef struct weir_algo_ops {
    /* Called before the first launch on a communicator. Collective; if it fails on one rank, the
     * call fails on all. May be NULL. */
    weir_status (*initialise)(void *state, weir_comm *comm);
    /* Fills in a key, which is zeroed. Local, on every call. NULL if the algorithm has no
     * contexts; context_create and context_destroy are then NULL, too. */
    weir_status (*context_key)(void *state, weir_comm *comm, const weir_call *call,
                               weir_algo_key *key);
    /* Creates a context. Collective; each rank receives its own call. If it fails on one rank,
     * the other ranks destroy theirs. */
    weir_status (*context_create)(void *state, weir_comm *comm, const weir_call *call,
                                  void **context);
    /* Performs the call: on the host before it returns, on GPUs by enqueuing work on
     * call->stream. context is NULL for an algorithm without contexts. */
    weir_status (*launch)(void *state, void *context, weir_comm *comm, const weir_call *call);
    /* Frees a context, which no rank's launch uses any more. Called on all ranks. */
    void (*context_destroy)(void *state, void *context);
    /* Frees state. Local; called once, after all contexts have been destroyed. May be NULL. */
    void (*destroy)(void *state);
    int keys_alike;   /* 1: keys are equal on all ranks in every call */
    int contexts_max; /* contexts kept per communicator, 1 to 16; 0: 16. The least recently used one
                         is destroyed to make room */
} weir_algo_ops;

enum { WEIR_ALGO_NAME_BYTES = 32 };

/* Creates a custom algorithm. Local. name, of 1 to 31 characters, is copied; the algorithm takes
 * ownership of state on success. Release with weir_algo_destroy, or give it to a collection.
 * WEIR_ERR_INVALID if launch or some of the three context callbacks are missing. */
WEIR_API weir_status weir_algo_create(const char *name, weir_collective collective,
                                      const weir_algo_ops *ops, void *state, weir_algo **algo);

/*
 * Creates an algorithm from a kernel in a file. The kernel's parameter is a weir_kernel_args
 * (weir/kernel.h); the library provides channels to all ranks and scratch memory. Collective,
 * blocking, with the errors of weir_kernel_compile. The algorithm serves comm only. On the cuda
 * backend a call's grid has at most 64 blocks; blocks 0 stands for 8, threads 0 for 512.
 *
 * WEIR_ERR_UNSUPPORTED if the ranks are on several nodes, which memory channels do not connect.
 */
WEIR_API weir_status weir_algo_from_file(weir_comm *comm, const char *file, const char *name,
                                         weir_collective collective, weir_algo **algo);

/* Destroys an algorithm and its contexts. Collective if the algorithm was executed, in order with
 * other collective calls, and before its communicators are destroyed; else local. NULL is allowed.
 * Not for algorithms that belong to a collection. */
WEIR_API void weir_algo_destroy(weir_algo *algo);

/* Return an algorithm's name, collective, and one-line summary. The strings live as long as the
 * algorithm. */
WEIR_API const char *weir_algo_name(const weir_algo *algo);
WEIR_API weir_collective weir_algo_collective(const weir_algo *algo);
WEIR_API const char *weir_algo_summary(const weir_algo *algo);

/*
 * Executes a call with an algorithm of any kind. Collective, with the rules of weir/weir.h's
 * collectives: blocking on the host backend, enqueued on call->stream on the cuda backend. The
 * algorithm's collective applies; the call's collective, algo_name and algo are ignored. If
 * in_bytes and out_bytes are both 0, the counts determine them; otherwise the lengths determine the
 * counts.
 *
 * WEIR_ERR_INVALID if the lengths contradict each other; WEIR_ERR_MISMATCH if another rank rejected
 * its call; WEIR_ERR_UNSUPPORTED if a new context is needed while a stream is being captured (make
 * the call once before the capture; a context that a captured call used is never evicted);
 * otherwise what the collective or the launch returns.
 */
WEIR_API weir_status weir_algo_execute(weir_algo *algo, weir_comm *comm, const weir_call *call);

/* The same with separate arguments, for callers that cannot fill in a structure. The lengths
 * determine the counts (allgather: out_bytes = nranks * in_bytes). op is ignored if the collective
 * does not reduce; executor is for plans, otherwise NULL; nblocks and nthreads are the grid on
 * GPUs, 0 for the algorithm's default. extras, which may be NULL, also passes the call's other
 * members: "root" (int; default 0), "destination" and "source" (int; sendrecv; default -1), and for
 * alltoallv "send_counts", "send_displs", "recv_counts" and "recv_displs" (size_t[nranks], in
 * elements). */
WEIR_API weir_status weir_algo_execute_args(weir_algo *algo, weir_comm *comm, const void *in,
                                            void *out, size_t in_bytes, size_t out_bytes,
                                            weir_dtype dtype, weir_op op, weir_stream stream,
                                            weir_executor *executor, int nblocks, int nthreads,
                                            const weir_algo_extra *extras);
/* Returns how many contexts the algorithm has on a communicator. */
WEIR_API int weir_algo_contexts(const weir_algo *algo, const weir_comm *comm);

/* -------------------------------------------------------------- collections */

/* A set of algorithms for one communicator. */
typedef struct weir_algo_collection weir_algo_collection;

/* Creates a collection of the built-in algorithms that can serve comm and, for each collective,
 * "auto", which selects by the tuning table. Local. scratch, which may be NULL, is passed to the
 * callbacks of custom algorithms; scratch and comm must outlive the collection. Release with
 * weir_algo_collection_destroy. */
WEIR_API weir_status weir_algo_collection_create(weir_comm *comm, weir_mem *scratch,
                                                 weir_algo_collection **collection);
/* Destroys a collection and, as weir_algo_destroy, its algorithms. NULL is allowed. */
WEIR_API void weir_algo_collection_destroy(weir_algo_collection *collection);
/* Adds an algorithm, which the collection owns on success. WEIR_ERR_INVALID if the collection has
 * one of that name for that collective. */
WEIR_API weir_status weir_algo_collection_add(weir_algo_collection *collection, weir_algo *algo);
/* Return the number of algorithms, and the one at an index, in the order in which they were added;
 * NULL if index is outside 0..count-1. */
WEIR_API int weir_algo_collection_count(const weir_algo_collection *collection);
WEIR_API weir_algo *weir_algo_collection_at(const weir_algo_collection *collection, int index);
/* Finds an algorithm by collective and name; it stays the collection's. WEIR_ERR_INVALID if there
 * is none; the error line lists the known names. */
WEIR_API weir_status weir_algo_find(const weir_algo_collection *collection,
                                    weir_collective collective, const char *name, weir_algo **algo);

/* Selects an algorithm by size: `bytes` is the larger of the two buffers' lengths, the size that
 * benchmarks print. Must not communicate, and must return the same on every rank; NULL stands for
 * "auto". */
typedef weir_algo *(*weir_algo_selector)(void *context, const weir_algo_collection *collection,
                                         weir_collective collective, size_t bytes);
/* Sets a selector, which gets context; both must outlive the collection. selector NULL: "auto" for
 * every call. */
WEIR_API void weir_algo_collection_set_selector(weir_algo_collection *collection,
                                                weir_algo_selector selector, void *context);
/* Returns the algorithm that the selector chooses, or "auto". */
WEIR_API weir_algo *weir_algo_select(const weir_algo_collection *collection,
                                     weir_collective collective, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
