/* The variables of weir's own table, and a table of others: see environment.h. */
#define _GNU_SOURCE /* environ */
#include "bench/options/environment.h"

#include "base/env_check.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char tests_prefix[] = "NCCL_TESTS_";

/* What a variable of others changes. */
typedef enum environment_use {
    USE_OBEYED, /* weir, because weir reads it, or because CUDA or the loader does */
    USE_PEERS,  /* the libraries that --peer measures, and MPI; not weir */
    USE_NONE,   /* nothing */
} environment_use;

/* What to do about it. */
enum {
    RECORD = 1, /* results may record it */
    WARN = 2,   /* a run in which it is set may not be what its user means: a line names it */
};

/* Variables with which users change NCCL, nccl-tests, MPI, Slurm and CUDA. Those that weir reads by
 * their own names are in base/env.h. instead: what does the same for weir, or what decides. */
static const struct environment_row {
    const char *name;
    environment_use use;
    int flags;
    const char *instead;
} others[] = {
    {"NCCL_TESTS_SPLIT", USE_OBEYED, RECORD, "divide the ranks, as --split does"},
    {"NCCL_TESTS_SPLIT_MASK", USE_OBEYED, RECORD, "divide the ranks, as --split does"},
    {"NCCL_TESTS_DEVICE", USE_NONE, WARN,
     "ranks use the GPUs of CUDA_VISIBLE_DEVICES in their order"},
    {"NCCL_TESTS_MIN_BW", USE_OBEYED, RECORD, "the footer must reach 90% of this value"},
    {"NCCL_ALGO", USE_PEERS, RECORD | WARN, "--algo"},
    {"NCCL_PROTO", USE_PEERS, RECORD | WARN, "--algo"},
    {"NCCL_NET", USE_PEERS, RECORD | WARN, "--transport"},
    {"NCCL_IB_DISABLE", USE_PEERS, RECORD | WARN, "--transport tcp"},
    {"NCCL_SHM_DISABLE", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_P2P_DISABLE", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_P2P_LEVEL", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_IB_HCA", USE_PEERS, RECORD | WARN, "WEIR_IB_HCA"},
    {"NCCL_IB_GID_INDEX", USE_PEERS, RECORD | WARN, "WEIR_IB_GID_INDEX"},
    {"NCCL_IB_TC", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_IB_SL", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_IB_PKEY", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_SOCKET_FAMILY", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_SOCKET_NTHREADS", USE_PEERS, RECORD | WARN, "WEIR_SOCKET_STREAMS"},
    {"NCCL_NSOCKS_PERTHREAD", USE_PEERS, RECORD | WARN, "WEIR_SOCKET_STREAMS"},
    {"NCCL_COMM_ID", USE_PEERS, WARN, NULL},
    {"NCCL_HOSTID", USE_PEERS, WARN, "WEIR_HOSTID"},
    {"NCCL_TOPO_FILE", USE_PEERS, RECORD | WARN, "WEIR_IB_HCA for another NIC"},
    {"NCCL_GRAPH_FILE", USE_PEERS, RECORD | WARN, "--algo"},
    {"NCCL_MIN_NCHANNELS", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_MAX_NCHANNELS", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_MIN_CTAS", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_MAX_CTAS", USE_PEERS, RECORD | WARN, "--sms"},
    {"NCCL_CTA_POLICY", USE_PEERS, RECORD | WARN, "WEIR_BLOCK_POLICY"},
    {"NCCL_NTHREADS", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_BUFFSIZE", USE_PEERS, RECORD | WARN, NULL},
    {"NCCL_LL_BUFFSIZE", USE_PEERS, RECORD, NULL},
    {"NCCL_LL128_BUFFSIZE", USE_PEERS, RECORD, NULL},
    {"NCCL_NET_GDR_LEVEL", USE_PEERS, RECORD, NULL},
    {"NCCL_CROSS_NIC", USE_PEERS, RECORD, NULL},
    {"NCCL_CUMEM_ENABLE", USE_PEERS, RECORD, NULL},
    {"NCCL_NVLS_ENABLE", USE_PEERS, RECORD, NULL},
    {"NCCL_CTA_POLICY", USE_PEERS, RECORD, NULL},
    {"NCCL_WIN_ENABLE", USE_PEERS, RECORD, NULL},
    {"NCCL_TUNER_PLUGIN", USE_PEERS, RECORD, NULL},
    {"NCCL_NET_PLUGIN", USE_PEERS, RECORD, NULL},
    {"NCCL_CONF_FILE", USE_PEERS, RECORD, NULL},
    {"NCCL_TOPO_DUMP_FILE", USE_PEERS, 0, "weir-topo"},
    {"NCCL_GRAPH_DUMP_FILE", USE_PEERS, 0, "weir-topo"},
    {"NCCL_DEBUG", USE_PEERS, 0, "WEIR_LOG"},
    {"OMPI_COMM_WORLD_SIZE", USE_OBEYED, RECORD, "read by the bootstrap"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", USE_OBEYED, RECORD, "read by the bootstrap"},
    {"OMPI_MCA_btl", USE_PEERS, RECORD, NULL},
    {"OMPI_MCA_pml", USE_PEERS, RECORD, NULL},
    {"OMPI_MCA_coll", USE_PEERS, RECORD, NULL},
    {"OMPI_MCA_btl_vader_single_copy_mechanism", USE_PEERS, RECORD, "WEIR_CMA"},
    {"OMPI_MCA_smsc", USE_PEERS, RECORD, "WEIR_CMA, WEIR_XPMEM"},
    {"OMPI_MCA_mpi_yield_when_idle", USE_PEERS, RECORD, NULL},
    {"OMPI_MCA_coll_tuned_use_dynamic_rules", USE_PEERS, RECORD, NULL},
    {"UCX_TLS", USE_PEERS, RECORD, "--transport"},
    {"UCX_NET_DEVICES", USE_PEERS, RECORD, "WEIR_IB_HCA"},
    {"I_MPI_FABRICS", USE_PEERS, RECORD, "--transport"},
    {"I_MPI_PIN", USE_OBEYED, RECORD, "weir keeps the cores that Intel MPI chose"},
    {"FI_PROVIDER", USE_PEERS, RECORD, "--transport"},
    {"MPIR_CVAR_DEVICE_COLLECTIVES", USE_PEERS, RECORD, NULL},
    {"MPIR_CVAR_CH4_PROGRESS_THROTTLE", USE_PEERS, RECORD, NULL},
    {"MPIR_CVAR_CH4_CMA_ENABLE", USE_PEERS, RECORD, "WEIR_CMA"},
    {"OMP_NUM_THREADS", USE_PEERS, RECORD, NULL},
    {"OMP_PROC_BIND", USE_PEERS, RECORD, NULL},
    {"CUDA_VISIBLE_DEVICES", USE_OBEYED, RECORD, "read by CUDA"},
    {"CUDA_DEVICE_ORDER", USE_OBEYED, RECORD, "read by CUDA"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", USE_OBEYED, RECORD, "read by CUDA"},
    {"CUDA_MODULE_LOADING", USE_OBEYED, RECORD, "read by CUDA"},
    {"SLURM_CPU_BIND", USE_NONE, RECORD, "weir uses the cores that the kernel allows"},
    {"SLURM_CPU_BIND_TYPE", USE_NONE, RECORD, "weir uses the cores that the kernel allows"},
    {"SLURM_CPU_BIND_LIST", USE_NONE, RECORD, "weir uses the cores that the kernel allows"},
    {"SLURM_GPUS_ON_NODE", USE_NONE, RECORD, "ranks use the GPUs that CUDA shows them"},
    {"SLURM_STEP_GPUS", USE_NONE, RECORD, "ranks use the GPUs that CUDA shows them"},
    {"SLURM_LOCALID", USE_NONE, 0, "ranks of one host are counted in the order of ranks"},
    {"HWLOC_XMLFILE", USE_PEERS, RECORD, "weir looks at the machine itself"},
    {"HWLOC_SYNTHETIC", USE_PEERS, RECORD, "weir looks at the machine itself"},
    {"LD_PRELOAD", USE_OBEYED, RECORD, "read by the loader"},
    {"LD_LIBRARY_PATH", USE_OBEYED, RECORD, "read by the loader"},
    {"MALLOC_ARENA_MAX", USE_OBEYED, RECORD, "read by the C library"},
    {"GLIBC_TUNABLES", USE_OBEYED, RECORD, "read by the C library"},
};
enum { OTHERS = sizeof others / sizeof others[0] };

/* "NAME=value" of this name. */
static int environment_is(const char *variable, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

static const struct environment_row *environment_row_of(const char *variable)
{
    for (size_t i = 0; i < OTHERS; i++)
        if (environment_is(variable, others[i].name))
            return &others[i];
    return NULL;
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
    const struct environment_row *row = environment_row_of(variable);
    return row && row->flags & RECORD;
}

/* 1 if a variable must be named. Each one of nccl-tests changes what is measured, so that unknown
 * ones are named too. */
static int environment_misleads(const char *variable, const struct environment_row *row)
{
    const char *value = strchr(variable, '=');
    if (!value || !value[1])
        return 0;
    return row ? row->flags & WARN : strncmp(variable, tests_prefix, strlen(tests_prefix)) == 0;
}

int bench_environment_foreign(int of_tests, char *text, size_t bytes)
{
    int count = 0;
    size_t used = 0;
    *text = '\0';
    for (char **at = environ; at && *at && used < bytes; at++) {
        const struct environment_row *row = environment_row_of(*at);
        const int is_of_tests = strncmp(*at, tests_prefix, strlen(tests_prefix)) == 0;
        if (is_of_tests != of_tests || !environment_misleads(*at, row))
            continue;
        const int shown = row && row->instead;
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s%s%s%s", count ? "; " : "",
                                 (int)strcspn(*at, "="), *at, shown ? " (" : "",
                                 shown ? row->instead : "", shown ? ")" : "");
        count++;
    }
    return count;
}

/* The files from which NCCL takes settings, as far as they are there: the machine's, and the user's
 * unless NCCL_CONF_FILE names another. Returns their number. */
static int environment_files_of_nccl(const char *names[2])
{
    const char *home = getenv("HOME"), *named = getenv("NCCL_CONF_FILE");
    char own[PATH_MAX];
    int count = 0;
    snprintf(own, sizeof own, "%s/.nccl.conf", home ? home : "");
    if (access("/etc/nccl.conf", R_OK) == 0)
        names[count++] = "/etc/nccl.conf";
    if ((!named || !*named) && access(own, R_OK) == 0)
        names[count++] = "~/.nccl.conf";
    return count;
}

int bench_environment_of_peers(char *text, size_t bytes)
{
    const char *files[2];
    int count = 0;
    size_t used = 0;
    *text = '\0';
    for (char **at = environ; at && *at && used < bytes; at++) {
        const struct environment_row *row = environment_row_of(*at);
        if (!row || row->use != USE_PEERS || !(row->flags & RECORD) ||
            (*at)[strlen(row->name) + 1] == '\0')
            continue;
        char *variable = text + used;
        used += (size_t)snprintf(variable, bytes - used, "%s%s", count++ ? " " : "", *at);
        for (char *c = variable + (count > 1); *c; c++)
            if ((unsigned char)*c <= ' ' || *c == 0x7f)
                *c = '?';
    }
    const int nfiles = environment_files_of_nccl(files);
    for (int i = 0; i < nfiles && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", count++ ? " " : "", files[i]);
    return count;
}

void bench_environment_help(FILE *to)
{
    static const char *const uses[] = {"obeyed", "peers only", "not used"};
    fprintf(to,
            "Variables of NCCL, MPI, Slurm and CUDA (in brackets: what does the same for weir, or "
            "what decides):\n");
    for (size_t i = 0; i < OTHERS; i++)
        fprintf(to, "  %s: %s%s%s%s\n", others[i].name, uses[others[i].use],
                others[i].instead ? " (" : "", others[i].instead ? others[i].instead : "",
                others[i].instead ? ")" : "");
}
