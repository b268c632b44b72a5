/*
 * Algorithms as values: the built-in ones, kernels of one's own and plans, looked up in a
 * collection and executed by one call. weir/weir.h's rules hold here, too: out-parameters last
 * and written on success only, a negative weir_status and weir_last_error() otherwise.
 */
#ifndef WEIR_ALGO_H
#define WEIR_ALGO_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ kernels */

/* A kernel that was compiled at run time for the backend of one communicator. */
typedef struct weir_kernel weir_kernel;

/*
 * Compiles `file`, which includes weir/kernel.h, and takes the kernel `name` from it: by
 * WEIR_CC (cc) and dlopen on the host, by NVRTC on GPUs. Collective, blocking: the first
 * rank of each machine compiles, the others find the result in the cache, and either all
 * ranks have the kernel or none. comm must outlive it; free it with weir_kernel_free.
 *
 * The cache is the folder weir in XDG_CACHE_HOME, else in ~/.cache: the user's alone. Its
 * entries are named by a hash of the source and all that it includes, of the compiler,
 * its flags and weir's version. Where there can be no such folder a temporary one serves.
 *
 * WEIR_ERR_INVALID: the file cannot be read, does not compile (the compiler's message with
 * file and line) or has no such kernel (the text names those that it has);
 * WEIR_ERR_MISMATCH: the ranks' files differ; WEIR_ERR_SYSTEM: no compiler, or a cache
 * folder that others can write.
 */
WEIR_API weir_status weir_kernel_compile(weir_comm *comm, const char *file, const char *name,
                                         weir_kernel **kernel);
/* Local. Launches of it have ended. NULL is allowed. */
WEIR_API void weir_kernel_free(weir_kernel *kernel);
WEIR_API const char *weir_kernel_name(const weir_kernel *kernel);
/* 1 if this rank found the compiled code in the cache. */
WEIR_API int weir_kernel_is_cached(const weir_kernel *kernel);

/* The bytes of a kernel's parameter: its members in their order, each at its natural
 * alignment, as a compiler lays out the struct. Zero it first; then one call a member. */
enum { WEIR_PARAMS_BYTES = 4096 };
typedef struct weir_params {
    size_t used_bytes, alignment;
    int failed; /* something did not fit: a launch tells it */
    unsigned char bytes[WEIR_PARAMS_BYTES] __attribute__((aligned(16)));
} weir_params;

/* Local; they never fail by themselves. bytes: any plain data; alignment a power of two. */
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
 * Runs a kernel with a parameter, which is copied. Local. On GPUs it is enqueued on stream,
 * a grid of `blocks` x `threads`, and not waited for; it may be captured in a graph. On the
 * host it is one block of one thread whatever is asked for, runs in the calling thread and
 * has ended when the call returns; stream is NULL. shared_bytes: what WEIR_SHARED gives.
 *
 * WEIR_ERR_INVALID: the parameter is not as long as the kernel's struct, or the grid does not
 * fit on the device at once, for its blocks may wait for each other; the text says how many
 * blocks do. What weir_kernel_fail was given comes back from here on the host, after which
 * the communicator is aborted, and from weir_comm_check on GPUs.
 */
WEIR_API weir_status weir_kernel_launch(weir_kernel *kernel, int blocks, int threads,
                                        size_t shared_bytes, weir_stream stream,
                                        const weir_params *params);

/* --------------------------------------------------------------- algorithms */

/* One way to perform a collective. */
typedef struct weir_algo weir_algo;
/* What performs plans; weir/plan.h. */
typedef struct weir_executor weir_executor;

/* An argument of a custom algorithm: a name that it knows, and data that it reads during the
 * call. A list ends with a name that is NULL. */
typedef struct weir_algo_extra {
    const char *name;
    const void *pointer;
} weir_algo_extra;

/* The pointer of a call's extra by its name; NULL if there is none. Pure. */
WEIR_API const void *weir_call_extra(const weir_call *call, const char *name);

