/*
 * The lanes of calls between nodes on GPU buffers, on the host: their memory, and their threads
 * (stager.h). A thread polls for requests for a while after the last one, and then looks for aborts
 * now and then. Of all requests the first lane gets a piece: its thread wakes the others, which
 * sleep. A kernel cannot wake the first thread. While launches are outstanding, or a graph that may
 * be replayed at any time was captured, it naps, for longer the longer it has been idle; otherwise
 * it sleeps until the caller of the next launch wakes it.
 *
 * Failures. The first lane that fails stores the error for the caller's next call, or
 * weir_comm_check, copies where it waited into this rank's state record, and aborts the
 * communicator, which ends kernels and the other lanes. The communicator of a lane that another
 * rank has aborted fails in the same way.
 */
#define _GNU_SOURCE
#include "coll/internode/streamed.h"

#include "base/error.h"
#include "base/log.h"
#include "chan/port.h"
#include "coll/internode/internode_coll.h"
#include "comm/called.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    POLL_NS = 1000000, /* after the last request */
    NAP_MIN_NS = 20000,
    NAP_MAX_NS = 1000000,
    NAP_SHARE = 16,        /* a nap takes this part of the idle time */
    SLEEP_NS = 100000000,  /* between looks for aborts */
    POLLS_PER_LOOK = 1024, /* for aborts, while polling */
};

/* A lane's thread. */
typedef struct lane {
    weiri_stager *stager;
    weir_comm *comm;
    weiri_coll *coll;
    char *base;
    weiri_stager_lane *words;
    pthread_t thread;
    int number, running;
    uint64_t *more;  /* weiri_pieces */
    uint64_t served; /* the epoch of the last request */
    uint64_t heard;  /* of stager->rung */
    uint64_t polls, idle_since_ns;
} lane;

struct weiri_stager {
    weiri_coll *coll;
    char *memory;
    size_t bytes;
    const unsigned char *remote; /* as args.remote */
    weiri_stager_args args;      /* what all launches have in common */
    uint64_t *counts;            /* device memory: of alltoallv, 4 * nranks */
    uint64_t stops, failed;
    /* How threads wake: rung counts the reasons to do so, of which `launches` are launches outside
     * of graphs, and asleep counts the threads that wait for `bell`. */
    pthread_mutex_t lock;
    pthread_cond_t bell;
    uint64_t rung, launches, has_graphs, asleep;
    lane lanes[WEIRI_COMM_LANES];
};

/* ------------------------------------------------------------------- wake-ups */

/* A thread that goes to sleep has counted itself in asleep before it compares rung, so it does not
 * miss a change of rung whose maker finds nobody asleep. */
static void stager_ring(weiri_stager *stager)
{
    __atomic_fetch_add(&stager->rung, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&stager->asleep, __ATOMIC_SEQ_CST))
        return;
    pthread_mutex_lock(&stager->lock);
    pthread_cond_broadcast(&stager->bell);
    pthread_mutex_unlock(&stager->lock);
}

void weiri_stager_expect(weiri_stager *stager, int is_captured)
{
    if (is_captured)
        weir_store_relaxed(&stager->has_graphs, 1);
    else
        __atomic_fetch_add(&stager->launches, 1, __ATOMIC_RELAXED);
    stager_ring(stager);
}

/* Returns when the bell has rung since the last time, or after SLEEP_NS. */
static void lane_sleep(lane *l)
{
    weiri_stager *stager = l->stager;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += SLEEP_NS;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&stager->lock);
    __atomic_fetch_add(&stager->asleep, 1, __ATOMIC_SEQ_CST);
    int error_number = 0;
    while (!error_number && __atomic_load_n(&stager->rung, __ATOMIC_SEQ_CST) == l->heard)
        error_number = pthread_cond_timedwait(&stager->bell, &stager->lock, &end);
    __atomic_fetch_sub(&stager->asleep, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&stager->lock);
}

/* ------------------------------------------------------------------ failures */

