/* Collects timed calls and writes the files; see metrics.h. */
#define _GNU_SOURCE
#include "comm/monitor/metrics.h"

#include "base/c_locale.h"
#include "base/contract.h"
#include "base/fd.h"
#include "base/file_signal.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENDED_MAX = 256, SLOTS = 1024, PATH_BYTES = WEIRI_METRICS_FOLDER_BYTES + 320 };

struct weiri_metrics {
    const weiri_monitor *monitor;
    weiri_metrics_comm *comm; /* in the list */
    pthread_mutex_t lock;     /* of the ring */
    uint64_t added, written;
    weiri_metrics_call ring[WEIRI_METRICS_RING];
};

/* The communicators of the Prometheus file, and the file's name: a number that no other process on
 * this host uses for this folder, as long as this one has the lock. */
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static weiri_metrics_comm *comms;
static int slot_fd = -1, slot, has_warned, has_warned_of_many;

/* ------------------------------------------------------------------ the ring */

weiri_metrics *weiri_metrics_create(const weiri_monitor *monitor)
{
    const weir_comm *comm = monitor->comm;
    weiri_metrics *made = calloc(1, sizeof *made);
    weiri_metrics_comm *own = calloc(1, sizeof *own);
    if (!made || !own) {
        weiri_log(WEIRI_LOG_WARN, "no memory for the metrics of a communicator");
        free(made);
        free(own);
        return NULL;
    }
    own->labels = (weiri_metrics_labels){.hash = comm->job,
                                         .rank = comm->rank,
                                         .nranks = comm->nranks,
                                         .nnodes = comm->nnodes,
                                         .device = weir_comm_device(comm)};
    made->monitor = monitor;
    made->comm = own;
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_lock(&file_lock);
    own->next = comms;
    comms = own;
    pthread_mutex_unlock(&file_lock);
    return made;
}

void weiri_metrics_destroy(weiri_metrics *metrics)
{
    if (!metrics)
        return;
    pthread_mutex_lock(&file_lock);
    metrics->comm->ended_ns = weir_clock_ns();
    pthread_mutex_unlock(&file_lock);
    pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}

void weiri_metrics_add(weiri_metrics *metrics, const weiri_monitor_call *call, uint64_t duration_ns)
{
    const weiri_monitor_settings *settings = &metrics->monitor->settings;
    if (call->bytes < settings->least_bytes ||
        (call->function >= WEIRI_MONITOR_SEND && !settings->has_pairs))
        return;
    pthread_mutex_lock(&metrics->lock);
    metrics->ring[metrics->added % WEIRI_METRICS_RING] = (weiri_metrics_call){*call, duration_ns};
    metrics->added++;
    pthread_mutex_unlock(&metrics->lock);
}

/* Copies the calls that have not been written. Returns their number. */
static int metrics_take(weiri_metrics *metrics, weiri_metrics_call *calls)
{
    int count = 0;
    pthread_mutex_lock(&metrics->lock);
    if (metrics->added - metrics->written > WEIRI_METRICS_RING)
        metrics->written = metrics->added - WEIRI_METRICS_RING;
    while (metrics->written < metrics->added)
        calls[count++] = metrics->ring[metrics->written++ % WEIRI_METRICS_RING];
    pthread_mutex_unlock(&metrics->lock);
    return count;
}

/* ------------------------------------------------------------------ buckets */

static weiri_metrics_bucket *metrics_bucket_of(weiri_metrics_comm *comm,
                                               const weiri_monitor_call *call)
{
    char text[32];
    const uint64_t least = weiri_metrics_range(call->bytes, text);
    for (int i = 0; i < comm->nbuckets; i++) {
        weiri_metrics_bucket *one = &comm->buckets[i];
        if (one->function == call->function && one->least_bytes == least &&
            strcmp(one->algo, call->algo) == 0)
            return one;
    }
    weiri_metrics_bucket *longer =
        realloc(comm->buckets, ((size_t)comm->nbuckets + 1) * sizeof *longer);
    if (!longer)
        return NULL;
    comm->buckets = longer;
    weiri_metrics_bucket *made = &longer[comm->nbuckets++];
    *made = (weiri_metrics_bucket){.function = call->function, .least_bytes = least};
    memcpy(made->algo, call->algo, sizeof made->algo);
    return made;
}

