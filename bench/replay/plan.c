/* The steps of a rank in memory, and classes of calls: see plan.h. */
#include "bench/replay/plan.h"

#include "bench/gpu/gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 4096 };

const replay_comm *replay_work_set(const replay_plan *plan, const replay_work *work)
{
    return plan->sets[work->step->set];
}

const char *replay_step_name(int kind)
{
    return kind == REPLAY_EXCHANGE ? "exchange" : replay_kind_name((replay_kind)kind);
}

weir_collective replay_step_collective(int kind)
{
    static const weir_collective collectives[REPLAY_KINDS] = {
        WEIR_COLL_ALLREDUCE, WEIR_COLL_REDUCE_SCATTER, WEIR_COLL_ALLGATHER, WEIR_COLL_BROADCAST,
        WEIR_COLL_REDUCE,    WEIR_COLL_ALLTOALL,       WEIR_COLL_ALLTOALLV, WEIR_COLL_ALLTOALLV,
        WEIR_COLL_ALLTOALLV, WEIR_COLL_ALLTOALLV,      WEIR_COLL_ALLTOALLV, WEIR_COLL_ALLREDUCE};
    return kind == REPLAY_EXCHANGE ? WEIR_COLL_ALLTOALLV : collectives[kind];
}

weir_call replay_work_call(const replay_plan *plan, const replay_work *work, weir_splits *splits)
{
    const size_t n = (size_t)replay_work_set(plan, work)->nranks;
    weir_call call = WEIR_CALL_INIT;
    call.collective = replay_step_collective(work->step->kind);
    call.dtype = (weir_dtype)work->dtype;
    call.op = (weir_op)work->call->op;
    call.in = work->in;
    call.out = work->out;
    call.count = work->step->kind == REPLAY_BARRIER ? 1 : work->splits ? 0 : work->call->count;
    call.stream = bench_gpu_lane(plan->job->gpu, work->lane);
    if (work->is_sendrecv) {
        call.collective = WEIR_COLL_SENDRECV;
        call.count = work->in_elements;
        call.recv_count = work->out_elements;
        call.destination = work->to;
        call.source = work->from;
    } else if (work->splits) {
        *splits = (weir_splits){work->splits, work->splits + n, work->splits + 2 * n,
                                work->splits + 3 * n};
        call.splits = splits;
    } else if (replay_kind_has_root((replay_kind)work->step->kind)) {
        call.root = work->call->peer;
    }
    return call;
}

static int is_pairs(int kind)
{
    return kind != REPLAY_BARRIER && replay_step_collective(kind) == WEIR_COLL_ALLTOALLV;
}

/* --------------------------------------------------------------------- sizes */

/* What a rank of a set sends to, and receives from, each rank, in elements of the work's type. */
static void pairs_counts(const replay_plan *plan, const replay_step *step, int rank, int member,
                         size_t *sent, size_t *received)
{
    const replay_comm *set = plan->sets[step->set];
    const replay_call *calls = &plan->trace->ranks[rank].calls[step->call];
    const size_t n = (size_t)set->nranks;
    memset(sent, 0, n * sizeof *sent);
    memset(received, 0, n * sizeof *received);
    for (size_t i = 0; step->kind == REPLAY_ALLTOALLV && i < n; i++) {
        sent[i] = plan->trace->splits[calls->splits + i];
        received[i] = plan->trace->splits[calls->splits + n + i];
    }
    if (step->kind == REPLAY_GATHER || step->kind == REPLAY_SCATTER) {
        size_t *many = step->kind == REPLAY_GATHER ? received : sent;
        size_t *one = step->kind == REPLAY_GATHER ? sent : received;
        for (size_t i = 0; member == calls->peer && i < n; i++)
            many[i] = calls->count;
        one[calls->peer] = calls->count;
    }
    for (uint32_t i = 0; step->kind == REPLAY_EXCHANGE && i < step->ncalls; i++) {
        const int peer = plan->trace->comms[calls[i].comm].ranks[calls[i].peer];
        size_t *to = calls[i].kind == REPLAY_SEND ? sent : received;
        to[replay_comm_rank(set, peer)] +=
            calls[i].count * weir_dtype_bytes((weir_dtype)calls[i].dtype);
    }
}

