/*
 * The threads of monitoring. Starting and stopping is serialised by a lock other than the list's,
 * so that a thread that reads the list can be waited for.
 *
 * A forked child has none of the threads. It closes their sockets at once: otherwise a client whose
 * connection the parent ends would wait for the child, too.
 */
#define _GNU_SOURCE
#include "comm/monitor/process.h"

#include "base/fd.h"
#include "base/float_env.h"
#include "base/log.h"
#include "comm/monitor/metrics.h"
#include "comm/monitor/ras.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct process_thread {
    pthread_t thread;
    int is_running;
    weiri_server server;
} process_thread;

static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;

/* Under life_lock: */
static int users; /* communicators, including the ones that are being created */
static int stop = -1;
static process_thread answers = {.server = {.listener = -1}}; /* RAS clients; writes metrics */
static process_thread records = {.server = {.listener = -1}}; /* other processes */
static weiri_address own_address;

static void process_write_metrics(void)
{
    weiri_metrics_write_all(weiri_monitor_list_lock());
    weiri_monitor_list_unlock();
}

/* ------------------------------------------------------------------ threads */

static void process_close(int *fd)
{
    const int old = *fd;
    *fd = -1; /* first: a child that is forked now closes what it finds here */
    if (old >= 0)
        close(old);
}

static void process_forget_thread(process_thread *one)
{
    one->is_running = 0;
    process_close(&one->server.listener);
    for (int i = 0; i < one->server.nclients; i++)
        close(one->server.clients[i].fd);
    one->server.nclients = 0;
}

/* In a forked child. */
static void process_forget(void)
{
    weiri_monitor_list_forget();
    pthread_mutex_init(&life_lock, NULL);
    users = 0;
    process_forget_thread(&answers);
    process_forget_thread(&records);
    process_close(&stop);
    weiri_metrics_forget();
}

static void process_handle_forks(void)
{
    pthread_atfork(NULL, NULL, process_forget);
}

static void *process_run_thread(void *opaque)
{
    process_thread *self = opaque;
    weiri_float_begin(); /* the thread that started this one may trap exceptions */
    weiri_server_run(&self->server);
    return NULL;
}

/* Starts a thread, which receives no signals. */
static void process_start_thread(process_thread *one, const char *name)
{
    sigset_t all, before;
    one->server.stop = stop;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    one->is_running = pthread_create(&one->thread, NULL, process_run_thread, one) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (one->is_running)
        pthread_setname_np(one->thread, name);
    else
        process_close(&one->server.listener);
}

static void process_open_ras(const weiri_monitor_settings *settings)
{
    answers.server.listener = weiri_ras_listen(settings->address);
    if (answers.server.listener < 0) {
        weiri_log(WEIRI_LOG_WARN, "%s; this process answers no RAS clients", weir_last_error());
        return;
    }
    weiri_log(WEIRI_LOG_INFO, "RAS clients are answered at %s", settings->address);
    records.server.listener = weiri_records_listen(&own_address);
    if (records.server.listener < 0)
        weiri_log(WEIRI_LOG_WARN, "%s; RAS services of other processes get no data of this one",
                  weir_last_error());
}

static void process_start(const weiri_monitor_settings *settings)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const int has_interval =
        settings->interval_us >= 0 && (settings->writes_prom || settings->writes_json);
    if (stop >= 0 || (!settings->serves && !has_interval))
        return;
    stop = weiri_fd_raise(eventfd(0, EFD_CLOEXEC));
    if (stop < 0)
        return;
    pthread_once(&once, process_handle_forks);
    answers.server.answer = weiri_ras_answer;
    answers.server.tick = process_write_metrics;
    answers.server.tick_ms = has_interval ? (settings->interval_us + 999) / 1000 : -1;
    records.server.answer = weiri_records_answer;
    records.server.tick_ms = -1;
    memset(&own_address, 0, sizeof own_address);
    if (settings->serves)
        process_open_ras(settings);
    if (answers.server.listener >= 0 || has_interval)
        process_start_thread(&answers, "weir-monitor");
    if (records.server.listener >= 0)
        process_start_thread(&records, "weir-records");
}

static void process_stop_thread(process_thread *one)
{
    if (one->is_running)
        pthread_join(one->thread, NULL);
    one->is_running = 0;
    process_close(&one->server.listener);
}

/* Ends the threads if nothing uses them. */
static void process_stop(void)
{
    if (users || stop < 0)
        return;
    eventfd_write(stop, 1);
    process_stop_thread(&answers);
    process_stop_thread(&records);
    process_close(&stop);
    memset(&own_address, 0, sizeof own_address);
}

/* ---------------------------------------------------------- the interface */

void weiri_monitor_prepare(weiri_address *address)
{
    weiri_monitor_settings settings;
    const int is_on = weiri_monitor_settings_read(&settings);
    pthread_mutex_lock(&life_lock);
    users++;
    if (is_on)
        process_start(&settings);
    *address = own_address;
    pthread_mutex_unlock(&life_lock);
}

void weiri_process_release(void)
{
    pthread_mutex_lock(&life_lock);
    users--;
    process_stop();
    pthread_mutex_unlock(&life_lock);
}

void weiri_process_add(weiri_monitor *monitor)
{
    pthread_mutex_lock(&life_lock);
    users++;
    pthread_mutex_unlock(&life_lock);
    weiri_monitor_list_add(monitor);
}

void weiri_process_remove(weiri_monitor *monitor)
{
    weiri_monitor_list_remove(monitor);
    weiri_process_release();
}
