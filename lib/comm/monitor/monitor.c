/* The monitor of one communicator: which calls are timed, and what becomes of their times. */
#include "comm/monitor/monitor.h"

#include "base/contract.h"
#include "base/float_env.h"
#include "base/log.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"
#include "comm/monitor/metrics.h"
#include "comm/monitor/process.h"
#include "comm/monitor/straggler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* On the host timed calls are about so far apart, or all are timed if calls are further apart
 * anyway: so a call whose time is a hundredth of that costs 1% of the time at most. On GPUs all
 * calls are timed that are SPARSE_GPU_NS apart, else those whose numbers have none of MASK_GPU's
 * bits. The distance is a mean over PACE_CALLS timed calls, or fewer in PACE_NS. */
enum { APART_NS = 50000, MASK_MOST = 1023, SPARSE_GPU_NS = 200000, MASK_GPU = 255 };
enum { PACE_CALLS = 8, PACE_NS = 10000000 };
static const uint64_t report_interval_ns = 10ull * 1000 * 1000 * 1000;

/* ------------------------------------------------------------------- timing */

static uint64_t monitor_mask(int has_gpu, uint64_t mean_ns)
{
    uint64_t mask = 0;
    if (has_gpu)
        return mean_ns >= SPARSE_GPU_NS ? 0 : MASK_GPU;
    while (mask < MASK_MOST && mean_ns * (mask + 1) < APART_NS)
        mask = 2 * mask + 1;
    return mask;
}

static void monitor_adapt(weiri_monitor_pace *pace, int has_gpu, uint64_t number, uint64_t now_ns)
{
    if (pace->begin_ns && ++pace->ntimed < PACE_CALLS && now_ns - pace->begin_ns < PACE_NS)
        return;
    const uint64_t calls = number - pace->number;
    if (pace->begin_ns && calls)
        pace->mask = monitor_mask(has_gpu, (now_ns - pace->begin_ns) / calls);
    pace->number = number;
    pace->begin_ns = now_ns;
    pace->ntimed = 0;
}

/* Takes a free timer, or makes one; NULL if all are in use. */
static void *monitor_take_timer(weiri_monitor *monitor)
{
    if (monitor->ntimers)
        return monitor->timers[--monitor->ntimers];
    if (monitor->ntimers_made == WEIRI_MONITOR_TIMERS)
        return NULL;
    void *timer = monitor->comm->gpu->ops->timer_create(monitor->comm);
    monitor->ntimers_made += timer != NULL;
    return timer;
}

/* Starts the timer of a call in a stream. Returns 0 if the call cannot be timed. */
static int monitor_start_timer(weiri_monitor *monitor, weir_stream stream)
{
    const weir_comm *comm = monitor->comm;
    if (!comm->gpu->ops->timer_create || comm->gpu->ops->captures(comm, stream))
        return 0;
    void *timer = monitor_take_timer(monitor);
    if (!timer)
        return 0;
    if (comm->gpu->ops->timer_start(comm, timer, stream) != WEIR_OK) {
        monitor->timers[monitor->ntimers++] = timer;
        return 0;
    }
    monitor->timer = timer;
    return 1;
}

uint64_t weiri_monitor_start(weiri_monitor *monitor, weiri_monitor_pace *pace, uint64_t number,
                             weir_stream stream)
{
    const uint64_t now_ns = weir_clock_ns();
    monitor_adapt(pace, monitor->comm->gpu != NULL, number, now_ns);
    if (monitor->comm->gpu && !monitor_start_timer(monitor, stream))
        return 0;
    return now_ns;
}

/* Publishes a time for the report of stragglers, and adds it to the metrics. */
static void monitor_record(weiri_monitor *monitor, const weiri_monitor_call *call,
                           uint64_t begin_ns, uint64_t duration_ns)
{
    weiri_monitored *shared = monitor->shared;
    if (call->function < WEIR_COLL_SENDRECV) {
        weiri_monitored_call *one = &shared->calls[shared->ntimed % WEIRI_MONITOR_CALLS];
        weir_store_relaxed(&one->number, 0);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        weir_store_relaxed(&one->begin_ns, begin_ns);
        weir_store_relaxed(&one->duration_ns, duration_ns);
        weir_store_release(&one->number, call->number);
        weir_store_relaxed(&shared->ntimed, shared->ntimed + 1);
    }
    if (monitor->metrics)
        weiri_metrics_add(monitor->metrics, call, duration_ns);
}

/* Records the calls on the GPU that have ended. */
static void monitor_collect(weiri_monitor *monitor)
{
    weir_comm *comm = monitor->comm;
    for (int i = 0; i < WEIRI_MONITOR_TIMERS; i++) {
        weiri_monitor_pending *one = &monitor->pending[i];
        uint64_t duration_ns = 0;
        int ended = 0;
        if (!one->timer)
            continue;
        if (comm->gpu->ops->timer_read(comm, one->timer, &ended, &duration_ns) == WEIR_OK && !ended)
            continue;
        for (size_t call = 0; ended && call < one->ncalls; call++)
            monitor_record(monitor, &one->calls[call], 0, duration_ns);
        monitor->timers[monitor->ntimers++] = one->timer;
        free(one->calls);
        *one = (weiri_monitor_pending){.timer = NULL};
    }
}

