/*
 * A proxy's life: creating it, starting and stopping its thread, freeing it. The thread's work is
 * in proxy_triggers.c and proxy_idle.c; port channels are in portchan.c.
 */
#define _GNU_SOURCE
#include "chan/port.h"

#include "base/config.h"
#include "base/fd.h"
#include "base/error.h"
#include "base/log.h"
#include "chan/copy_engine.h"
#include "comm/gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 1000 }; /* after the deadline, for the thread to notice it */

weir_status weir_proxy_create(weir_comm *comm, const weir_proxy_config *config, weir_proxy **proxy)
{
    if (!comm || !proxy)
        return weiri_fail(WEIR_ERR_INVALID, "weir_proxy_create: comm and proxy are required");
    weir_proxy_config own = WEIR_PROXY_CONFIG_INIT;
    weir_status status = weiri_comm_admit(comm, "weir_proxy_create");
    if (status == WEIR_OK)
        status = weiri_config_read("weir_proxy_config", config, &own, sizeof own);
    if (status != WEIR_OK)
        return status;
    weir_proxy *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a proxy");
    made->comm = comm;
    made->naps = comm->gpu != NULL;
    made->config = own;
    pthread_mutex_init(&made->lock, NULL);
    made->wake = weiri_fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (made->wake < 0)
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot create a proxy's eventfd");
    if (status == WEIR_OK)
        status = weiri_fifo_create(comm, made->config.fifo_slots, made->wake, &made->asleep,
                                   &made->fifo);
    if (status == WEIR_OK)
        status =
            weiri_gpu_keep(comm, &made->fifo.device, sizeof made->fifo.device, &made->kept_fifo);
    if (status == WEIR_OK)
        *proxy = made;
    else
        weir_proxy_free(made);
    return status;
}

static int proxy_has_to_end(weir_proxy *proxy)
{
    uint64_t stop_ns = weir_load_acquire(&proxy->stop_ns);
    return stop_ns && (!weiri_proxy_is_busy(proxy) || weir_clock_ns() > stop_ns);
}

static void *proxy_thread(void *opaque)
{
    weir_proxy *proxy = opaque;
    weiri_proxy_idle_state idle = {0};
    weiri_log_set_rank(proxy->comm->rank);
    weiri_proxy_bind(proxy->comm, proxy->config.cpu);
    weir_status status = weiri_copy_engine_enter(proxy->comm);
    if (status != WEIR_OK)
        weiri_proxy_fail(proxy, status);
    while (!proxy_has_to_end(proxy)) {
        int moved = weiri_proxy_run_triggers(proxy);
        weiri_proxy_idle(proxy, &idle, moved);
    }
    weir_store_release(&proxy->ended, 1);
    return NULL;
}

weir_status weir_proxy_start(weir_proxy *proxy)
{
    if (!proxy || proxy->running)
        return weiri_fail(WEIR_ERR_INVALID, "weir_proxy_start: %s",
                          proxy ? "the proxy is already running" : "proxy is required");
    const weir_status status = weiri_comm_admit(proxy->comm, "weir_proxy_start");
    if (status != WEIR_OK)
        return status;
    weir_store_relaxed(&proxy->stop_ns, 0);
    weir_store_relaxed(&proxy->ended, 0);
    int error_number = pthread_create(&proxy->thread, NULL, proxy_thread, proxy);
    if (error_number)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, error_number, "cannot start a proxy's thread");
    proxy->running = 1;
    __atomic_add_fetch(&proxy->comm->proxies, 1, __ATOMIC_RELAXED);
    return WEIR_OK;
}

void weir_proxy_wake(weir_proxy *proxy)
{
    const uint64_t one = 1;
    weir_store_relaxed(&proxy->woken, 1);
    if (write(proxy->wake, &one, sizeof one) < 0)
        weir_store_relaxed(&proxy->woken,
                           1); /* the eventfd is full, so it wakes the thread anyway */
}

weir_status weir_proxy_status(weir_proxy *proxy)
{
    WEIRI_REQUIRE(proxy);
    pthread_mutex_lock(&proxy->lock);
    weir_status status = proxy->status;
    if (status != WEIR_OK)
        weiri_fail(status, "%s", proxy->why);
    pthread_mutex_unlock(&proxy->lock);
    return status;
}

/* ------------------------------------------------------------------ stop, free */

