/*
 * weir: communication channels and collective kernels. This is the main public header.
 *
 * Conventions. Each comment below relies on them:
 *
 * Status      Functions return WEIR_OK (0) or a negative weir_status. After a failure
 *             weir_last_error() returns one line for the calling thread that says what failed,
 *             on which rank or object, what was expected and what to do. Output parameters come
 *             last and are written on success only.
 * Errors      Any function may return WEIR_ERR_INVALID for a NULL or out-of-range argument,
 *             WEIR_ERR_NO_MEMORY and WEIR_ERR_SYSTEM. Comments list the other errors, and these
 *             where they have a particular meaning.
 * Local       The calling rank alone executes the call; it does not communicate. Functions are
 *             local and non-blocking unless their comment says otherwise.
 * Collective  Every rank of the communicator (or bootstrap) must make the call, and all ranks
 *             must make their collective calls in the same order. Collective calls block unless
 *             their comment says otherwise. Every wait has a deadline (timeout_ms).
 * Threads     Different handles may be used by different threads at the same time. Calls on one
 *             handle, and on handles created from it, must not overlap, except those that are
 *             marked thread-safe. Functions that take no handle are thread-safe.
 * Ownership   A created object belongs to the caller and is released with the function that its
 *             comment names. Objects passed in stay the caller's and must outlive what was
 *             created from them. Returned strings have static storage unless stated otherwise.
 * Units       Names that end in _bytes, _ms, _us or _ns carry their unit; a plain count counts
 *             elements.
 * Node        One host of the job. Ranks of one node map each other's memory; ranks of different
 *             nodes communicate over a network. The environment variable WEIR_HOSTID can divide
 *             one host into several nodes.
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

#if defined(__CUDACC_RTC__) /* kernels compiled at run time do not link the library */
#define WEIR_API
#else
#define WEIR_API __attribute__((visibility("default")))
#endif

/* Limits. Calls beyond them fail with WEIR_ERR_UNSUPPORTED. */
enum {
    WEIR_RANKS_MAX = 4096,  /* ranks of a communicator */
    WEIR_GPU_RANKS_MAX = 8, /* ranks of one node in a communicator of the cuda backend */
};

/* ------------------------------------------------------------------ status */

/* Result of a call. Values are stable. weir_status_exit_code maps each to the exit code of a
 * program that ends because of it. */
typedef enum weir_status {
    WEIR_OK = 0,               /* success */
    WEIR_ERR_INVALID = -1,     /* invalid argument or environment variable */
    WEIR_ERR_UNSUPPORTED = -2, /* valid, but not supported by this build, node or object */
    WEIR_ERR_MISMATCH = -3,    /* ranks passed arguments that contradict each other */
    WEIR_ERR_SYSTEM = -4,      /* the operating system, MPI, CUDA or a network reported an error */
    WEIR_ERR_NO_MEMORY = -5,   /* memory or an address range could not be allocated */
    WEIR_ERR_REFUSED = -6,     /* a peer refused the connection */
    WEIR_ERR_PEER = -7,        /* a peer process has ended */
    WEIR_ERR_TIMEOUT = -8,     /* a deadline passed */
    WEIR_ERR_ABORTED = -9,     /* the communicator was aborted */
    WEIR_ERR_INTERNAL = -10    /* a defect of weir */
} weir_status;

/* Returns the symbol ("WEIR_ERR_TIMEOUT"), or "WEIR_ERR_UNKNOWN" for any other value. */
WEIR_API const char *weir_status_name(weir_status status);
/* Returns a short description ("a deadline passed"). */
WEIR_API const char *weir_status_text(weir_status status);
/* Returns the exit code for a program that ends because of status: 0 success, 2 usage, 3 system
 * or environment, such as a peer process that has ended, 4 a deadline passed or the communicator
 * was aborted. */
WEIR_API int weir_status_exit_code(weir_status status);
/* Returns the description of the calling thread's latest failure: one line, never NULL, valid
 * until the thread's next failing call. */
WEIR_API const char *weir_last_error(void);
/* Returns version, compiler and build: "weir 0.1.0 (12.2.0, release)". */
WEIR_API const char *weir_version_string(void);
/* Lists the environment variables that weir reads. Writes one line each into text, truncated to
 * `bytes` including the terminating NUL, and returns the full length without it. */
WEIR_API int weir_env_help(char *text, size_t bytes);

/* ------------------------------------------------- data types and operations */

/* Data types of elements. The comments give the name that weir_dtype_name returns and the size. */
typedef enum weir_dtype {
    WEIR_INT8,     /* "int8", 1 byte */
    WEIR_UINT8,    /* "uint8", 1 byte */
    WEIR_INT32,    /* "int32", 4 bytes */
    WEIR_UINT32,   /* "uint32", 4 bytes */
    WEIR_INT64,    /* "int64", 8 bytes */
    WEIR_UINT64,   /* "uint64", 8 bytes */
    WEIR_HALF,     /* "half", 2 bytes: IEEE binary16 */
    WEIR_FLOAT,    /* "float", 4 bytes */
    WEIR_DOUBLE,   /* "double", 8 bytes */
    WEIR_BFLOAT16, /* "bfloat16", 2 bytes */
    WEIR_FP8_E4M3, /* "f8e4m3", 1 byte: no infinity, largest finite value 448 */
    WEIR_FP8_E5M2, /* "f8e5m2", 1 byte: largest finite value 57344 */
    WEIR_DTYPE_COUNT
} weir_dtype;

/*
 * Reduction operations.
 *
 * Integers wrap modulo 2^bits; the average of integers is that wrapped sum divided by the number
 * of ranks, rounded towards zero. half, bfloat16 and both fp8 types accumulate in float over all
 * ranks of one reduction step and are rounded once, to nearest even. fp8 results saturate at the
 * largest finite value, infinities included. NaN stays NaN, with any sign and payload. Subnormal
 * numbers and the sign of zero are preserved. max and min return NaN if any input is NaN, and
 * either of two zeros. The calling thread's floating-point environment (rounding mode,
 * flush-to-zero, exceptions that trap) changes no result, traps nowhere, and is kept.
 */
typedef enum weir_op {
    WEIR_SUM,  /* "sum" */
    WEIR_PROD, /* "prod" */
    WEIR_MAX,  /* "max" */
    WEIR_MIN,  /* "min" */
    WEIR_AVG,  /* "avg": the sum divided by the number of ranks */
    WEIR_OP_COUNT
} weir_op;

/* Returns the size of one element in bytes; 0 for an invalid dtype. */
WEIR_API size_t weir_dtype_bytes(weir_dtype dtype);
/* Returns the name that nccl-tests uses ("float", "f8e4m3"); NULL for an invalid dtype. */
WEIR_API const char *weir_dtype_name(weir_dtype dtype);
/* Returns the name of an operation ("sum"); NULL for an invalid op. */
WEIR_API const char *weir_op_name(weir_op op);
/* Converts a name to its value. WEIR_ERR_INVALID if the name is unknown; the error line lists the
 * known names. */
WEIR_API weir_status weir_dtype_parse(const char *name, weir_dtype *dtype);
WEIR_API weir_status weir_op_parse(const char *name, weir_op *op);

/* The queue that orders work on a GPU: a cudaStream_t. On the host backend it is NULL, and calls
 * block until the caller's buffers are complete. */
typedef void *weir_stream;

/* --------------------------------------------------------------- bootstrap */

/*
 * A bootstrap is the control plane of a job: it connects a fixed set of ranks and exchanges small
 * messages between them. Implementations of this library: TCP (by a unique id, an address, or what
 * torchrun, Slurm or PMIx say), fork, and MPI (weir/mpi.h). A caller may provide another one as an
 * ops table.
 */
typedef struct weir_boot weir_boot;

