/*
 * weir: communication channels and collective kernels.
 *
 * This is the whole public API. Handles are opaque. Sizes say in their name
 * or their comment whether they count bytes or elements. Every function says
 *
 *   - who owns what it takes and gives,
 *   - whether it is collective (every rank of the communicator or bootstrap
 *     calls it, in the same order) or local,
 *   - whether it blocks, and which errors it returns.
 *
 * Functions return WEIR_OK (0) or a negative weir_status. Out-parameters come
 * last and are written on success only. When a call fails, weir_last_error()
 * gives the calling thread one line that names the object, what was expected
 * and what to do.
 *
 * A handle may be used by one thread at a time unless its comment says more.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0
#define WEIR_VERSION "0.1.0"

#if defined(__CUDACC_RTC__) /* a kernel that is compiled at run time has no library */
#define WEIR_API
#else
#define WEIR_API __attribute__((visibility("default")))
#endif

/* ------------------------------------------------------------------ status */

/* X(symbol, value, exit code of a program that ends on it, text) */
#define WEIR_STATUS_MAP(X)                                                     \
    X(OK, 0, 0, "success")                                                     \
    X(ERR_INVALID, -1, 2, "invalid argument")                                  \
    X(ERR_UNSUPPORTED, -2, 2, "not supported here")                            \
    X(ERR_MISMATCH, -3, 2, "ranks disagree")                                   \
    X(ERR_SYSTEM, -4, 3, "operating system error")                             \
    X(ERR_NO_MEMORY, -5, 3, "out of memory")                                   \
    X(ERR_REFUSED, -6, 3, "connection refused")                                \
    X(ERR_PEER, -7, 3, "a peer is gone")                                       \
    X(ERR_TIMEOUT, -8, 4, "a deadline passed")                                 \
    X(ERR_ABORTED, -9, 4, "the communicator was aborted")                      \
    X(ERR_INTERNAL, -10, 3, "internal error")