static void metrics_fill_bucket(weiri_metrics_comm *comm, const weiri_metrics_call *call)
{
    weiri_metrics_bucket *bucket = metrics_bucket_of(comm, &call->call);
    const double speed =
        weiri_metrics_speed(call) * weiri_metrics_factor(call->call.function, comm->labels.nranks);
    if (!bucket)
        return;
    bucket->count++;
    bucket->us += (double)call->duration_ns / 1e3;
    if (speed > 0) {
        bucket->nspeeds++;
        bucket->log_speeds += log(speed);
    }
}

/* -------------------------------------------------------------------- files */

static void metrics_warn(const char *what, const char *path)
{
    if (!has_warned++)
        weiri_log(WEIRI_LOG_WARN, "metrics: cannot %s %s: %s; check %s", what, path,
                  strerror(errno), "WEIR_METRICS_DIR");
}

static void metrics_host(char host[64])
{
    if (gethostname(host, 64) != 0)
        snprintf(host, 64, "unknown");
    host[63] = '\0';
}

/* Makes the folder and its parents; others may not write to them, whatever the umask. */
static void metrics_make_folder(const char *folder)
{
    char path[WEIRI_METRICS_FOLDER_BYTES];
    snprintf(path, sizeof path, "%s", folder);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0775);
        *at = '/';
    }
    mkdir(path, 0775);
}

/* Takes the lowest number whose lock is free. */
static void metrics_take_slot(const char *folder, const char *host)
{
    char path[PATH_BYTES];
    for (slot = 0; slot_fd < 0 && slot < SLOTS; slot++) {
        snprintf(path, sizeof path, "%s/.nccl_inspector_%s_%d.lock", folder, host, slot);
        slot_fd = weiri_fd_raise(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0664));
        if (slot_fd < 0 && errno == EACCES) /* another user's */
            continue;
        if (slot_fd < 0) {
            metrics_warn("create", path);
            return;
        }
        if (flock(slot_fd, LOCK_EX | LOCK_NB) == 0)
            return;
        close(slot_fd);
        slot_fd = -1;
    }
    if (!has_warned++)
        weiri_log(WEIRI_LOG_WARN,
                  "metrics: other processes have all %d Prometheus files of host %s in %s; give "
                  "this one another WEIR_METRICS_DIR",
                  SLOTS, host, folder);
}

/* Opens a file for writing, to which others may not write, whatever the umask. how: O_TRUNC, or
 * O_APPEND with or without O_EXCL. Returns NULL with errno. */
