/*
 * The bootstrap over MPI.
 *
 * MPI waits without a deadline, so every operation is non-blocking and is tested until the
 * deadline. An operation that misses it cannot be cancelled: its buffers, which are copies for
 * that reason, are left to MPI, and the bootstrap is broken from then on.
 *
 * MPI matches messages by tag, but here a message that does not match the next receive is an error
 * that must be reported. So all messages have the same MPI tag and begin with a header that
 * contains the caller's tag.
 */
#include "base/config.h"
#include "base/error.h"
#include "base/mpi_names.h"
#include "base/mpi_open.h"
#include "boot/deadline.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_TAG = 1 };

typedef struct mpi_boot {
    MPI_Comm comm;
    int rank, nranks, timeout_ms;
    weir_status broken; /* WEIR_OK, or the failure that broke the bootstrap */
    char reason[384];
} mpi_boot;

typedef struct header {
    int32_t tag;
    int32_t unused;
    uint64_t bytes;
} header;

static weir_status mpi_fail(int rank, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return weiri_fail(WEIR_ERR_SYSTEM, "rank %d, %s: %s", rank, what, text);
}

static weir_status mpi_break(mpi_boot *boot, weir_status status)
{
    boot->broken = status;
    snprintf(boot->reason, sizeof boot->reason, "%s", weir_last_error());
    return status;
}

static weir_status mpi_usable(const mpi_boot *boot)
{
    if (boot->broken == WEIR_OK)
        return WEIR_OK;
    return weiri_fail(boot->broken, "rank %d: the mpi bootstrap failed before: %s", boot->rank,
                      boot->reason);
}

static void *mpi_copy_buffer(const mpi_boot *boot, size_t bytes, weir_status *status)
{
    if (bytes > INT_MAX) {
        *status = weiri_fail(WEIR_ERR_UNSUPPORTED,
                             "rank %d: %zu bytes at once; the mpi bootstrap moves at most %d",
                             boot->rank, bytes, INT_MAX);
        return NULL;
    }
    void *copy = malloc(bytes ? bytes : 1);
    *status = copy ? WEIR_OK
                   : weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for a copy of %zu bytes",
                                boot->rank, bytes);
    return copy;
}

/* Tests the request until it is complete. A timeout breaks the bootstrap; the request's buffer must
 * then not be freed. */
static weir_status mpi_complete(mpi_boot *boot, MPI_Request *request, const char *what)
{
    weiri_deadline deadline = weiri_deadline_in(boot->timeout_ms);
    for (;;) {
        int done = 0;
        int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            return mpi_break(boot, mpi_fail(boot->rank, code, what));
        if (done)
            return WEIR_OK;
        if (weiri_deadline_left_ms(&deadline) == 0)
            break;
        sched_yield();
    }
    weiri_fail(WEIR_ERR_TIMEOUT,
               "rank %d, %s: not complete after %d ms; check whether the other ranks run, or raise "
               "WEIR_TIMEOUT_MS",
               boot->rank, what, boot->timeout_ms);
    return mpi_break(boot, WEIR_ERR_TIMEOUT);
}

static weir_status mpi_allgather(void *context, void *all, size_t bytes)
{
    mpi_boot *boot = context;
    weir_status status = mpi_usable(boot);
    if (status != WEIR_OK)
        return status;
    char what[64];
    snprintf(what, sizeof what, "allgather of %zu bytes", bytes);
    size_t total = bytes * (size_t)boot->nranks;
    char *copy = mpi_copy_buffer(boot, total, &status);
    if (!copy)
        return status;
    size_t own = (size_t)boot->rank * bytes;
    if (bytes > 0)
        memcpy(copy + own, (char *)all + own, bytes);
    MPI_Request request;
    int code = MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, copy, (int)bytes, MPI_BYTE,
                              boot->comm, &request);
    if (code != MPI_SUCCESS) {
        free(copy);
        return mpi_break(boot, mpi_fail(boot->rank, code, what));
    }
    status = mpi_complete(boot, &request, what);
    if (status != WEIR_OK)
        return status; /* MPI may still write to the copy */
    if (bytes > 0)
        memcpy(all, copy, total);
    free(copy);
    return WEIR_OK;
}

