/* A bootstrap each of whose operations counts as progress of the rank: see watched_boot.h. */
#include "bench/job/watched_boot.h"

#include <stdlib.h>

typedef struct watched_boot {
    weir_boot_ops ops; /* with the name of the bootstrap that performs them */
    bench_watch *watch;
    weir_boot *boot;
    int owns;
} watched_boot;

static weir_status watched_allgather(void *context, void *all, size_t bytes)
{
    watched_boot *w = context;
    bench_watch_progress(w->watch);
    return weir_boot_allgather(w->boot, all, bytes);
}

static weir_status watched_send(void *context, const void *data, size_t bytes, int peer, int tag)
{
    watched_boot *w = context;
    bench_watch_progress(w->watch);
    return weir_boot_send(w->boot, data, bytes, peer, tag);
}

static weir_status watched_recv(void *context, void *data, size_t bytes, int peer, int tag)
{
    watched_boot *w = context;
    bench_watch_progress(w->watch);
    return weir_boot_recv(w->boot, data, bytes, peer, tag);
}

static weir_status watched_barrier(void *context)
{
    watched_boot *w = context;
    bench_watch_progress(w->watch);
    return weir_boot_barrier(w->boot);
}

static void watched_set_timeout(void *context, int timeout_ms)
{
    watched_boot *w = context;
    (void)weir_boot_set_timeout(w->boot, timeout_ms); /* one that has none has none */
}

static void watched_destroy(void *context)
{
    watched_boot *w = context;
    if (w->owns)
        weir_boot_destroy(w->boot);
    free(w);
}

weir_status bench_watch_boot(bench_watch *watch, weir_boot **boot, int owns)
{
    watched_boot *w = malloc(sizeof *w);
    if (!w)
        return WEIR_ERR_NO_MEMORY;
    *w = (watched_boot){{weir_boot_name(*boot), watched_allgather, watched_send, watched_recv,
                         watched_barrier, watched_destroy, watched_set_timeout},
                        watch,
                        *boot,
                        owns};
    weir_status status =
        weir_boot_create(&w->ops, w, weir_boot_rank(*boot), weir_boot_nranks(*boot), boot);
    if (status != WEIR_OK)
        free(w);
    return status;
}