/* Waits for the thread to end, but not beyond the deadline: a user's handler may never return. */
static int proxy_join(weir_proxy *proxy, uint64_t deadline_ns)
{
    const struct timespec nap = {.tv_nsec = 200000};
    while (!weir_load_acquire(&proxy->ended) && weir_clock_ns() < deadline_ns)
        nanosleep(&nap, NULL);
    if (!weir_load_acquire(&proxy->ended)) {
        pthread_detach(proxy->thread);
        proxy->lost = 1;
        return 0;
    }
    pthread_join(proxy->thread, NULL);
    return 1;
}

/* Sets the error text to what is still outstanding, if anything is. */
static weir_status proxy_report_outstanding(const weir_proxy *proxy, unsigned long long timeout_ms)
{
    uint64_t head = proxy->fifo.end.taken;
    weir_status status = weiri_fifo_head(&proxy->fifo, &head);
    if (status != WEIR_OK)
        return status;
    unsigned long long left = head - proxy->fifo.end.taken;
    if (left)
        return weiri_fail(WEIR_ERR_TIMEOUT,
                          "rank %d: %llu triggers were not executed within %llu ms; the first "
                          "has ticket %llu: its producer has %s",
                          proxy->comm->rank, left, timeout_ms,
                          (unsigned long long)proxy->fifo.end.taken,
                          proxy->unfilled ? "taken a slot and never filled it" : "filled it");
    if (proxy->unfinished)
        return weiri_fail(WEIR_ERR_TIMEOUT,
                          "rank %d: data that the proxy has sent had not arrived after %llu ms",
                          proxy->comm->rank, timeout_ms);
    return WEIR_OK;
}

weir_status weir_proxy_stop(weir_proxy *proxy)
{
    if (!proxy || !proxy->running)
        return proxy ? weir_proxy_status(proxy)
                     : weiri_fail(WEIR_ERR_INVALID, "weir_proxy_stop: proxy is required");
    if (weiri_comm_is_forked(proxy->comm))
        return weiri_fork_fail("communicator");
    uint64_t timeout_ns = proxy->config.stop_timeout_ms > 0
                              ? (uint64_t)proxy->config.stop_timeout_ms * 1000000u
                              : proxy->comm->guard.timeout_ns;
    unsigned long long timeout_ms = timeout_ns / 1000000;
    weir_trigger trigger;
    uint64_t stop_ns = weir_clock_ns() + timeout_ns;
    weir_store_release(&proxy->stop_ns, stop_ns);
    weir_proxy_wake(proxy);
    proxy->running = 0;
    if (!proxy_join(proxy, stop_ns + GRACE_MS * 1000000ull))
        return weiri_fail(WEIR_ERR_TIMEOUT,
                          "rank %d: the proxy has not returned within %llu ms, from a handler or "
                          "the system; its thread and memory are leaked",
                          proxy->comm->rank, timeout_ms);
    __atomic_sub_fetch(&proxy->comm->proxies, 1, __ATOMIC_RELAXED);
    weir_status status = weir_proxy_status(proxy);
    if (status != WEIR_OK)
        return status;
    if (weir_load_acquire(proxy->comm->guard.abort_word))
        return weiri_fail(WEIR_ERR_ABORTED,
                          "rank %d: the communicator was aborted while the proxy was running",
                          proxy->comm->rank);
    proxy->unfilled = !weiri_fifo_peek(&proxy->fifo.end, &trigger);
    proxy->unfinished = weiri_proxy_is_busy(proxy);
    return proxy_report_outstanding(proxy, timeout_ms);
}

void weir_proxy_free(weir_proxy *proxy)
{
    if (!proxy || weiri_comm_is_forked(proxy->comm))
        return;
    if (proxy->running && weir_proxy_stop(proxy) != WEIR_OK)
        weiri_log(WEIRI_LOG_INFO, "%s", weir_last_error());
    if (proxy->lost)
        return; /* the thread still uses the memory */
    weiri_gpu_release(proxy->comm, proxy->kept_fifo);
    weiri_fifo_destroy(&proxy->fifo);
    if (proxy->wake >= 0)
        close(proxy->wake);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy->flushes);
    free(proxy->chans);
    free(proxy);
}

weir_fifo_dev *weir_proxy_fifo(weir_proxy *proxy)
{
    return proxy->kept_fifo ? proxy->kept_fifo : &proxy->fifo.device;
}
