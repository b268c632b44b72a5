/* The list of variables: see environment.h. */
#include "bench/options/environment.h"

#include <stddef.h>
#include <string.h>

static const char *const allowed[] = {
    "WEIR_LOG=", "WEIR_LAUNCHER=", "WEIR_HOSTID=", "WEIR_BACKEND=", "WEIR_TRANSPORT=",
    "WEIR_ALGO=", "WEIR_TUNING=",
    "WEIR_TIMEOUT_MS=", "WEIR_SOCKET_IFNAME=", "WEIR_IB_HCA=", "WEIR_IB_GID_INDEX=",
    "WEIR_NCCL_SO=", "WEIR_NCCL_FALLBACK=", "WEIR_ALLOW_SHARED_GPU=",
    "OMPI_COMM_WORLD_SIZE=", "OMPI_COMM_WORLD_LOCAL_SIZE=", "OMPI_MCA_btl=", "OMPI_MCA_pml=",
    "OMPI_MCA_btl_vader_single_copy_mechanism=", "OMPI_MCA_mpi_yield_when_idle=",
    "OMPI_MCA_coll_tuned_use_dynamic_rules=", "UCX_TLS=", "UCX_NET_DEVICES=",
    "OMP_NUM_THREADS=", "OMP_PROC_BIND=", "CUDA_VISIBLE_DEVICES=",
    "NCCL_ALGO=", "NCCL_PROTO=", "NCCL_NVLS_ENABLE=", "NCCL_SOCKET_IFNAME=",
    "NCCL_GRAPH_MIXING_SUPPORT=", "NCCL_TESTS_MIN_BW=",
    "LD_PRELOAD=", "LD_LIBRARY_PATH=", "MALLOC_ARENA_MAX=", "GLIBC_TUNABLES=",
};

int bench_environment_allows(const char *variable)
{
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        if (strncmp(variable, allowed[i], strlen(allowed[i])) == 0)
            return 1;
    return 0;
}
