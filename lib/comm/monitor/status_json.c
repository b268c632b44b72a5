/*
 * The status as JSON: the keys of NCCL's RAS service, and under "weir" what only weir knows: names,
 * ranks that others wait for, and the straggler of the last timed calls.
 */
#include "comm/monitor/status.h"

#include "base/json.h"

#include <inttypes.h>
#include <time.h>

enum { IN_ERROR = 6 /* ncclRemoteError */ };

static void json_rank_head(weiri_json_writer *json, const weiri_view_rank *one, int rank)
{
    weiri_json_open_object(json);
    weiri_json_put_whole(json, "rank", rank);
    weiri_json_put_text(json, "host", one->host);
    weiri_json_put_whole(json, "pid", one->peer.pid);
    weiri_json_put_whole(json, "cuda_dev", one->device);
    weiri_json_put_whole(json, "nvml_dev", one->device);
    weiri_json_put_object(json, "status");
}

static void json_rank(weiri_json_writer *json, const weiri_view_rank *one, int rank)
{
    json_rank_head(json, one, rank);
    weiri_json_put_whole(json, "init_state", 0);
    weiri_json_put_whole(json, "async_error", one->is_aborted ? IN_ERROR : 0);
    weiri_json_put_flag(json, "finalize_called", one->is_finished);
    weiri_json_put_flag(json, "destroy_flag", one->is_finished);
    weiri_json_put_flag(json, "abort_flag", one->is_aborted);
    weiri_json_close_object(json);
    weiri_json_put_object(json, "collective_counts");
    for (int i = 0; i < WEIRI_MONITOR_COUNTS; i++)
        weiri_json_put_unsigned(json, weiri_monitor_function_name(i), one->counts[i]);
    weiri_json_close_object(json);
    weiri_json_close_object(json);
}

static void json_missing(weiri_json_writer *json, const weiri_view_rank *one, int rank)
{
    json_rank_head(json, one, rank);
    weiri_json_put_flag(json, "unresponsive", 1);
    weiri_json_put_flag(json, "considered_dead", one->seen == WEIRI_SEEN_DEAD);
    weiri_json_put_flag(json, "stopped", one->seen == WEIRI_SEEN_STOPPED);
    weiri_json_close_object(json);
    weiri_json_close_object(json);
}

static void json_slow(weiri_json_writer *json, const weiri_view_comm *comm)
{
    weiri_json_put_list(json, "waited_for");
    for (int rank = 0; rank < comm->nranks; rank++) {
        uint64_t longest_ns;
        const int waiting = weiri_status_waiting(comm, rank, &longest_ns);
        if (!waiting)
            continue;
        weiri_json_open_object(json);
        weiri_json_put_whole(json, "rank", rank);
        weiri_json_put_whole(json, "waiting_ranks", waiting);
        weiri_json_put_real(json, "longest_wait_sec", (double)longest_ns / 1e9);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

static void json_straggler(weiri_json_writer *json, const weiri_view *view,
                           const weiri_view_comm *comm)
{
    const weiri_straggler found = weiri_view_straggler(view, comm);
    if (found.rank < 0) {
        weiri_json_put_null(json, "straggler");
        return;
    }
    weiri_json_put_object(json, "straggler");
    weiri_json_put_whole(json, "rank", found.rank);
    weiri_json_put_real(json, "waited_sec", (double)found.waited_ns / 1e9);
    weiri_json_put_real(json, "longest_wait_sec", (double)found.most_ns / 1e9);
    weiri_json_put_whole(json, "timed_calls", found.ncalls);
    weiri_json_put_whole(json, "calls_last", found.nlast);
    weiri_json_close_object(json);
}

static void json_ranks(weiri_json_writer *json, const weiri_view_comm *comm)
{
    weiri_json_put_list(json, "ranks");
    for (int rank = 0; rank < comm->nranks; rank++)
        if (!weiri_view_is_missing(&comm->ranks[rank]))
            json_rank(json, &comm->ranks[rank], rank);
    weiri_json_close_list(json);
    weiri_json_put_list(json, "missing_ranks");
    for (int rank = 0; rank < comm->nranks; rank++)
        if (weiri_view_is_missing(&comm->ranks[rank]))
            json_missing(json, &comm->ranks[rank], rank);
    weiri_json_close_list(json);
}

static void json_comm(weiri_json_writer *json, const weiri_view *view, const weiri_view_comm *comm)
{
    char text[48];
    const int missing = weiri_status_missing(comm);
    weiri_json_open_object(json);
    snprintf(text, sizeof text, "0x%016" PRIx64, comm->hash);
    weiri_json_put_text(json, "hash", text);
    snprintf(text, sizeof text, "0x%" PRIx64 ":0x%x", comm->ranks->peer.host,
             (unsigned)comm->ranks->peer.pid);
    weiri_json_put_text(json, "secondary_hash", text);
    weiri_json_put_whole(json, "size", comm->nranks);
    weiri_json_put_whole(json, "ranks_count", comm->nranks - missing);
    weiri_json_put_whole(json, "missing_ranks_count", missing);
    json_ranks(json, comm);
    weiri_json_put_object(json, "weir");
    weiri_json_put_text(json, "name", comm->name);
    weiri_json_put_whole(json, "nodes", comm->nnodes);
    json_slow(json, comm);
    json_straggler(json, view, comm);
    weiri_json_close_object(json);
    weiri_json_close_object(json);
}

void weiri_status_json(const weiri_view *view, FILE *to)
{
    weiri_json_writer json = {.file = to, .layout = WEIRI_JSON_INDENTED};
    const char *version = weiri_monitor_nccl_version();
    int runtime = 0, driver = 0;
    char date[32];
    struct tm parts;
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%F %T", localtime_r(&now, &parts));
    weiri_status_cuda(&runtime, &driver);
    weiri_json_open_object(&json);
    weiri_json_put_text(&json, "nccl_version", version ? version : "0.0.0");
    weiri_json_put_whole(&json, "cuda_runtime_version", runtime);
    weiri_json_put_whole(&json, "cuda_driver_version", driver);
    weiri_json_put_text(&json, "weir_version", WEIR_VERSION);
    weiri_json_put_text(&json, "timestamp", date);
    weiri_json_put_whole(&json, "communicators_count", view->ncomms);
    if (view->is_full)
        weiri_json_put_flag(&json, "communicators_omitted", 1);
    weiri_json_put_list(&json, "communicators");
    for (int i = 0; i < view->ncomms; i++)
        json_comm(&json, view, &view->comms[i]);
    weiri_json_close_list(&json);
    weiri_json_put_object(&json, "ras");
    weiri_json_put_real(&json, "collection_time_sec", (double)view->took_ns / 1e9);
    weiri_json_put_whole(&json, "timeouts_count", view->timeouts);
    weiri_json_close_object(&json);
    weiri_json_close_object(&json);
    fprintf(to, "\n");
}