/* What tells contexts apart: calls with equal keys can share one. */
typedef struct weir_algo_key {
    uint64_t words[8];
} weir_algo_key;

/*
 * A custom algorithm. Callbacks return WEIR_OK, or an error with weir_last_error set by what
 * failed. The table must outlive the algorithm. The call that they receive has in_bytes and
 * out_bytes set, the algorithm's collective, and the collection's scratch memory.
 *
 * Contexts hold what a launch needs and what is dear to make: channels, registered
 * memory, mapped buffers of peers. All ranks always use the same one: whether a context
 * exists is decided by all together. Before each launch every rank says through shared
 * memory (across machines: the bootstrap) which of its contexts have the call's key, and
 * they take one that all have or create a new one, all of them. So a key may hold what
 * differs from rank to rank, such as addresses. An algorithm whose keys are equal on all
 * ranks in every call (of sizes and types alone, say) sets keys_alike, and nothing is said;
 * if they are not, a call ends at its deadline.
 */
typedef struct weir_algo_ops {
    /* Before the first launch on a communicator. Collective; the outcome is agreed. May be
     * NULL. */
    weir_status (*initialise)(void *state, weir_comm *comm);
    /* Fills a key that is zeroed. Local. NULL: there are no contexts. */
    weir_status (*context_key)(void *state, weir_comm *comm, const weir_call *call,
                               weir_algo_key *key);
    /* Collective: all ranks, each with its own call. If a rank fails, all destroy theirs. */
    weir_status (*context_create)(void *state, weir_comm *comm, const weir_call *call,
                                  void **context);
    /* Every call. Local, enqueued on call->stream on GPUs. context is NULL without contexts. */
    weir_status (*launch)(void *state, void *context, weir_comm *comm, const weir_call *call);
    /* Frees a context. No rank's launch uses it any more. On all ranks alike. */
    void (*context_destroy)(void *state, void *context);
    /* Local; frees state. Once, after all contexts are gone. May be NULL. */
    void (*destroy)(void *state);
    int keys_alike;
    int contexts_max; /* kept for one communicator; the one not used for longest gives way.
                         1 to 16; 0: 16 */
} weir_algo_ops;

enum { WEIR_ALGO_NAME_BYTES = 32 };

/* Local. name, of up to 31 characters, is copied; state passes to the algorithm on success.
 * Free with weir_algo_destroy. */
WEIR_API weir_status weir_algo_create(const char *name, weir_collective collective,
                                      const weir_algo_ops *ops, void *state, weir_algo **algo);

/*
 * An algorithm that launches a kernel of a file, which takes a weir_kernel_args
 * (weir/kernel.h): the library makes channels to all ranks and scratch memory, the file has
 * nothing but the kernel. Collective, as weir_kernel_compile, and with its errors. It runs on
 * comm alone. A call's grid on GPUs has 64 blocks at most; nblocks 0 is 8, nthreads 0 is 512.
 *
 * WEIR_ERR_UNSUPPORTED: ranks of several machines, which channels do not join.
 */
WEIR_API weir_status weir_algo_from_file(weir_comm *comm, const char *file, const char *name,
                                         weir_collective collective, weir_algo **algo);

/* Destroys the contexts too. Collective if it was executed, in the same order as other
 * collective calls; before its communicators. NULL is allowed. Not for what a collection has. */
WEIR_API void weir_algo_destroy(weir_algo *algo);

WEIR_API const char *weir_algo_name(const weir_algo *algo);
WEIR_API weir_collective weir_algo_collective(const weir_algo *algo);
/* One line. The algorithm's storage. */
WEIR_API const char *weir_algo_summary(const weir_algo *algo);