static size_t sum_of(const size_t *counts, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

static weir_dtype step_dtype(const replay_step *step, const replay_call *call)
{
    return step->kind == REPLAY_EXCHANGE || step->kind == REPLAY_BARRIER ? WEIR_UINT8
                                                                         : (weir_dtype)call->dtype;
}

/* The elements of both buffers. pairs: room for the counts of a step between pairs. */
static void step_elements(const replay_plan *plan, const replay_step *step, int rank, int member,
                          size_t *pairs, size_t *in, size_t *out)
{
    const size_t n = (size_t)plan->sets[step->set]->nranks;
    const size_t count = plan->trace->ranks[rank].calls[step->call].count;
    *in = *out = count;
    if (is_pairs(step->kind)) {
        pairs_counts(plan, step, rank, member, pairs, pairs + 2 * n);
        *in = sum_of(pairs, n);
        *out = sum_of(pairs + 2 * n, n);
    } else if (step->kind == REPLAY_BARRIER) {
        *in = *out = 1;
    } else {
        if (step->kind == REPLAY_REDUCE_SCATTER || step->kind == REPLAY_ALLTOALL)
            *in *= n;
        if (step->kind == REPLAY_ALLGATHER || step->kind == REPLAY_ALLTOALL)
            *out *= n;
    }
}

/* In place where weir and NCCL both have such a form. */
static int step_in_place(const replay_step *step, const replay_call *call)
{
    return call->in_place && !is_pairs(step->kind) && step->kind != REPLAY_ALLTOALL &&
           step->kind != REPLAY_BARRIER;
}

/* ------------------------------------------------------------------- classes */

static int log2_of(double bytes)
{
    return bytes < 1 ? 0 : ilogb(bytes);
}

static replay_class *class_find(replay_plan *plan, const replay_class *key)
{
    for (replay_class *c = plan->classes; c < plan->classes + plan->nclasses; c++)
        if (c->kind == key->kind && c->dtype == key->dtype && c->op == key->op &&
            c->in_place == key->in_place && c->log2_bytes == key->log2_bytes &&
            c->nranks == key->nranks)
            return c;
    if (plan->nclasses == REPLAY_CLASSES_MAX)
        return NULL;
    plan->classes[plan->nclasses] = *key;
    return &plan->classes[plan->nclasses++];
}

/* One step of any rank. */
typedef struct plan_step {
    const replay_step *step;
    const replay_comm *set;
    const replay_call *call;
    int rank, member; /* of the job, of the set */
} plan_step;

/* Calls the function for each step of each rank, until it fails. */
static weir_status for_steps(replay_plan *plan,
                             weir_status (*each)(replay_plan *, const plan_step *, void *),
                             void *context)
{
    const replay_schedule *s = plan->schedule;
    weir_status status = WEIR_OK;
    for (int actor = 0; actor < s->nranks * s->nlanes; actor++)
        for (size_t i = 0; i < s->lanes[actor].count && status == WEIR_OK; i++) {
            const int rank = actor / s->nlanes;
            plan_step at = {.step = &s->lanes[actor].list[i], .rank = rank};
            at.set = plan->sets[at.step->set];
            at.call = &plan->trace->ranks[rank].calls[at.step->call];
            at.member = replay_comm_rank(at.set, rank);
            status = each(plan, &at, context);
        }
    return status;
}

/* The use of a memory by one lane. */
typedef struct lane_use {
    size_t at, most; /* most: bytes of one call, or twice those of a group that was placed */
    size_t first, limit;
} lane_use;

/* The place of recorded buffers. */
typedef struct known_place {
    size_t at, bytes;
    uint32_t memory;
} known_place;

/* What is known of all instances while a plan is made. */
typedef struct plan_making {
    double *bytes;       /* of each instance: the larger buffer, of the busiest rank */
    uint16_t *classes;   /* of each instance */
    size_t *pairs;       /* room for the counts of a step between pairs */
    size_t nsplits;      /* that this rank needs */
    uint8_t *has_more;   /* of each instance: a rank sends, or receives, more than one message */
    lane_use *uses;      /* of each memory */
    known_place *places; /* by the numbers of buffers; nplaces */
    size_t nplaces;
    uint8_t *seen; /* a bit for each class on each set */
} plan_making;

static weir_status measure_step(replay_plan *plan, const plan_step *at, void *context)
{
    plan_making *making = context;
    const replay_step *step = at->step;
    size_t in, out;
    step_elements(plan, step, at->rank, at->member, making->pairs, &in, &out);
    const double size =
        (double)((in > out ? in : out) * weir_dtype_bytes(step_dtype(step, at->call)));
    if (step->kind != REPLAY_BARRIER && size > making->bytes[step->instance])
        making->bytes[step->instance] = size;
    if (at->rank == plan->job->rank && is_pairs(step->kind))
        making->nsplits += 4 * (size_t)at->set->nranks + step->ncalls;
    if (step->kind == REPLAY_EXCHANGE &&
        (step->ncalls > 2 || (step->ncalls == 2 && at->call[0].kind == at->call[1].kind)))
        making->has_more[step->instance] = 1;
    plan->nworks += at->rank == plan->job->rank;
    return WEIR_OK;
}

/* Finds the class of an instance, alike on all ranks. */
static weir_status class_step(replay_plan *plan, const plan_step *at, void *context)
{
    const plan_making *making = context;
    const replay_step *step = at->step;
    if (at->member)
        return WEIR_OK;
    const replay_class key = {.kind = step->kind,
                              .dtype = (uint8_t)step_dtype(step, at->call),
                              .op = replay_kind_has_op((replay_kind)step->kind) ? at->call->op : 0,
                              .in_place = (uint8_t)step_in_place(step, at->call),
                              .log2_bytes = (uint8_t)log2_of(making->bytes[step->instance]),
                              .nranks = at->set->nranks};
    replay_class *class = class_find(plan, &key);
    if (!class)
        return bench_job_note(plan->job, WEIR_ERR_UNSUPPORTED,
                              "more than %d different sizes and types of calls",
                              REPLAY_CLASSES_MAX);
    class->calls++;
    class->bytes += making->bytes[step->instance];
    class->elements += (double)at->call->count;
    making->classes[step->instance] = (uint16_t)(class - plan->classes);
    return WEIR_OK;
}

/* --------------------------------------------------------------------- layout */

/* The computation before a call: since the end of the call before it in its lane, NULL: since the
 * rank's first call began. 0 if it is not known. */
static float gap_before(const replay_call *first, const replay_call *before,
                        const replay_call *call)
{
    const double end = before ? before->start_s + (double)before->duration_s : first->start_s;
    const double gap = call->start_s - end;
    return gap > 0 ? (float)gap : 0;
}

static size_t align_up(size_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) & ~(size_t)(ALIGN_BYTES - 1);
}

