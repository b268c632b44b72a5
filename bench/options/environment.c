/* The variables of weir's own table, and a list of others: see environment.h. */
#include "bench/options/environment.h"

#include "base/env.h"

#include <stddef.h>
#include <string.h>

/* Variables of launchers, of the libraries measured beside weir, and of the C library. */
static const char *const others[] = {
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_MCA_btl", "OMPI_MCA_pml",
    "OMPI_MCA_coll", "OMPI_MCA_btl_vader_single_copy_mechanism", "OMPI_MCA_smsc",
    "OMPI_MCA_mpi_yield_when_idle", "OMPI_MCA_coll_tuned_use_dynamic_rules", "UCX_TLS",
    "UCX_NET_DEVICES", "I_MPI_FABRICS", "I_MPI_PIN", "FI_PROVIDER", "MPIR_CVAR_DEVICE_COLLECTIVES",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE", "OMP_NUM_THREADS", "OMP_PROC_BIND", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "NCCL_ALGO", "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_BUFFSIZE",
    "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE", "NCCL_NTHREADS", "NCCL_P2P_LEVEL",
    "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET",
    "NCCL_NET_GDR_LEVEL", "NCCL_CROSS_NIC", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE",
    "NCCL_CTA_POLICY", "NCCL_WIN_ENABLE", "NCCL_TUNER_PLUGIN", "NCCL_NET_PLUGIN",
    "NCCL_TESTS_MIN_BW", "LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES",
};

/* "NAME=value" of this name. */
static int environment_is(const char *variable, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

/* Variables of weir's table that say how this library, or NCCL, works: neither those that a
 * launcher sets for one rank, nor the secret of the bootstrap. */
static int environment_is_setting(weiri_env_key key)
{
    const char *name = weiri_env_name(key);
    if (key == WEIRI_ENV_BOOT_SECRET || key == WEIRI_ENV_BOOT_PORT)
        return 0;
    return strncmp(name, "WEIR_", 5) == 0 || strncmp(name, "NCCL_", 5) == 0;
}

int bench_environment_allows(const char *variable)
{
    for (int key = 0; key < WEIRI_ENV_COUNT; key++)
        if (environment_is_setting((weiri_env_key)key) &&
            environment_is(variable, weiri_env_name((weiri_env_key)key)))
            return 1;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (environment_is(variable, others[i]))
            return 1;
    return 0;
}
