/*
 * Progress of the ib transport: handles completions (operations that have arrived, immediates of
 * peers, failures), checks deadlines, and prepares a thread's sleep until the next completion.
 */
#include "transport/net/ib.h"

#include "base/error.h"
#include <weir/target.h>

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Progress calls without a completion between two checks of deadlines; and between two sched_yield
 * calls if the device is software, which needs the processors. */
enum { IDLE_CALLS = 512, IDLE_CALLS_OF_SOFTWARE = 128, GIVE_WAY_CALLS = 4 };

void weiri_ib_fail(weiri_ib_endpoint *end, weir_status status, const char *format, ...)
{
    va_list arguments;
    if (end->base.failed != WEIR_OK)
        return;
    va_start(arguments, format);
    vsnprintf(end->trouble, sizeof end->trouble, format, arguments);
    va_end(arguments);
    end->base.failed = status;
    end->ib->failures++;
}

static void fail_refused(weiri_ib_endpoint *end, const char *what)
{
    weiri_ib_fail(end, WEIR_ERR_PEER,
                  "%s refuses data written by %s (%s): the memory is no longer registered there; "
                  "deregister only when no peer writes to it",
                  end->peer_name, end->ib->name, what);
}

/* Fails an endpoint according to a completion with an error. */
static void ib_fail_by(weiri_ib_endpoint *end, const struct ibv_wc *completion)
{
    const weiri_ib_net *ib = end->ib;
    const char *what = ib->verbs->wc_status_str(completion->status);
    switch (completion->status) {
    case IBV_WC_RETRY_EXC_ERR:
        if (!end->open) {
            end->lost = 1;
            break;
        }
        weiri_ib_fail(end, WEIR_ERR_PEER,
                      "%s no longer responds to %s (%s): its process has ended, or the path is "
                      "cut; look at that rank first, then at both ports (ibv_devinfo) and the path "
                      "(ibv_rc_pingpong -d %s -g %d)",
                      end->peer_name, ib->name, what, ib->port.device, ib->gid.index);
        break;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        weiri_ib_fail(end, WEIR_ERR_TIMEOUT,
                      "%s accepts no signals from %s (%s): it has stopped, or makes no progress on "
                      "its network; see where that rank waits",
                      end->peer_name, ib->name, what);
        break;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        fail_refused(end, what);
        break;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
        weiri_ib_fail(end, WEIR_ERR_SYSTEM,
                      "%s cannot read the data to be sent to %s (%s): was the memory deregistered "
                      "or unmapped before the operation was complete?",
                      ib->name, end->peer_name, what);
        break;
    default:
        weiri_ib_fail(end, WEIR_ERR_PEER,
                      "the queue pair of %s to %s has failed (%s, vendor's code %u): that rank "
                      "wrote to invalid memory, or the port went down; see dmesg",
                      ib->name, end->peer_name, what, completion->vendor_err);
    }
}

static weiri_ib_endpoint *ib_end_of(const weiri_ib_net *ib, uint64_t number)
{
    uint32_t slot = (uint32_t)(number >> 1) & 0xffff;
    uint32_t generation = (uint32_t)(number >> 17) & 0x7fff;
    weiri_ib_endpoint *end = slot < ib->nslots ? ib->slots[slot] : NULL;
    return end && end->generation == generation ? end : NULL;
}

void weiri_ib_settle(weiri_ib_endpoint *end)
{
    const weiri_ib_there *there = &end->there;
    uint64_t before = there->before[there->credited % WEIRI_IB_SLOTS];
    int in_inbox = there->credited != there->posted && before < end->arrived;
    end->base.completed = in_inbox ? before : end->arrived;
}

/* Handles an immediate of the peer. */
static void ib_receive(weiri_ib_endpoint *end, uint32_t immediate)
{
    const uint32_t value = immediate >> WEIRI_IB_KIND_BITS;
    end->taken++;
    if (!end->open) /* any immediate proves that the peer is ready */
        weiri_ib_nudge(end);
    end->open = 1;
    switch (immediate & ((1u << WEIRI_IB_KIND_BITS) - 1)) {
    case WEIRI_IB_INBOX:
        end->there.is_known = 1;
        break;
    case WEIRI_IB_PIECE:
        weiri_ib_landed(end, value);
        break;
    case WEIRI_IB_CREDIT:
        weiri_ib_credited(end, value);
        break;
    case WEIRI_IB_REFUSAL:
        fail_refused(end, "staged");
        break;
    default: /* signals and greetings need no action */
        break;
    }
}

static void ib_complete(weiri_ib_endpoint *end, const struct ibv_wc *completion)
{
    if (completion->wr_id & 1) {
        ib_receive(end, completion->imm_data);
        return;
    }
    /* The low half of the request's number, which is at most a queue's depth behind. */
    uint32_t behind = (uint32_t)end->requests - (uint32_t)(completion->wr_id >> 32);
    uint64_t request = end->requests - behind;
    end->requests_done = request + 1;
    end->arrived = end->after[request % WEIRI_IB_SENDS];
    end->open = 1;
    weiri_ib_settle(end);
}

int weiri_ib_reap(weiri_ib_net *ib)
{
    enum { AT_ONCE = 32 };
    struct ibv_wc completions[AT_ONCE];
    int count, moved = 0;
    do {
        count = ibv_poll_cq(ib->cq, AT_ONCE, completions);
        for (int i = 0; i < count; i++) {
            weiri_ib_endpoint *end = ib_end_of(ib, completions[i].wr_id);
            if (end && completions[i].status == IBV_WC_SUCCESS)
                ib_complete(end, &completions[i]);
            else if (end)
                ib_fail_by(end, &completions[i]);
            moved = 1;
        }
    } while (count == AT_ONCE);
    return moved;
}