/* The operations of a bootstrap. Every operation gets the context of weir_boot_create and may be
 * called by one thread at a time. */
typedef struct weir_boot_ops {
    /* The implementation's name ("tcp"); static storage. */
    const char *name;
    /* Collective. all has nranks x bytes; rank r's block is at r * bytes. The caller's own block
     * is filled in before the call, all blocks are on return. */
    weir_status (*allgather)(void *context, void *all, size_t bytes);
    /* Sends to, or receives from, one peer. May block until the peer makes the matching call.
     * Messages between one pair of ranks arrive in order; tag and bytes must be equal at both
     * ends, else WEIR_ERR_MISMATCH. */
    weir_status (*send)(void *context, const void *data, size_t bytes, int peer, int tag);
    weir_status (*recv)(void *context, void *data, size_t bytes, int peer, int tag);
    /* Collective. Returns once every rank has called it. */
    weir_status (*barrier)(void *context);
    /* Local. Frees context. Called once, by weir_boot_destroy. */
    void (*destroy)(void *context);
    /* Local. Sets the timeout of the waits of later operations; at least 1 ms. NULL if the
     * implementation has none that can be set. */
    void (*set_timeout)(void *context, int timeout_ms);
} weir_boot_ops;

/* Creates a bootstrap from an ops table. ops must outlive the bootstrap, which takes ownership of
 * context on success. Release with weir_boot_destroy. WEIR_ERR_INVALID if rank is outside
 * 0..nranks-1 or an operation is missing. */
WEIR_API weir_status weir_boot_create(const weir_boot_ops *ops, void *context, int rank, int nranks,
                                      weir_boot **boot);
/* Return the calling rank, the number of ranks, and the implementation's name, which lives as
 * long as the bootstrap. Thread-safe. */
WEIR_API int weir_boot_rank(const weir_boot *boot);
WEIR_API int weir_boot_nranks(const weir_boot *boot);
WEIR_API const char *weir_boot_name(const weir_boot *boot);
/* Perform the operation of the same name in weir_boot_ops: allgather and barrier are collective,
 * send and recv involve one peer and may block until it makes the matching call. Errors name the
 * peer: WEIR_ERR_TIMEOUT, WEIR_ERR_PEER, WEIR_ERR_SYSTEM; WEIR_ERR_MISMATCH if tag or bytes differ
 * at the two ends; WEIR_ERR_INVALID if peer is the calling rank. */
WEIR_API weir_status weir_boot_allgather(weir_boot *boot, void *all, size_t bytes);
WEIR_API weir_status weir_boot_send(weir_boot *boot, const void *data, size_t bytes, int peer,
                                    int tag);
WEIR_API weir_status weir_boot_recv(weir_boot *boot, void *data, size_t bytes, int peer, int tag);
WEIR_API weir_status weir_boot_barrier(weir_boot *boot);
/* Sets the timeout of the waits of later operations on this rank, instead of WEIR_TIMEOUT_MS; for
 * programs whose ranks work for longer than that between two operations. Local. WEIR_ERR_INVALID
 * if timeout_ms is below 1, WEIR_ERR_UNSUPPORTED if the implementation has no timeout. */
WEIR_API weir_status weir_boot_set_timeout(weir_boot *boot, int timeout_ms);
/* Agrees on an outcome. Collective. Every rank passes its own status and gets the worst status of
 * all ranks: the smallest value, of equal values that of the lowest rank. If that is an error, the
 * error line names the failing rank, and before it another one whose failure may be the cause of a
 * deadline, or of a loss. A failure of the exchange itself is returned as well. */
WEIR_API weir_status weir_boot_agree(weir_boot *boot, weir_status mine);
/* Destroys a bootstrap. Communicators created from it must have been destroyed. NULL is allowed.
 * Does nothing in a child that was forked from the process that created it. */
WEIR_API void weir_boot_destroy(weir_boot *boot);

#define WEIR_UNIQUE_ID_BYTES 128
/* Identifies one job: the rendezvous address and a random secret. Plain bytes; copy all of them
 * to every rank by any means. */
typedef struct weir_unique_id {
    char bytes[WEIR_UNIQUE_ID_BYTES];
} weir_unique_id;

/* Creates the unique id of one job. Its rendezvous server is a thread of the calling process on an
 * ephemeral TCP port, one for all unused ids. The process need not be a rank of the job, but must
 * live until all ranks have joined; the server ends with the last id. It listens on the interface
 * that WEIR_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME selects, else on the first usable one, loopback
 * last. Thread-safe. WEIR_ERR_SYSTEM if there is no usable interface or port, or the thread cannot
 * start; WEIR_ERR_INVALID if WEIR_SOCKET_IFNAME names no interface. */
WEIR_API weir_status weir_unique_id_create(weir_unique_id *id);
/* Creates a TCP bootstrap by joining the job of a unique id. Collective; blocks until all nranks
 * ranks have joined. Release with weir_boot_destroy. Connections that do not know the id's secret
 * are rejected and logged. WEIR_ERR_TIMEOUT after WEIR_TIMEOUT_MS; the error line names the
 * missing ranks. WEIR_ERR_PEER if the process that created the id has ended or the id was used
 * before: an id serves one bootstrap; WEIR_ERR_REFUSED if it was used and that process has other
 * unused ids. */
WEIR_API weir_status weir_boot_tcp_create(const weir_unique_id *id, int rank, int nranks,
                                          weir_boot **boot);
/* Creates a TCP bootstrap with the rendezvous at rank 0's address, given as "interface:ip:port" or
 * "ip:port" ("eth0:10.0.0.4:50000", "lo:[::1]:50000"); rank 0 listens there. Otherwise like
 * weir_boot_tcp_create. The only secret is WEIR_BOOT_SECRET, which must be equal on all ranks if
 * it is set. */
WEIR_API weir_status weir_boot_tcp_create_at(const char *interface_ip_port, int rank, int nranks,
                                             weir_boot **boot);
/* Creates a TCP bootstrap from the environment variables that torchrun sets: RANK, WORLD_SIZE,
 * MASTER_ADDR and MASTER_PORT. PyTorch's own store occupies MASTER_PORT, so rank 0 listens at the
 * next port, or at WEIR_BOOT_PORT. Otherwise like weir_boot_tcp_create_at. WEIR_ERR_INVALID if a
 * variable is missing or not a number. */
WEIR_API weir_status weir_boot_torchrun_create(weir_boot **boot);

/* Creates a TCP bootstrap of the tasks of a Slurm job step from the variables that srun sets:
 * SLURM_PROCID, SLURM_STEP_NUM_TASKS (else SLURM_NTASKS), SLURM_STEP_NODELIST, SLURM_JOB_ID and
 * SLURM_STEP_ID. Rank 0 must run on the first node of the list, as it does unless srun is given
 * another distribution. It listens at WEIR_BOOT_PORT, else at the step's first reserved port, else
 * at a port that follows from the numbers of the job and the step. Otherwise like
 * weir_boot_tcp_create_at. WEIR_ERR_INVALID if a variable is missing or malformed. */
WEIR_API weir_status weir_boot_slurm_create(weir_boot **boot);
/* Creates a TCP bootstrap of the processes that a PMIx launcher started (prterun, srun --mpi=pmix,
 * mpirun of Open MPI): rank 0 publishes a unique id through PMIx, which the others read.
 * Collective; blocks until all have joined. libpmix is loaded at run time, from WEIR_PMIX_SO.
 * Release with weir_boot_destroy. WEIR_ERR_SYSTEM if there is no libpmix or no PMIx server, or PMIx
 * reports an error; otherwise like weir_boot_tcp_create. */
