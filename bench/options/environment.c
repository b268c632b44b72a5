/* The variables of weir's own table, and a list of others: see environment.h. */
#include "bench/options/environment.h"

#include "base/env_check.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Variables of launchers, of the libraries measured beside weir, and of the C library. */
static const char *const others[] = {
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_btl",
    "OMPI_MCA_pml",
    "OMPI_MCA_coll",
    "OMPI_MCA_btl_vader_single_copy_mechanism",
    "OMPI_MCA_smsc",
    "OMPI_MCA_mpi_yield_when_idle",
    "OMPI_MCA_coll_tuned_use_dynamic_rules",
    "UCX_TLS",
    "UCX_NET_DEVICES",
    "I_MPI_FABRICS",
    "I_MPI_PIN",
    "FI_PROVIDER",
    "MPIR_CVAR_DEVICE_COLLECTIVES",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_NTHREADS",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_IB_DISABLE",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_CTA_POLICY",
    "NCCL_WIN_ENABLE",
    "NCCL_TUNER_PLUGIN",
    "NCCL_NET_PLUGIN",
    "NCCL_TESTS_MIN_BW",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "MALLOC_ARENA_MAX",
    "GLIBC_TUNABLES",
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

/* Names that may be a misspelt secret. */
static int environment_may_be_secret(const char *variable, const char *closest)
{
    static const char *const words[] = {"SECR", "KEY", "TOKEN", "PASS"};
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(variable, "="), variable);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(name, words[i]))
            return 1;
    return closest && strcmp(closest, weiri_env_name(WEIRI_ENV_BOOT_SECRET)) == 0;
}

int bench_environment_allows(const char *variable)
{
    const char *closest;
    if (strchr(variable, '=') && weiri_env_is_unknown(variable, &closest))
        return !environment_may_be_secret(variable, closest);
    for (int key = 0; key < WEIRI_ENV_COUNT; key++)
        if (environment_is_setting((weiri_env_key)key) &&
            environment_is(variable, weiri_env_name((weiri_env_key)key)))
            return 1;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (environment_is(variable, others[i]))
            return 1;
    return 0;
}

/* Variables with which users change nccl-tests and NCCL, and what does the same for weir. */
static const struct {
    const char *name, *instead;
    int is_of_tests; /* of nccl-tests, rather than of the library NCCL */
} foreign[] = {
    {"NCCL_TESTS_SPLIT", "all ranks are measured together: start a job for each group", 1},
    {"NCCL_TESTS_SPLIT_MASK", "all ranks are measured together: start a job for each group", 1},
    {"NCCL_TESTS_DEVICE", "ranks use the GPUs of CUDA_VISIBLE_DEVICES in their order", 1},
    {"NCCL_ALGO", "--algo", 0},
    {"NCCL_PROTO", "--algo", 0},
    {"NCCL_NET", "--transport", 0},
    {"NCCL_IB_DISABLE", "--transport tcp", 0},
    {"NCCL_SHM_DISABLE", NULL, 0},
    {"NCCL_P2P_DISABLE", NULL, 0},
    {"NCCL_P2P_LEVEL", NULL, 0},
    {"NCCL_IB_HCA", "WEIR_IB_HCA", 0},
    {"NCCL_IB_GID_INDEX", "WEIR_IB_GID_INDEX", 0},
    {"NCCL_SOCKET_NTHREADS", "WEIR_SOCKET_STREAMS", 0},
    {"NCCL_NSOCKS_PERTHREAD", "WEIR_SOCKET_STREAMS", 0},
    {"NCCL_COMM_ID", NULL, 0},
    {"NCCL_HOSTID", "WEIR_HOSTID", 0},
    {"NCCL_MIN_NCHANNELS", NULL, 0},
    {"NCCL_MAX_NCHANNELS", NULL, 0},
    {"NCCL_MIN_CTAS", NULL, 0},
    {"NCCL_MAX_CTAS", NULL, 0},
    {"NCCL_NTHREADS", NULL, 0},
    {"NCCL_BUFFSIZE", NULL, 0},
};

int bench_environment_foreign(int of_tests, char *text, size_t bytes)
{
    int count = 0;
    size_t used = 0;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        const char *value = getenv(foreign[i].name);
        if (!value || !*value || foreign[i].is_of_tests != of_tests || used >= bytes)
            continue;
        const int shown = foreign[i].instead != NULL;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s%s%s", count ? "; " : "",
                                 foreign[i].name, shown ? " (" : "",
                                 shown ? foreign[i].instead : "", shown ? ")" : "");
        count++;
    }
    return count;
}