/* Fills in displacements: blocks follow each other in the order of ranks. */
static void place_pairs(size_t *splits, size_t n)
{
    size_t at = 0, to = 0;
    for (size_t i = 0; i < n; i++) {
        splits[n + i] = at;
        at += splits[i];
        splits[3 * n + i] = to;
        to += splits[2 * n + i];
    }
}

/* The bytes of both buffers and a guard. */
static size_t work_bytes(const replay_work *work)
{
    const size_t width = weir_dtype_bytes((weir_dtype)work->dtype);
    const size_t in = work->in_elements * width, out = work->out_elements * width;
    const size_t longer = in > out ? in : out;
    return align_up(work->in_place ? longer + REPLAY_GUARD_BYTES
                                   : align_up(in) + out + REPLAY_GUARD_BYTES);
}

/* Gives a work its place in its memory: offsets become pointers later. */
static void place_work(replay_work *work, size_t at)
{
    const size_t width = weir_dtype_bytes((weir_dtype)work->dtype);
    const size_t in = work->in_elements * width, out = work->out_elements * width;
    char *base = (char *)(uintptr_t)at;
    work->in = base;
    work->out = work->in_place ? base : base + align_up(in);
    if (work->in_place && work->step->kind == REPLAY_REDUCE_SCATTER)
        work->out += (size_t)work->rank * out;
    if (work->in_place && work->step->kind == REPLAY_ALLGATHER)
        work->in += (size_t)work->rank * in;
}

/* The peer of a message in the set of its exchange. */
static int message_peer(const replay_plan *plan, const replay_step *step, const replay_call *call)
{
    return replay_comm_rank(plan->sets[step->set],
                            plan->trace->comms[call->comm].ranks[call->peer]);
}