WEIR_API weir_status weir_boot_pmix_create(weir_boot **boot);
/* Creates the bootstrap of the launcher that started this process, or of the one that WEIR_LAUNCHER
 * names (torchrun, mpi, pmix, slurm; none). *boot is NULL if there is no launcher, which is no
 * error: the program is one rank, or starts ranks itself. If the variables of several launchers are
 * set, the first of these decides: RANK and WORLD_SIZE of a worker of torchrun
 * (TORCHELASTIC_RUN_ID); Open MPI, MVAPICH, MPICH; PMIx; srun with more than one task; flux, jsrun,
 * PALS, ALPS; RANK and WORLD_SIZE alone. MPI is not needed: ranks of an MPI launcher on one node
 * exchange a unique id over a Unix socket that belongs to their launcher's job, even if
 * wrappers (timeout, a script) run them; others connect by PMIx, or by MPI if it is started.
 *
 * Collective; blocks until all ranks have joined. Release with weir_boot_destroy. WEIR_ERR_INVALID
 * if WEIR_LAUNCHER names no launcher, or RANK and WORLD_SIZE contradict another launcher's
 * variables; WEIR_ERR_UNSUPPORTED if only MPI can connect the ranks; otherwise like the functions
 * above. */
WEIR_API weir_status weir_boot_launcher_create(weir_boot **boot);

/* Runs body in nranks forked child processes, connected by a bootstrap over socket pairs; for
 * tests and programs that use one node. body gets the child's bootstrap, which it must not
 * destroy, and argument. Local; blocks until every child has ended. exit_codes (nranks entries,
 * may be NULL) gets each child's exit code: body's result, or 128 + the signal that ended it.
 * Once one has ended with a code other than 0, the others are killed if none ends for 5 seconds. If
 * the calling thread ends, for example by a signal, the children are killed as well. WEIR_OK means
 * that all children ended, whatever their codes. timeout_ms limits the life of the children, and so
 * the whole program that body is; 0: no limit. (The deadline of a wait for another rank is
 * weir_comm_config.timeout_ms.) WEIR_ERR_TIMEOUT if it passed; the remaining children are killed
 * then. WEIR_ERR_INVALID if it is negative. CUDA must not have been initialised before. */
WEIR_API weir_status weir_boot_fork_run(int nranks, int (*body)(weir_boot *boot, void *argument),
                                        void *argument, int timeout_ms, int *exit_codes);

/* ------------------------------------------------------------ communicator */

/* A communicator: a group of ranks that share memory or network connections, and the state of
 * their collectives.
 *
 * It belongs to the process that created it, as do its bootstrap and the objects created from it.
 * In a child that this process forks, calls on them return WEIR_ERR_INVALID, and calls without a
 * result do nothing; the parent's communicator is not affected. A child can create its own
 * communicator. Functions of device.h on semaphores and channels do not check this. */
typedef struct weir_comm weir_comm;

/* How bytes move between two ranks. */
typedef enum weir_transport {
    WEIR_TRANSPORT_AUTO,     /* "auto": chosen by the library */
    WEIR_TRANSPORT_SHM,      /* "shm": shared memory of one node */
    WEIR_TRANSPORT_CUDA_IPC, /* "cuda_ipc": GPU memory mapped by peers of the node */
    WEIR_TRANSPORT_IB,       /* "ib": InfiniBand or RoCE verbs */
    WEIR_TRANSPORT_TCP       /* "tcp": TCP sockets */
} weir_transport;

/* Where the buffers of a communicator's collectives are. */
typedef enum weir_backend {
    WEIR_BACKEND_HOST, /* "host": host memory */
    WEIR_BACKEND_CUDA, /* "cuda": memory of a GPU, one GPU for each rank */
    WEIR_BACKEND_AUTO  /* "auto": what the environment variable WEIR_BACKEND says; if that is unset
                          or "auto", cuda if every rank can have its own GPU, else host */
} weir_backend;

/* How many thread blocks the kernels of collectives take from other kernels of the GPU. */
typedef enum weir_block_policy {
    WEIR_BLOCKS_AUTO,       /* "auto": configuration: what the environment variable
                               WEIR_BLOCK_POLICY says, else default; call: the communicator's */
    WEIR_BLOCKS_DEFAULT,    /* "default": as many as are fastest */
    WEIR_BLOCKS_EFFICIENCY, /* "efficiency": at most 16 */
    WEIR_BLOCKS_ZERO        /* "zero": copy engines move the data of allgather, alltoall and
                               broadcast whose output is symmetric memory (weir_mem_symmetric); two
                               kernels of one block synchronise the ranks. Other calls are served
                               as with efficiency, which is logged once */
} weir_block_policy;

/* Configuration of a communicator. Initialise it with WEIR_COMM_CONFIG_INIT, then set fields:
 *
 *     weir_comm_config config = WEIR_COMM_CONFIG_INIT;
 *     config.timeout_ms = 5000;
 *
 * New versions may append fields. A structure of an older version gets the defaults for the
 * fields that it lacks. WEIR_ERR_INVALID if size is 0, or if it is larger than this version knows
 * and the unknown part is not all zero. */
typedef struct weir_comm_config {
    size_t size;          /* sizeof(weir_comm_config), set by WEIR_COMM_CONFIG_INIT */
    size_t scratch_bytes; /* library memory per rank for host collectives, rounded up to pages;
                             0: the default. WEIR_ERR_INVALID if too small for the ranks. Equal on
                             all ranks */
    int timeout_ms;       /* deadline of every wait; 0: WEIR_TIMEOUT_MS, else 30000 */
    weir_backend backend; /* default: WEIR_BACKEND_AUTO. Equal on all ranks */
    int device;           /* cuda: this rank's CUDA device number; -1: chosen by local rank */
    int invariant;        /* 1: reductions have bits that depend only on the contributions and the
                             number of ranks (see the collectives); 0: WEIR_INVARIANT, else off.
                             Equal on all ranks */
    int max_blocks;       /* cuda: the most thread blocks of a collective's kernel, so that other
                             kernels keep the remaining multiprocessors; 0: WEIR_MAX_BLOCKS, else
                             the algorithm's own number. Equal on all ranks */
    int min_blocks;       /* cuda: the least of them; max_blocks precedes it. 0: the algorithm's own
                             number. Equal on all ranks */
    weir_block_policy block_policy; /* cuda. Equal on all ranks */
} weir_comm_config;

#define WEIR_COMM_CONFIG_INIT                                                                      \
    {                                                                                              \
        sizeof(weir_comm_config), 0, 0, WEIR_BACKEND_AUTO, -1, 0, 0, 0, WEIR_BLOCKS_AUTO           \
    }

/* Creates a communicator of all ranks of boot. Collective; all ranks get the same status. config
 * may be NULL for the defaults. Release with weir_comm_destroy. WEIR_ERR_UNSUPPORTED if some ranks
 * have no transport in common, if there are more than WEIR_RANKS_MAX ranks, or if the cuda backend
 * was requested and cannot be used (no CUDA in this build, no GPU for some rank, more than
 * WEIR_GPU_RANKS_MAX ranks on a node); WEIR_ERR_NO_MEMORY if the scratch memory cannot be
 * allocated; WEIR_ERR_MISMATCH if configurations differ, or if ranks run different builds of weir:
 * other versions, or other sources. Builds of the same sources with and without CUDA, for debugging
 * or by another compiler work together. */
WEIR_API weir_status weir_comm_create(weir_boot *boot, const weir_comm_config *config,
                                      weir_comm **comm);

enum { WEIR_SPLIT_NONE = -1 }; /* the color of a rank that joins no new communicator */

/* Divides a communicator: ranks that pass the same color form a new communicator, in which they
 * are ordered by key, ranks of equal key by their rank in comm. Collective over comm, also for
 * ranks that pass WEIR_SPLIT_NONE: these get *created == NULL. config configures the new
 * communicator as in weir_comm_create, and may be NULL; ranks of different colors may pass
 * different ones. If it fails for the ranks of one color, that does not affect the others.
 *
 * comm remains valid, and either may be destroyed first. The new communicator sends its set-up
 * messages over comm's bootstrap, which must outlive it; a thread must not use that bootstrap,
 * directly or through a communicator, while another thread does. Release with weir_comm_destroy.
 * WEIR_ERR_INVALID on all ranks of comm if any color is below WEIR_SPLIT_NONE; otherwise the
 * errors of weir_comm_create. */
