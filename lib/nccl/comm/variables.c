/* Which of NCCL's variables that are set have an effect: see variables.h. */
#include "nccl/comm/variables.h"

#include "base/env.h"
#include "base/env_check.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 64, LIST_BYTES = 640, TYPO_LETTERS = 2 };

/* Variables of NCCL 2.32, and of older versions, without their prefix. A name that is not among
 * them is unknown, and has no effect either. */
static const char known[] =
    "ALGO ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CFT_ENABLE CGA_CLUSTER_SIZE CHECKS_DISABLE "
    "CHECK_MODE CHECK_POINTERS COLLNET_ENABLE COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_ID "
    "COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONF_FILE CROSS_NIC CTA_POLICY "
    "CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT "
    "DEBUG_TIMESTAMP_LEVELS DMABUF_ENABLE ENV_PLUGIN GDRCOPY_ENABLE GDRCOPY_FLUSH_ENABLE "
    "GDRCOPY_SYNC_ENABLE GDR_FLUSH_DISABLE GIN_ENABLE GIN_PLUGIN GIN_TYPE GRAPH_DUMP_FILE "
    "GRAPH_FILE GRAPH_MIXING_SUPPORT GRAPH_REGISTER HOSTID IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY "
    "IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC "
    "IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_MERGE_VFS IB_PCI_RELAXED_ORDERING IB_PKEY "
    "IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_SL "
    "IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT IGNORE_CPU_AFFINITY INSPECTOR_DUMP_DIR "
    "INSPECTOR_DUMP_MIN_SIZE_BYTES INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS INSPECTOR_ENABLE "
    "INSPECTOR_ENABLE_P2P INSPECTOR_PROM_DUMP IPC_USE_ABSTRACT_SOCKET "
    "LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE "
    "LL128_NTHREADS LL_BUFFSIZE LL_THRESHOLD LOCAL_REGISTER MAX_CTAS MAX_NCHANNELS MAX_NRINGS "
    "MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS "
    "MNNVL_CLIQUE_ID MNNVL_ENABLE MNNVL_UUID NET NET_DISABLE_INTRA NET_FORCE_MERGE "
    "NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_MERGE_LEVEL NET_PLUGIN NET_SHARED_BUFFERS "
    "NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NVB_DISABLE NVLS_CHUNKSIZE NVLS_ENABLE "
    "NVTX_DISABLE OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL "
    "P2P_LL_THRESHOLD P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PXN_LEVEL "
    "PARAM_DUMP_ALL PAT_ENABLE PROFILER_PLUGIN PROTO PXN_C2C PXN_DISABLE RAS_ADDR RAS_ENABLE "
    "RAS_TIMEOUT_FACTOR RMA_DISABLE RUNTIME_CONNECT SET_STACK_SIZE SET_THREAD_NAME "
    "SHM_DISABLE SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS "
    "SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC "
    "SOCKET_SNDBUF TOPO_DUMP_FILE TOPO_FILE TREE_THRESHOLD TUNER_PLUGIN UID_STAGGER_RATE "
    "UID_STAGGER_THRESHOLD WIN_ENABLE";

/* What does the same for weir. */
static const struct {
    const char *name, *instead;
} instead[] = {
    {"NCCL_ALGO", "WEIR_ALGO"},
    {"NCCL_PROTO", "WEIR_ALGO"},
    {"NCCL_NET", "WEIR_TRANSPORT"},
    {"NCCL_IB_DISABLE", "WEIR_TRANSPORT=tcp"},
    {"NCCL_IB_HCA", "WEIR_IB_HCA"},
    {"NCCL_IB_GID_INDEX", "WEIR_IB_GID_INDEX"},
    {"NCCL_SOCKET_NTHREADS", "WEIR_SOCKET_STREAMS"},
    {"NCCL_NSOCKS_PERTHREAD", "WEIR_SOCKET_STREAMS"},
    {"NCCL_HOSTID", "WEIR_HOSTID"},
    {"NCCL_RUNTIME_CONNECT", "WEIR_CONNECT"},
};

/* Variables with NCCL's prefix that other software reads: images of containers, builds, PyTorch,
 * nccl-tests; and the one that is reported elsewhere. */
static const char *const elsewhere[] = {
    "NCCL_VERSION",         "NCCL_HOME",         "NCCL_ROOT",
    "NCCL_ROOT_DIR",        "NCCL_DIR",          "NCCL_LIB_DIR",
    "NCCL_LIBRARY",         "NCCL_INCLUDE_DIR",  "NCCL_SO_PATH",
    "NCCL_BLOCKING_WAIT",   "NCCL_DESYNC_DEBUG", "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_PROFILER_PLUGIN",
};