/*
 * Runs a call with an algorithm of any kind: the built-in ones, kernels of files, plans and custom
 * ones. Collective, with the rules of weir/weir.h's collectives: blocking on the host, enqueued on
 * the call's stream on GPUs. The call's collective must be the algorithm's; its algo_name and algo
 * are ignored. Either the counts or in_bytes and out_bytes are given: where both lengths are 0 the
 * counts set them, else the lengths set the counts.
 *
 * WEIR_ERR_INVALID: sizes that do not belong together; WEIR_ERR_MISMATCH: another rank
 * rejected its call; WEIR_ERR_UNSUPPORTED: a new context is needed while a stream is captured (make
 * the call once before the capture; a context that a captured call used is never evicted);
 * otherwise what the collective or the launch returns.
 */
WEIR_API weir_status weir_algo_execute(weir_algo *algo, weir_comm *comm, const weir_call *call);

/* The same with separate arguments, for callers that cannot fill a struct. The lengths of the
 * buffers give the counts (allgather: out_bytes = nranks * in_bytes); op is ignored where nothing
 * is reduced; executor is for plans, else NULL; nblocks and nthreads are the grid on GPUs, 0 for
 * the algorithm's own. extras, which may be NULL, also has the call's other members: "root" (int;
 * 0 without it), "destination" and "source" (int; sendrecv; -1 without them), and for alltoallv
 * "send_counts", "send_displs", "recv_counts" and "recv_displs" (size_t[nranks], in elements). */
WEIR_API weir_status weir_algo_execute_args(weir_algo *algo, weir_comm *comm, const void *in,
                                            void *out, size_t in_bytes, size_t out_bytes,
                                            weir_dtype dtype, weir_op op, weir_stream stream,
                                            weir_executor *executor, int nblocks, int nthreads,
                                            const weir_algo_extra *extras);
/* How many contexts it has on a communicator. Local. */
WEIR_API int weir_algo_contexts(const weir_algo *algo, const weir_comm *comm);

/* -------------------------------------------------------------- collections */

/* The algorithms that one communicator can choose from. */
typedef struct weir_algo_collection weir_algo_collection;

/* The built-in algorithms that serve comm, and for each collective "auto", which chooses by
 * the tuning table. Local. scratch, which may be NULL, is handed to the callbacks of custom
 * algorithms; it and comm must outlive the collection. */
WEIR_API weir_status weir_algo_collection_create(weir_comm *comm, weir_mem *scratch,
                                                 weir_algo_collection **collection);
/* Destroys its algorithms, as weir_algo_destroy. NULL is allowed. */
WEIR_API void weir_algo_collection_destroy(weir_algo_collection *collection);
/* Adds an algorithm, which the collection owns from then on. Local. WEIR_ERR_INVALID: there is
 * one of that name for that collective. */
WEIR_API weir_status weir_algo_collection_add(weir_algo_collection *collection, weir_algo *algo);
/* Those in it, in the order in which they came: 0 to count - 1; NULL beyond. Local. */
WEIR_API int weir_algo_collection_count(const weir_algo_collection *collection);
WEIR_API weir_algo *weir_algo_collection_at(const weir_algo_collection *collection, int index);
/* By collective and name. Local. WEIR_ERR_INVALID lists the names that there are. */
WEIR_API weir_status weir_algo_find(const weir_algo_collection *collection,
                                    weir_collective collective, const char *name,
                                    weir_algo **algo);

/* Chooses for a size: the larger of both buffers' bytes, which is what benchmarks print.
 * Local, and the same on every rank. NULL: as "auto". */
typedef weir_algo *(*weir_algo_selector)(void *context, const weir_algo_collection *collection,
                                         weir_collective collective, size_t bytes);
/* Local. selector NULL: "auto" for everything. */
WEIR_API void weir_algo_collection_set_selector(weir_algo_collection *collection,
                                                weir_algo_selector selector, void *context);
/* What the selector chooses. Local. */
WEIR_API weir_algo *weir_algo_select(const weir_algo_collection *collection,
                                     weir_collective collective, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
