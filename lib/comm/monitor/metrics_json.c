/* A line of JSON per timed call, with the keys of NCCL's Inspector, and coll_algo. */
#include "comm/monitor/metrics.h"

#include "base/json.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

static void json_metadata(weiri_json_writer *json)
{
    struct timespec now;
    char host[64] = "unknown";
    if (gethostname(host, sizeof host) == 0)
        host[sizeof host - 1] = '\0';
    clock_gettime(CLOCK_REALTIME, &now);
    weiri_json_put_object(json, "metadata");
    weiri_json_put_text(json, "inspector_output_format_version", "v4.0");
    weiri_json_put_text(json, "git_rev", "weir-" WEIR_VERSION);
    weiri_json_put_text(json, "rec_mechanism", "weir");
    weiri_json_put_whole(json, "dump_timestamp_us",
                         (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    weiri_json_put_text(json, "hostname", host);
    weiri_json_put_whole(json, "pid", (long long)getpid());
    weiri_json_close_object(json);
}

static void json_real(weiri_json_writer *json, const char *key, double value)
{
    weiri_json_key(json, key);
    weiri_json_real_digits(json, value, 7);
}

static void json_call(weiri_json_writer *json, const weiri_metrics_labels *labels,
                      const weiri_metrics_call *timed)
{
    const weiri_monitor_call *call = &timed->call;
    const int is_pair = call->function >= WEIR_COLL_SENDRECV;
    const double speed = weiri_metrics_speed(timed);
    weiri_json_put_object(json, is_pair ? "p2p_perf" : "coll_perf");
    weiri_json_put_text(json, is_pair ? "p2p" : "coll",
                        weiri_monitor_function_name(call->function));
    weiri_json_put_unsigned(json, is_pair ? "p2p_sn" : "coll_sn", call->number);
    if (is_pair)
        weiri_json_put_whole(json, "p2p_peer", call->peer);
    weiri_json_put_unsigned(json, is_pair ? "p2p_msg_size_bytes" : "coll_msg_size_bytes",
                            call->bytes);
    json_real(json, is_pair ? "p2p_exec_time_us" : "coll_exec_time_us",
              (double)timed->duration_ns / 1e3);
    weiri_json_put_text(json, is_pair ? "p2p_timing_source" : "coll_timing_source",
                        labels->device >= 0 ? "kernel_gpu" : "collective_cpu");
    json_real(json, is_pair ? "p2p_algobw_gbs" : "coll_algobw_gbs", speed);
    json_real(json, is_pair ? "p2p_busbw_gbs" : "coll_busbw_gbs",
              speed * weiri_metrics_factor(call->function, labels->nranks));
    weiri_json_put_text(json, is_pair ? "p2p_algo" : "coll_algo", call->algo);
    weiri_json_close_object(json);
}

void weiri_metrics_print_json(const weiri_metrics_labels *labels, const weiri_metrics_call *call,
                              FILE *to)
{
    weiri_json_writer json = {.file = to, .layout = WEIRI_JSON_INLINE};
    char id[24];
    snprintf(id, sizeof id, "0x%016" PRIx64, labels->hash);
    weiri_json_open_object(&json);
    weiri_json_put_object(&json, "header");
    weiri_json_put_text(&json, "id", id);
    weiri_json_put_text(&json, "comm_name", *labels->name ? labels->name : "unknown");
    weiri_json_put_whole(&json, "rank", labels->rank);
    weiri_json_put_whole(&json, "n_ranks", labels->nranks);
    weiri_json_put_whole(&json, "nnodes", labels->nnodes);
    weiri_json_close_object(&json);
    json_metadata(&json);
    json_call(&json, labels, call);
    weiri_json_close_object(&json);
    fputc('\n', to);
}