/* Copies where the lane's wait has failed into the record that reports read. */
static void lane_show(const lane *l)
{
    const weiri_where *from = l->comm->where;
    weiri_where *to = l->stager->coll->comm->where;
    for (int i = 0; i < WEIRI_TEXT_WORDS; i++)
        weir_store_relaxed(&to->phase[i], weir_load_relaxed(&from->phase[i]));
    weir_store_relaxed(&to->wait.peer, weir_load_relaxed(&from->wait.peer));
    weir_store_relaxed(&to->wait.expected, weir_load_relaxed(&from->wait.expected));
    weir_store_relaxed(&to->wait.seen, weir_load_relaxed(&from->wait.seen));
    weir_store_relaxed(&to->since_ns, weir_load_relaxed(&from->since_ns));
    weir_store_relaxed(&to->gave_up, weir_load_relaxed(&from->gave_up));
    weir_store_release(&to->wait.kind, weir_load_relaxed(&from->wait.kind));
}

/* If the ranks' calls differ, that is the cause: names them, with the counts of whole calls.
 * Another rank may see the abort late, and then send what it has called. */
static weir_status lane_compare_calls(weir_comm *comm, weir_status status, char *text, size_t bytes)
{
    enum { WAITS = 4 };
    for (int i = 0; comm->await_calls && i < WAITS; i++)
        if (comm->await_calls(comm) != WEIR_OK) {
            snprintf(text, bytes, "%s", weir_last_error());
            return WEIR_ERR_MISMATCH;
        }
    return status;
}

