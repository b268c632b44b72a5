/*
 * Monitoring under NCCL's interface. A profiler plug-in (NCCL_PROFILER_PLUGIN) gets events of
 * NCCL's own stages (channels, proxies, kernels), which weir does not have, so it is not loaded;
 * of such plug-ins, Inspector's files are written by weir itself.
 */
#include "nccl/comm/profiler.h"

#include "nccl/gpu/nvtx.h"

#include "base/env.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/monitor/monitor.h"
#include "comm/monitor/recorder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PROFILER_TEXT2(number) #number
#define PROFILER_TEXT(number) PROFILER_TEXT2(number)

static const char version[] =
    PROFILER_TEXT(NCCL_MAJOR) "." PROFILER_TEXT(NCCL_MINOR) "." PROFILER_TEXT(NCCL_PATCH);

static void profiler_start_once(void)
{
    const char *plugin = weiri_env(WEIRI_ENV_NCCL_PROFILER_PLUGIN);
    weiri_monitor_use_nccl(version);
    weiri_nccl_nvtx_open();
    if (plugin && strcmp(plugin, "none") != 0)
        weiri_log(WEIRI_LOG_WARN,
                  "%s=%s is not loaded: its events are of NCCL's channels and proxies, which weir "
                  "does not have; NCCL_INSPECTOR_ENABLE=1 or %s=prom,json writes Inspector's "
                  "metrics without a plug-in",
                  weiri_env_name(WEIRI_ENV_NCCL_PROFILER_PLUGIN), plugin,
                  weiri_env_name(WEIRI_ENV_METRICS));
}

void weiri_nccl_profiler_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, profiler_start_once);
}

/* Records each send and receive with the time of their group. */
static void profiler_end_pairs(weiri_monitor *monitor, const weiri_nccl_call *calls, size_t count,
                               uint64_t begin_ns, weir_stream stream)
{
    weiri_monitor_call *all = calloc(count + 1, sizeof *all);
    size_t npairs = 0;
    for (size_t i = 0; all && i < count; i++) {
        if (!weiri_nccl_is_p2p(&calls[i]))
            continue;
        const uint64_t bytes = weiri_nccl_count(&calls[i]) * weir_dtype_bytes(calls[i].call.dtype);
        all[npairs++] = (weiri_monitor_call){
            .function = weiri_nccl_sends(&calls[i]) ? WEIRI_MONITOR_SEND : WEIRI_MONITOR_RECV,
            .peer = weiri_nccl_peer(&calls[i]),
            .bytes = bytes,
            .traffic_bytes = bytes,
            .number = monitor->npairs,
            .algo = "mailbox"};
    }
    weiri_monitor_end_timed(monitor, begin_ns, all, npairs, stream);
    free(all);
}

/* Serves sends and receives, and records each with the time of all. */
static weir_status profiler_serve(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count,
                                  weiri_nccl_serve *serve)
{
    weir_comm *own = comm->comm;
    if (!own->recorder)
        return serve(comm, calls, count);
    const uint64_t begin_ns = weir_clock_ns();
    const weir_status status = serve(comm, calls, count);
    const uint64_t end_ns = comm->device >= 0 ? 0 : weir_clock_ns();
    for (size_t i = 0; i < count && status == WEIR_OK; i++)
        if (weiri_nccl_is_p2p(&calls[i]))
            weiri_recorder_message(own, weiri_nccl_sends(&calls[i]), weiri_nccl_peer(&calls[i]),
                                   weiri_nccl_count(&calls[i]), calls[i].call.dtype,
                                   calls[i].call.stream, begin_ns, end_ns);
    return status;
}

weir_status weiri_nccl_p2p_monitored(weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                                     size_t count, weiri_nccl_serve *serve)
{
    weiri_monitor *monitor = comm->comm->monitor;
    weir_stream stream = NULL;
    uint64_t sends = 0, receives = 0;
    if (!monitor)
        return profiler_serve(comm, calls, count, serve);
    for (size_t i = 0; i < count; i++) {
        if (!weiri_nccl_is_p2p(&calls[i]))
            continue;
        stream = calls[i].call.stream;
        sends += (uint64_t)weiri_nccl_sends(&calls[i]);
        receives += (uint64_t)!weiri_nccl_sends(&calls[i]);
    }
    const uint64_t begin_ns = weiri_monitor_begin_pairs(monitor, sends, receives, stream);
    const weir_status status = profiler_serve(comm, calls, count, serve);
    if (!begin_ns || status != WEIR_OK)
        weiri_monitor_end(monitor, begin_ns, stream);
    else
        profiler_end_pairs(monitor, calls, count, begin_ns, stream);
    return status;
}