WEIR_API weir_status weir_comm_split(weir_comm *comm, int color, int key,
                                     const weir_comm_config *config, weir_comm **created);

/* Destroys a communicator. Collective; waits until this rank's work on its GPU has ended and every
 * rank has called it, so that no peer still uses this rank's memory. Objects created from comm
 * must have been freed. comm is freed whatever is returned; NULL is allowed. WEIR_ERR_TIMEOUT or
 * WEIR_ERR_PEER if some ranks did not call it: they may still use memory that was freed here, and
 * their accesses to it fail or read stale data. WEIR_ERR_ABORTED if the communicator was aborted;
 * then the call does not wait for other ranks. */
WEIR_API weir_status weir_comm_destroy(weir_comm *comm);
/* Aborts a communicator: every wait of every rank ends with WEIR_ERR_ABORTED. An aborted
 * communicator can only be queried and destroyed. Local, non-blocking, thread-safe at any time
 * before weir_comm_destroy. NULL is allowed. */
WEIR_API void weir_comm_abort(weir_comm *comm);

/* The functions from here to weir_comm_scratch_bytes return constant properties of a
 * communicator. They are local and thread-safe. */

/* Return the calling rank and the number of ranks. */
WEIR_API int weir_comm_rank(const weir_comm *comm);
WEIR_API int weir_comm_nranks(const weir_comm *comm);
/* Return the number of nodes, the number of ranks on this node, and this rank's index among
 * them. */
WEIR_API int weir_comm_nnodes(const weir_comm *comm);
/* Returns 1 if reductions have the same bits at every size: weir_comm_config.invariant. Local. */
WEIR_API int weir_comm_is_invariant(const weir_comm *comm);
WEIR_API int weir_comm_local_nranks(const weir_comm *comm);
WEIR_API int weir_comm_local_rank(const weir_comm *comm);
/* Returns the bootstrap that comm was created from; for a split communicator, a bootstrap
 * that comm owns. */
WEIR_API weir_boot *weir_comm_boot(const weir_comm *comm);
/* Returns the backend in use: WEIR_BACKEND_HOST or WEIR_BACKEND_CUDA. */
WEIR_API weir_backend weir_comm_backend(const weir_comm *comm);
/* Returns the name of a backend ("host"); NULL for an invalid value. */
WEIR_API const char *weir_backend_name(weir_backend backend);
/* Returns the name of a policy of thread blocks ("zero"); NULL for an invalid value. */
WEIR_API const char *weir_block_policy_name(weir_block_policy policy);
/* Returns the CUDA device number of this rank; -1 on the host backend. */
WEIR_API int weir_comm_device(const weir_comm *comm);
/* Returns the transport of the communicator's collectives: between nodes, if there are several. */
WEIR_API weir_transport weir_comm_transport(const weir_comm *comm);
/* Returns 1 if the ranks on this node outnumber the cores that they may use, else 0. Tuning tables
 * call that "shared". */
WEIR_API int weir_comm_shares_cores(const weir_comm *comm);
/* Returns the bytes of library memory that this rank holds beyond its callers' buffers. */
WEIR_API size_t weir_comm_scratch_bytes(const weir_comm *comm);

/* Records what this rank is doing, for weir_comm_report: a phase in a few words, of which the
 * first 32 bytes count, and a number. phase must have static storage; a repeated address is taken
 * for the same text, so that the call is a single store while the phase does not change. comm may
 * be NULL, which does nothing. */
WEIR_API void weir_comm_note(weir_comm *comm, const char *phase, uint64_t iteration);
/* Checks the health of a communicator. Local, non-blocking, thread-safe. WEIR_ERR_PEER if a
 * rank's process has ended; WEIR_ERR_ABORTED; WEIR_ERR_TIMEOUT if a rank is stopped (SIGSTOP) or
 * a kernel of this rank reached its deadline; WEIR_ERR_MISMATCH or WEIR_ERR_INVALID if a kernel of
 * this rank found wrong counts. */
WEIR_API weir_status weir_comm_check(weir_comm *comm);
/* Describes the state of every rank: one line per rank, in rank order, with whether it is stopped
 * or dead, its latest weir_comm_note, its latest collective, and during a long wait the peer that
 * it waits for with the value expected and the value seen. Writes at most `bytes` into text
 * including the terminating NUL, and returns the full length without it. Local, thread-safe. After
 * an abort it waits up to half a second for running ranks to report their final state. */
WEIR_API int weir_comm_report(weir_comm *comm, char *text, size_t bytes);
/* Writes the text of weir_comm_report to a file descriptor, from one rank only: the first one that
 * calls it. The others wait until it has been written, at most two seconds, so that their
 * processes may exit afterwards. Returns 1 if this call wrote the report, else 0. Thread-safe. */
WEIR_API int weir_comm_report_once(weir_comm *comm, int fd);
/* Blocks until every rank has called it. Collective. WEIR_ERR_TIMEOUT, WEIR_ERR_PEER,
 * WEIR_ERR_ABORTED; afterwards the communicator is aborted. */
WEIR_API weir_status weir_comm_barrier(weir_comm *comm);

/* ------------------------------------------------------- registered memory */

/* A buffer that peers can address. Each belongs to one communicator, which must outlive it. */
typedef struct weir_mem weir_mem;

#define WEIR_MEM_HANDLE_BYTES 256
/* A serialised reference to registered memory: plain bytes, valid in any process of the job for
 * as long as the memory lives. */
typedef struct weir_mem_handle {
    unsigned char bytes[WEIR_MEM_HANDLE_BYTES];
} weir_mem_handle;

/* Allocates registered memory: on this rank's GPU for the cuda backend, else in memory of the
 * process. Collectives use it without staging. Zeroed and page aligned; bytes may be 0. Local.
 * Release with weir_mem_free. WEIR_ERR_NO_MEMORY if the memory cannot be reserved at once; later
 * accesses do not fail. */
WEIR_API weir_status weir_mem_alloc(weir_comm *comm, size_t bytes, weir_mem **mem);
/* Registers memory of the caller, the bytes from pointer on, so that a handle can describe it. It
 * stays the caller's and must outlive mem. Local. Release with weir_mem_free. Memory within an
 * allocation of weir_mem_alloc, and GPU memory, is shared without copies. Other memory of the
 * process cannot be mapped by peers: weir_mem_shareable is 0, its handle imports with
 * WEIR_ERR_UNSUPPORTED unless a network serves it, and collectives treat it as unregistered
 * memory. */
WEIR_API weir_status weir_mem_register(weir_comm *comm, void *pointer, size_t bytes,
                                       weir_mem **mem);
/* Returns the address in this process, or on this rank's GPU; NULL for imported memory that cannot
 * be mapped. Thread-safe. */
WEIR_API void *weir_mem_pointer(const weir_mem *mem);
/* Copies between host memory and a part of mem, on the host or a GPU. Local; blocks
 * until the copy is complete. Not ordered with any stream: synchronise the stream first.
 * WEIR_ERR_INVALID if the part exceeds mem. */
WEIR_API weir_status weir_mem_write(weir_mem *mem, size_t offset_bytes, const void *from,
                                    size_t bytes);
WEIR_API weir_status weir_mem_read(const weir_mem *mem, size_t offset_bytes, void *to,
                                   size_t bytes);