static weir_status mpi_barrier(void *context)
{
    mpi_boot *boot = context;
    weir_status status = mpi_usable(boot);
    if (status != WEIR_OK)
        return status;
    MPI_Request request;
    int code = MPI_Ibarrier(boot->comm, &request);
    if (code != MPI_SUCCESS)
        return mpi_break(boot, mpi_fail(boot->rank, code, "barrier"));
    return mpi_complete(boot, &request, "barrier");
}

static weir_status mpi_send(void *context, const void *data, size_t bytes, int peer, int tag)
{
    mpi_boot *boot = context;
    weir_status status = mpi_usable(boot);
    if (status != WEIR_OK)
        return status;
    char what[80];
    snprintf(what, sizeof what, "send of %zu bytes with tag %d to rank %d", bytes, tag, peer);
    header head = {.tag = tag, .bytes = bytes};
    size_t total = sizeof head + bytes;
    char *copy = mpi_copy_buffer(boot, total, &status);
    if (!copy)
        return status;
    memcpy(copy, &head, sizeof head);
    if (bytes > 0)
        memcpy(copy + sizeof head, data, bytes);
    MPI_Request request;
    int code = MPI_Isend(copy, (int)total, MPI_BYTE, peer, MESSAGE_TAG, boot->comm, &request);
    if (code != MPI_SUCCESS) {
        free(copy);
        return mpi_break(boot, mpi_fail(boot->rank, code, what));
    }
    status = mpi_complete(boot, &request, what);
    if (status == WEIR_OK)
        free(copy);
    /* NOLINTNEXTLINE(*-unix.Malloc): after a failure MPI may still read from the copy */
    return status;
}

/* Waits until a message of the peer has arrived. A timeout consumes nothing, so the bootstrap stays
 * usable. */
static weir_status mpi_find_message(mpi_boot *boot, int peer, const char *what,
                                    MPI_Message *message, int *total)
{
    weiri_deadline deadline = weiri_deadline_in(boot->timeout_ms);
    MPI_Status found;
    for (;;) {
        int there = 0;
        int code = MPI_Improbe(peer, MESSAGE_TAG, boot->comm, &there, message, &found);
        if (code != MPI_SUCCESS)
            return mpi_break(boot, mpi_fail(boot->rank, code, what));
        if (there)
            break;
        if (weiri_deadline_left_ms(&deadline) == 0)
            return weiri_fail(WEIR_ERR_TIMEOUT,
                              "rank %d, %s: rank %d has not sent after %d ms; is it stuck, or "
                              "slower than WEIR_TIMEOUT_MS allows?",
                              boot->rank, what, peer, boot->timeout_ms);
        sched_yield();
    }
    MPI_Get_count(&found, MPI_BYTE, total);
    return WEIR_OK;
}

static weir_status mpi_recv(void *context, void *data, size_t bytes, int peer, int tag)
{
    mpi_boot *boot = context;
    weir_status status = mpi_usable(boot);
    if (status != WEIR_OK)
        return status;
    char what[80];
    snprintf(what, sizeof what, "receive of %zu bytes with tag %d", bytes, tag);
    MPI_Message message;
    int total = 0;
    status = mpi_find_message(boot, peer, what, &message, &total);
    if (status != WEIR_OK)
        return status;
    char *copy = mpi_copy_buffer(boot, (size_t)total, &status);
    if (!copy)
        return mpi_break(boot, status);
    MPI_Request request;
    int code = MPI_Imrecv(copy, total, MPI_BYTE, &message, &request);
    if (code != MPI_SUCCESS) {
        free(copy);
        return mpi_break(boot, mpi_fail(boot->rank, code, what));
    }
    status = mpi_complete(boot, &request, what);
    if (status != WEIR_OK)
        return status; /* MPI may still write to the copy */
    header head;
    memcpy(&head, copy, sizeof head);
    if (head.tag == tag && head.bytes == bytes) {
        if (bytes > 0)
            memcpy(data, copy + sizeof head, bytes);
    } else {
        status = weiri_fail(WEIR_ERR_MISMATCH,
                            "rank %d expected %zu bytes with tag %d from rank %d, got %llu bytes "
                            "with tag %d; sends and receives of two ranks must match in order",
                            boot->rank, bytes, tag, peer, (unsigned long long)head.bytes, head.tag);
    }
    free(copy);
    return status;
}