/* ------------------------------------------------------------------ deadlines */

/* Fails an endpoint whose peer has not become ready before the deadline. */
static void watch_arrival(weiri_ib_endpoint *end, uint64_t now_ns, uint64_t limit_ns)
{
    const weiri_ib_net *ib = end->ib;
    if (!end->connected_ns || now_ns - end->connected_ns < limit_ns)
        return;
    weiri_ib_fail(end, WEIR_ERR_TIMEOUT,
                  "%s did not connect to %s within %d ms: it has ended, or no packet arrives "
                  "(try ibv_rc_pingpong -d %s -g %d; a firewall on UDP port 4791?)",
                  end->peer_name, ib->name, ib->base.timeout_ms, ib->port.device, ib->gid.index);
}

static void ib_watch_end(weiri_ib_endpoint *end, uint64_t now_ns)
{
    const weiri_ib_net *ib = end->ib;
    const uint64_t limit_ns = (uint64_t)ib->base.timeout_ms * 1000000u;
    const uint64_t taken = end->requests_done + end->there.credited;
    int waits = end->base.completed != end->base.posted;
    if (!end->open) {
        watch_arrival(end, now_ns, limit_ns);
    } else if (!waits || end->watched != taken || !end->watched_ns) {
        end->watched = taken;
        end->watched_ns = waits ? now_ns : 0;
    } else if (now_ns - end->watched_ns >= limit_ns) {
        weiri_ib_fail(end, WEIR_ERR_TIMEOUT,
                      "%s has accepted no data from %s for %d ms, %llu operations wait: it has "
                      "stopped, or makes no progress on its network; see where that rank waits "
                      "(deadline: WEIR_TIMEOUT_MS)",
                      end->peer_name, ib->name, ib->base.timeout_ms,
                      (unsigned long long)(end->base.posted - end->base.completed));
    }
}

static void ib_watch(weiri_ib_net *ib)
{
    uint64_t now_ns = weir_clock_ns();
    for (uint32_t i = 0; i < ib->nslots; i++)
        if (ib->slots[i] && ib->slots[i]->base.failed == WEIR_OK)
            ib_watch_end(ib->slots[i], now_ns);
}

/* Returns the failure of an endpoint that has not been reported yet. */
static weir_status ib_report_failure(weiri_ib_net *ib)
{
    for (uint32_t i = 0; i < ib->nslots; i++) {
        weiri_ib_endpoint *end = ib->slots[i];
        if (!end || end->base.failed == WEIR_OK || end->is_reported)
            continue;
        end->is_reported = 1;
        ib->failures--;
        return weiri_fail(end->base.failed, "%s", end->trouble);
    }
    return WEIR_OK;
}

/* ------------------------------------------------------------------- progress */

/* Removes the event that woke a sleeping thread from the completion channel. */
static void ib_disarm(weiri_ib_net *ib)
{
    struct ibv_cq *cq;
    void *own;
    while (ib->verbs->get_cq_event(ib->channel, &cq, &own) == 0)
        ib->verbs->ack_cq_events(cq, 1);
    ib->armed = 0;
}

static int ib_post_all(weiri_ib_net *ib)
{
    int moved = 0;
    ib->waiting = ib->copying = 0;
    for (uint32_t i = 0; i < ib->nslots; i++) {
        weiri_ib_endpoint *end = ib->slots[i];
        if (!end || end->base.failed != WEIR_OK)
            continue;
        if (end->lost)
            weiri_ib_rejoin(end);
        if (end->taken >= WEIRI_IB_BATCH)
            weiri_ib_post_receives(end, 0);
        if (end->has_boxes)
            moved |= weiri_ib_empty_inbox(end);
        if (end->head != end->tail)
            moved |= weiri_ib_post(end);
        ib->copying |= weiri_ib_is_copying(end);
        ib->waiting |= end->head != end->tail || end->in.reported != end->in.landed;
    }
    ib->waiting |= ib->copying;
    return moved;
}

weir_status weiri_ib_progress(weiri_net *net, int *moved)
{
    weiri_ib_net *ib = weiri_ib_of(net);
    if (ib->armed)
        ib_disarm(ib);
    int some = weiri_ib_reap(ib);
    if (some || ib->waiting)
        some |= ib_post_all(ib);
    if (some)
        *moved = 1;
    ib->idle = some ? 0 : ib->idle + 1;
    if (ib->idle && ib->idle % IDLE_CALLS == 0)
        ib_watch(ib);
    if (ib->port.is_software && ib->idle >= IDLE_CALLS_OF_SOFTWARE &&
        ib->idle % GIVE_WAY_CALLS == 0)
        sched_yield();
    return ib->failures > 0 ? ib_report_failure(ib) : WEIR_OK;
}

int weiri_ib_arm(weiri_net *net, int *descriptor)
{
    weiri_ib_net *ib = weiri_ib_of(net);
    ib_watch(ib);
    if (ib_post_all(ib) || ib->failures > 0 || ib->copying)
        return 0; /* no descriptor reports the end of a copy */
    if (ibv_req_notify_cq(ib->cq, 0) != 0)
        return 0;
    ib->armed = 1;
    /* Completions from before the notification was requested cause none. */
    if (weiri_ib_reap(ib))
        return 0;
    *descriptor = ib->channel->fd;
    return 1;
}
