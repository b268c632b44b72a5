/* How functions begin and end that need all or some ranks: aborted communicators, and waits over
 * the bootstrap. */
#include "comm/comm.h"

#include "base/error.h"

#include <stdio.h>
#include <time.h>

void weiri_comm_set_failure(weir_comm *comm, weir_status status, const char *text)
{
    snprintf(comm->failure_text, sizeof comm->failure_text, "%s", text);
    weir_store_release(&comm->failure, (uint64_t) - (int)status);
}

weir_status weiri_comm_fail_lane(const weir_comm *comm)
{
    enum { NAP_NS = 1000000, NAPS = 500 };
    uint64_t failure = weir_load_acquire(&comm->failure);
    for (int i = 0; !failure && i < NAPS && weir_load_relaxed(&comm->lanes_run); i++) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        failure = weir_load_acquire(&comm->failure);
    }
    return failure ? weiri_fail((weir_status) - (int)failure, "%s", comm->failure_text) : WEIR_OK;
}

weir_status weiri_comm_fail_aborted(weir_comm *comm, const char *function)
{
    if (weiri_comm_fail_lane(comm) != WEIR_OK)
        return (weir_status) - (int)comm->failure;
    const uint64_t reason = weir_load_acquire(comm->guard.abort_word);
    char why[64] = "";
    if (reason == WEIRI_ABORT_FAILED && comm->await_calls && comm->await_calls(comm) != WEIR_OK)
        return WEIR_ERR_MISMATCH;
    if (reason >= WEIRI_ABORT_BUFFER)
        snprintf(why, sizeof why, " because of a bad buffer of rank %d",
                 (int)(reason - WEIRI_ABORT_BUFFER));
    return weiri_fail(WEIR_ERR_ABORTED,
                      "rank %d: %s: the communicator was aborted%s, so it can only be queried "
                      "(weir_comm_check, weir_comm_report) and destroyed; create another one",
                      weiri_comm_parent_rank(comm, comm->rank), function, why);
}

static int setup_has_ended(void *opaque)
{
    weir_comm *comm = opaque;
    if (comm->internode)
        comm->progress(comm->internode);
    return weiri_comm_is_aborted(comm);
}

weir_status weiri_setup_begin(weiri_setup *setup, weir_comm *comm, const char *function)
{
    const weir_status status = weiri_comm_admit(comm, function);
    if (status != WEIR_OK)
        return status;
    *setup =
        (weiri_setup){.comm = comm,
                      .function = function,
                      .guard = {setup_has_ended, comm, (int)(comm->guard.timeout_ns / 1000000u)},
                      .outer = weiri_wait_guarded};
    weiri_wait_guarded = &setup->guard;
    return WEIR_OK;
}

weir_status weiri_setup_end(const weiri_setup *setup, weir_status status)
{
    weiri_wait_guarded = setup->outer;
    const int is_cause = status != WEIR_OK && !weiri_status_is_consequence(status);
    return weiri_comm_was_aborted(setup->comm) && !is_cause
               ? weiri_comm_fail_aborted(setup->comm, setup->function)
               : status;
}