static void lane_fail(lane *l, weir_status status)
{
    weir_comm *comm = l->stager->coll->comm;
    const uint64_t reason = weir_load_acquire(l->comm->guard.abort_word);
    char text[WEIRI_FAILURE_BYTES];
    uint64_t none = 0;
    if (!__atomic_compare_exchange_n(&l->stager->failed, &none, 1, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return;
    if (status == WEIR_OK)
        status = WEIR_ERR_ABORTED;
    snprintf(text, sizeof text, "%s", weir_last_error());
    weiri_called_show(comm, 1);
    weiri_comm_abort_for(comm, reason ? reason : WEIRI_ABORT_FAILED);
    if (status == WEIR_ERR_MISMATCH || status == WEIR_ERR_ABORTED)
        status = lane_compare_calls(comm, status, text, sizeof text);
    lane_show(l);
    weiri_comm_set_failure(comm, status, text);
    weir_store_release(&comm->where->answered, 1);
    weiri_internode_send_record(comm->internode);
}

/* Looks for an abort of the communicator, by whomever, and of the lane's. */
static void lane_look(lane *l)
{
    weir_comm *comm = l->stager->coll->comm;
    weiri_internode_try_poll(l->comm->internode);
    if (l->number == 0)
        weiri_internode_try_poll(comm->internode);
    if (weir_load_acquire(&l->stager->failed))
        return;
    if (weir_load_acquire(comm->gpu_comm->guard.abort_word) == WEIR_ABORTED_BY_KERNEL)
        lane_fail(l, weir_comm_check(comm->gpu_comm));
    else if (weiri_comm_is_aborted(l->comm))
        lane_fail(l, weir_comm_check(l->comm));
    else if (weiri_comm_is_aborted(comm))
        weiri_comm_abort_for(l->comm, weir_load_acquire(comm->guard.abort_word));
}

static int lane_has_to_end(const lane *l)
{
    return weir_load_acquire(&l->stager->stops) || weir_load_acquire(&l->stager->failed);
}

/* ------------------------------------------------------------------- requests */

/* A piece of a collective whose buffers have one block, or one for each rank. */
static weir_status lane_run_blocks(lane *l, const weiri_stager_request *r, char *in, char *out,
                                   uint64_t bytes)
{
    if (r->own != WEIRI_STAGER_NOBODY)
        in = out + (r->own - 1) * bytes;
    const size_t element_bytes = weir_dtype_bytes((weir_dtype)r->dtype);
    const weir_call call = {.size = sizeof call,
                            .collective = (weir_collective)r->collective,
                            .dtype = (weir_dtype)r->dtype,
                            .op = (weir_op)r->op,
                            .root = (int)r->root,
                            .in = in,
                            .out = out,
                            .count = bytes / element_bytes,
                            .destination = -1,
                            .source = -1,
                            .algo_name = (const char *)(uintptr_t)r->algo};
    l->comm->whole_count = r->block_bytes / element_bytes;
    return weir_run(l->comm, &call);
}

/* Publishes a call of pairs, for the comparison of what ranks call. All ranks perform the first
 * piece, in the first lane; of others, some ranks may have none. */
static void lane_enter_pairs(const lane *l, const weiri_stager_request *r)
{
    const weir_call call = {.size = sizeof call,
                            .collective = (weir_collective)r->collective,
                            .dtype = (weir_dtype)r->dtype};
    if (l->comm->checks)
        weiri_called_enter(l->comm, &call, r->block_bytes / weir_dtype_bytes(call.dtype));
    weiri_comm_enter(l->comm, call.collective);
}

/* A piece of what pairs of ranks exchange. Every pair of a request exchanges its first piece, even
 * if that is empty, so that lengths are compared. */
static weir_status lane_run_pairs(lane *l, const weiri_stager_request *r, char *in, char *out,
                                  uint64_t k)
{
    const int n = l->comm->nranks, lanes = l->stager->args.lanes;
    const unsigned char *remote = l->stager->remote;
    const weir_call call = {
        .size = sizeof call, .collective = (weir_collective)r->collective, .dtype = WEIR_UINT8};
    if (k == 0)
        lane_enter_pairs(l, r);
    memset(l->coll->pairs, 0, (size_t)n * sizeof *l->coll->pairs);
    for (int peer = 0; peer < n; peer++) {
        const uint64_t send = weiri_stager_pair_bytes(r, l->words->bytes, n, peer, 0);
        const uint64_t recv = weiri_stager_pair_bytes(r, l->words->bytes, n, peer, 1);
        const weiri_stager_span sent = weiri_stager_span_of(send, r->most_bytes, lanes, k);
        const weiri_stager_span received = weiri_stager_span_of(recv, r->most_bytes, lanes, k);
        const int is_one = r->kind == WEIRI_STAGER_SENDRECV;
        const int sends = !is_one || r->destination == (uint64_t)peer + 1;
        const int receives = !is_one || r->source == (uint64_t)peer + 1;
        if (!remote[peer])
            continue;
        l->coll->pairs[peer] = (weiri_pair){in + weiri_stager_pair_at(r, peer),
                                            out + weiri_stager_pair_at(r, peer),
                                            sent.bytes,
                                            received.bytes,
                                            sends && (k == 0 || sent.bytes),
                                            receives && (k == 0 || received.bytes)};
        l->more[peer] = send - sent.bytes;
        l->more[n + peer] = recv - received.bytes;
    }
    const weiri_pieces pieces = {{.call = &call,
                                  .element_bytes = 1,
                                  .pairs = l->coll->pairs,
                                  .memory = WEIRI_TASK_OF_OTHER_NODES},
                                 l->more};
    return weiri_internode_coll_run_pairs(l->coll, &pieces.task);
}

/* The largest number of pieces of a block. */
static uint64_t lane_count_pieces(const lane *l, const weiri_stager_request *r)
{
    const int n = l->comm->nranks;
    uint64_t most = r->kind == WEIRI_STAGER_BLOCKWISE ? r->block_bytes : 0;
    for (int i = 0; r->kind != WEIRI_STAGER_BLOCKWISE && i < 2 * n; i++) {
        const uint64_t bytes = l->stager->remote[i % n]
                                   ? weiri_stager_pair_bytes(r, l->words->bytes, n, i % n, i >= n)
                                   : 0;
        most = bytes > most ? bytes : most;
    }
    most = weiri_stager_pieces(most, r->most_bytes, l->stager->args.lanes);
    return most ? most : 1;
}

/* Waits until all blocks of the kernel have filled piece k. Returns 0 if the lane has to end. */
static int lane_await_piece(lane *l, const weiri_stager_request *r, uint64_t step)
{
    for (uint64_t block = 0; block < r->blocks; block++)
        while (weir_load_acquire(&l->words->filled[block]) < step) {
            if (++l->polls % POLLS_PER_LOOK == 0)
                lane_look(l);
            if (lane_has_to_end(l))
                return 0;
            if (l->comm->host_comm->oversubscribed)
                sched_yield();
            else
                weir_pause();
        }
    return 1;
}

static void lane_serve(lane *l, uint64_t epoch)
{
    const weiri_stager_request r = l->words->request;
    const weiri_stager_args *a = &l->stager->args;
    const uint64_t pieces = lane_count_pieces(l, &r), lanes = (uint64_t)a->lanes;
    if (l->number == 0 && pieces > 1)
        stager_ring(l->stager);
    for (uint64_t k = (uint64_t)l->number; k < pieces; k += lanes) {
        char *in = weiri_stager_buffer(l->base, a->head_bytes, k, a->lanes, 0);
        char *out = weiri_stager_buffer(l->base, a->head_bytes, k, a->lanes, 1);
        weir_status status;
        if (!lane_await_piece(l, &r, weiri_stager_step(epoch, k + 1)))
            return;
        if (r.kind == WEIRI_STAGER_BLOCKWISE)
            status = lane_run_blocks(
                l, &r, in, out,
                weiri_stager_span_of(r.block_bytes, r.most_bytes, a->lanes, k).bytes);
        else
            status = lane_run_pairs(l, &r, in, out, k);
        if (status != WEIR_OK) {
            lane_fail(l, status);
            return;
        }
        weir_store_release(&l->words->done, weiri_stager_step(epoch, k + 1));
    }
}

/* ------------------------------------------------------------------- threads */

/* Whether requests may arrive that nobody announces. */
static int lane_expects(const lane *l)
{
    const weiri_stager *stager = l->stager;
    return l->number == 0 && (weir_load_relaxed(&stager->has_graphs) ||
                              weir_load_relaxed(&stager->launches) > l->served);
}

static void lane_idle(lane *l)
{
    const uint64_t now_ns = weir_clock_ns();
    if (!l->idle_since_ns)
        l->idle_since_ns = now_ns;
    const uint64_t idle_ns = now_ns - l->idle_since_ns;
    if (idle_ns < POLL_NS) {
        if (++l->polls % POLLS_PER_LOOK == 0)
            lane_look(l);
        if (l->comm->host_comm->oversubscribed)
            sched_yield();
        else
            weir_pause();
        return;
    }
    lane_look(l);
    const uint64_t rung = __atomic_load_n(&l->stager->rung, __ATOMIC_ACQUIRE);
    if (rung != l->heard) {
        l->heard = rung;
        l->idle_since_ns = now_ns;
        return;
    }
    if (!lane_expects(l)) {
        lane_sleep(l);
        return;
    }
    uint64_t nap_ns = idle_ns / NAP_SHARE;
    nap_ns = nap_ns < NAP_MIN_NS ? NAP_MIN_NS : nap_ns > NAP_MAX_NS ? NAP_MAX_NS : nap_ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)nap_ns}, NULL);
}

