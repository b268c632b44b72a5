/* Names of calls, and their bandwidths. */
#include "comm/monitor/metrics.h"

#include "base/contract.h"

const char *weiri_monitor_function_name(int function)
{
    const char *label = weiri_contract_of(function)->label;
    if (function == WEIRI_MONITOR_SEND || function == WEIRI_MONITOR_RECV)
        return function == WEIRI_MONITOR_SEND ? "Send" : "Recv";
    return label ? label : "unknown";
}

double weiri_metrics_speed(const weiri_metrics_call *call)
{
    return call->duration_ns ? (double)call->call.traffic_bytes / (double)call->duration_ns : 0;
}

double weiri_metrics_factor(int function, int nranks)
{
    return function < WEIR_COLL_COUNT
               ? weiri_contract_bus_factor(weiri_contract_of(function), nranks)
               : 1;
}