static void mpi_destroy(void *context)
{
    mpi_boot *boot = context;
    int finalized = 0;
    MPI_Finalized(&finalized);
    /* MPI_Comm_free could wait for an operation that never completed. */
    if (!finalized && boot->broken == WEIR_OK)
        MPI_Comm_free(&boot->comm);
    free(boot);
}

static void mpi_set_timeout(void *context, int timeout_ms)
{
    ((mpi_boot *)context)->timeout_ms = timeout_ms;
}

static const weir_boot_ops mpi_ops = {.name = "mpi",
                                      .allgather = mpi_allgather,
                                      .send = mpi_send,
                                      .recv = mpi_recv,
                                      .barrier = mpi_barrier,
                                      .destroy = mpi_destroy,
                                      .set_timeout = mpi_set_timeout};

/* A launcher and an MPI library that do not belong together run n programs of one rank each. The
 * variables of the innermost launcher come first, since an mpirun may run within a job of another
 * launcher. SLURM_NTASKS is not used: it is also set in allocations into which this process was not
 * launched. */
static weir_status mpi_check_launcher(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                            "MV2_COMM_WORLD_SIZE",  "SLURM_STEP_NUM_TASKS",
                                            "FLUX_JOB_SIZE",        "JSM_NAMESPACE_SIZE"};
    int world = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (!value || !*value)
            continue;
        long launched = strtol(value, NULL, 10);
        if (launched <= world)
            return WEIR_OK;
        char library[MPI_MAX_LIBRARY_VERSION_STRING] = "?";
        int length = 0;
        MPI_Get_library_version(library, &length);
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "the launcher started %ld processes (%s), but MPI sees %d: start the "
                          "program with the mpirun of %.*s%s%s%s",
                          launched, variables[i], world, (int)strcspn(library, ",\n"), library,
                          *weiri_mpi_file() ? ", or name another library than " : "",
                          weiri_mpi_file(), *weiri_mpi_file() ? " by WEIR_MPI_SO" : "");
    }
    return WEIR_OK;
}

weir_status weir_boot_mpi_create_from(const weir_mpi_library *library, weir_mpi_handle comm,
                                      weir_boot **boot)
{
    WEIRI_REQUIRE(library && boot);
    int initialized = 0;
    weir_status status = weiri_mpi_take(library);
    if (status != WEIR_OK)
        return status;
    MPI_Initialized(&initialized);
    if (!initialized)
        return weiri_fail(WEIR_ERR_INVALID, "weir_boot_mpi_create: call MPI_Init before it");
    status = mpi_check_launcher();
    if (status != WEIR_OK)
        return status;
    mpi_boot *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the mpi bootstrap");
    int code = MPI_Comm_dup(comm, &made->comm);
    if (code != MPI_SUCCESS) {
        status = mpi_fail(-1, code, "duplicating the communicator");
        goto free_made;
    }
    MPI_Comm_set_errhandler(made->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(made->comm, &made->rank);
    MPI_Comm_size(made->comm, &made->nranks);
    made->timeout_ms = weiri_config_timeout_ms();
    status = weir_boot_create(&mpi_ops, made, made->rank, made->nranks, boot);
    if (status != WEIR_OK)
        goto free_comm;
    return WEIR_OK;

free_comm:
    MPI_Comm_free(&made->comm);
free_made:
    free(made);
    return status;
}
