/*
 * A peer as a file: a shared library that the benchmarks measure next to weir
 * (--peer PATH.so[:MODE]), without rebuilding weir. The file includes this header, defines
 * weir_peer_v1, and needs no library of weir. docs/user/peers.md shows how to build one.
 *
 * The benchmark calls, on every rank: weir_peer_v1, probe, create, and on GPUs buffers; then
 * refuses and run for each call of the sweep; destroy at the end. On the host backend, the first of
 * these calls are tried in a child process of each rank, in which a crash or a hang ends only the
 * peer.
 *
 * Functions that return an int return 0, or another value after they have written one line without
 * a newline to why, which has room for WEIR_PEER_TEXT bytes. All calls come from one thread.
 */
#ifndef WEIR_PEER_H
#define WEIR_PEER_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEIR_PEER_ABI = 1, /* changes if a peer must be compiled anew */
    WEIR_PEER_TEXT = 96,
};

/* The rank that a peer runs on. The structure and all that it points to are the benchmark's, valid
 * until destroy returns. Later versions may add members at the end and then increase size. */
typedef struct weir_peer_job {
    size_t size; /* sizeof(weir_peer_job) in the benchmark */
    int rank, nranks, local_rank, nnodes;
    int device;           /* number of the rank's CUDA device, which is current; -1: host memory */
    weir_stream stream;   /* a cudaStream_t; NULL with host memory */
    const char *mode;     /* what the user wrote after the colon; empty if nothing */
    size_t most_bytes[2]; /* of the input and output buffers, for the largest call of the sweep */
    void *context;        /* the first argument of allgather */
    /* Gathers so many bytes of every rank, with which a peer makes its own connections. all has
     * room for nranks blocks in rank order; the caller has filled its own block. Collective,
     * blocking; callable in create, buffers and run. Returns 0; another value if a rank is lost. */
    int (*allgather)(void *context, void *all, size_t bytes);
} weir_peer_job;

/* What probe reports. */
typedef struct weir_peer_about {
    char version[32];   /* "2.11.0" */
    char settings[256]; /* that change results, as the header of a run shows them, with their
                           source: "GLOO_ALGO=ring (environment)"; empty: none */
    int has_threads;    /* 1: the library's calls need threads that create starts. They may use all
                           cores of the process; a run in which that is one core is marked */
} weir_peer_about;

/* A peer. Members that may be NULL are named; size and abi are set by WEIR_PEER_INIT. */
typedef struct weir_peer {
    size_t size;
    int abi;
    const char *name; /* lower case; rows are named NAME:VERSION or NAME:VERSION:MODE */
    /* Checks that the library is usable here, and describes it. Local; must not use a GPU. */
    int (*probe)(const weir_peer_job *job, weir_peer_about *about, char *why);
    /* Connects the ranks. *state is passed to the functions below. Collective. */
    int (*create)(const weir_peer_job *job, void **state, char *why);
    /* Allocates the GPU memory that every call then works on, where a library needs memory of its
     * own; destroy frees it. *in and *out have the bytes of job->most_bytes. Not called with host
     * memory. Collective. NULL: calls work on the benchmark's memory. */
    int (*buffers)(void *state, void **in, void **out, char *why);
    /* Returns the reason why the peer cannot make a call, or NULL. Pure and the same on every rank.
     * The text is static or in state, and is shown up to WEIR_PEER_TEXT bytes. NULL: the peer makes
     * every call. */
    const char *(*refuses)(void *state, const weir_call *call);
    /* Makes the call, as weir_run would; in place if call->in and call->out are those of an
     * in-place call. Collective. Host memory: the call is complete on return. GPU: enqueued on
     * job->stream. */
    int (*run)(void *state, const weir_call *call, char *why);
    /* Frees everything. Collective. */
    void (*destroy)(void *state);
} weir_peer;

#define WEIR_PEER_INIT .size = sizeof(weir_peer), .abi = WEIR_PEER_ABI

/* The one symbol of a peer's file. Returns the peer, in static storage. Local. */
__attribute__((visibility("default"))) const weir_peer *weir_peer_v1(void);

#ifdef __cplusplus
}
#endif

#endif
