/*
 * The table of all environment variables that weir reads. Look-up, --help-env and the documentation
 * use this table only.
 */
#ifndef WEIR_BASE_ENV_H
#define WEIR_BASE_ENV_H

#include <weir/weir.h>

/* X(symbol, variable, default, meaning) */
#define WEIRI_ENV_MAP(X)                                                                           \
    X(LOG, "WEIR_LOG", "warn", "what is logged on standard error: error, warn, info, debug")       \
    X(HOSTID, "WEIR_HOSTID", "(the host's)",                                                       \
      "ranks with different values form different nodes, even on one host")                        \
    X(BACKEND, "WEIR_BACKEND", "auto", "memory of the buffers: auto, host, cuda")                  \
    X(TRANSPORT, "WEIR_TRANSPORT", "auto", "how bytes move: auto, shm, cuda_ipc, ib, tcp")         \
    X(ALGO, "WEIR_ALGO", "auto",                                                                   \
      "the algorithm of every collective that has an algorithm of this name")                      \
    X(TUNING, "WEIR_TUNING", "(built in)", "a file of tuning rows, instead of the built-in table") \
    X(INVARIANT, "WEIR_INVARIANT", "0",                                                            \
      "1: the bits of a reduction do not depend on size, algorithm, memory or number of nodes")    \
    X(MAX_BLOCKS, "WEIR_MAX_BLOCKS", "(the algorithm's)",                                          \
      "largest number of thread blocks in a collective's GPU kernel")                              \
    X(BLOCK_POLICY, "WEIR_BLOCK_POLICY", "default",                                                \
      "how many multiprocessors collectives use: default, efficiency (at most 16 thread blocks), " \
      "zero (copy engines if possible)")                                                           \
    X(NCCL_MAX_CTAS, "NCCL_MAX_CTAS", "(none)", "libweir_nccl.so: the same as WEIR_MAX_BLOCKS")    \
    X(NCCL_MIN_CTAS, "NCCL_MIN_CTAS", "(none)",                                                    \
      "libweir_nccl.so: smallest number of thread blocks in a collective's GPU kernel")            \
    X(NCCL_CTA_POLICY, "NCCL_CTA_POLICY", "(none)",                                                \
      "libweir_nccl.so: the same as WEIR_BLOCK_POLICY, by name or number (0, 1, 2)")               \
    X(CHECK, "WEIR_CHECK", "0",                                                                    \
      "1: compare the calls of all ranks, and name ranks whose calls differ; in benchmarks the "   \
      "default is 1")                                                                              \
    X(TIMEOUT_MS, "WEIR_TIMEOUT_MS", "30000", "timeout of every wait, in milliseconds")            \
    X(SOCKET_IFNAME, "WEIR_SOCKET_IFNAME", "(first usable)",                                       \
      "network interface for TCP: names or prefixes (eth0,ib), names to exclude (^docker,lo), or " \
      "exact names (=eth0)")                                                                       \
    X(NCCL_SOCKET_IFNAME, "NCCL_SOCKET_IFNAME", "(none)",                                          \
      "network interface, if WEIR_SOCKET_IFNAME is not set")                                       \
    X(SOCKET_STREAMS, "WEIR_SOCKET_STREAMS", "4",                                                  \
      "TCP connections to each rank of another node, 1 to 8; with more than 64 ranks the default " \
      "is 1")                                                                                      \
    X(CONNECT, "WEIR_CONNECT", "auto",                                                             \
      "when ranks of different nodes connect over tcp: all (when a communicator is created), "     \
      "first-use (before their first message), auto (first-use if a rank has more than 64 remote " \
      "ranks)")                                                                                    \
    X(BOOT_SECRET, "WEIR_BOOT_SECRET", "(none)",                                                   \
      "shared secret of TCP bootstraps that find rank 0 by its address")                           \
    X(BOOT_PORT, "WEIR_BOOT_PORT", "(derived)",                                                    \
      "port of rank 0 under torchrun (default: MASTER_PORT + 1) and srun")                         \
    X(MPI_SO, "WEIR_MPI_SO", "(the launcher's)", "the MPI library of the benchmarks")              \
    X(PMIX_SO, "WEIR_PMIX_SO", "libpmix.so.2", "the PMIx library")                                 \
    X(LAUNCHER, "WEIR_LAUNCHER", "auto",                                                           \
      "the launcher to use if variables of several launchers are set: auto, none, mpi, pmix, "     \
      "slurm, torchrun")                                                                           \
    X(RANK, "RANK", "(none)", "this rank, set by torchrun")                                        \
    X(WORLD_SIZE, "WORLD_SIZE", "(none)", "the number of ranks, set by torchrun")                  \
    X(MASTER_ADDR, "MASTER_ADDR", "(none)", "the address of rank 0, set by torchrun")              \
    X(MASTER_PORT, "MASTER_PORT", "(none)", "the port of PyTorch's store, set by torchrun")        \
    X(SLURM_PROCID, "SLURM_PROCID", "(none)", "this rank, set by srun")                            \
    X(SLURM_STEP_NUM_TASKS, "SLURM_STEP_NUM_TASKS", "(none)", "the number of ranks, set by srun")  \
    X(SLURM_NTASKS, "SLURM_NTASKS", "(none)", "ranks, if SLURM_STEP_NUM_TASKS is not set")         \
    X(SLURM_STEP_NODELIST, "SLURM_STEP_NODELIST", "(none)",                                        \
      "the nodes of the ranks, the first with rank 0, set by srun")                                \
    X(SLURM_JOB_ID, "SLURM_JOB_ID", "(none)", "rank 0's port follows from it; set by Slurm")       \
    X(SLURM_STEP_ID, "SLURM_STEP_ID", "(none)", "rank 0's port follows from it; set by srun")      \
    X(SLURM_STEP_RESV_PORTS, "SLURM_STEP_RESV_PORTS", "(none)",                                    \
      "ports that srun --resv-ports reserved; rank 0 uses the first")                              \
    X(IB_HCA, "WEIR_IB_HCA", "(nearest)", "InfiniBand device, name or name:port")                  \
    X(IB_GID_INDEX, "WEIR_IB_GID_INDEX", "(probed)", "GID table index of the InfiniBand port")     \
    X(NCCL_SO, "WEIR_NCCL_SO", "libnccl.so.2", "the NCCL library that --peer nccl measures")       \
    X(NCCL_FALLBACK, "WEIR_NCCL_FALLBACK", "(none)",                                               \
      "the NCCL library that libweir_nccl.so uses for what weir cannot do")                        \
    X(NCCL_GRAPH_MIXING_SUPPORT, "NCCL_GRAPH_MIXING_SUPPORT", "1",                                 \
      "0: the program itself orders graphs and other calls (NCCL's variable)")                     \
    X(INCLUDE, "WEIR_INCLUDE", "(next to the library)",                                            \
      "folder of weir's headers, for kernels compiled at run time")                                \
    X(CC, "WEIR_CC", "cc", "C compiler for kernels on the host; a command without options")        \
    X(NVRTC_SO, "WEIR_NVRTC_SO", "libnvrtc.so", "library that compiles kernels for GPUs")          \
    X(CACHE_HOME, "XDG_CACHE_HOME", "~/.cache", "folder of the cache of compiled kernels (weir/)") \
    X(CMA, "WEIR_CMA", "1",                                                                        \
      "0: data between unregistered buffers of a node's ranks pass through shared memory, and "    \
      "the kernel does not copy them (process_vm_readv)")                                          \
    X(XPMEM, "WEIR_XPMEM", "1",                                                                    \
      "0: do not use XPMEM, even if its kernel module and libxpmem.so.0 are installed")            \
    X(ALLOW_SHARED_GPU, "WEIR_ALLOW_SHARED_GPU", "0", "1: several ranks may use one GPU")          \
    X(RAS, "WEIR_RAS", "0",                                                                        \
      "1: answer questions about the job's ranks at localhost:28028; HOST:PORT: at this address")  \
    X(RECORD, "WEIR_RECORD", "(none)",                                                             \
      "file to which each rank writes its calls, for bench_replay; %r is the rank, which is "      \
      "added to a name without %r")                                                                \
    X(METRICS, "WEIR_METRICS", "(none)",                                                           \
      "files of metrics to write, in the formats of NCCL's Inspector: prom, json, or prom,json")   \
    X(METRICS_DIR, "WEIR_METRICS_DIR", "nccl-inspector-JOB", "folder of the files of metrics")     \
    X(METRICS_INTERVAL_MS, "WEIR_METRICS_INTERVAL_MS", "-1",                                       \
      "time between two writes of metrics, in milliseconds; -1: only when a communicator is "      \
      "destroyed")                                                                                 \
    X(METRICS_MIN_BYTES, "WEIR_METRICS_MIN_BYTES", "8192",                                         \
      "messages of fewer bytes are left out of metrics")                                           \
    X(MONITOR_CALLS, "WEIR_MONITOR_CALLS", "64",                                                   \
      "number of timed calls in the report of stragglers, 2 to 128")                               \
    X(NCCL_RAS_ENABLE, "NCCL_RAS_ENABLE", "0",                                                     \
      "1: as WEIR_RAS=1; 0: no RAS (NCCL's variables of monitoring apply to libweir_nccl.so)")     \
    X(NCCL_RAS_ADDR, "NCCL_RAS_ADDR", "(none)", "the same as WEIR_RAS=HOST:PORT")                  \
    X(NCCL_INSPECTOR_ENABLE, "NCCL_INSPECTOR_ENABLE", "0",                                         \
      "1: as WEIR_METRICS=json, or prom with NCCL_INSPECTOR_PROM_DUMP=1")                          \
    X(NCCL_INSPECTOR_PROM_DUMP, "NCCL_INSPECTOR_PROM_DUMP", "0", "1: Prometheus instead of JSON")  \
    X(NCCL_INSPECTOR_DUMP_DIR, "NCCL_INSPECTOR_DUMP_DIR", "(none)",                                \
      "the same as WEIR_METRICS_DIR")                                                              \
    X(NCCL_INSPECTOR_INTERVAL, "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS", "-1",           \
      "the same as WEIR_METRICS_INTERVAL_MS, in microseconds")                                     \
    X(NCCL_INSPECTOR_MIN_BYTES, "NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES", "8192",                      \
      "the same as WEIR_METRICS_MIN_BYTES")                                                        \
    X(NCCL_INSPECTOR_P2P, "NCCL_INSPECTOR_ENABLE_P2P", "1", "0: no sends and receives in metrics") \
    X(NCCL_PROFILER_PLUGIN, "NCCL_PROFILER_PLUGIN", "(none)",                                      \
      "a plug-in of NCCL's profiler; libweir_nccl.so does not load it, and logs this once")        \
    X(NCCL_CHECK_MODE, "NCCL_CHECK_MODE", "(none)",                                                \
      "DEBUG_GLOBAL: in libweir_nccl.so the same as WEIR_CHECK=1")                                 \
    X(NCCL_DEBUG, "NCCL_DEBUG", "(none)",                                                          \
      "INFO or TRACE: libweir_nccl.so logs as with WEIR_LOG=info or WEIR_LOG=debug, unless "       \
      "WEIR_LOG is set")                                                                           \
    X(NCCL_NVTX_DISABLE, "NCCL_NVTX_DISABLE", "0", "1: no NVTX ranges around calls on GPUs")

typedef enum weiri_env_key {
#define WEIRI_ENV_ENUM(symbol, variable, fallback, meaning) WEIRI_ENV_##symbol,
    WEIRI_ENV_MAP(WEIRI_ENV_ENUM)
#undef WEIRI_ENV_ENUM
        WEIRI_ENV_COUNT
} weiri_env_key;

/* Return the value of a variable, NULL if it is unset or empty; and its name, default and
 * meaning. */
const char *weiri_env(weiri_env_key key);
const char *weiri_env_name(weiri_env_key key);
const char *weiri_env_default(weiri_env_key key);
const char *weiri_env_meaning(weiri_env_key key);
/* Returns a decimal number in [low, high], or fallback if the variable is unset. WEIR_ERR_INVALID
 * for any other text. */
weir_status weiri_env_long(weiri_env_key key, long low, long high, long fallback, long *value);

#endif