/* Returns the size in bytes. Thread-safe. */
WEIR_API size_t weir_mem_bytes(const weir_mem *mem);
/* Returns 1 if peers can map the memory, 0 if collectives stage it. Thread-safe. */
WEIR_API int weir_mem_shareable(const weir_mem *mem);
/* Serialises mem into a handle that peers import. Local. The handle serves memory channels, and
 * port channels over the networks (ib, tcp) over which this rank has connected before.
 * WEIR_ERR_NO_MEMORY if the system's limit for memory registered with a network is reached; the
 * error line names the remedy. */
WEIR_API weir_status weir_mem_export(const weir_mem *mem, weir_mem_handle *handle);
/* Imports a peer's memory. An allocation is mapped once, however often it is imported. Memory that
 * cannot be mapped but was exported for a network serves port channels; weir_mem_pointer is NULL
 * then. Local. Release with weir_mem_free. WEIR_ERR_PEER if the owner's process has ended;
 * WEIR_ERR_INVALID if the handle does not belong to this job. */
WEIR_API weir_status weir_mem_import(weir_comm *comm, const weir_mem_handle *handle,
                                     weir_mem **mem);
/* Exchange handles over the bootstrap and import them. weir_mem_send and weir_mem_recv involve one
 * peer and must match by tag; they may block until the peer makes the matching call.
 * weir_mem_exchange is collective; mems has nranks entries, of which the calling rank's becomes mem
 * itself. Release each imported entry with weir_mem_free. WEIR_ERR_INVALID at both ends if mem is
 * NULL; otherwise the errors of weir_mem_export, weir_mem_import and the bootstrap. */
WEIR_API weir_status weir_mem_send(weir_comm *comm, const weir_mem *mem, int peer, int tag);
WEIR_API weir_status weir_mem_recv(weir_comm *comm, int peer, int tag, weir_mem **mem);
WEIR_API weir_status weir_mem_exchange(weir_comm *comm, weir_mem *mem, weir_mem **mems);
/* Declares that all ranks use mem symmetrically until it is freed: whenever an allreduce,
 * allgather or alltoall of its communicator has an output within mem, every rank's output is at
 * the same offset in its mem, and for allreduce either all ranks work in place or none does. This
 * lets GPU copy engines serve large calls; it changes nothing on the host backend. It also lets
 * plans of the tuning table (WEIR_TUNING) serve large calls; with such plans, the same holds for
 * outputs of reduce_scatter and broadcast and for inputs of the collectives without a root, and
 * for each of these either all ranks work in place or none does. Collective. WEIR_ERR_MISMATCH if
 * the ranks' sizes differ; WEIR_ERR_INVALID if mem was neither allocated nor registered by the
 * calling rank. A call that violates the declaration fails with WEIR_ERR_ABORTED or
 * WEIR_ERR_TIMEOUT. */
WEIR_API weir_status weir_mem_symmetric(weir_mem *mem);
/* Releases registered or imported memory. Local. Peers must no longer use memory that is freed by
 * its owner. NULL is allowed. */
WEIR_API void weir_mem_free(weir_mem *mem);

/* --------------------------------------------- connections and semaphores */

/* A path to one peer over one transport. */
typedef struct weir_conn weir_conn;

/* Connects to a peer. Both ends must call it with the same tag; blocks until the peer has answered.
 * WEIR_TRANSPORT_AUTO selects mapped memory if available, else a network. Release with
 * weir_conn_free after the channels on it. WEIR_ERR_UNSUPPORTED if the transport does not reach
 * the peer; WEIR_ERR_TIMEOUT if the peer does not call it. */
WEIR_API weir_status weir_connect(weir_comm *comm, int peer, int tag, weir_transport transport,
                                  weir_conn **conn);
/* Return the transport in use and the peer's rank. Thread-safe. */
WEIR_API weir_transport weir_conn_transport(const weir_conn *conn);
WEIR_API int weir_conn_peer(const weir_conn *conn);
/* Releases a connection. Local. NULL is allowed. */
WEIR_API void weir_conn_free(weir_conn *conn);
/* Returns the name of a transport ("cuda_ipc"); NULL for an invalid value. */
WEIR_API const char *weir_transport_name(weir_transport transport);

/* A pair of monotonic counters, one in each end's memory: a signal of the peer increments the
 * local one, on which the owner waits. They start at zero and are never reset. */
typedef struct weir_sem weir_sem;
/* Creates a semaphore. Both ends of the connection must create their semaphores in the same order;
 * blocks until both have. Release with weir_sem_free. */
WEIR_API weir_status weir_sem_create(weir_conn *conn, weir_sem **sem);
/* Releases a semaphore. Local. The peer must have made its last signal, because the memory it
 * signals to is reused by later semaphores. NULL is allowed. */
WEIR_API void weir_sem_free(weir_sem *sem);

/* ---------------------------------------------- memory and switch channels */

/* A memory channel: the peer's memory is mapped here, and the calling thread or kernel itself
 * stores, loads and signals, with the functions of weir/device.h. */
typedef struct weir_memchan weir_memchan;
struct weir_memchan_dev; /* the view for threads and kernels; see weir/device.h */

/* Creates a memory channel on the connection of sem. remote is the peer's memory (imported), local
 * this rank's; packets, this rank's memory in which the peer's LL packets arrive, may be NULL.
 * Local. Release with weir_memchan_free. WEIR_ERR_UNSUPPORTED if remote is not mapped here. */
WEIR_API weir_status weir_memchan_create(weir_sem *sem, const weir_mem *remote,
                                         const weir_mem *local, const weir_mem *packets,
                                         weir_memchan **chan);
/* Returns the view for threads or kernels: owned by the channel, at a constant address, on the
 * cuda backend in device memory. Thread-safe. */
WEIR_API struct weir_memchan_dev *weir_memchan_device(weir_memchan *chan);
/* Releases a channel. Local; no thread or kernel may use its view any more. NULL is allowed. */
WEIR_API void weir_memchan_free(weir_memchan *chan);

/* A switch channel: one operation on the same offset of the memory of a group of ranks, by loads
 * and stores of every member's memory. (A network switch that does this in hardware can implement
 * the same interface.) It does not synchronise: order accesses of other ranks with signals of
 * memory channels. */
typedef struct weir_switchchan weir_switchchan;
struct weir_switchchan_dev; /* the view for kernels; see weir/device.h */

/* Creates a switch channel. members has one registered memory per rank of the group, of equal
 * length and mapped here (as weir_mem_exchange returns them), at most WEIR_SWITCH_MEMBERS (64), in
 * the order in which reductions combine them; use the same order on all ranks. Local. Release with
 * weir_switchchan_free. WEIR_ERR_INVALID if lengths differ; WEIR_ERR_UNSUPPORTED if a member is
 * not mapped here. */
WEIR_API weir_status weir_switchchan_create(weir_comm *comm, weir_mem *const *members, int count,
                                            weir_switchchan **chan);
/* Returns the view for kernels: owned by the channel, at a constant address, on the cuda backend
 * in device memory. Thread-safe. */
WEIR_API struct weir_switchchan_dev *weir_switchchan_device(weir_switchchan *chan);
/* Reduce and broadcast on the host backend. reduce combines count elements at offset_bytes of every
 * member into `to`; WEIR_AVG divides by the number of members. broadcast copies `bytes` from `from`
 * to offset_bytes of every member. to and from may lie within the members' memory, where they must
 * be either the same bytes or disjoint. Local; blocks until complete. WEIR_ERR_INVALID if the range
 * exceeds the members' memory; WEIR_ERR_UNSUPPORTED on the cuda backend, where kernels do it. */
WEIR_API weir_status weir_switchchan_reduce(weir_switchchan *chan, void *to, size_t offset_bytes,
                                            size_t count, weir_dtype dtype, weir_op op);
WEIR_API weir_status weir_switchchan_broadcast(weir_switchchan *chan, size_t offset_bytes,
                                               const void *from, size_t bytes);
