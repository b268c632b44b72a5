/*
 * The Prometheus textfile: the names and labels of NCCL's Inspector, with labels that distinguish
 * ranks and communicators (comm, rank); and weir's own metrics. Samples of one metric are together.
 */
#include "comm/monitor/metrics.h"

#include "base/env.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

uint64_t weiri_metrics_range(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    uint64_t unit = 1;
    int index = 0;
    if (!bytes) {
        snprintf(text, 32, "0B");
        return 0;
    }
    while (bytes / unit >= 1024 && index < 4) {
        unit *= 1024;
        index++;
    }
    const uint64_t low = bytes / unit;
    snprintf(text, 32, "%" PRIu64 "-%" PRIu64 "%s", low, low + 1, units[index]);
    return low * unit;
}

/* A label's value, in which backslashes, quotes and line breaks would need escapes. */
static void prom_clean(char to[64], const char *from)
{
    int used = 0;
    for (; from && *from && used < 63; from++)
        to[used++] = *from < ' ' || *from > '~' || *from == '"' || *from == '\\' ? '?' : *from;
    to[used] = '\0';
}

static void prom_labels(const weiri_metrics_labels *labels, FILE *to)
{
    char host[64] = "unknown", node[64], job[64], gpu[24] = "none";
    if (gethostname(host, sizeof host) == 0)
        host[sizeof host - 1] = '\0';
    prom_clean(node, host);
    prom_clean(job, weiri_env(WEIRI_ENV_SLURM_JOB_ID));
    if (labels->device >= 0)
        snprintf(gpu, sizeof gpu, "GPU%d", labels->device);
    fprintf(to,
            "{version=\"weir-%s\",slurm_job_id=\"%s\",node=\"%s\",gpu=\"%s\",comm_name=\"%s\","
            "n_nodes=\"%d\",nranks=\"%d\",comm=\"0x%016" PRIx64 "\",rank=\"%d\"",
            WEIR_VERSION, *job ? job : "unknown", node, gpu,
            *labels->name ? labels->name : "unknown", labels->nnodes, labels->nranks, labels->hash,
            labels->rank);
}

/* The samples of one metric: times, or bandwidths, of collectives or of sends and receives. */
static void prom_buckets(const weiri_metrics_comm *list, const char *name, int is_speed,
                         int is_pair, FILE *to)
{
    for (const weiri_metrics_comm *comm = list; comm; comm = comm->next)
        for (int i = 0; i < comm->nbuckets; i++) {
            const weiri_metrics_bucket *one = &comm->buckets[i];
            char range[32];
            if ((one->function >= WEIR_COLL_SENDRECV) != is_pair || !one->count)
                continue;
            weiri_metrics_range(one->least_bytes, range);
            fprintf(to, "%s", name);
            prom_labels(&comm->labels, to);
            fprintf(to, ",%s=\"%s\",message_size=\"%s\"", is_pair ? "p2p_operation" : "collective",
                    weiri_monitor_function_name(one->function), range);
            if (!is_pair)
                fprintf(to, ",algo_proto=\"%s\"", one->algo);
            const double speed = one->nspeeds ? exp(one->log_speeds / (double)one->nspeeds) : 0;
            fprintf(to, "} %.6g\n", is_speed ? speed : one->us / (double)one->count);
        }
}

static void prom_head(const char *name, const char *type, const char *help, FILE *to)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void prom_totals(const weiri_metrics_comm *list, FILE *to)
{
    prom_head("weir_calls_total", "counter", "Calls of each function.", to);
    for (const weiri_metrics_comm *comm = list; comm; comm = comm->next)
        for (int i = 0; i < WEIRI_MONITOR_COUNTS; i++) {
            if (!comm->counts[i])
                continue;
            fprintf(to, "weir_calls_total");
            prom_labels(&comm->labels, to);
            fprintf(to, ",function=\"%s\"} %" PRIu64 "\n", weiri_monitor_function_name(i),
                    comm->counts[i]);
        }
}

static void prom_stragglers(const weiri_metrics_comm *list, FILE *to)
{
    prom_head("weir_straggler_wait_seconds", "gauge",
              "Time that each other rank of the node waited for the rank \"straggler\" in the last "
              "timed calls.",
              to);
    for (const weiri_metrics_comm *comm = list; comm; comm = comm->next) {
        if (comm->straggler.rank < 0)
            continue;
        fprintf(to, "weir_straggler_wait_seconds");
        prom_labels(&comm->labels, to);
        fprintf(to, ",straggler=\"%d\"} %.9g\n", comm->straggler.rank,
                (double)comm->straggler.waited_ns / 1e9);
    }
}

void weiri_metrics_print_prom(const weiri_metrics_comm *list, FILE *to)
{
    static const struct prom_metric {
        const char *name, *help;
        int is_speed, is_pair;
    } metrics[] = {
        {"nccl_bus_bandwidth_gbs", "Bus bandwidth of collectives in GB/s (geometric mean).", 1, 0},
        {"nccl_collective_exec_time_microseconds", "Time of collectives in microseconds (mean).", 0,
         0},
        {"nccl_p2p_bus_bandwidth_gbs", "Bandwidth of sends and receives in GB/s (geometric mean).",
         1, 1},
        {"nccl_p2p_exec_time_microseconds", "Time of sends and receives in microseconds (mean).", 0,
         1}};
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        prom_head(metrics[i].name, "gauge", metrics[i].help, to);
        prom_buckets(list, metrics[i].name, metrics[i].is_speed, metrics[i].is_pair, to);
    }
    prom_totals(list, to);
    prom_stragglers(list, to);
}
