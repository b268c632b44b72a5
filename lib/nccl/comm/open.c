/*
 * Opening and closing what a communicator has besides its bootstrap: weir's communicator, and the
 * memory of messages and one-sided calls. Creating, resuming and suspending use it.
 */
#include "nccl/comm/init.h"

#include "nccl/gpu/gpu.h"
#include "nccl/vendor/vendor.h"

#include "base/config.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* How far apart ranks may call, unless WEIR_TIMEOUT_MS is set. Programs written for NCCL expect
 * calls to wait indefinitely. */
enum { DEFAULT_TIMEOUT_MS = 600000 };

int weiri_nccl_timeout_ms(void)
{
    long value = DEFAULT_TIMEOUT_MS;
    if (weiri_env_long(WEIRI_ENV_TIMEOUT_MS, 1, WEIRI_TIMEOUT_MS_MAX, DEFAULT_TIMEOUT_MS, &value) !=
        WEIR_OK) /* creation of the communicator rejects it */
        return DEFAULT_TIMEOUT_MS;
    return (int)value;
}

/* Identifies the process of a rank. */
typedef struct process_entry {
    uint64_t job; /* of rank 0: a random number */
    uint64_t host;
    int64_t pid;
    int32_t contexts, signals; /* must be equal */
} process_entry;

/* Fills in the members that destruction needs. Collective; agreed. */
static weir_status exchange_process_entries(weiri_nccl_comm *own)
{
    process_entry *entries = calloc((size_t)own->nranks, sizeof *entries);
    weir_status status =
        entries ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d ranks", own->nranks);
    status = weir_boot_agree(own->boot, status);
    if (status != WEIR_OK) {
        free(entries);
        return status;
    }
    process_entry *mine = &entries[own->rank];
    *mine = (process_entry){.host = weiri_host_id(),
                            .pid = (int64_t)getpid(),
                            .contexts = own->settings.contexts,
                            .signals = own->settings.signals};
    if (getrandom(&mine->job, sizeof mine->job, 0) != (ssize_t)sizeof mine->job)
        mine->job = (uint64_t)(uintptr_t)own;
    status = weir_boot_allgather(own->boot, entries, sizeof *entries);
    own->job = entries->job;
    own->local_nranks = 0;
    for (int rank = 0; rank < own->nranks; rank++)
        own->local_nranks += entries[rank].host == mine->host && entries[rank].pid == mine->pid;
    for (int rank = 0; rank < own->nranks && status == WEIR_OK; rank++)
        if (entries[rank].contexts != entries->contexts ||
            entries[rank].signals != entries->signals)
            status = weiri_fail(WEIR_ERR_MISMATCH,
                                "numRmaCtx and numRmaSig differ: %d and %d on "
                                "rank 0, %d and %d on rank %d; all ranks must pass the same",
                                entries->contexts, entries->signals, entries[rank].contexts,
                                entries[rank].signals, rank);
    free(entries);
    return status;
}

/* Requests the CUDA backend wherever there are GPUs; otherwise device memory that a program passes
 * would be taken for host memory. */
weir_status weiri_nccl_comm_open(weiri_nccl_comm *own)
{
    const char *backend = weiri_env(WEIRI_ENV_BACKEND);
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.timeout_ms = weiri_nccl_timeout_ms();
    if (!backend || strcmp(backend, "auto") == 0)
        config.backend = own->device >= 0 ? WEIR_BACKEND_CUDA : WEIR_BACKEND_HOST;
    config.device = own->device;
    weiri_budget budget = own->settings.budget;
    (void)weiri_nccl_read_environment(&budget); /* a failure is reported below */
    config.min_blocks = budget.least;
    config.max_blocks = budget.most;
    config.block_policy = budget.policy;
    weir_status status = weir_comm_create(own->boot, &config, &own->comm);
    if (status != WEIR_OK)
        return weiri_nccl_vendor_init(own, status);
    status = weir_boot_agree(own->boot, weiri_nccl_read_environment(&budget));
    if (status != WEIR_OK)
        return status;
    own->comm->aborts_locally = 1;
    own->device = weir_comm_device(own->comm);
    status = exchange_process_entries(own);
    if (status == WEIR_OK)
        status = weiri_nccl_p2p_create(own);
    if (status != WEIR_OK)
        return status;
    status = weiri_nccl_rma_create(own);
    if (status == WEIR_OK && own->device >= 0)
        status = weiri_nccl_gpu_load(own);
    return weir_boot_agree(own->boot, status);
}

void weiri_nccl_comm_close(weiri_nccl_comm *own)
{
    if (!own->comm)
        return;
    weiri_nccl_rma_destroy(own);
    weiri_nccl_p2p_destroy(own);
    if (weir_comm_destroy(own->comm) != WEIR_OK)
        weiri_log(WEIRI_LOG_INFO, "%s", weir_last_error());
    own->comm = NULL;
}