/* Releases a channel. Local; no thread or kernel may use its view any more. NULL is allowed. */
WEIR_API void weir_switchchan_free(weir_switchchan *chan);

/* ------------------------------------------------- proxies and port channels */

/*
 * A proxy is a thread of this process that moves data on behalf of kernels and other threads. They
 * push triggers into its FIFO (weir/port_device.h), usually through a port channel.
 *
 * Some calls of CUDA wait until all running kernels of the device have ended, and hold up the
 * copies and launches of all other threads meanwhile. While a kernel runs that waits for its proxy,
 * no thread of the process may make such a call, or both wait until the deadline. Seen with
 * CUDA 13.0 and driver 580: cudaFree, cudaFreeHost, cudaHostUnregister, cudaIpcCloseMemHandle: free
 * with cudaFreeAsync, or when no such kernel runs. PyTorch's empty_cache, and its retry after a
 * failed allocation, call cudaFree. cuModuleLoadData, and the first launch of a kernel: load
 * kernels beforehand (cudaFuncGetAttributes, or CUDA_MODULE_LOADING=EAGER). weir loads its own
 * kernels when a communicator, an expert-parallel group or a plan's first call is created, so
 * creation counts as such a call. cudaDeviceSetLimit, and the first launch of a kernel with a
 * larger stack than any before, with printf, assert or malloc: loading is not enough for these;
 * launch such a kernel once beforehand. A copy within one GPU, of any size, and cudaMemsetAsync of
 * more than 1 KiB are kernels: they start only where the kernel that waits leaves room. cudaMalloc,
 * cudaMallocAsync, weir_mem_alloc, cudaDeviceSynchronize and cudaStreamSynchronize hold up nothing.
 * While a proxy runs, weir does not unmap memory that a peer has deregistered (legacy IPC): it
 * stays mapped until the proxy has stopped.
 */
typedef struct weir_proxy weir_proxy;
struct weir_trigger;  /* weir/port_device.h */
struct weir_fifo_dev; /* weir/port_device.h */

/* Handles a custom trigger in the proxy's thread. It must not block. Any result other than WEIR_OK
 * stops the proxy and aborts the communicator. */
typedef weir_status (*weir_trigger_handler)(void *argument, const struct weir_trigger *trigger);

/* Configuration of a proxy. Initialise it with WEIR_PROXY_CONFIG_INIT; size works as in
 * weir_comm_config. */
typedef struct weir_proxy_config {
    size_t size;         /* sizeof(weir_proxy_config), set by WEIR_PROXY_CONFIG_INIT */
    unsigned fifo_slots; /* triggers in flight, rounded up to a power of two; 0: 512 */
    int cpu;             /* the processor that the thread is bound to; -1: those of the process that
                            are near its GPU or network card */
    int stop_timeout_ms; /* how long weir_proxy_stop waits for outstanding requests; 0: the
                            communicator's timeout_ms */
    weir_trigger_handler handler; /* of custom triggers; may be NULL */
    void *argument;               /* passed to handler */
} weir_proxy_config;

#define WEIR_PROXY_CONFIG_INIT                                                                     \
    {                                                                                              \
        sizeof(weir_proxy_config), 0, -1, 0, NULL, NULL                                            \
    }

/* Creates a proxy without starting it. config may be NULL for the defaults. Local. Release with
 * weir_proxy_free. */
WEIR_API weir_status weir_proxy_create(weir_comm *comm, const weir_proxy_config *config,
                                       weir_proxy **proxy);
/* Starts the proxy's thread. Local. The thread polls for a while after the latest trigger and then
 * sleeps until a host thread pushes a trigger or a network reports an event. Kernels cannot wake
 * it; for their triggers it polls at intervals, up to 10 ms apart after a long idle time.
 * WEIR_ERR_INVALID if the proxy is already running. */
WEIR_API weir_status weir_proxy_start(weir_proxy *proxy);
/* Wakes the thread; call it before launching a kernel that needs the proxy. Thread-safe. */
WEIR_API void weir_proxy_wake(weir_proxy *proxy);
/* Returns WEIR_OK, or the failure that stopped the proxy with its error line. Such a failure has
 * aborted the communicator. Thread-safe. */
WEIR_API weir_status weir_proxy_status(weir_proxy *proxy);
/* Stops the proxy: executes all triggers pushed so far, waits until the data that they moved has
 * arrived, and ends the thread. Local, blocking. Kernels that push triggers must have ended. The
 * proxy may be started again. WEIR_ERR_TIMEOUT if requests were still outstanding at the deadline;
 * the error line describes them. Otherwise returns what weir_proxy_status returns. */
WEIR_API weir_status weir_proxy_stop(weir_proxy *proxy);
/* Releases a proxy; stops it first if it is running. Channels on it must have been freed. NULL is
 * allowed. */
WEIR_API void weir_proxy_free(weir_proxy *proxy);
/* Returns the producers' view of the FIFO, for custom triggers. Owned by the proxy; on the cuda
 * backend in device memory and for kernels only. Thread-safe. */
WEIR_API struct weir_fifo_dev *weir_proxy_fifo(weir_proxy *proxy);

/* A port channel: the proxy copies from this rank's memory to the peer's and signals the peer's
 * semaphore. */
typedef struct weir_portchan weir_portchan;
struct weir_portchan_dev; /* the view for threads and kernels; see weir/port_device.h */

/* Creates a port channel on the connection of sem. remote is the peer's memory (imported), local
 * this rank's. A connection may be used by one proxy only. Channels may share a semaphore; their
 * signals cannot then be distinguished. Local. On the cuda backend no kernel that needs the proxy
 * may be running. Release with weir_portchan_free. WEIR_ERR_UNSUPPORTED if remote was exported
 * before the connection was made, or if the memory cannot be registered with the network. */
WEIR_API weir_status weir_portchan_create(weir_proxy *proxy, weir_sem *sem, const weir_mem *remote,
                                          const weir_mem *local, weir_portchan **chan);
/* Returns the view for threads or kernels: owned by the channel, at a constant address, on the
 * cuda backend in device memory. Thread-safe. */
WEIR_API struct weir_portchan_dev *weir_portchan_device(weir_portchan *chan);
/* Releases a channel. Local. All of its requests must have completed: flush it or stop the proxy
 * first. NULL is allowed. */
WEIR_API void weir_portchan_free(weir_portchan *chan);

/* ------------------------------------------------------------- collectives */