static FILE *metrics_open(const char *path, int how)
{
    const int fd = weiri_fd_raise(open(path, O_CREAT | O_WRONLY | O_CLOEXEC | how, 0664));
    FILE *file = fd >= 0 ? fdopen(fd, how & O_APPEND ? "a" : "w") : NULL;
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* Replaces the Prometheus file. */
static void metrics_write_prom(const char *folder)
{
    char host[64], path[PATH_BYTES], part[PATH_BYTES + 8];
    metrics_host(host);
    if (slot_fd < 0)
        metrics_take_slot(folder, host);
    if (slot_fd < 0)
        return;
    snprintf(path, sizeof path, "%s/nccl_inspector_metrics_%s_%d.prom", folder, host, slot);
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = metrics_open(part, O_TRUNC);
    if (!file) {
        metrics_warn("write", part);
        return;
    }
    const locale_t before = weiri_c_locale_begin();
    weiri_metrics_print_prom(comms, file);
    weiri_c_locale_end(before);
    const int failed = ferror(file);
    if (fclose(file) != 0 || failed || rename(part, path) != 0)
        metrics_warn("write", path);
}

/* Opens the process's file in this folder. Its number in the name is that of no other process only
 * in its container, and a file of an earlier process may have it: such a file is not written to. */
static FILE *metrics_open_json(const char *folder, char path[PATH_BYTES])
{
    static char own_folder[WEIRI_METRICS_FOLDER_BYTES];
    static int own_pid, copy;
    const int pid = (int)getpid();
    char host[64], suffix[16] = "";
    metrics_host(host);
    const int is_new = pid != own_pid || strcmp(folder, own_folder) != 0;
    for (int i = is_new ? 0 : copy; i < SLOTS; i++) {
        if (i > 0)
            snprintf(suffix, sizeof suffix, ".%d", i);
        snprintf(path, PATH_BYTES, "%s/%s-pid%d%s.log", folder, host, pid, suffix);
        FILE *file = metrics_open(path, O_APPEND | (is_new ? O_EXCL : 0));
        if (!file && is_new && errno == EEXIST)
            continue;
        if (file) {
            snprintf(own_folder, sizeof own_folder, "%s", folder);
            own_pid = pid;
            copy = i;
        }
        return file;
    }
    return NULL;
}

static void metrics_append_json(const char *folder, const weiri_metrics_labels *labels,
                                const weiri_metrics_call *calls, int count)
{
    char path[PATH_BYTES];
    FILE *file = metrics_open_json(folder, path);
    if (!file) {
        metrics_warn("write", path);
        return;
    }
    for (int i = 0; i < count; i++)
        weiri_metrics_print_json(labels, &calls[i], file);
    const int failed = ferror(file);
    if (fclose(file) != 0 || failed)
        metrics_warn("write", path);
}

/* Moves the calls of a communicator into its buckets and its JSON lines. */
static void metrics_drain(weiri_metrics *metrics)
{
    const weiri_monitor *monitor = metrics->monitor;
    weiri_metrics_comm *comm = metrics->comm;
    weiri_metrics_call *calls = calloc(WEIRI_METRICS_RING, sizeof *calls);
    const int count = calls ? metrics_take(metrics, calls) : 0;
    memcpy(comm->labels.name, monitor->name, sizeof comm->labels.name);
    for (int i = 0; i < count; i++)
        metrics_fill_bucket(comm, &calls[i]);
    for (int i = 0; i < WEIRI_MONITOR_COUNTS; i++)
        comm->counts[i] = weir_load_relaxed(&monitor->shared->counts[i]);
    comm->straggler = weiri_straggler_of(monitor->comm, monitor->settings.ncalls);
    metrics_make_folder(monitor->settings.folder);
    if (count && monitor->settings.writes_json)
        metrics_append_json(monitor->settings.folder, &comm->labels, calls, count);
    free(calls);
}

/* Forgets buckets of the last interval, and communicators that had ended in it. */
static void metrics_begin_interval(void)
{
    for (weiri_metrics_comm **at = &comms; *at;) {
        weiri_metrics_comm *one = *at;
        free(one->buckets);
        one->buckets = NULL;
        one->nbuckets = 0;
        if (!one->ended_ns) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free(one);
    }
}

/* Forgets communicators that ended more than an interval ago, as metrics_begin_interval does:
 * between communicators that follow each other no thread runs that would. Without an interval,
 * forgets the oldest if there are very many. */
static void metrics_limit_ended(const weiri_monitor_settings *settings)
{
    const uint64_t now_ns = weir_clock_ns(), interval_ns = (uint64_t)settings->interval_us * 1000;
    int ended = 0;
    for (weiri_metrics_comm **at = &comms; *at;) {
        weiri_metrics_comm *one = *at;
        const int is_old = settings->interval_us >= 0 && now_ns - one->ended_ns > interval_ns;
        ended += one->ended_ns != 0;
        if (!one->ended_ns || (!is_old && ended <= ENDED_MAX)) {
            at = &one->next;
            continue;
        }
        if (!is_old && !has_warned_of_many++)
            weiri_log(WEIRI_LOG_WARN,
                      "metrics: the file keeps the latest %d of the communicators "
                      "that have ended; shorten WEIR_METRICS_INTERVAL_MS",
                      ENDED_MAX);
        *at = one->next;
        free(one->buckets);
        free(one);
    }
}

void weiri_metrics_write_all(const weiri_monitor *list)
{
    const weiri_monitor_settings *settings = NULL;
    weiri_file_signal held;
    weiri_file_signal_hold(&held);
    pthread_mutex_lock(&file_lock);
    metrics_begin_interval();
    for (const weiri_monitor *one = list; one; one = one->next)
        if (one->metrics) {
            metrics_drain(one->metrics);
            settings = &one->settings;
        }
    if (settings && settings->writes_prom)
        metrics_write_prom(settings->folder);
    pthread_mutex_unlock(&file_lock);
    weiri_file_signal_release(&held);
}

void weiri_metrics_write(weiri_metrics *metrics)
{
    weiri_file_signal held;
    weiri_file_signal_hold(&held);
    pthread_mutex_lock(&file_lock);
    metrics_drain(metrics);
    metrics_limit_ended(&metrics->monitor->settings);
    if (metrics->monitor->settings.writes_prom)
        metrics_write_prom(metrics->monitor->settings.folder);
    pthread_mutex_unlock(&file_lock);
    weiri_file_signal_release(&held);
}

void weiri_metrics_forget(void)
{
    if (slot_fd >= 0)
        close(slot_fd);
    slot_fd = -1;
    comms = NULL; /* belong to the parent's communicators */
    pthread_mutex_init(&file_lock, NULL);
}
