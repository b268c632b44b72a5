/*
 * Every environment variable that weir reads, in one table: it is looked up,
 * listed by --help-env and documented from here alone.
 */
#ifndef WEIR_BASE_ENV_H
#define WEIR_BASE_ENV_H

#include <weir/weir.h>

/* X(symbol, variable, default, meaning) */
#define WEIRI_ENV_MAP(X)                                                                          \
    X(LOG, "WEIR_LOG", "warn", "what is logged on standard error: error, warn, info, debug")      \
    X(HOSTID, "WEIR_HOSTID", "(the machine's)",                                                   \
      "ranks with different values act as different machines")                                    \
    X(BACKEND, "WEIR_BACKEND", "auto", "where buffers live: auto, host, cuda")                    \
    X(TRANSPORT, "WEIR_TRANSPORT", "auto", "how bytes move: auto, shm, cuda_ipc, ib, tcp")        \
    X(ALGO, "WEIR_ALGO", "auto", "the algorithm of every collective that has one of this name")   \
    X(TUNING, "WEIR_TUNING", "(built in)", "a file of tuning rows that replaces the built-in one") \
    X(TIMEOUT_MS, "WEIR_TIMEOUT_MS", "30000", "deadline of every wait, in milliseconds")          \
    X(SOCKET_IFNAME, "WEIR_SOCKET_IFNAME", "(first usable)",                                      \
      "network interface of the TCP bootstrap and transport: a name, what it begins with, "       \
      "several (eth0,ib), all but some (^docker,lo), names alone (=eth0)")                        \
    X(NCCL_SOCKET_IFNAME, "NCCL_SOCKET_IFNAME", "(none)",                                         \
      "NCCL's: the same, where WEIR_SOCKET_IFNAME is not set")                                    \
    X(SOCKET_STREAMS, "WEIR_SOCKET_STREAMS", "4",                                                 \
      "connections to each peer of the TCP transport, 1 to 8")                                    \
    X(BOOT_SECRET, "WEIR_BOOT_SECRET", "(none)",                                                  \
      "shared secret of a TCP bootstrap that is given by address")                                \
    X(BOOT_PORT, "WEIR_BOOT_PORT", "(MASTER_PORT + 1)",                                           \
      "port of rank 0 where torchrun's environment says the rest")                                \
    X(RANK, "RANK", "(none)", "torchrun's: this rank, with WORLD_SIZE, MASTER_ADDR, MASTER_PORT") \
    X(WORLD_SIZE, "WORLD_SIZE", "(none)", "torchrun's: the number of ranks")                      \
    X(MASTER_ADDR, "MASTER_ADDR", "(none)", "torchrun's: the address of rank 0")                  \
    X(MASTER_PORT, "MASTER_PORT", "(none)", "torchrun's: the port of PyTorch's store")            \
    X(IB_HCA, "WEIR_IB_HCA", "(nearest)", "InfiniBand device, name or name:port")                 \
    X(IB_GID_INDEX, "WEIR_IB_GID_INDEX", "(probed)", "GID table index of the InfiniBand port")    \
    X(NCCL_SO, "WEIR_NCCL_SO", "libnccl.so.2", "the vendor library that --peer nccl measures")    \
    X(NCCL_FALLBACK, "WEIR_NCCL_FALLBACK", "(none)",                                              \
      "the vendor library that libweir_nccl.so falls back to")                                    \
    X(NCCL_GRAPH_MIXING_SUPPORT, "NCCL_GRAPH_MIXING_SUPPORT", "1",                                \
      "NCCL's: 0 leaves the order between graphs and other calls to the program")                 \
    X(INCLUDE, "WEIR_INCLUDE", "(beside the library)",                                            \
      "folder of weir's headers, for kernels that are compiled at run time")                      \
    X(CC, "WEIR_CC", "cc", "the compiler of such kernels on the host; a command without options") \
    X(NVRTC_SO, "WEIR_NVRTC_SO", "libnvrtc.so", "the library that compiles them for GPUs")        \
    X(CACHE_HOME, "XDG_CACHE_HOME", "~/.cache", "where the folder weir keeps them compiled")      \
    X(ALLOW_SHARED_GPU, "WEIR_ALLOW_SHARED_GPU", "0", "1 lets several ranks use one GPU")

typedef enum weiri_env_key {
#define WEIRI_ENV_ENUM(symbol, variable, fallback, meaning) WEIRI_ENV_##symbol,
    WEIRI_ENV_MAP(WEIRI_ENV_ENUM)
#undef WEIRI_ENV_ENUM
    WEIRI_ENV_COUNT
} weiri_env_key;

/* The variable's value, or NULL if it is unset or empty. */
const char *weiri_env(weiri_env_key key);
const char *weiri_env_name(weiri_env_key key);
/* A decimal number in [low, high]; fallback if unset. WEIR_ERR_INVALID names
 * the variable and the range. */
weir_status weiri_env_long(weiri_env_key key, long low, long high, long fallback, long *value);
/* The deadline of waits in milliseconds; an invalid value counts as unset and
 * is logged once. */
int weiri_env_timeout_ms(void);

#endif