/* Messages with the same peer follow each other in its block. */
static void place_messages(const replay_plan *plan, replay_work *work, size_t n)
{
    size_t *places = work->splits + 4 * n;
    for (uint32_t i = 0; work->step->kind == REPLAY_EXCHANGE && i < work->step->ncalls; i++) {
        const replay_call *call = &work->call[i];
        const int peer = message_peer(plan, work->step, call);
        *(call->kind == REPLAY_SEND ? &work->to : &work->from) = peer;
        places[i] = work->splits[(call->kind == REPLAY_SEND ? n : 3 * n) + (size_t)peer];
        for (uint32_t before = 0; before < i; before++)
            if (work->call[before].kind == call->kind &&
                message_peer(plan, work->step, &work->call[before]) == peer)
                places[i] += work->call[before].count *
                             weir_dtype_bytes((weir_dtype)work->call[before].dtype);
    }
}

replay_message replay_message_of(const replay_plan *plan, const replay_work *work, uint32_t n)
{
    const replay_call *call = &work->call[n];
    const int is_send = call->kind == REPLAY_SEND;
    const size_t at = work->splits[4 * (size_t)replay_work_set(plan, work)->nranks + n];
    return (replay_message){(is_send ? work->in : work->out) + at,
                            call->count * weir_dtype_bytes((weir_dtype)call->dtype),
                            message_peer(plan, work->step, call), is_send};
}

/* Makes the work of a step, without its place. Returns its end in the pool of splits. */
static size_t *make_work(replay_plan *plan, replay_work *work, const replay_step *step, int lane,
                         const plan_making *making, size_t *splits)
{
    const int rank = plan->job->rank, between_pairs = is_pairs(step->kind);
    const size_t n = (size_t)plan->sets[step->set]->nranks;
    *work = (replay_work){.step = step,
                          .call = &plan->trace->ranks[rank].calls[step->call],
                          .klass = making->classes[step->instance],
                          .splits = between_pairs ? splits : NULL,
                          .lane = (uint8_t)lane,
                          .is_sendrecv =
                              step->kind == REPLAY_EXCHANGE && !making->has_more[step->instance],
                          .to = -1,
                          .from = -1,
                          .rank = replay_comm_rank(plan->sets[step->set], rank)};
    work->dtype = (uint8_t)step_dtype(step, work->call);
    work->in_place = (uint8_t)step_in_place(step, work->call);
    plan->classes[work->klass].mine++;
    step_elements(plan, step, rank, work->rank, between_pairs ? splits : making->pairs,
                  &work->in_elements, &work->out_elements);
    if (!between_pairs)
        return splits;
    place_pairs(splits, n);
    place_messages(plan, work, n);
    return splits + 4 * n + step->ncalls;
}

static int is_in_group(const replay_plan *plan, int lane, size_t i)
{
    return plan->works[i].step->is_grouped ||
           (i > plan->lanes[lane] && plan->works[i - 1].step->is_grouped);
}

/* Takes the place of the same recorded buffers, or the next part of the memory. Calls of a group
 * may run together, and have places of their own. Returns the bytes taken. */
static size_t take_place(replay_plan *plan, int lane, size_t i, const plan_making *making)
{
    replay_work *work = &plan->works[i];
    lane_use *use = &making->uses[work->memory];
    const size_t needs = work_bytes(work);
    const int is_known = work->call->buffers >= 0 && !is_in_group(plan, lane, i);
    known_place *place = is_known ? &making->places[work->call->buffers] : NULL;
    if (place && place->bytes >= needs && place->memory == work->memory) {
        place_work(work, place->at);
        return 0;
    }
    if (use->at + needs > use->limit)
        use->at = 0;
    place_work(work, use->first + use->at);
    if (place)
        *place = (known_place){use->first + use->at, needs, work->memory};
    use->at += needs;
    return needs;
}

/* Adds up what the works of a lane need of each memory. Returns the bytes of all. */
static size_t use_lane(replay_plan *plan, int lane, const plan_making *making)
{
    size_t all = 0, group = 0;
    for (size_t i = plan->lanes[lane]; i < plan->lanes[lane + 1]; i++) {
        lane_use *use = &making->uses[plan->works[i].memory];
        const size_t needs = work_bytes(&plan->works[i]);
        const int follows = i > plan->lanes[lane] && plan->works[i - 1].step->is_grouped;
        group = (follows ? group : 0) + needs;
        /* No two calls of a group overlap. */
        const size_t least = follows ? 2 * group : needs;
        use->most = least > use->most ? least : use->most;
        plan->mirror_bytes = needs > plan->mirror_bytes ? needs : plan->mirror_bytes;
        all += take_place(plan, lane, i, making);
    }
    return all;
}