/*
 * Every rank of comm calls every collective, in the same order, with the same count, data type,
 * operation and root; for alltoallv and sendrecv the counts must match pairwise. Counts are in
 * elements. Any count, 0 included, and any alignment is allowed. in and out do not overlap, or are
 * placed as the function's comment says for "in place"; all else is refused (WEIR_ERR_INVALID). Out
 * of place, in is not changed. After a call in place, input that is no part of out is undefined;
 * docs/user/buffers.md has a table of what a caller keeps.
 *
 * Host backend: the call blocks until out is complete and in may be written again; stream is
 * NULL. CUDA backend: the buffers are memory of the communicator's GPU, and undersized ones are
 * rejected; the call enqueues work on stream, which may be captured in a graph, and returns
 * without waiting for it. Two calls on one communicator must not overlap: a caller that uses
 * several streams or graphs makes each of them wait for the previous one (libweir_nccl.so does
 * this itself). Kernels of a communicator wait for those of its peers, so ranks that use several
 * communicators on the same GPUs launch their calls in the same order on every rank. Between
 * nodes, a call on GPU buffers blocks, cannot be captured in a graph, and the host moves the data.
 *
 * Reductions combine contributions in rank order 0, 1, ... n-1 and leave the same bits on every
 * rank and in every run of a call, except that
 *   "ring"   (GPUs) combines in an order that depends on the position in the buffer (allreduce) or
 *            on the rank (reduce_scatter),
 *   "numa"   (allreduce) combines the ranks of each NUMA node in order, then the NUMA nodes in the
 *            order of their first ranks,
 *   "chain", "ll128_chain", "dynamic"  (reduce) combine from root + 1 cyclically to the root,
 *   "rails"  (between nodes) combines each node's ranks in order, rounds, and combines the nodes
 *            in the order of their first ranks; the other algorithms between nodes except "packet"
 *            combine the nodes' results in an order that depends only on the number of nodes, the
 *            count and the root, and round after each.
 * An invariant communicator (weir_comm_config.invariant) uses none of these: every element's bits
 * depend only on the contributions to it and the number of ranks, not on the count, the element's
 * place, the algorithm, the grid, the memory, the nodes, the root or the backend. Plans do not
 * serve its calls, unless a call names one (weir_call.algo).
 *
 * Thread safety: one thread at a time per communicator.
 *
 * Errors: WEIR_ERR_INVALID for arguments that are wrong on this rank; WEIR_ERR_MISMATCH if the
 * counts of a pair differ (alltoallv, sendrecv); WEIR_ERR_TIMEOUT; WEIR_ERR_ABORTED;
 * WEIR_ERR_PEER. After any of the last four the communicator is aborted. So it is where the system
 * finds that a buffer is not mapped over its whole length, or is read-only: the rank that passed it
 * gets WEIR_ERR_INVALID, and the other ranks WEIR_ERR_ABORTED with the number of that rank. (A copy
 * that the rank itself executes raises SIGSEGV.)
 */

/* The collectives. The comments give the name that weir_collective_name returns. */
typedef enum weir_collective {
    WEIR_COLL_ALLREDUCE,      /* "allreduce" */
    WEIR_COLL_REDUCE_SCATTER, /* "reduce_scatter" */
    WEIR_COLL_ALLGATHER,      /* "allgather" */
    WEIR_COLL_BROADCAST,      /* "broadcast" */
    WEIR_COLL_REDUCE,         /* "reduce" */
    WEIR_COLL_ALLTOALL,       /* "alltoall" */
    WEIR_COLL_ALLTOALLV,      /* "alltoallv" */
    WEIR_COLL_SENDRECV,       /* "sendrecv" */
    WEIR_COLL_COUNT
} weir_collective;

/* Returns the name of a collective ("allreduce"); NULL for an invalid value. */
WEIR_API const char *weir_collective_name(weir_collective collective);

/* Counts and displacements of alltoallv, in elements: arrays with one entry for each rank. The
 * displacement of a block is its distance from the beginning of in or out. */
typedef struct weir_splits {
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
} weir_splits;

/* The same, read when the call runs on the stream rather than when it is made: in device memory of
 * this rank's GPU on the CUDA backend, in host memory on the host backend. The arrays
 * must not change until the call has completed. See weir_alltoallv_device. */
typedef struct weir_device_splits {
    const uint64_t *send_counts, *send_displs, *recv_counts, *recv_displs;
} weir_device_splits;

/*
 * One call of a collective, as one rank makes it. The same structure passes from the caller to the
 * algorithm: weir_run and weir_algo_execute take it, the named functions below fill it in, and the
 * callbacks of custom algorithms (weir/algo.h) receive it.
 *
 * Initialise it with WEIR_CALL_INIT, which sets size and gives every other member its default, and
 * set what the collective needs; members that it does not use keep their defaults. The structure
 * and all that it points to stay the caller's. The structure, splits and extras may be reused once
 * the function returns, buffers and device_splits once the call has completed. in and out have the
 * sizes that the named functions below state.
 */
typedef struct weir_call {
    size_t size; /* sizeof(weir_call), set by WEIR_CALL_INIT */
    weir_collective collective;
    weir_dtype dtype;
    weir_op op;                /* allreduce, reduce_scatter, reduce */
    int root;                  /* broadcast, reduce: a rank */
    int destination, source;   /* sendrecv: a rank, or -1 (default) for none */
    const void *in;            /* may be NULL where this rank reads nothing */
    void *out;                 /* may be NULL where this rank receives nothing */
    size_t count;              /* elements, as in the named functions; sendrecv: elements to be
                                  sent; alltoallv: not used */
    size_t recv_count;         /* sendrecv: elements to be received */
    weir_stream stream;        /* CUDA backend: a cudaStream_t; host backend: NULL */
    const weir_splits *splits; /* alltoallv: either this or device_splits */
    const weir_device_splits *device_splits;
    size_t in_bytes, out_bytes; /* lengths of in and out. Required with device_splits. In
                                   weir_algo_execute they are an alternative to the counts, and are
                                   derived from them if both are 0. Not used otherwise */
    const char *algo_name;      /* a built-in algorithm, on GPUs possibly with its grid: "packet",
                                   "packet:16x64"; NULL: selected by the tuning table */
    struct weir_algo *algo;     /* an algorithm object (weir/algo.h), which replaces algo_name */
    int blocks, threads;        /* CUDA backend, with algo: the grid, in blocks and in threads per
                                   block; 0: the algorithm's default */
    const struct weir_algo_extra *extras; /* named arguments for custom algorithms; may be NULL */
    struct weir_executor *executor;       /* executes plans (weir/plan.h); else NULL */
    weir_mem *scratch; /* set by the library for the callbacks of custom algorithms: the
                          scratch memory of their collection */
    int max_blocks;    /* CUDA backend: as weir_comm_config.max_blocks, for this call; the smaller
                          one counts. Equal on all ranks */
    int min_blocks;    /* CUDA backend: replaces the configuration's unless it is 0 */
    weir_block_policy block_policy; /* CUDA backend: replaces the configuration's unless it is
                                       WEIR_BLOCKS_AUTO. An algorithm that the call names is used
                                       even with WEIR_BLOCKS_ZERO */
} weir_call;

#define WEIR_CALL_INIT                                                                             \
    {                                                                                              \
        sizeof(weir_call), WEIR_COLL_ALLREDUCE, WEIR_INT8, WEIR_SUM, 0, -1, -1, NULL, NULL, 0, 0,  \
            NULL, NULL, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0, WEIR_BLOCKS_AUTO     \
    }

/* Executes a call, as every named function below does. Collective; blocking on the host backend,
 * enqueued on call->stream on the CUDA backend. The algorithm that the call names applies to this
 * call only and must be the same on every rank. A program that was compiled with the header of
 * another version is served as with configurations. Errors as above; also WEIR_ERR_INVALID if size
 * is none that a version has, or if members that this version does not know are not 0, or if the
 * backend has no algorithm of the name (the error line lists the known names),
 * WEIR_ERR_UNSUPPORTED if call->algo belongs to another backend. */
WEIR_API weir_status weir_run(weir_comm *comm, const weir_call *call);

/* Combines the arrays of all ranks element by element, and every rank gets the result. in, out:
 * count elements. In place: in == out. */
WEIR_API weir_status weir_allreduce(weir_comm *comm, const void *in, void *out, size_t count,
                                    weir_dtype dtype, weir_op op, weir_stream stream);
/* Combines the arrays of all ranks element by element, and rank r gets block r of the result. in:
 * nranks * count elements; out: count. In place: out == in + rank * count. */
WEIR_API weir_status weir_reduce_scatter(weir_comm *comm, const void *in, void *out, size_t count,
                                         weir_dtype dtype, weir_op op, weir_stream stream);
/* Collects the arrays of all ranks, in the order of ranks, on every rank. in: count elements; out:
 * nranks * count. In place: in == out + rank * count. */
WEIR_API weir_status weir_allgather(weir_comm *comm, const void *in, void *out, size_t count,
                                    weir_dtype dtype, weir_stream stream);
/* Copies the array of one rank, the root, to every rank. in, out: count elements; in is read on
 * root only, out is written on every rank. In place: in == out. */