static void *lane_thread(void *opaque)
{
    lane *l = opaque;
    const weir_comm *comm = l->stager->coll->comm;
    weiri_log_set_rank(comm->rank);
    weiri_proxy_bind(comm, -1);
    while (!lane_has_to_end(l)) {
        const uint64_t epoch = weir_load_acquire(&l->words->asked);
        if (epoch == l->served) {
            lane_idle(l);
            continue;
        }
        l->served = epoch;
        lane_serve(l, epoch);
        l->idle_since_ns = 0;
    }
    return NULL;
}

static weir_status lane_start(weiri_stager *stager, int number)
{
    lane *l = &stager->lanes[number];
    char *base = stager->memory + (size_t)number * stager->args.lane_bytes;
    *l = (lane){.stager = stager,
                .comm = stager->coll->comm->lanes[number],
                .base = base,
                .words = (weiri_stager_lane *)(void *)base,
                .number = number};
    weir_status status = weiri_coll_get(l->comm, &l->coll);
    if (status != WEIR_OK)
        return status;
    l->more = calloc(2 * (size_t)l->comm->nranks, sizeof *l->more);
    if (!l->more)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for calls between nodes");
    sigset_t all, before;
    sigfillset(&all); /* the program's threads receive its signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error_number = pthread_create(&l->thread, NULL, lane_thread, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error_number)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, error_number,
                                "cannot start a thread for calls between nodes");
    l->running = 1;
    weir_store_relaxed(&stager->coll->comm->lanes_run, 1);
    return WEIR_OK;
}

/* ---------------------------------------------------------------------- memory */

static size_t stager_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* The lanes, whole pages each, and the list of remote ranks. The mapping is shared, because a child
 * process would get private pages, or leave other ones to this process than those that the GPU
 * accesses. */
static weir_status stager_map(weiri_stager *stager)
{
    enum { PAGE = 4096 };
    const weir_comm *comm = stager->coll->comm;
    const size_t n = (size_t)comm->nranks;
    weiri_stager_args *a = &stager->args;
    a->rank = comm->rank;
    a->nranks = comm->nranks;
    a->lanes = comm->nlanes;
    a->head_bytes = stager_round_up(sizeof(weiri_stager_lane) + 2 * n * sizeof(uint64_t), PAGE);
    a->lane_bytes = a->head_bytes + (size_t)WEIRI_STAGER_SLOTS * 2 * WEIRI_STAGER_BYTES;
    stager->bytes = (size_t)a->lanes * a->lane_bytes + stager_round_up(n, PAGE);
    void *memory = mmap(NULL, stager->bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return weiri_fail(WEIR_ERR_NO_MEMORY,
                          "no memory for %zu bytes of staging buffers of calls between nodes",
                          stager->bytes);
    stager->memory = memory;
    unsigned char *remote = (unsigned char *)memory + (size_t)a->lanes * a->lane_bytes;
    for (int rank = 0; rank < comm->nranks; rank++)
        remote[rank] = (unsigned char)weiri_internode_is_remote(comm->internode, rank);
    stager->remote = remote;
    return WEIR_OK;
}

static void stager_close(weiri_stager *stager)
{
    weir_comm *comm = stager->coll->comm;
    comm->gpu->ops->stager->close(comm->gpu_comm, stager->memory, stager->args.state,
                                  stager->counts);
    weir_store_relaxed(&comm->lanes_run, 0);
    weir_store_release(&stager->stops, 1);
    stager_ring(stager);
    for (int i = 0; i < WEIRI_COMM_LANES; i++) {
        if (stager->lanes[i].running)
            pthread_join(stager->lanes[i].thread, NULL);
        free(stager->lanes[i].more);
    }
    if (stager->memory)
        munmap(stager->memory, stager->bytes);
    pthread_cond_destroy(&stager->bell);
    pthread_mutex_destroy(&stager->lock);
    free(stager);
}

static weir_status stager_pin(weiri_stager *stager)
{
    enum { GRACE_NS = 1500000000 }; /* of kernels: the lanes notice and report a deadline first */
    weir_comm *comm = stager->coll->comm;
    weiri_stager_args *a = &stager->args;
    const weir_status status =
        comm->gpu->ops->stager->open(comm->gpu_comm, stager->memory, stager->bytes, &a->memory,
                                     &a->state, &stager->counts, 4 * (size_t)comm->nranks);
    if (status != WEIR_OK)
        return status;
    a->remote = (const unsigned char *)a->memory + (size_t)a->lanes * a->lane_bytes;
    a->guard = comm->gpu->ops->guard(comm->gpu_comm);
    a->guard.timeout_ns += GRACE_NS;
    return WEIR_OK;
}

/* The clock of its waits is monotonic. */
static void stager_init_bell(weiri_stager *stager)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&stager->bell, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&stager->lock, NULL);
}

weir_status weiri_stager_open(weiri_coll *coll, weiri_stager **stager)
{
    weiri_stager *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for calls between nodes");
    made->coll = coll;
    stager_init_bell(made);
    weir_status status = stager_map(made);
    if (status == WEIR_OK)
        status = stager_pin(made);
    for (int i = 0; i < made->args.lanes && status == WEIR_OK; i++)
        status = lane_start(made, i);
    coll->stager_close = stager_close;
    if (status == WEIR_OK)
        *stager = made;
    else
        stager_close(made);
    return status;
}

const weiri_stager_args *weiri_stager_common(const weiri_stager *stager)
{
    return &stager->args;
}

uint64_t *weiri_stager_counts(const weiri_stager *stager)
{
    return stager->counts;
}