/* Gives the works of a lane their places. */
static void place_lane(replay_plan *plan, int lane, size_t span_bytes, const plan_making *making)
{
    const size_t nmemory = (size_t)plan->schedule->nsets + 1;
    for (size_t i = 0; i < nmemory; i++)
        making->uses[i] = (lane_use){.limit = SIZE_MAX};
    memset(making->places, 0, making->nplaces * sizeof *making->places);
    const size_t all = use_lane(plan, lane, making);
    for (size_t i = 0; i < nmemory; i++) {
        lane_use *use = &making->uses[i];
        const double share = all > span_bytes ? (double)span_bytes / (double)all : 1;
        use->limit = align_up((size_t)((double)use->at * share));
        use->limit = use->limit < use->most ? use->most : use->limit;
        use->first = plan->memory[i].bytes;
        use->at = 0;
        plan->memory[i].bytes += use->limit;
    }
    memset(making->places, 0, making->nplaces * sizeof *making->places);
    for (size_t i = plan->lanes[lane]; i < plan->lanes[lane + 1]; i++)
        take_place(plan, lane, i, making);
}

/* The memory that a work uses. */
static uint32_t choose_memory(const replay_plan *plan, const replay_options *options,
                              const replay_work *work)
{
    const int is_registered = options->buffers == REPLAY_BUFFERS_RECORDED
                                  ? !work->call->unregistered
                                  : options->buffers == REPLAY_BUFFERS_REGISTERED;
    return is_registered ? work->step->set : (uint32_t)plan->schedule->nsets;
}

/* Sets a bit. 1: it was not set before. */
static uint8_t mark_seen(uint8_t *bits, size_t bit)
{
    const uint8_t mask = (uint8_t)(1 << bit % 8), was = bits[bit / 8] & mask;
    bits[bit / 8] |= mask;
    return !was;
}

/* Makes the works of this rank, and the sizes of memory. */
static void make_works(replay_plan *plan, const replay_options *options, const plan_making *making)
{
    const replay_call *first = plan->trace->ranks[plan->job->rank].calls;
    size_t *splits = plan->splits, count = 0;
    for (int lane = 0; lane < plan->nlanes; lane++) {
        const replay_steps *steps = &plan->schedule->lanes[plan->job->rank * plan->nlanes + lane];
        const replay_call *before = NULL;
        plan->lanes[lane] = count;
        for (size_t i = 0; i < steps->count; i++) {
            replay_work *work = &plan->works[count++];
            splits = make_work(plan, work, &steps->list[i], lane, making, splits);
            work->is_first =
                mark_seen(making->seen, (size_t)work->step->set * REPLAY_CLASSES_MAX + work->klass);
            work->memory = choose_memory(plan, options, work);
            work->gap_s = options->gaps ? gap_before(first, before, work->call) : 0;
            before = work->call + work->step->ncalls - 1;
        }
        plan->lanes[lane + 1] = count;
        place_lane(plan, lane, options->span_bytes / (size_t)plan->nlanes, making);
    }
}

size_t replay_plan_next(const replay_plan *plan, size_t *at, int *lane)
{
    size_t next = SIZE_MAX;
    const int is_within =
        *lane >= 0 && at[*lane] > plan->lanes[*lane] && plan->works[at[*lane] - 1].step->is_grouped;
    for (int i = 0; i < plan->nlanes && !is_within; i++)
        if (at[i] < plan->lanes[i + 1] &&
            (next == SIZE_MAX || plan->works[at[i]].step->call < plan->works[next].step->call)) {
            next = at[i];
            *lane = i;
        }
    if (is_within)
        next = at[*lane];
    if (next != SIZE_MAX)
        at[*lane]++;
    return next;
}

static weir_status allocate_unregistered(bench_job *job, size_t bytes, void **pointer)
{
    if (job->gpu)
        return bench_gpu_alloc(job->gpu, bytes, pointer);
    return posix_memalign(pointer, ALIGN_BYTES, bytes) == 0
               ? WEIR_OK
               : bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for buffers of %zu bytes",
                                bytes);
}