WEIR_API weir_status weir_broadcast(weir_comm *comm, const void *in, void *out, size_t count,
                                    weir_dtype dtype, int root, weir_stream stream);
/* Combines the arrays of all ranks element by element, and one rank, the root, gets the result. in,
 * out: count elements; out is written on root only. In place: in == out on root. */
WEIR_API weir_status weir_reduce(weir_comm *comm, const void *in, void *out, size_t count,
                                 weir_dtype dtype, weir_op op, int root, weir_stream stream);
/* Sends a block to every rank and receives one from each, all of count elements. in, out: nranks *
 * count elements, block r for/from rank r. Out of place. */
WEIR_API weir_status weir_alltoall(weir_comm *comm, const void *in, void *out, size_t count,
                                   weir_dtype dtype, weir_stream stream);
/* Sends a block to every rank and receives one from each, with lengths that may differ. Arrays of
 * nranks counts and displacements, in elements. Out of place. */
WEIR_API weir_status weir_alltoallv(weir_comm *comm, const void *in, const size_t *send_counts,
                                    const size_t *send_displs, void *out, const size_t *recv_counts,
                                    const size_t *recv_displs, weir_dtype dtype,
                                    weir_stream stream);
/*
 * Performs an alltoallv whose counts the host need not know. The four arrays have nranks entries,
 * in elements; they are in device memory of this rank's GPU (CUDA backend) or in memory of the
 * process (host backend), and are read when the stream reaches the call, so each replay of a
 * captured call uses their contents at that time. They must not change while the call runs. The
 * call exchanges nothing beforehand, does not wait on the host and does not allocate memory.
 * in_bytes and out_bytes are the lengths of in and out: a split that extends past its buffer is not
 * transferred. The call's grid depends on them, so exact lengths keep it small. Displacements of
 * empty splits are ignored.
 *
 * WEIR_ERR_INVALID on a rank with a split that extends past its buffer; WEIR_ERR_MISMATCH on a rank
 * that is sent a different count from the one that it expects, also by a rank whose split was
 * rejected; nothing is written outside of out. WEIR_ERR_UNSUPPORTED for GPU buffers between nodes.
 * The communicator is aborted. The host backend returns the error from this call; on the CUDA
 * backend weir_comm_check reports it once the stream has reached the call, or the next call does.
 */
WEIR_API weir_status weir_alltoallv_device(weir_comm *comm, const void *in, size_t in_bytes,
                                           const uint64_t *send_counts, const uint64_t *send_displs,
                                           void *out, size_t out_bytes, const uint64_t *recv_counts,
                                           const uint64_t *recv_displs, weir_dtype dtype,
                                           weir_stream stream);
/* Sends to one rank and receives from one; -1 for none. in: send_count elements; out:
 * recv_count. Out of place. */
WEIR_API weir_status weir_sendrecv(weir_comm *comm, const void *in, size_t send_count,
                                   int destination, void *out, size_t recv_count, int source,
                                   weir_dtype dtype, weir_stream stream);

/* -------------------------------------------------------------- algorithms */

/* Where an algorithm runs. */
typedef enum weir_algo_backend {
    WEIR_ALGO_HOST,      /* "host": host memory, ranks of one node */
    WEIR_ALGO_CUDA,      /* "cuda": GPU memory, ranks of one node */
    WEIR_ALGO_INTERNODE, /* "net": ranks of several nodes, memory of either kind */
    WEIR_ALGO_BACKENDS
} weir_algo_backend;

/* Returns the name of an algorithm backend ("host"); NULL for an invalid value. */
WEIR_API const char *weir_algo_backend_name(weir_algo_backend backend);
/* Returns the backend whose algorithms serve the communicator. */
WEIR_API weir_algo_backend weir_comm_algo_backend(const weir_comm *comm);

/* How often a reduction rounds an 8-bit or 16-bit floating-point result. Within one step such types
 * accumulate in float; float and double round in every addition. */
typedef enum weir_rounding {
    WEIR_ROUNDING_ONCE,     /* after all contributions */
    WEIR_ROUNDING_PER_NODE, /* each node's partial result, and up to once for each of them */
    WEIR_ROUNDING_PER_RANK  /* up to once for each rank: partial results pass through memory */
} weir_rounding;

/* One row of the algorithm table. Strings have static storage. */
typedef struct weir_algo_info {
    weir_collective collective;
    const char *name; /* as --algo, weir_comm_set_algo and weir_call.algo_name take it */
    weir_algo_backend backend;
    const char *summary;      /* one line */
    int min_ranks, max_ranks; /* sizes of the communicators that it serves */
    weir_rounding rounding;   /* reductions only */
    int reproducible;         /* 1: every rank gets the same bits, in every run of a call; 0: not
                                 guaranteed */
    int needs_mapped;         /* host: 1 if it is for memory that peers can map; calls on other
                                 memory fail or take another way, and the tuning table's rows
                                 "plain" may not name it */
    const char *in_order;     /* reductions: the algorithm that an invariant communicator of more
                                 than two ranks uses instead; NULL: this one combines contributions
                                 in rank order and rounds once */
} weir_algo_info;

/* Returns the algorithm table of this build, and the number of its rows. */
WEIR_API const weir_algo_info *weir_algo_list(size_t *count);
/* Returns the row of a name, which may include a grid ("packet:16x64"); NULL if there is none. */
WEIR_API const weir_algo_info *weir_algo_info_find(weir_algo_backend backend,
                                                   weir_collective collective, const char *name);
/* Makes later calls of a collective on comm use the named algorithm wherever its limits allow; on
 * GPUs the name may include a grid of blocks x threads ("packet:16x64"). "auto" restores selection
 * by the tuning table. Local, but every rank must make the same call between the same collectives.
 * WEIR_ERR_INVALID if the name is unknown; the error line lists the known names. */
WEIR_API weir_status weir_comm_set_algo(weir_comm *comm, weir_collective collective,
                                        const char *name);
/* Returns the name of the algorithm of the last collective on comm; "none" before the first
 * collective, "local" for a single rank. The name includes the grid if the tuning table,
 * weir_comm_set_algo or the call set one ("packet:16x64"). Valid until the next call on comm. */
WEIR_API const char *weir_comm_last_algo(const weir_comm *comm);
/* Returns the largest number of thread blocks that a kernel of the last collective on comm has; 0
 * before the first collective, on the host backend, and for a single rank. Local. */
WEIR_API int weir_comm_last_blocks(const weir_comm *comm);

/* What a network between nodes, and a node, cost: the values by which algorithms across nodes are
 * selected where the tuning table has no rows, and of a line "cost" of a tuning file. */
typedef struct weir_net_cost {
    double latency_us;  /* of a short message, from one rank to another */
    double message_us;  /* for which a message occupies its sender and its receiver */
    double network_gbs; /* GB/s of one rank, in one direction */
    double phase_us;    /* of a short collective within a node */
    double memory_gbs;  /* GB/s of a rank that copies or reduces */
} weir_net_cost;

/* A measured time of an algorithm across nodes; bytes as the tuning table counts them. */
typedef struct weir_net_time {
    weir_collective collective;
    const char *algo; /* "doubling" */
    size_t bytes;
    double us;
} weir_net_time;

/* Fits these values to times that were measured on the nodes of comm, by least squares of their
 * relative deviations. Times of algorithms that the model does not know, and those that are not
 * positive, are ignored; values that the times do not determine stay in proportion to the built-in
 * ones. *deviation (may be NULL) becomes the root of the mean square of the relative deviations.
 * Local. WEIR_ERR_INVALID if comm has one node, or no time is usable. */
WEIR_API weir_status weir_net_cost_fit(const weir_comm *comm, const weir_net_time *times,
                                       size_t count, weir_net_cost *cost, double *deviation);

#ifdef __cplusplus
}
#endif

#endif