/* Ends the timer of calls in a stream, which monitor_collect reads later. */
static void monitor_stop_timer(weiri_monitor *monitor, const weiri_monitor_call *calls,
                               size_t ncalls, weir_stream stream)
{
    const weir_comm *comm = monitor->comm;
    void *timer = monitor->timer;
    weiri_monitor_call *copy = ncalls ? malloc(ncalls * sizeof *copy) : NULL;
    int slot = 0;
    monitor->timer = NULL;
    while (slot < WEIRI_MONITOR_TIMERS && monitor->pending[slot].timer)
        slot++;
    if (!copy || slot == WEIRI_MONITOR_TIMERS ||
        comm->gpu->ops->timer_stop(comm, timer, stream) != WEIR_OK) {
        monitor->timers[monitor->ntimers++] = timer;
        free(copy);
        return;
    }
    memcpy(copy, calls, ncalls * sizeof *copy);
    monitor->pending[slot] = (weiri_monitor_pending){timer, copy, ncalls};
}

static void monitor_report(const weiri_monitor *monitor)
{
    const weiri_straggler found = weiri_straggler_of(monitor->comm, monitor->settings.ncalls);
    if (found.rank < 0)
        return;
    const weiri_float_env environment = weiri_float_begin();
    weiri_log(WEIRI_LOG_INFO,
              "communicator %016llx: in the last %d timed calls the other ranks waited most for "
              "rank %d: each of them %.3f ms in all, at most %.3f ms in one call; it came last "
              "in %d of them",
              (unsigned long long)monitor->comm->job, found.ncalls, found.rank,
              (double)found.waited_ns / 1e6, (double)found.most_ns / 1e6, found.nlast);
    weiri_float_end(environment);
}

/* One rank of each node logs stragglers. */
static int monitor_reports(const weiri_monitor *monitor)
{
    return monitor->settings.reports && monitor->comm->local_rank == 0;
}

void weiri_monitor_stop(weiri_monitor *monitor, uint64_t begin_ns, const weiri_monitor_call *calls,
                        size_t ncalls, weir_stream stream)
{
    if (monitor->comm->gpu) {
        monitor_stop_timer(monitor, calls, ncalls, stream);
        monitor_collect(monitor);
    } else if (ncalls) {
        const uint64_t duration_ns = weir_clock_ns() - begin_ns;
        for (size_t i = 0; i < ncalls; i++)
            monitor_record(monitor, &calls[i], begin_ns, duration_ns);
    }
    if (monitor_reports(monitor) && begin_ns - monitor->report_ns > report_interval_ns) {
        monitor->report_ns = begin_ns;
        monitor_report(monitor);
    }
}

/* Of an allgather the input is one rank's block, of a reduce_scatter the output. */
void weiri_monitor_end_buffers(weiri_monitor *monitor, uint64_t begin_ns, weir_status status,
                               weiri_monitor_call *about, uint64_t in_bytes, uint64_t out_bytes,
                               weir_stream stream)
{
    about->peer = -1;
    about->bytes = in_bytes < out_bytes ? in_bytes : out_bytes;
    about->traffic_bytes = in_bytes < out_bytes ? out_bytes : in_bytes;
    about->number = monitor->comm->calls;
    if (begin_ns && status == WEIR_OK)
        weiri_monitor_end_timed(monitor, begin_ns, about, 1, stream);
    else
        weiri_monitor_end(monitor, begin_ns, stream);
}

/* --------------------------------------------------------- begin and end */

static void monitor_free(weiri_monitor *monitor)
{
    weiri_metrics_destroy(monitor->metrics);
    free(monitor->peers);
    free(monitor);
}

static weiri_monitor *monitor_make(weir_comm *comm, const weiri_monitor_settings *settings,
                                   const weiri_placement *placements)
{
    const weir_comm *node = comm->host_comm ? comm->host_comm : comm;
    weiri_monitor *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->comm = comm;
    made->settings = *settings;
    made->shared = &node->peers[node->rank].page->monitored;
    made->report_ns = weir_clock_ns();
    made->peers = calloc((size_t)comm->nranks, sizeof *made->peers);
    if (made->peers && (settings->writes_prom || settings->writes_json))
        made->metrics = weiri_metrics_create(made);
    if (!made->peers) {
        monitor_free(made);
        return NULL;
    }
    for (int rank = 0; rank < comm->nranks; rank++)
        made->peers[rank] = (weiri_monitor_peer){placements[rank].host, placements[rank].pid,
                                                 placements[rank].monitor};
    return made;
}

void weiri_monitor_open(weir_comm *comm, const weiri_placement *placements)
{
    weiri_monitor_settings settings;
    if (comm && weiri_monitor_settings_read(&settings) &&
        (comm->monitor = monitor_make(comm, &settings, placements)) != NULL) {
        weiri_monitor_count_calls(comm->monitor);
        weiri_process_add(comm->monitor);
    }
    weiri_process_release();
}

void weiri_monitor_name(weir_comm *comm, const char *name)
{
    if (comm->monitor && name)
        weiri_monitor_list_name(comm->monitor, name);
}

void weiri_monitor_close(weir_comm *comm)
{
    weiri_monitor *monitor = comm->monitor;
    if (!monitor)
        return;
    comm->monitor = NULL;
    weiri_comm_count_nothing(comm);
    weiri_process_remove(monitor);
    if (comm->gpu) {
        if (!weir_load_acquire(comm->guard.abort_word))
            comm->gpu->ops->quiesce(comm);
        monitor_collect(monitor);
        for (int i = 0; i < WEIRI_MONITOR_TIMERS; i++)
            if (monitor->pending[i].timer) { /* of work that an abort has left behind */
                monitor->timers[monitor->ntimers++] = monitor->pending[i].timer;
                free(monitor->pending[i].calls);
            }
        while (monitor->ntimers)
            comm->gpu->ops->timer_destroy(comm, monitor->timers[--monitor->ntimers]);
    }
    if (monitor_reports(monitor))
        monitor_report(monitor);
    if (monitor->metrics)
        weiri_metrics_write(monitor->metrics);
    monitor_free(monitor);
}