static weir_status allocate(replay_plan *plan)
{
    bench_job *job = plan->job;
    const int nsets = plan->schedule->nsets;
    weir_status status = WEIR_OK;
    for (int i = 0; i <= nsets && status == WEIR_OK; i++) {
        replay_memory *memory = &plan->memory[i];
        void *pointer = NULL;
        if (!memory->bytes)
            continue;
        if (i < nsets)
            status = weir_mem_alloc(plan->comms[i], memory->bytes, &memory->registered);
        else
            status = allocate_unregistered(job, memory->bytes, &pointer);
        memory->pointer =
            i < nsets && status == WEIR_OK ? weir_mem_pointer(memory->registered) : pointer;
    }
    if (status == WEIR_OK && job->gpu) {
        void *mirror = NULL;
        status = bench_gpu_mirror_alloc(job->gpu, plan->mirror_bytes + 1, &mirror);
        plan->mirror = mirror;
    }
    for (size_t i = 0; i < plan->nworks && status == WEIR_OK; i++) {
        replay_work *work = &plan->works[i];
        work->in = plan->memory[work->memory].pointer + (uintptr_t)work->in;
        work->out = plan->memory[work->memory].pointer + (uintptr_t)work->out;
    }
    return status;
}

/* The numbers of buffers of a rank. */
static size_t count_buffers(const replay_rank *rank)
{
    int32_t last = -1;
    for (size_t i = 0; i < rank->count; i++)
        last = rank->calls[i].buffers > last ? rank->calls[i].buffers : last;
    return (size_t)(last + 1);
}

static weir_status plan_make(replay_plan *plan, const replay_options *options)
{
    const size_t instances = (size_t)plan->schedule->instances + 1;
    const size_t nmemory = (size_t)plan->schedule->nsets + 1;
    size_t most = 1;
    for (int i = 0; i < plan->schedule->nsets; i++)
        most = (size_t)plan->sets[i]->nranks > most ? (size_t)plan->sets[i]->nranks : most;
    replay_pool pool = {NULL, 0};
    plan_making making = {.bytes = replay_take(&pool, instances, sizeof *making.bytes),
                          .classes = replay_take(&pool, instances, sizeof *making.classes),
                          .pairs = replay_take(&pool, 4 * most, sizeof *making.pairs),
                          .has_more = replay_take(&pool, instances, 1),
                          .uses = replay_take(&pool, nmemory, sizeof *making.uses),
                          .seen = replay_take(&pool, nmemory, REPLAY_CLASSES_MAX / 8),
                          .nplaces = count_buffers(&plan->trace->ranks[plan->job->rank])};
    making.places = replay_take(&pool, making.nplaces, sizeof *making.places);
    plan->memory = replay_take(&plan->pool, nmemory, sizeof *plan->memory);
    weir_status status = WEIR_OK;
    if (pool.has_failed || !plan->memory)
        status = replay_no_memory();
    if (status == WEIR_OK)
        status = for_steps(plan, measure_step, &making);
    if (status == WEIR_OK)
        status = for_steps(plan, class_step, &making);
    plan->works = replay_take(&plan->pool, plan->nworks, sizeof *plan->works);
    plan->splits = replay_take(&plan->pool, making.nsplits, sizeof *plan->splits);
    if (status == WEIR_OK && plan->pool.has_failed)
        status = replay_no_memory();
    if (status == WEIR_OK)
        make_works(plan, options, &making);
    replay_pool_free(&pool);
    return status;
}

weir_status replay_plan_open(replay_plan *plan, bench_job *job, const replay_options *options,
                             const replay_trace *trace, const replay_schedule *schedule)
{
    memset(plan, 0, sizeof *plan);
    plan->job = job;
    plan->trace = trace;
    plan->schedule = schedule;
    plan->nlanes = schedule->nlanes;
    plan->sets = (const replay_comm *const *)schedule->sets;
    weir_status status = bench_job_agree(job, plan_make(plan, options), "calls");
    if (status == WEIR_OK)
        status = replay_comms_open(plan);
    return status == WEIR_OK ? bench_job_agree(job, allocate(plan), "buffers") : status;
}

void replay_plan_close(replay_plan *plan)
{
    for (int i = 0; plan->memory && i <= plan->schedule->nsets; i++) {
        replay_memory *memory = &plan->memory[i];
        if (memory->registered)
            weir_mem_free(memory->registered);
        else if (plan->job->gpu)
            bench_gpu_free(plan->job->gpu, memory->pointer);
        else
            free(memory->pointer);
    }
    replay_comms_close(plan);
    if (plan->mirror)
        bench_gpu_mirror_free(plan->job->gpu, plan->mirror);
    replay_pool_free(&plan->pool);
    memset(plan, 0, sizeof *plan);
}