/* Names in a line of the log, "A, B (C)". */
typedef struct variable_list {
    char text[LIST_BYTES];
    size_t used;
} variable_list;

static void variable_list_add(variable_list *list, const char *name, const char *note)
{
    char entry[2 * NAME_BYTES];
    const int bytes = snprintf(entry, sizeof entry, "%s%s%s%s%s", list->used ? ", " : "", name,
                               note ? " (" : "", note ? note : "", note ? ")" : "");
    if (list->used + (size_t)bytes >= sizeof list->text)
        return;
    memcpy(list->text + list->used, entry, (size_t)bytes + 1);
    list->used += (size_t)bytes;
}

static int variable_is_obeyed(const char *name)
{
    for (int key = 0; key < WEIRI_ENV_COUNT; key++)
        if (strcmp(name, weiri_env_name((weiri_env_key)key)) == 0)
            return 1;
    return strcmp(name, "NCCL_PARAM_DUMP_ALL") == 0;
}

static int variable_is_read_elsewhere(const char *name)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(name, elsewhere[i]) == 0)
            return 1;
    return strncmp(name, "NCCL_TESTS_", strlen("NCCL_TESTS_")) == 0;
}

static const char *variable_instead(const char *name)
{
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (strcmp(name, instead[i].name) == 0)
            return instead[i].instead;
    return NULL;
}

/* Whether name is none of NCCL's, and resembles one, which closest becomes. */
static int variable_is_typo(const char *name, char closest[NAME_BYTES])
{
    int least = TYPO_LETTERS + 1;
    for (const char *at = known; *at; at += strspn(at, " ")) {
        char other[NAME_BYTES];
        const int length = (int)strcspn(at, " ");
        snprintf(other, sizeof other, "NCCL_%.*s", length, at);
        at += length;
        const int distance = weiri_env_distance(name, other);
        if (distance < least) {
            least = distance;
            memcpy(closest, other, sizeof other);
        }
    }
    return least > 0 && least <= TYPO_LETTERS;
}

static void variable_sort(const char *variable, variable_list *obeyed, variable_list *ignored)
{
    char name[NAME_BYTES], closest[NAME_BYTES];
    const size_t length = strcspn(variable, "=");
    if (strncmp(variable, "NCCL_", 5) != 0 || length >= sizeof name || !variable[length] ||
        !variable[length + 1])
        return;
    snprintf(name, sizeof name, "%.*s", (int)length, variable);
    if (variable_is_read_elsewhere(name))
        return;
    if (variable_is_obeyed(name))
        variable_list_add(obeyed, name, NULL);
    else if (variable_is_typo(name, closest))
        weiri_log(WEIRI_LOG_WARN, "%s is no variable of NCCL and has no effect; did you mean %s%s?",
                  name, closest, variable_is_obeyed(closest) ? "" : ", which weir does not obey");
    else
        variable_list_add(ignored, name, variable_instead(name));
}

/* NCCL_DEBUG is the level of the log, unless WEIR_LOG sets it. */
static void variables_set_log(void)
{
    const char *debug = weiri_env(WEIRI_ENV_NCCL_DEBUG);
    if (!debug || weiri_env(WEIRI_ENV_LOG))
        return;
    if (strcasecmp(debug, "INFO") == 0)
        weiri_log_raise(WEIRI_LOG_INFO);
    else if (strcasecmp(debug, "TRACE") == 0)
        weiri_log_raise(WEIRI_LOG_DEBUG);
}

void weiri_nccl_variables_report(int rank)
{
    extern char **environ;
    static atomic_flag is_done = ATOMIC_FLAG_INIT;
    variable_list obeyed = {.used = 0}, ignored = {.used = 0};
    if (atomic_flag_test_and_set(&is_done))
        return;
    variables_set_log();
    for (char **variable = environ; rank == 0 && variable && *variable; variable++)
        variable_sort(*variable, &obeyed, &ignored);
    if (obeyed.used)
        weiri_log(WEIRI_LOG_INFO, "variables of NCCL that are set and weir obeys: %s", obeyed.text);
    if (ignored.used)
        weiri_log(WEIRI_LOG_WARN, "variables of NCCL that are set and weir does not obey: %s",
                  ignored.text);
}