typedef enum weir_status {
#define WEIR_STATUS_ENUM(symbol, value, exit_code, text) WEIR_##symbol = (value),
    WEIR_STATUS_MAP(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
} weir_status;

/* The symbol's name ("WEIR_ERR_TIMEOUT"). Local; static storage. */
WEIR_API const char *weir_status_name(weir_status status);
/* A short description ("a deadline passed"). Local; static storage. */
WEIR_API const char *weir_status_text(weir_status status);
/* The exit code a program should end with: 0, 2 usage, 3 system, 4 deadline. */
WEIR_API int weir_status_exit_code(weir_status status);
/* What went wrong in the calling thread's last failing call: one line, never
 * NULL, valid until the thread's next failing call. */
WEIR_API const char *weir_last_error(void);
/* "weir 0.1.0 (12.2.0, release)": version, compiler, build. Static storage. */
WEIR_API const char *weir_version_string(void);
/* Writes one line for each environment variable that weir reads into text
 * (at most bytes, terminated) and returns the length of the whole. Local. */
WEIR_API int weir_env_help(char *text, size_t bytes);

/* ------------------------------------------------------- types, operations */

/* X(symbol, name, bytes). Values are the position in this list. */
#define WEIR_DTYPE_MAP(X)                                                      \
    X(INT8, "int8", 1)                                                         \
    X(UINT8, "uint8", 1)                                                       \
    X(INT32, "int32", 4)                                                       \
    X(UINT32, "uint32", 4)                                                     \
    X(INT64, "int64", 8)                                                       \
    X(UINT64, "uint64", 8)                                                     \
    X(HALF, "half", 2)                                                         \
    X(FLOAT, "float", 4)                                                       \
    X(DOUBLE, "double", 8)                                                     \
    X(BFLOAT16, "bfloat16", 2)                                                 \
    X(FP8_E4M3, "f8e4m3", 1)                                                   \
    X(FP8_E5M2, "f8e5m2", 1)

typedef enum weir_dtype {
#define WEIR_DTYPE_ENUM(symbol, name, bytes) WEIR_##symbol,
    WEIR_DTYPE_MAP(WEIR_DTYPE_ENUM)
#undef WEIR_DTYPE_ENUM
    WEIR_DTYPE_COUNT
} weir_dtype;

/*
 * Reduction operations. Integers wrap modulo 2^bits; the average of integers
 * is that wrapped sum divided by the number of ranks, rounded towards zero.
 * half, bfloat16 and both fp8 types accumulate in float over all ranks of one
 * reduction step and round once, to nearest even; fp8 saturates at the largest
 * finite value (e4m3: 448, e5m2: 57344), infinities too. NaN stays NaN, with any
 * sign and payload; subnormal numbers and the sign of zero are kept. max and min
 * return NaN if any input is NaN, and of two zeros either.
 */
#define WEIR_OP_MAP(X)                                                         \
    X(SUM, "sum")                                                              \
    X(PROD, "prod")                                                            \
    X(MAX, "max")                                                              \
    X(MIN, "min")                                                              \
    X(AVG, "avg")

typedef enum weir_op {
#define WEIR_OP_ENUM(symbol, name) WEIR_##symbol,
    WEIR_OP_MAP(WEIR_OP_ENUM)
#undef WEIR_OP_ENUM
    WEIR_OP_COUNT
} weir_op;

/* Bytes of one element; 0 for a value outside the list. Local. */
WEIR_API size_t weir_dtype_bytes(weir_dtype dtype);
/* nccl-tests' name ("float", "f8e4m3"); NULL for a value outside the list. */
WEIR_API const char *weir_dtype_name(weir_dtype dtype);
WEIR_API const char *weir_op_name(weir_op op);
/* The value of a name. Local. WEIR_ERR_INVALID lists the known names. */
WEIR_API weir_status weir_dtype_parse(const char *name, weir_dtype *dtype);
WEIR_API weir_status weir_op_parse(const char *name, weir_op *op);

/* Where work is ordered: a cudaStream_t for GPU buffers, NULL on the host,
 * where calls block until the caller's buffers are complete. */
typedef void *weir_stream;

/* --------------------------------------------------------------- bootstrap */

/*
 * The control plane: ranks find one another and exchange small messages. An
 * ops table with three implementations here (TCP, fork, and MPI in
 * weir/mpi.h); a caller may bring its own.
 */
typedef struct weir_boot weir_boot;

typedef struct weir_boot_ops {
    const char *name; /* "tcp", "mpi", "fork": static storage */
    /* Collective, blocking. all: nranks x bytes, rank r's part at r * bytes;
     * the caller's own part is in place already. */
    weir_status (*allgather)(void *context, void *all, size_t bytes);
    /* Local, may block until the peer receives. Between one pair of ranks
     * messages arrive in order; tag and bytes must match at both ends, else
     * WEIR_ERR_MISMATCH. */
    weir_status (*send)(void *context, const void *data, size_t bytes, int peer, int tag);
    weir_status (*recv)(void *context, void *data, size_t bytes, int peer, int tag);
    /* Collective, blocking. */
    weir_status (*barrier)(void *context);
    /* Local. Frees context. Called once, by weir_boot_destroy. */
    void (*destroy)(void *context);
} weir_boot_ops;

/* Wraps an implementation. Local. ops must outlive the bootstrap; context
 * passes to it on success. WEIR_ERR_INVALID: a rank outside 0..nranks-1 or a
 * missing operation. */
WEIR_API weir_status weir_boot_create(const weir_boot_ops *ops, void *context, int rank,
                                      int nranks, weir_boot **boot);
WEIR_API int weir_boot_rank(const weir_boot *boot);
WEIR_API int weir_boot_nranks(const weir_boot *boot);
WEIR_API const char *weir_boot_name(const weir_boot *boot);
/* The operations, as in weir_boot_ops. Errors: what the implementation met
 * (WEIR_ERR_TIMEOUT, WEIR_ERR_PEER, WEIR_ERR_SYSTEM), naming the peer;
 * WEIR_ERR_INVALID for a send or receive whose peer is the own rank. */
WEIR_API weir_status weir_boot_allgather(weir_boot *boot, void *all, size_t bytes);
WEIR_API weir_status weir_boot_send(weir_boot *boot, const void *data, size_t bytes, int peer,
                                    int tag);
WEIR_API weir_status weir_boot_recv(weir_boot *boot, void *data, size_t bytes, int peer, int tag);
WEIR_API weir_status weir_boot_barrier(weir_boot *boot);
/* Collective, blocking: every rank gives its status, every rank gets the worst
 * of them (the smallest value; on a tie the lowest rank's) and, when it is an
 * error, a last-error text that names the failing rank. A failure of the
 * exchange itself is returned likewise. */
WEIR_API weir_status weir_boot_agree(weir_boot *boot, weir_status mine);
/* Local. NULL is allowed. Communicators made from it must be gone. */
WEIR_API void weir_boot_destroy(weir_boot *boot);

#define WEIR_UNIQUE_ID_BYTES 128
/* An address and a random secret that lets ranks of one job find each other
 * over TCP. Copy it to every rank by any means; it is plain bytes. */
typedef struct weir_unique_id {
    char bytes[WEIR_UNIQUE_ID_BYTES];
} weir_unique_id;

/* Opens the meeting point of one job in the calling process, which need not be a
 * rank, but must live until all ranks have met: a thread of its own answers there,
 * on the interface of WEIR_SOCKET_IFNAME, else of NCCL_SOCKET_IFNAME, else the
 * first usable one, loopback last. Local, not blocking. WEIR_ERR_SYSTEM: no
 * interface, no port, no thread. */
WEIR_API weir_status weir_unique_id_create(weir_unique_id *id);
/* Joins the job of a unique id. Collective, blocks until all ranks have met
 * or WEIR_TIMEOUT_MS has passed (WEIR_ERR_TIMEOUT names the missing ranks).
 * WEIR_ERR_PEER: the process that made the id has ended, or the id has served
 * its job. A stranger without the id's secret is refused and logged. */
WEIR_API weir_status weir_boot_tcp_create(const weir_unique_id *id, int rank, int nranks,
                                          weir_boot **boot);
/* The same with rank 0's address given as "interface:ip:port" or "ip:port"
 * ("eth0:10.0.0.4:50000", "lo:[::1]:50000"): rank 0 listens there. There is no
 * secret beyond WEIR_BOOT_SECRET, if that is set on every rank. */
WEIR_API weir_status weir_boot_tcp_create_at(const char *interface_ip_port, int rank, int nranks,
                                             weir_boot **boot);

/* The same from the environment that torchrun gives its processes: RANK, WORLD_SIZE,
 * MASTER_ADDR and MASTER_PORT. Rank 0 listens at the port behind the latter, which is that
 * of PyTorch's own store, or at WEIR_BOOT_PORT. LOCAL_RANK is what weir_comm_local_rank
 * finds by itself. WEIR_ERR_INVALID: one is missing or no number. */
WEIR_API weir_status weir_boot_torchrun_create(weir_boot **boot);

/* Runs body in nranks forked children joined by a bootstrap over socket pairs;
 * for tests and single-machine tools. Local, blocks until every child has
 * ended or timeout_ms has passed (the rest is killed, WEIR_ERR_TIMEOUT). A
 * child's exit code is body's result; exit_codes (nranks entries, may be NULL)
 * gets it, or 128 + signal. WEIR_OK says only that all children ended. */
WEIR_API weir_status weir_boot_fork_run(int nranks, int (*body)(weir_boot *boot, void *argument),
                                        void *argument, int timeout_ms, int *exit_codes);

/* ------------------------------------------------------------ communicator */

typedef struct weir_comm weir_comm;

/* How bytes move between two ranks. */
typedef enum weir_transport {
    WEIR_TRANSPORT_AUTO,
    WEIR_TRANSPORT_SHM,
    WEIR_TRANSPORT_CUDA_IPC,
    WEIR_TRANSPORT_IB,
    WEIR_TRANSPORT_TCP
} weir_transport;

/* Where a communicator's collectives find their buffers. */
typedef enum weir_backend {
    WEIR_BACKEND_HOST, /* memory of the process */
    WEIR_BACKEND_CUDA, /* memory of a GPU; a rank has one */
    WEIR_BACKEND_AUTO  /* what WEIR_BACKEND says; where that is unset or "auto", cuda if every
                          rank can have a GPU of its own, else host */
} weir_backend;

typedef struct weir_comm_config {
    size_t scratch_bytes; /* host: library memory a rank, rounded up; 0: the default; too
                             little for the ranks is WEIR_ERR_INVALID */
    int timeout_ms;       /* deadline of every wait; 0: WEIR_TIMEOUT_MS, else 30000 */
    weir_backend backend; /* WEIR_BACKEND_HOST where config is NULL */
    int device;           /* cuda: 1 + the device's number as CUDA counts them; 0: by local rank */
} weir_comm_config;

/* Sets up a communicator over boot: exchanges who sits where, maps every
 * peer's scratch memory, and agrees on the outcome. Collective, blocking.
 * config may be NULL. boot stays the caller's and must outlive the
 * communicator. WEIR_ERR_UNSUPPORTED: ranks that no transport joins;
 * WEIR_ERR_NO_MEMORY: the machine cannot hold the scratch memory. */
WEIR_API weir_status weir_comm_create(weir_boot *boot, const weir_comm_config *config,
                                      weir_comm **comm);
/* Collective; waits for peers to stop using this rank's memory (deadline). */
WEIR_API void weir_comm_destroy(weir_comm *comm);
/* Makes every wait of every rank end with WEIR_ERR_ABORTED. Local, not
 * blocking; any thread may call it, at any time. NULL is allowed. */
WEIR_API void weir_comm_abort(weir_comm *comm);
WEIR_API int weir_comm_rank(const weir_comm *comm);
WEIR_API int weir_comm_nranks(const weir_comm *comm);
/* Number of machines, ranks on this machine, and this rank's place among them. Ranks of
 * several machines are joined by a network (ib, tcp; WEIR_TRANSPORT), those of one map
 * each other's memory. */
WEIR_API int weir_comm_nnodes(const weir_comm *comm);
WEIR_API int weir_comm_local_nranks(const weir_comm *comm);
WEIR_API int weir_comm_local_rank(const weir_comm *comm);
WEIR_API weir_boot *weir_comm_boot(const weir_comm *comm);
/* WEIR_BACKEND_HOST or WEIR_BACKEND_CUDA; in a build or on a machine without
 * GPUs the former. */
WEIR_API weir_backend weir_comm_backend(const weir_comm *comm);
WEIR_API const char *weir_backend_name(weir_backend backend);
/* The CUDA device of this rank; -1 on the host backend. */
WEIR_API int weir_comm_device(const weir_comm *comm);
/* How the communicator's bytes move: between machines, if there are several. */
WEIR_API weir_transport weir_comm_transport(const weir_comm *comm);
/* 1 if this machine has more ranks of the communicator than cores for them: what
 * "shared" means in a tuning table. */
WEIR_API int weir_comm_shares_cores(const weir_comm *comm);
/* Bytes of library memory that this rank holds beyond its callers' buffers. */
WEIR_API size_t weir_comm_scratch_bytes(const weir_comm *comm);
/* Says what this rank is doing, for reports: a phase in a few words (the first
 * 32 bytes count; static storage, as the same address is taken for the same
 * text) and a number. Local: one store while the phase stays. NULL is allowed
 * for comm, and then nothing happens. */
WEIR_API void weir_comm_note(weir_comm *comm, const char *phase, uint64_t iteration);
/* Whether every rank runs. Local, not blocking; any thread. WEIR_ERR_PEER: one
 * has died; WEIR_ERR_ABORTED; WEIR_ERR_TIMEOUT: one is stopped (SIGSTOP). Also what
 * a kernel of this rank met: WEIR_ERR_TIMEOUT, WEIR_ERR_MISMATCH, WEIR_ERR_INVALID. */
WEIR_API weir_status weir_comm_check(weir_comm *comm);
/* Writes where every rank stands into text (at most bytes, terminated), a line
 * a rank in rank order: whether it is stopped or dead, what it noted, its last
 * collective, and in a long wait the peer, the value expected and the value
 * seen. Returns the length of the whole. After an abort it gives ranks that run
 * half a second to say where they stood. Local; any thread, at any time. */
WEIR_API int weir_comm_report(weir_comm *comm, char *text, size_t bytes);
/* The same, written to a file descriptor by one rank for all: the first to
 * call it. The others wait until it is written, two seconds at most, so that
 * all may end then. 1 if this call wrote it. Local; any thread. */
WEIR_API int weir_comm_report_once(weir_comm *comm, int fd);
/* Ranks meet. Collective, blocking. */
WEIR_API weir_status weir_comm_barrier(weir_comm *comm);

/* ------------------------------------------------------- registered memory */

/* A buffer that peers can address. */
typedef struct weir_mem weir_mem;

#define WEIR_MEM_HANDLE_BYTES 256
/* A serialisable name of registered memory; plain bytes, valid in any process
 * of the job while the memory lives. */
typedef struct weir_mem_handle {
    unsigned char bytes[WEIR_MEM_HANDLE_BYTES];
} weir_mem_handle;

/* Allocates memory that peers of comm can map, on this rank's GPU for the cuda
 * backend: collectives use it without copies. Local. Zeroed, page aligned. Free
 * with weir_mem_free before the communicator. bytes may be 0.
 * WEIR_ERR_NO_MEMORY: no space is left; nothing is touched that would fail later. */
WEIR_API weir_status weir_mem_alloc(weir_comm *comm, size_t bytes, weir_mem **mem);
/* Makes the caller's memory [pointer, pointer + bytes) known. Local. If it lies
 * within an allocation of weir_mem_alloc it is shared without copies; plain
 * memory of the process cannot be mapped by others (the handle then imports
 * with WEIR_ERR_UNSUPPORTED): collectives stage it, or let the kernel copy
 * from it where the system allows ranks to read each other. */
WEIR_API weir_status weir_mem_register(weir_comm *comm, void *pointer, size_t bytes,
                                       weir_mem **mem);
WEIR_API void *weir_mem_pointer(const weir_mem *mem);
/* Copies between the process's memory and a part of mem, wherever that is.
 * Local, blocking; not ordered with any stream: synchronise first.
 * WEIR_ERR_INVALID: the part is outside mem. */
WEIR_API weir_status weir_mem_write(weir_mem *mem, size_t offset_bytes, const void *from,
                                    size_t bytes);
WEIR_API weir_status weir_mem_read(const weir_mem *mem, size_t offset_bytes, void *to,
                                   size_t bytes);
WEIR_API size_t weir_mem_bytes(const weir_mem *mem);
/* 1 if peers can map it, 0 if it is staged. */
WEIR_API int weir_mem_shareable(const weir_mem *mem);
/* The handle serves channels over mapped memory, and over those networks (ib, tcp)
 * over which this rank has connected before. Local. WEIR_ERR_NO_MEMORY: the system
 * lets no more memory be registered with a network; the text names the remedy. */
WEIR_API weir_status weir_mem_export(const weir_mem *mem, weir_mem_handle *handle);
/* Maps a peer's memory into this process (one mapping an allocation, however
 * often it is imported). What cannot be mapped but was exported for a network serves
 * port channels, and weir_mem_pointer is NULL. Local. Free with weir_mem_free.
 * WEIR_ERR_PEER: its owner is gone; WEIR_ERR_INVALID: no handle of this job. */
WEIR_API weir_status weir_mem_import(weir_comm *comm, const weir_mem_handle *handle,
                                     weir_mem **mem);
/* Handles over the bootstrap: to one peer, from one peer (local, matched), and
 * among all (collective; mems has nranks entries, the own one is mem itself,
 * and is written on success only). With mem NULL, WEIR_ERR_INVALID at both ends. */
WEIR_API weir_status weir_mem_send(weir_comm *comm, const weir_mem *mem, int peer, int tag);
WEIR_API weir_status weir_mem_recv(weir_comm *comm, int peer, int tag, weir_mem **mem);
WEIR_API weir_status weir_mem_exchange(weir_comm *comm, weir_mem *mem, weir_mem **mems);
/* A promise: whenever allreduce, allgather or alltoall of its communicator is given
 * an output within mem, all ranks give theirs at the same offset of theirs, and for
 * allreduce all of them work in place or none does. Copy engines of GPUs then serve
 * large calls; on the host nothing changes. Collective, blocking. It lasts until mem is
 * freed. WEIR_ERR_MISMATCH: the ranks' sizes differ; WEIR_ERR_INVALID: mem is not
 * weir_mem_alloc's or registered. A call that breaks the promise ends with
 * WEIR_ERR_ABORTED, or by its deadline. */
WEIR_API weir_status weir_mem_symmetric(weir_mem *mem);
/* Local. Peers must have stopped using it. NULL is allowed. */
WEIR_API void weir_mem_free(weir_mem *mem);

/* ---------------------------------------- connections, semaphores, channels */

/* A path to one peer over one transport. */
typedef struct weir_conn weir_conn;

/* Both ends call it with the same tag. Blocks until the peer has answered. auto is
 * mapped memory where there is any, else a network. WEIR_ERR_UNSUPPORTED: the
 * transport does not reach that peer. Owned by the caller; free with weir_conn_free
 * after the channels on it. */
WEIR_API weir_status weir_connect(weir_comm *comm, int peer, int tag, weir_transport transport,
                                  weir_conn **conn);
WEIR_API weir_transport weir_conn_transport(const weir_conn *conn);
WEIR_API int weir_conn_peer(const weir_conn *conn);
WEIR_API void weir_conn_free(weir_conn *conn);
WEIR_API const char *weir_transport_name(weir_transport transport);

/* A monotonic counter in each end's memory: the peer advances it, the owner
 * waits on it. It starts at zero and is never reset. Both ends of the
 * connection create it, in the same order; blocks until both have. */
typedef struct weir_sem weir_sem;
WEIR_API weir_status weir_sem_create(weir_conn *conn, weir_sem **sem);
/* Local. The peer must have made its last signal: it writes into this end's
 * memory, which goes to the next semaphore. NULL is allowed. */
WEIR_API void weir_sem_free(weir_sem *sem);

/* The plain data that a kernel uses; see weir/device.h. */
struct weir_memchan_dev;

/* A memory channel: the peer's memory is mapped here and the caller itself
 * stores, loads and signals. remote is the peer's registered memory (imported),
 * local the caller's own, packets (may be NULL) the caller's own memory where
 * packets of the peer arrive. Local. All three stay the caller's and must
 * outlive the channel. */
typedef struct weir_memchan weir_memchan;
WEIR_API weir_status weir_memchan_create(weir_sem *sem, const weir_mem *remote,
                                         const weir_mem *local, const weir_mem *packets,
                                         weir_memchan **chan);
/* The kernel's view; owned by the channel, at a stable address, which on the
 * cuda backend is in device memory. */
WEIR_API struct weir_memchan_dev *weir_memchan_device(weir_memchan *chan);
WEIR_API void weir_memchan_free(weir_memchan *chan);

/* A switch channel: one operation on the same offset of a group of ranks' memory. It works by
 * loads and stores of each member's memory; hardware that does it within the network could
 * stand behind the same calls. members: one registered memory for each rank of the group,
 * equally long, mapped here (as weir_mem_exchange gives them), in the order in which a reduction
 * combines them, which is the same on all ranks; they stay the caller's and must outlive the
 * channel. Local. At most 64. Who else reads or writes there is the caller's to order, with
 * the signals of memory channels. WEIR_ERR_INVALID: lengths differ; WEIR_ERR_UNSUPPORTED: a
 * member is not mapped here. */
typedef struct weir_switchchan weir_switchchan;
struct weir_switchchan_dev;
WEIR_API weir_status weir_switchchan_create(weir_comm *comm, weir_mem *const *members, int count,
                                            weir_switchchan **chan);
/* The kernel's view; owned by the channel, at a stable address, which on the cuda
 * backend is in device memory. */
WEIR_API struct weir_switchchan_dev *weir_switchchan_device(weir_switchchan *chan);
/* Host backend: to = the reduction of count elements at offset_bytes of every member, and
 * every member's bytes at offset_bytes become those of from. to and from may lie within the
 * members' memory, where they are the same bytes of one of them or do not overlap. Local,
 * blocking. WEIR_AVG divides by the number of members. WEIR_ERR_INVALID: it ends behind the
 * members' memory; WEIR_ERR_UNSUPPORTED: the cuda backend, where kernels do it. */
WEIR_API weir_status weir_switchchan_reduce(weir_switchchan *chan, void *to, size_t offset_bytes,
                                            size_t count, weir_dtype dtype, weir_op op);
WEIR_API weir_status weir_switchchan_broadcast(weir_switchchan *chan, size_t offset_bytes,
                                               const void *from, size_t bytes);
WEIR_API void weir_switchchan_free(weir_switchchan *chan);

/* ------------------------------------------------------ proxy, port channels */

/*
 * A proxy is a thread of this process that moves data for those who cannot or should
 * not do so themselves: kernels, and threads with better things to do. They push
 * triggers into its FIFO (weir/port_device.h), mostly by way of a port channel.
 *
 * A kernel that waits for its proxy must not be running when CUDA loads another one, at
 * that one's first launch: CUDA then waits for the kernel, and the proxy for CUDA. Load
 * kernels beforehand (cudaFuncGetAttributes, or CUDA_MODULE_LOADING=EAGER).
 */
typedef struct weir_proxy weir_proxy;
struct weir_trigger;
struct weir_fifo_dev;

/* Handles a custom trigger, in the proxy's thread; anything but WEIR_OK ends the proxy
 * and aborts the communicator. It must not block. */
typedef weir_status (*weir_trigger_handler)(void *argument, const struct weir_trigger *trigger);

typedef struct weir_proxy_config {
    unsigned fifo_slots; /* triggers under way; rounded up to a power of two; 0: 512 */
    int cpu;             /* 1 + the processor that the thread runs on; 0: those that this process
                            may use and that are near its GPU or network card */
    int stop_timeout_ms; /* how long a stop waits for what is under way; 0: as all waits */
    weir_trigger_handler handler; /* of custom triggers; may be NULL */
    void *argument;
} weir_proxy_config;

/* Local. config may be NULL. The communicator must outlive the proxy. Does not start it. */
WEIR_API weir_status weir_proxy_create(weir_comm *comm, const weir_proxy_config *config,
                                       weir_proxy **proxy);
/* Starts the thread. Local. It polls for a while after the last trigger, and then sleeps
 * until a host thread pushes one or a network has something; to see the triggers of
 * kernels, which wake nobody, it naps, up to 10 ms once it was idle for long.
 * WEIR_ERR_INVALID: it runs. */
WEIR_API weir_status weir_proxy_start(weir_proxy *proxy);
/* Wakes the thread before a kernel is launched that will need it. Local, any thread. */
WEIR_API void weir_proxy_wake(weir_proxy *proxy);
/* How the proxy does: WEIR_OK, or what ended it, with its text as the last error. Local,
 * any thread. Every failure has aborted the communicator. */
WEIR_API weir_status weir_proxy_status(weir_proxy *proxy);
/* Carries out all triggers that were pushed before, waits for what they moved to arrive,
 * and ends the thread. Local, blocking; kernels that push triggers have ended. It may be
 * started again. WEIR_ERR_TIMEOUT: something was still under way at the deadline, the
 * text says what; otherwise as weir_proxy_status. */
WEIR_API weir_status weir_proxy_stop(weir_proxy *proxy);
/* Stops it if it runs. Channels on it must be gone. NULL is allowed. */
WEIR_API void weir_proxy_free(weir_proxy *proxy);
/* The FIFO for custom triggers: the producers' view, owned by the proxy, on the cuda
 * backend in device memory and for kernels only. */
WEIR_API struct weir_fifo_dev *weir_proxy_fifo(weir_proxy *proxy);

/* A port channel: the proxy copies from local, this rank's memory, to remote, the
 * peer's (imported), over the connection of sem, and signals. Local. All four must
 * outlive it; a connection has one proxy. Several channels may share a semaphore: their
 * signals are then told by their number alone. On the cuda backend no kernel that needs
 * the proxy is running. WEIR_ERR_UNSUPPORTED: remote was exported before the connection
 * was made, or the memory cannot be registered with its network. */
typedef struct weir_portchan weir_portchan;
struct weir_portchan_dev;
WEIR_API weir_status weir_portchan_create(weir_proxy *proxy, weir_sem *sem, const weir_mem *remote,
                                          const weir_mem *local, weir_portchan **chan);
/* The caller's view; owned by the channel, at a stable address, which on the cuda
 * backend is in device memory. */
WEIR_API struct weir_portchan_dev *weir_portchan_device(weir_portchan *chan);
/* All that it was asked for is done (flush, or the proxy's end). NULL is allowed. */
WEIR_API void weir_portchan_free(weir_portchan *chan);

/* ------------------------------------------------------------- collectives */

/*
 * Every rank of comm calls every collective, in the same order, with the same count, data type,
 * operation and root; for alltoallv and sendrecv the counts must match pairwise. Counts are in
 * elements. Any count, 0 included, and any alignment is allowed. in and out are either equal,
 * where the function's comment says "in place", or do not overlap.
 *
 * Host backend: the call blocks until out is complete and in may be written again; stream is
 * NULL. CUDA backend: the buffers are memory of the communicator's GPU, and undersized ones are
 * rejected; the call enqueues work on stream, which may be captured in a graph, and returns
 * without waiting for it. Two calls on one communicator must not overlap: a caller that uses
 * several streams or graphs makes each of them wait for the previous one (libweir_nccl.so does
 * this itself). Between nodes, a call on GPU buffers blocks, cannot be captured in a graph, and
 * the host moves the data.
 *
 * Reductions combine contributions in rank order 0, 1, ... n-1 and leave the same bits on every
 * rank and in every run of a call, except that
 *   "ring"   promises no bits (weir_algo_info.reproducible is 0),
 *   "chain"  (reduce on GPUs) ends with the root's: root + 1, ... n-1, 0, ... root,
 *   "rails"  (between nodes) combines each node's ranks in order, rounds, and combines the nodes
 *            in the order of their first ranks.
 *
 * Thread safety: one thread at a time per communicator.
 *
 * Errors: WEIR_ERR_INVALID for arguments that are wrong on this rank; WEIR_ERR_MISMATCH if the
 * counts of a pair differ (alltoallv, sendrecv); WEIR_ERR_TIMEOUT; WEIR_ERR_ABORTED;
 * WEIR_ERR_PEER. After any of the last four the communicator is aborted.
 */

/* X(symbol, name) */
#define WEIR_COLLECTIVE_MAP(X)                                                 \
    X(ALLREDUCE, "allreduce")                                                  \
    X(REDUCE_SCATTER, "reduce_scatter")                                        \
    X(ALLGATHER, "allgather")                                                  \
    X(BROADCAST, "broadcast")                                                  \
    X(REDUCE, "reduce")                                                        \
    X(ALLTOALL, "alltoall")                                                    \
    X(ALLTOALLV, "alltoallv")                                                  \
    X(SENDRECV, "sendrecv")

typedef enum weir_collective {
#define WEIR_COLLECTIVE_ENUM(symbol, name) WEIR_COLL_##symbol,
    WEIR_COLLECTIVE_MAP(WEIR_COLLECTIVE_ENUM)
#undef WEIR_COLLECTIVE_ENUM
    WEIR_COLL_COUNT
} weir_collective;

/* "allreduce"; static storage. Local. */
WEIR_API const char *weir_collective_name(weir_collective collective);

/* Counts and displacements of alltoallv, in elements: arrays with one entry for each rank.
 * They stay the caller's. */
typedef struct weir_splits {
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
} weir_splits;

/* The same, read when the call runs rather than when it is made: in device memory of this rank's
 * GPU on the CUDA backend, in memory of the process on the host. See weir_alltoallv_device. */
typedef struct weir_device_splits {
    const uint64_t *send_counts, *send_displs, *recv_counts, *recv_displs;
} weir_device_splits;

/*
 * One call of a collective, as one rank makes it. The same struct travels from the caller to the
 * algorithm: weir_run and weir_algo_execute take it, the named functions below fill it, and the
 * callbacks of custom algorithms (weir/algo.h) receive it.
 *
 * Start from WEIR_CALL_INIT, which sets size and leaves everything else at its default, and set
 * what the collective needs. The call and what it points to stay the caller's and must not change
 * until the function that takes it returns; device_splits has its own rule.
 */
typedef struct weir_call {
    size_t size;                /* sizeof(weir_call), as the caller was compiled */
    weir_collective collective;
    weir_dtype dtype;
    weir_op op;                 /* allreduce, reduce_scatter, reduce */
    int root;                   /* broadcast, reduce: a rank */
    int destination, source;    /* sendrecv: a rank, or -1 for none */
    const void *in;
    void *out;
    size_t count;               /* elements, as in the named functions; sendrecv: those sent */
    size_t recv_count;          /* sendrecv: elements to be received */
    weir_stream stream;         /* CUDA backend: a cudaStream_t; host: NULL */
    const weir_splits *splits;                /* alltoallv: one of the two */
    const weir_device_splits *device_splits;
    size_t in_bytes, out_bytes; /* lengths of the buffers; needed with device_splits and by
                                   plans, else derived from the counts where both are 0 */
    const char *algo_name;      /* a built-in algorithm, on GPUs perhaps with its grid:
                                   "packet", "packet:16x64"; NULL: the tuning table selects */
    struct weir_algo *algo;     /* any algorithm object (weir/algo.h), in place of algo_name */
    int blocks, threads;        /* CUDA backend: the grid of algo; 0: the algorithm's own */
    const struct weir_algo_extra *extras; /* arguments of custom algorithms; may be NULL */
    struct weir_executor *executor;       /* plans (weir/plan.h) */
    weir_mem *scratch;          /* what the callbacks of custom algorithms get from their
                                   collection; callers leave it NULL */
} weir_call;

#define WEIR_CALL_INIT                                                                             \
    {                                                                                              \
        sizeof(weir_call), WEIR_COLL_ALLREDUCE, WEIR_INT8, WEIR_SUM, 0, -1, -1, NULL, NULL, 0, 0,  \
            NULL, NULL, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL                             \
    }

/* Runs a call: what every named function below does. Collective; blocking on the host backend,
 * enqueued on call->stream on the CUDA backend. An algorithm that the call names serves this call
 * alone and must be the same on every rank. Errors: as above; WEIR_ERR_INVALID also for a wrong
 * size and for an unknown algorithm, with the known names; WEIR_ERR_UNSUPPORTED for an algorithm
 * of another backend. */
WEIR_API weir_status weir_run(weir_comm *comm, const weir_call *call);

/* in, out: count elements. In place: in == out. */
WEIR_API weir_status weir_allreduce(weir_comm *comm, const void *in, void *out, size_t count,
                                    weir_dtype dtype, weir_op op, weir_stream stream);
/* in: nranks * count elements; out: count. In place: out == in + rank * count. */
WEIR_API weir_status weir_reduce_scatter(weir_comm *comm, const void *in, void *out, size_t count,
                                         weir_dtype dtype, weir_op op, weir_stream stream);
/* in: count elements; out: nranks * count. In place: in == out + rank * count. */
WEIR_API weir_status weir_allgather(weir_comm *comm, const void *in, void *out, size_t count,
                                    weir_dtype dtype, weir_stream stream);
/* count elements; in is read on root only, out is written everywhere. In
 * place: in == out. */
WEIR_API weir_status weir_broadcast(weir_comm *comm, const void *in, void *out, size_t count,
                                    weir_dtype dtype, int root, weir_stream stream);
/* count elements; out is written on root only. In place: in == out on root. */
WEIR_API weir_status weir_reduce(weir_comm *comm, const void *in, void *out, size_t count,
                                 weir_dtype dtype, weir_op op, int root, weir_stream stream);
/* in, out: nranks * count elements, block r for/from rank r. Out of place. */
WEIR_API weir_status weir_alltoall(weir_comm *comm, const void *in, void *out, size_t count,
                                   weir_dtype dtype, weir_stream stream);
/* Arrays of nranks counts and displacements, in elements. Out of place. */
WEIR_API weir_status weir_alltoallv(weir_comm *comm, const void *in, const size_t *send_counts,
                                    const size_t *send_displs, void *out,
                                    const size_t *recv_counts, const size_t *recv_displs,
                                    weir_dtype dtype, weir_stream stream);
/*
 * alltoallv whose counts the host need not know. The four arrays, of nranks numbers, in elements,
 * lie in device memory of this rank's GPU (CUDA backend) or in the process's memory (host
 * backend), and are read when the stream reaches the call, so that a captured call follows what
 * was written into them before each replay. They must not change while the call runs. There is
 * no exchange beforehand, no wait on the host and no allocation. in_bytes and out_bytes are the
 * lengths of in and out: a split that extends past its buffer is not transferred. A tight length
 * also lets a small grid serve a small call. Displacements of empty splits are ignored. Between
 * nodes: WEIR_ERR_UNSUPPORTED on GPU buffers.
 *
 * Errors in the counts are found where the counts are, and nothing is then written outside of
 * out: WEIR_ERR_INVALID on a rank with a split that extends past its buffer, WEIR_ERR_MISMATCH
 * on a rank that is sent another count than it expects (also by a rank whose split was rejected).
 * The communicator is aborted. The host backend returns the error from this call; on the CUDA
 * backend weir_comm_check reports it once the stream has reached the call, or the next call does.
 */
WEIR_API weir_status weir_alltoallv_device(weir_comm *comm, const void *in, size_t in_bytes,
                                           const uint64_t *send_counts,
                                           const uint64_t *send_displs, void *out,
                                           size_t out_bytes, const uint64_t *recv_counts,
                                           const uint64_t *recv_displs, weir_dtype dtype,
                                           weir_stream stream);
/* Every rank sends to one rank and receives from one; -1 for none. Out of
 * place. */
WEIR_API weir_status weir_sendrecv(weir_comm *comm, const void *in, size_t send_count,
                                   int destination, void *out, size_t recv_count, int source,
                                   weir_dtype dtype, weir_stream stream);

/* -------------------------------------------------------------- algorithms */

/* Where an algorithm runs. */
typedef enum weir_algo_backend {
    WEIR_ALGO_HOST,      /* memory of the process, ranks of one node */
    WEIR_ALGO_CUDA,      /* GPU memory, ranks of one node */
    WEIR_ALGO_INTERNODE, /* ranks of several nodes, either memory */
    WEIR_ALGO_BACKENDS
} weir_algo_backend;

/* "host", "cuda", "net"; static storage. */
WEIR_API const char *weir_algo_backend_name(weir_algo_backend backend);
/* The backend whose algorithms serve the communicator. Local. */
WEIR_API weir_algo_backend weir_comm_algo_backend(const weir_comm *comm);

/* How often a reduction rounds an 8- or 16-bit floating-point result, which accumulates in float
 * within one step; float and double round in every addition. */
typedef enum weir_rounding {
    WEIR_ROUNDING_ONCE,     /* after all contributions */
    WEIR_ROUNDING_PER_NODE, /* each node's partial result, and their combination */
    WEIR_ROUNDING_PER_RANK  /* up to once for each rank: partial results pass through memory */
} weir_rounding;

/* One row of the algorithm table. Strings are static. */
typedef struct weir_algo_info {
    weir_collective collective;
    const char *name;          /* as --algo, weir_comm_set_algo and weir_call.algo_name take it */
    weir_algo_backend backend;
    const char *summary;       /* one line */
    int min_ranks, max_ranks;
    weir_rounding rounding;    /* of reductions */
    int reproducible;          /* 1: every rank gets the same bits, in every run of a call; 0: that
                                  is not promised */
} weir_algo_info;

/* The table of this build. Local; static storage. */
WEIR_API const weir_algo_info *weir_algo_list(size_t *count);
/* The row of a name, which may have a grid ("packet:16x64"); NULL if there is none. Local. */
WEIR_API const weir_algo_info *weir_algo_info_find(weir_algo_backend backend,
                                                   weir_collective collective, const char *name);
/* Makes comm use the named algorithm for a collective wherever its limits allow, on GPUs perhaps
 * with a grid of blocks x threads ("packet:16x64"); "auto" returns to selection by the tuning
 * table. Local, not blocking; every rank must make the same call between the same collectives.
 * WEIR_ERR_INVALID lists the known names. */
WEIR_API weir_status weir_comm_set_algo(weir_comm *comm, weir_collective collective,
                                        const char *name);
/* The algorithm of the last collective on comm, with its grid if a table, weir_comm_set_algo or
 * the call gave one ("packet:16x64"); "none" before the first call. Valid until the next call on
 * comm. Local. */
WEIR_API const char *weir_comm_last_algo(const weir_comm *comm);

#ifdef __cplusplus
}
#endif

#endif
