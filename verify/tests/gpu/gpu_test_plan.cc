/*
 * Proves the kernel of plans in the emulator, from the JSON reader through the compiler and the
 * encoder to the results: plans with all kinds of operations, made here as text, the library's own
 * plans, and the DSL's samples if they are installed beside the source. They run with all types and
 * operations, lengths that do not divide evenly, buffers of any alignment, pages shorter than a
 * block's list of steps, and launches in immediate succession. Proxies of port channels run as
 * additional ranks. Also that a lost signal is reported with its position, and that wrong chunks
 * and missing barriers give wrong results.
 */
#include "verify/tests/support/gpu_emulator.hh"
#include "verify/tests/support/gpu_plan_text.hh"
#include "verify/tests/support/gpu_tap.hh"

#include "plan/cuda/device/block.cuh"
#include "plan/cuda/kernels.h"

#include "chan/fifo.h"

extern "C" {
#include "plan/compile/compile.h"
#include "plan/examples/examples.h"
#include "plan/cuda/encode.h"
#include "verify/tests/support/reduce_model.h"

/* Replaces what the plan reader needs and the emulator lacks. */
weir_status weiri_fail_errno(weir_status status, const char *, ...)
{
    return status;
}
void weiri_log(int, const char *, ...)
{
}
}

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace emulator;
using plan_text::all_below;
using plan_text::local;
using plan_text::move;
using plan_text::nop;
using plan_text::sync;
using plan_text::text;

/* ------------------------------------------------------------- running a plan */

/* The proxy of a rank, which runs as an additional rank. */
struct proxy {
    alignas(128) uint64_t slots[WEIR_FIFO_WORDS << 2];
    uint64_t head, tail_seen, tail;
    weiri_fifo_end end;
    std::vector<uint64_t> inbound, flushed, expected;
    std::vector<weir_portchan_dev> ports;
    std::vector<weir_portchan_dev *> table;
    std::vector<uint64_t *> there; /* the peers' inbound words */
    std::vector<uint64_t> sent;
};

/* A rank's part of a context. */
struct rank_end {
    weiri_program *program = nullptr;
    weiri_image image = {};
    char *segment = nullptr;
    weiri_gpu_state state = {(uint64_t)1 << WEIRI_GPU_EPOCH_SHIFT};
    std::vector<uint64_t> semaphores, barriers;
    std::vector<uint32_t> initial;
    std::vector<weiri_image_channel> channels;
    proxy ports = {};
    uint64_t failed_at = 0;
};

struct one_launch {
    weiri_image_args args;
    const void *kernel;
};

struct setting {
    weir_dtype dtype;
    weir_op op;
    size_t count; /* elements of a block */
    int threads;
    uint32_t page_bytes;
    bool odd_places;
    uint32_t does = 0; /* additional capabilities that the kernel has beyond what the image needs */
};

static void run_image(weiri_gpu_args args)
{
    const one_launch *launch = (const one_launch *)(uintptr_t)args.in;
    weiri_gpu_advance_epoch(args.view, weiri_gpu_epoch(args.view));
    ((void (*)(weiri_image_args))launch->kernel)(launch->args);
}

struct buffers {
    buffer in, out;
    std::vector<uint8_t> given;
};

class context {
public:
    context(const weir_plan *plan, const setting &how, uint64_t seed, bool has_ports = false);
    ~context();
    /* Queues a launch on all ranks. */
    void launch();
    /* Runs the queue and checks all results. Returns what went wrong, or "". */
    std::string run(bool checks = true);
    const std::vector<rank_end> &ranks() const
    {
        return ranks_;
    }

private:
    const weir_plan *plan_;
    setting how_;
    int nranks_;
    bool has_ports_;
    machine machine_;
    std::string why_;
    weiri_plan_layout layout_ = {};
    std::vector<rank_end> ranks_;
    std::vector<std::unique_ptr<one_launch>> launches_;
    std::vector<std::vector<buffers>> calls_;

    void make_rank(int rank);
    void make_ports(int rank);
    void fill(buffer &of, size_t count);
    buffers place(int rank);
    weiri_image_args args_of(int rank, const buffers &of);
    void launch_proxies();
    std::vector<uint8_t> expected(const std::vector<buffers> &call, int rank) const;
    std::string check(const std::vector<buffers> &call) const;
    std::string describe() const;
    bool reduces() const
    {
        return plan_->collective == WEIR_COLL_ALLREDUCE || plan_->collective == WEIR_COLL_REDUCE ||
               plan_->collective == WEIR_COLL_REDUCE_SCATTER;
    }
};

std::string context::describe() const
{
    char words[128];
    snprintf(words, sizeof words, "%s of %zu %s, %s, %d ranks, %d threads, pages of %u: ",
             plan_->collective_name, how_.count, weir_dtype_name(how_.dtype),
             weir_op_name(how_.op), nranks_, how_.threads, how_.page_bytes);
    return words;
}

context::context(const weir_plan *plan, const setting &how, uint64_t seed, bool has_ports)
    : plan_(plan), how_(how), nranks_(plan->nranks), has_ports_(has_ports),
      machine_(has_ports ? 2 * plan->nranks : plan->nranks, seed),
      ranks_((size_t)plan->nranks)
{
    const size_t element = weir_dtype_bytes(how.dtype);
    const uint64_t in = how.count * element * weiri_plan_blocks(plan, WEIR_PLAN_INPUT);
    const uint64_t out = how.count * element * weiri_plan_blocks(plan, WEIR_PLAN_OUTPUT);
    if (weiri_plan_lay_out(plan, in, out, element, &layout_) != WEIR_OK)
        why_ = "no layout";
    for (int rank = 0; rank < nranks_ && why_.empty(); rank++)
        make_rank(rank);
    for (int rank = 0; rank < nranks_ && why_.empty(); rank++) {
        std::vector<char *> segments;
        for (const rank_end &one : ranks_)
            segments.push_back(one.segment);
        weiri_image_fill_channels(ranks_[(size_t)rank].program, segments.data(),
                                  ranks_[(size_t)rank].channels.data());
        if (has_ports)
            make_ports(rank);
    }
}

context::~context()
{
    for (rank_end &one : ranks_) {
        free(one.program);
        free(one.image.pages);
    }
}

void context::make_rank(int rank)
{
    rank_end &one = ranks_[(size_t)rank];
    if (weiri_program_compile(plan_, rank, &layout_, &one.program) != WEIR_OK ||
        weiri_image_encode(plan_, one.program, how_.page_bytes, 1, &one.image) != WEIR_OK) {
        why_ = "no image";
        return;
    }
    const size_t bytes =
        weiri_image_scratch_at(one.program->ncounters) + one.program->scratch_bytes;
    one.segment = machine_.alloc(rank, bytes, 0, MAPPED).data;
    memset(one.segment, 0, bytes);
    one.initial.assign(weiri_program_semaphores(one.program),
                       weiri_program_semaphores(one.program) + one.program->nsemaphores);
    for (int set = 0; set < 2; set++)
        one.semaphores.insert(one.semaphores.end(), one.initial.begin(), one.initial.end());
    one.barriers.resize(2 * (size_t)one.program->nbarriers);
    one.channels.resize(one.program->nchannels);
}

/* The memories of a port are the whole address space. */
void context::make_ports(int rank)
{
    proxy &own = ranks_[(size_t)rank].ports;
    const weiri_program *program = ranks_[(size_t)rank].program;
    const weiri_channel *ends = weiri_program_channels(program);
    const weir_guard guard = machine_.args(rank, {}, {}).view.guard;
    const size_t n = program->nchannels;
    for (std::vector<uint64_t> *words : {&own.inbound, &own.flushed, &own.expected, &own.sent})
        words->assign(n, 0);
    own.end = {own.slots, &own.tail, 0, 2};
    for (uint32_t i = 0; i < n; i++) {
        weir_fifo_dev fifo = {};
        fifo.slots = own.slots;
        fifo.head = &own.head;
        fifo.tail_seen = &own.tail_seen;
        fifo.tail = &own.tail;
        fifo.shift = 2;
        fifo.guard = guard;
        own.ports.push_back({fifo, &own.inbound[i], &own.flushed[i], &own.expected[i], i,
                             UINT64_MAX / 2, UINT64_MAX / 2});
    }
    for (uint32_t i = 0; i < n; i++) {
        own.table.push_back(&own.ports[i]);
        own.there.push_back(nullptr);
        for (int peer = 0; peer < rank; peer++) {
            const weiri_program *other = ranks_[(size_t)peer].program;
            const weiri_channel *theirs = weiri_program_channels(other);
            for (uint32_t j = 0; j < other->nchannels; j++) {
                if (ends[i].peer != peer || theirs[j].peer != rank || !ends[i].is_port ||
                    !theirs[j].is_port || ends[i].ordinal != theirs[j].ordinal)
                    continue;
                own.there[i] = &ranks_[(size_t)peer].ports.inbound[j];
                ranks_[(size_t)peer].ports.there[j] = &own.inbound[i];
            }
        }
    }
}

/* Fills in numbers whose sums and products are exact in every type. */
void context::fill(buffer &of, size_t count)
{
    const bool is_unsigned =
        how_.dtype == WEIR_UINT8 || how_.dtype == WEIR_UINT32 || how_.dtype == WEIR_UINT64;
    format f;
    for (size_t i = 0; i < count; i++) {
        const int value = (int)machine_.random(3) - (is_unsigned ? 0 : 1);
        const float as_float = (float)value;
        const double as_double = value;
        uint64_t bits = (uint64_t)(int64_t)value;
        if (how_.dtype == WEIR_FLOAT)
            memcpy(&bits, &as_float, sizeof as_float);
        else if (how_.dtype == WEIR_DOUBLE)
            memcpy(&bits, &as_double, sizeof as_double);
        else if (format_of(how_.dtype, &f))
            bits = model_encode(f, value);
        put_bits(how_.dtype, (uint8_t *)of.data, i, bits);
    }
}

/* In place, the shorter buffer lies in the longer one. */
buffers context::place(int rank)
{
    const size_t element = weir_dtype_bytes(how_.dtype);
    const size_t shift = how_.odd_places ? element * machine_.random(8) : 0;
    const size_t other = how_.odd_places ? element * machine_.random(8) : 0;
    buffers made;
    if (plan_->in_place) {
        const bool in_longer = layout_.in_bytes >= layout_.out_bytes;
        made.out = machine_.alloc(rank, std::max(layout_.in_bytes, layout_.out_bytes), shift,
                                  MAPPED);
        made.in = made.out;
        buffer &shorter = in_longer ? made.out : made.in;
        if (layout_.in_bytes != layout_.out_bytes) {
            const size_t at = (size_t)rank * layout_.block_bytes;
            shorter = {shorter.data + at, layout_.block_bytes, shorter.desc + at};
        }
    } else {
        made.in = machine_.alloc_input(rank, layout_.in_bytes, shift, MAPPED);
        made.out = machine_.alloc(rank, layout_.out_bytes, other, MAPPED);
    }
    fill(made.in, layout_.in_bytes / element);
    made.given.assign(made.in.data, made.in.data + layout_.in_bytes);
    return made;
}

weiri_image_args context::args_of(int rank, const buffers &of)
{
    rank_end &one = ranks_[(size_t)rank];
    weiri_image_args args = {};
    args.view = machine_.args(rank, of.in, of.out).view;
    args.view.nranks = nranks_;
    args.view.state = &one.state;
    args.pages = one.image.pages;
    args.page_bytes = one.image.page_bytes;
    args.announces = (uint32_t)one.image.announces;
    args.nsemaphores = one.program->nsemaphores;
    args.nbarriers = one.program->nbarriers;
    args.semaphores = one.semaphores.data();
    args.barriers = one.barriers.data();
    args.initial = one.initial.data();
    args.channels = one.channels.data();
    args.ports = one.ports.table.data();
    args.failed_at = &one.failed_at;
    for (int peer = 0; peer < nranks_; peer++)
        args.segment[peer] = ranks_[(size_t)peer].segment;
    args.scratch_at = weiri_image_scratch_at(one.program->ncounters);
    args.half_bytes = one.program->geometry.half_bytes;
    args.in = of.in.data;
    args.out = of.out.data;
    args.in_desc = of.in.desc;
    args.out_desc = of.out.desc;
    args.op = how_.op;
    args.dtype = how_.dtype;
    return args;
}

void context::launch()
{
    std::vector<buffers> call;
    for (int rank = 0; rank < nranks_ && why_.empty(); rank++) {
        call.push_back(place(rank));
        const uint32_t does = how_.does | ranks_[(size_t)rank].image.does |
                              (how_.op == WEIR_SUM ? 0 : WEIRI_IMAGE_DOES_OPS);
        launches_.emplace_back(new one_launch{args_of(rank, call.back()),
                                              weiri_image_kernel(how_.dtype, does)});
        weiri_gpu_args args = machine_.args(rank, call.back().in, call.back().out);
        args.in = (const char *)launches_.back().get();
        machine_.launch(rank, "plan", (const void *)run_image,
                        {(int)ranks_[(size_t)rank].image.nblocks, how_.threads}, args);
    }
    calls_.push_back(call);
}

/* Serves requests until every rank has been idle for long: only then does its clock run out. */
static void serve(weiri_gpu_args args)
{
    proxy *own = (proxy *)(uintptr_t)args.in;
    weiri_gpu_advance_epoch(args.view, weiri_gpu_epoch(args.view));
    const uint64_t triggers = (uint64_t)args.bytes;
    weir_waiter waiter = {0, 0};
    while (own->end.taken < triggers) {
        weir_trigger got;
        if (!weiri_fifo_peek(&own->end, &got)) {
            if (weir_waiter_step(&waiter, &args.view.guard))
                break;
            continue;
        }
        if (got.op & WEIR_TRIGGER_PUT)
            memcpy((char *)WEIRI_IMAGE_PORT_BASE + got.to,
                   (const char *)WEIRI_IMAGE_PORT_BASE + got.from, got.bytes);
        if (got.op & WEIR_TRIGGER_SIGNAL)
            weir_store_release(own->there[got.chan], ++own->sent[got.chan]);
        if (got.op & WEIR_TRIGGER_FLUSH)
            weir_store_release(&own->flushed[got.chan], own->end.taken + 1);
        weiri_fifo_pop(&own->end);
    }
}

/* How many triggers a rank pushes in one launch. */
static uint64_t triggers_of(const rank_end &one)
{
    uint64_t count = 0;
    for (uint32_t p = 0; p < one.image.npages; p++) {
        const weiri_image_page *page =
            (const weiri_image_page *)(one.image.pages + (size_t)p * one.image.page_bytes);
        const weiri_image_step *steps = (const weiri_image_step *)(page + 1);
        for (uint32_t s = 0; s < page->nsteps; s++)
            count += steps[s].kind == WEIRI_IMAGE_PORT_PUT ? 1
                     : steps[s].kind == WEIRI_IMAGE_PORT_SIGNAL ||
                             steps[s].kind == WEIRI_IMAGE_PORT_FLUSH
                         ? steps[s].nids
                         : 0;
    }
    return count;
}

void context::launch_proxies()
{
    buffer none = {};
    for (int rank = 0; rank < nranks_; rank++) {
        rank_end &one = ranks_[(size_t)rank];
        weiri_gpu_args args = machine_.args(nranks_ + rank, none, none);
        args.in = (const char *)&one.ports;
        args.bytes = triggers_of(one) * calls_.size();
        machine_.launch(nranks_ + rank, "proxy", (const void *)serve, {1, 1}, args);
    }
}

std::vector<uint8_t> context::expected(const std::vector<buffers> &call, int rank) const
{
    const size_t n = (size_t)nranks_, element = weir_dtype_bytes(how_.dtype), me = (size_t)rank;
    std::vector<uint8_t> result(layout_.out_bytes);
    for (size_t i = 0; i < layout_.out_bytes / element; i++) {
        uint64_t values[MODEL_MAX_NSRC];
        const size_t block = how_.count ? i / how_.count : 0, within = i - block * how_.count;
        if (reduces()) {
            const bool scatters = plan_->collective == WEIR_COLL_REDUCE_SCATTER;
            for (size_t r = 0; r < n; r++)
                values[r] = get_bits(how_.dtype, call[r].given.data(),
                                     i + (scatters ? me * how_.count : 0));
            values[0] = model_element(how_.dtype, how_.op, values, nranks_, n);
        } else if (plan_->collective == WEIR_COLL_BROADCAST) {
            values[0] = get_bits(how_.dtype, call[0].given.data(), i);
        } else if (plan_->collective == WEIR_COLL_ALLTOALL) {
            values[0] = get_bits(how_.dtype, call[block].given.data(), me * how_.count + within);
        } else {
            values[0] = get_bits(how_.dtype, call[block].given.data(), within);
        }
        put_bits(how_.dtype, result.data(), i, values[0]);
    }
    return result;
}

std::string context::check(const std::vector<buffers> &call) const
{
    const int checked = plan_->collective == WEIR_COLL_REDUCE ? 1 : nranks_; /* root 0 */
    for (int rank = 0; rank < checked; rank++) {
        const std::vector<uint8_t> right = expected(call, rank);
        const buffers &got = call[(size_t)rank];
        if (!same_values(how_.dtype, (const uint8_t *)got.out.data, right.data(),
                         right.size() / weir_dtype_bytes(how_.dtype)))
            return describe() + "wrong data at rank " + std::to_string(rank);
        if (!plan_->in_place && memcmp(got.in.data, got.given.data(), got.given.size()))
            return describe() + "the input has changed at rank " + std::to_string(rank);
    }
    return "";
}

std::string context::run(bool checks)
{
    if (!why_.empty())
        return describe() + why_;
    if (has_ports_)
        launch_proxies();
    if (!machine_.run())
        return describe() + "\n" + machine_.report();
    std::string why;
    for (size_t i = 0; i < calls_.size() && checks && why.empty(); i++)
        why = check(calls_[i]);
    return why;
}

/* ------------------------------------------------------------------- the plans */

typedef std::vector<plan_text::rank> ranks;

static ranks make_ranks(int nranks, int in, int out, int scratch)
{
    ranks all((size_t)nranks);
    for (plan_text::rank &one : all) {
        one.in = in;
        one.out = out;
        one.scratch = scratch;
    }
    return all;
}

/* Two-shot allreduce by packets: each rank reduces its part and sends the result to all. One block
 * per peer, and blocks that reduce parts. */
static text two_shot_packets(int n)
{
    ranks all = make_ranks(n, n, n, 2 * n);
    for (int r = 0; r < n; r++) {
        plan_text::rank &one = all[(size_t)r];
        for (int i = 1; i < n; i++) {
            const int peer = (r + i) % n;
            one.add((size_t)i - 1, move("ppkt", {local('i', peer)}, {one.remote(peer, 's', r)},
                                        "memory"));
        }
        for (int nth = 0; nth < 2; nth++) {
            std::vector<text> src = {local('i', r)}, dst = {local('o', r)};
            for (int peer = 0; peer < n; peer++)
                if (peer != r) {
                    src.push_back(local('s', peer));
                    dst.push_back(one.remote(peer, 's', n + r));
                }
            one.add((size_t)nth, move("respkt", src, dst, "memory", {}, plan_text::part(nth, 2)));
        }
        for (int i = 1; i < n; i++) {
            const int peer = (r + i) % n;
            one.add((size_t)(i % 2), move("upkt", {local('s', n + peer)}, {local('o', peer)}));
        }
        one.channel((r + 1) % n);
    }
    return plan_text::plan("allreduce", true, all);
}

/* Loads from all inputs and stores into all outputs; blocks divide each chunk. */
static text direct(int n, int nblocks)
{
    ranks all = make_ranks(n, n, n, 0);
    for (int r = 0; r < n; r++) {
        plan_text::rank &one = all[(size_t)r];
        for (int b = 0; b < nblocks; b++) {
            std::vector<int> ids;
            std::vector<text> src = {local('i', r)}, dst = {local('o', r)};
            for (int i = 1; i < n; i++) {
                const int peer = (r + i) % n;
                ids.push_back(one.channel(peer));
                src.push_back(one.remote(peer, 'i', r));
                dst.push_back(one.remote(peer, 'o', r));
            }
            const size_t block = (size_t)b;
            for (const text &op :
                 {nop, sync("rlxsignal", ids), sync("rlxwait", ids), nop,
                  move("rres", src, dst, "memory", {}, plan_text::part(b, nblocks)), nop,
                  sync("signal", ids), sync("wait", ids), nop})
                one.add(block, op);
        }
    }
    return plan_text::plan("allreduce", false, all);
}

/* Two ranks, most kinds of operations, in sequence. */
static text many_kinds()
{
    ranks all = make_ranks(2, 4, 4, 8);
    for (int r = 0; r < 2; r++) {
        plan_text::rank &one = all[(size_t)r];
        const int p = 1 - r, id = one.channel(p);
        const text handshake[] = {nop, sync("signal", {id}), sync("wait", {id}), nop};
        auto add = [&](const text &op) { one.add(0, op); };
        auto add_handshake = [&]() { for (const text &op : handshake) add(op); };
        const int mine = 2 * r, theirs = 2 * p;
        /* chunk mine + 1: fetched from the peer, added to the local one, put back */
        add(move("copy", {local('i', 0, 4)}, {local('s', 0, 4)}));
        add_handshake();
        add(move("get", {one.remote(p, 's', mine + 1)}, {local('s', 4)}, "memory", {id}));
        add(nop);
        add(move("re", {local('i', mine + 1), local('s', 4)}, {local('s', 5)}));
        add(nop);
        add(move("copy", {local('s', 5)}, {local('o', mine + 1)}));
        add(move("put", {local('s', 5)}, {one.remote(p, 'o', mine + 1)}, "memory", {id}));
        /* chunk mine: read and reduced, half by rre and then sent, half by rres */
        add(move("rre", {local('i', mine), one.remote(p, 's', mine)}, {local('s', 6)}, "memory", {},
                 plan_text::part(0, 2)));
        add(nop);
        add(move("copy", {local('s', 6)}, {local('o', mine)}, "", {}, plan_text::part(0, 2)));
        add(move("pws", {local('s', 6)}, {one.remote(p, 'o', mine)}, "memory", {id},
                 plan_text::part(0, 2)));
        add(sync("wait", {id}));
        add(move("rres", {local('i', mine), one.remote(p, 's', mine)},
                 {local('o', mine), one.remote(p, 'o', mine)}, "memory", {},
                 plan_text::part(1, 2)));
        add_handshake();
        (void)theirs;
    }
    return plan_text::plan("allreduce", false, all);
}

/* All packet operations on two ranks; each rank reduces one half. */
static text packet_kinds()
{
    ranks all = make_ranks(2, 4, 4, 16);
    for (int r = 0; r < 2; r++) {
        plan_text::rank &one = all[(size_t)r];
        const int p = 1 - r, mine = 2 * r, theirs = 2 * p;
        one.channel(p);
        auto add = [&](size_t block, const text &op) { one.add(block, op); };
        add(0, move("ppkt", {local('i', theirs, 2)}, {one.remote(p, 's', 0, 2)}, "memory"));
        /* Chunk mine: reduced into packets, which another block unpacks and forwards. */
        add(0, move("recpkt", {local('i', mine), local('s', 0)}, {local('s', 8), local('s', 2)}));
        add(1, move("upkt", {local('s', 2)}, {local('o', mine)}));
        add(2, move("rppkt", {local('s', 2)}, {one.remote(p, 's', 4)}, "memory"));
        add(1, move("upkt", {local('s', 4)}, {local('o', theirs)}));
        /* Chunk mine + 1: reduced, kept, packed, and sent at once. */
        add(2, move("recspkt", {local('i', mine + 1), local('s', 1)},
                    {local('o', mine + 1), local('s', 5), one.remote(p, 's', 6)}, "memory"));
        add(1, move("upkt", {local('s', 6)}, {local('o', theirs + 1)}));
        /* Operations whose result is not used. */
        add(0, move("cpkt", {local('i', 0)}, {local('s', 7)}));
        add(0, move("repkt", {local('i', 0), local('s', 7)}, {local('s', 9)}));
    }
    return plan_text::plan("allreduce", true, all);
}

/* Packet operations on the same chunk without fences: each thread must find what it wrote. */
static text unfenced_packets()
{
    ranks all = make_ranks(2, 1, 1, 2);
    for (int r = 0; r < 2; r++) {
        plan_text::rank &one = all[(size_t)r];
        const int p = 1 - r;
        one.channel(p);
        one.add(0, move("ppkt", {local('i', 0)}, {one.remote(p, 's', 0)}, "memory"));
        one.add(0, move("repkt", {local('i', 0), local('s', 0)}, {local('o', 0)}));
        one.add(0, move("cpkt", {local('o', 0)}, {local('s', 1)}));
        one.add(0, move("upkt", {local('s', 1)}, {local('o', 0)}));
    }
    return plan_text::plan("allreduce", true, all);
}

/* A pipeline of three blocks over a switch channel, as the DSL writes it: some semaphores begin at
 * 0, and one with 2 credits, which every launch must find again. */
static text pipeline(int n, int unit_bytes)
{
    ranks all = make_ranks(n, n, n, n);
    std::vector<int> everybody = all_below((size_t)n);
    for (int r = 0; r < n; r++) {
        plan_text::rank &one = all[(size_t)r];
        std::vector<int> first, second, in_pairs;
        for (int i = 1; i < n; i++)
            first.push_back(one.channel((r + i) % n));
        for (int i = 1; i < n; i++)
            second.push_back(one.channel((r + i) % n));
        one.groups = {{'s', everybody}};
        one.semaphores = {0, 0, 2};
        std::vector<text> ops = {plan_text::semaphore("sem_acquire", {2})};
        for (int c = 0; c < n; c++)
            ops.push_back(move("copy", {local('i', c)}, {local('s', c)}));
        for (const text &op : {nop, sync("signal", first), sync("wait", first), nop,
                               plan_text::semaphore("sem_release", {0}), nop})
            ops.push_back(op);
        one.add(0, plan_text::pipeline(unit_bytes, 1, ops));
        one.add(1, plan_text::pipeline(
                       unit_bytes, 1,
                       {plan_text::semaphore("sem_acquire", {0}), nop,
                        move("glres", {plan_text::group(0, r)}, {plan_text::group(0, r)}, "switch"),
                        nop, sync("signal", second), nop,
                        plan_text::semaphore("sem_release", {1})}));
        ops = {nop, plan_text::semaphore("sem_acquire", {1}), nop, sync("wait", second), nop};
        for (int c = 0; c < n; c++)
            ops.push_back(move("copy", {local('s', c)}, {local('o', c)}));
        ops.push_back(nop);
        ops.push_back(plan_text::semaphore("sem_release", {2}));
        one.add(2, plan_text::pipeline(unit_bytes, 1, ops));
    }
    return plan_text::plan("allreduce", false, all);
}

/* Switch channels: loads from a group, and stores of data and packets to the whole group. */
static text groups(int n)
{
    ranks all = make_ranks(n, n, n, 4 * n);
    for (int r = 0; r < n; r++) {
        plan_text::rank &one = all[(size_t)r];
        std::vector<int> ids;
        for (int i = 1; i < n; i++)
            ids.push_back(one.channel((r + i) % n));
        one.groups = {{'i', all_below((size_t)n)}, {'o', all_below((size_t)n)},
                      {'s', all_below((size_t)n)}};
        const bool packets = r % 2;
        for (const text &op : {sync("signal", ids), sync("wait", ids),
                               move("glre", {plan_text::group(0, r)}, {local('s', 3 * n)},
                                    "switch"),
                               nop})
            one.add(0, op);
        if (packets) {
            one.add(0, move("cpkt", {local('s', 3 * n)}, {local('s', 3 * n + 1)}));
            one.add(0, move("gstorepkt", {local('s', 3 * n + 1)}, {plan_text::group(2, r)},
                            "switch"));
        } else {
            one.add(0, move("gstore", {local('s', 3 * n)}, {plan_text::group(1, r)}, "switch"));
        }
        for (int c = 1; c < n; c += 2)
            one.add(0, move("upkt", {local('s', c)}, {local('o', c)}));
        for (const text &op : {nop, sync("signal", ids), sync("wait", ids)})
            one.add(0, op);
    }
    return plan_text::plan("allreduce", true, all);
}

/* Blocks that pass on chunks by barriers and share one channel for signals and waits. */
static text handing_on(int n)
{
    ranks all = make_ranks(n, 1, n, n + 1);
    for (int r = 0; r < n; r++) {
        plan_text::rank &one = all[(size_t)r];
        const int next = (r + 1) % n, before = (r + n - 1) % n;
        const int to = one.channel(next);
        const int from = next == before ? to : one.channel(before);
        one.add(0, move("copy", {local('i', 0)}, {local('s', n)}));
        one.add(0, plan_text::barrier(0, 2));
        one.add(1, plan_text::barrier(0, 2));
        one.add(1, move("copy", {local('s', n)}, {local('o', r)}));
        for (int hop = 0; hop < n - 1; hop++) {
            const int chunk = (r + n - hop) % n, got = (r + n - hop - 1) % n;
            for (int b = 0; b < 2; b++) {
                const size_t block = (size_t)b;
                one.add(block, plan_text::barrier(1, 2));
                one.add(block, move("put", {local('o', chunk)},
                                    {one.remote(next, 'o', chunk)}, "memory", {to},
                                    plan_text::part(b, 2)));
                one.add(block, nop);
                one.add(block, sync("signal", {to}));
                one.add(block, sync("wait", {from}));
                one.add(block, nop);
            }
            (void)got;
        }
    }
    return plan_text::plan("allgather", false, all);
}

/* All-to-all through ports, of data and of packets. */
static text through_ports(int n)
{
    ranks all = make_ranks(n, n, n, 3 * n);
    for (int r = 0; r < n; r++) {
        plan_text::rank &one = all[(size_t)r];
        one.add(0, move("copy", {local('i', r)}, {local('o', r)}));
        for (int i = 1; i < n; i++) {
            const int peer = (r + i) % n, id = one.port(peer);
            const size_t block = (size_t)i - 1;
            if ((r + peer) % 2) {
                one.add(block, move("put", {local('i', peer)}, {one.remote(peer, 'o', r)}, "port",
                                    {id}));
                one.add(block, sync("signal", {id}, "port"));
                one.add(block, sync("flush", {id}, "port"));
            } else {
                one.add(block, move("pwsf", {local('i', peer)}, {one.remote(peer, 'o', r)}, "port",
                                    {id}));
            }
            one.add(block, sync("wait", {id}, "port"));
        }
    }
    return plan_text::plan("alltoall", false, all);
}

/* ---------------------------------------------------------------------- tests */

struct plan_free {
    void operator()(weir_plan *plan) const
    {
        weir_plan_free(plan);
    }
};
typedef std::unique_ptr<weir_plan, plan_free> owned_plan;

static owned_plan parse(const text &json)
{
    weir_plan *plan = nullptr;
    if (weir_plan_parse(json.data(), json.size(), "test", &plan) != WEIR_OK)
        printf("# the plan is rejected\n");
    return owned_plan(plan);
}

static std::string launches(const weir_plan *plan, const setting &how, uint64_t seed, int count,
                            bool has_ports = false)
{
    if (!plan)
        return "no plan";
    context made(plan, how, seed, has_ports);
    for (int i = 0; i < count; i++)
        made.launch();
    return made.run();
}

static const size_t lengths[] = {1, 2, 3, 8, 17, 64, 100, 257};

/* Three launches of each length, with a few types and operations. */
static void lengths_of(const char *name, const text &json, uint32_t page_bytes,
                       bool has_ports = false)
{
    static const weir_dtype types[] = {WEIR_FLOAT, WEIR_INT8, WEIR_BFLOAT16, WEIR_DOUBLE};
    const owned_plan plan = parse(json);
    std::string why;
    uint64_t seed = 1;
    for (size_t count : lengths) {
        if (!why.empty())
            break;
        const setting how = {types[seed % 4], seed % 3 ? WEIR_SUM : WEIR_MAX, count,
                             seed % 2 ? 4 : 8,  page_bytes, seed % 4 > 1};
        why = launches(plan.get(), how, seed++, 3, has_ports);
    }
    ok(why.empty(), why, "%s", name);
}

static void types_and_ops(const char *name, const text &json)
{
    const owned_plan plan = parse(json);
    std::string why;
    for (int dtype = 0; dtype < WEIR_DTYPE_COUNT && why.empty(); dtype++)
        for (int op = WEIR_SUM; op <= WEIR_MIN && why.empty(); op++)
            why = launches(plan.get(),
                           {(weir_dtype)dtype, (weir_op)op, 37, 8, 2048, dtype % 2 != 0},
                           (uint64_t)(dtype * 8 + op), 1);
    ok(why.empty(), why, "%s: all types and operations", name);
}

/* The text without its nth occurrence of `piece`. */
static text without(text from, const text &piece, int nth)
{
    size_t at = 0;
    for (int i = 0; i <= nth && at != text::npos; i++)
        at = from.find(piece, at + (i > 0));
    return at == text::npos ? from : from.erase(at, piece.size());
}

/* A wait for a signal that never comes ends at its deadline and reports its position. */
static void lost_signal()
{
    const text whole = many_kinds();
    const text lost = without(whole, sync("signal", {0}) + ",", 0);
    const owned_plan plan = parse(lost);
    if (lost == whole || !plan) {
        ok(false, "no plan", "a lost signal");
        return;
    }
    context made(plan.get(), {WEIR_FLOAT, WEIR_SUM, 40, 4, 2048, false}, 3);
    made.launch();
    const std::string why = made.run();
    const uint64_t at = made.ranks()[1].failed_at;
    ok(why.find("rank 1 waited for a signal from rank 0") != std::string::npos && at >> 32 == 1 &&
           plan->gpus[1].ops[at & UINT32_MAX].kind == WEIRI_PLAN_WAIT_OP,
       why, "a lost signal is reported with the thread block and the operation");
}

/* A broken plan must give wrong results. */
static void detects(const char *name, const text &json)
{
    const owned_plan plan = parse(json);
    std::string why;
    for (uint64_t seed = 1; seed <= 30 && why.empty(); seed++)
        why = launches(plan.get(), {WEIR_INT32, WEIR_SUM, 100, 8, 2048, false}, seed, 2);
    ok(plan && !why.empty(), "", "detected: %s", name);
}

/* ---------------------------------------------------------- contents of images */

/* The steps of a rank's image as letters of kinds, each with its number of ids or destinations; "|"
 * where the block synchronizes before a step. One page must be enough for them. */
static std::string steps_of(const weir_plan *plan, int rank)
{
    static const char letters[] = "crsw"; /* copy, reduce, signal, wait */
    context made(plan, {WEIR_FLOAT, WEIR_SUM, 64, 8, 2048, false}, 1);
    const weiri_image &image = made.ranks()[(size_t)rank].image;
    const weiri_image_page *page = (const weiri_image_page *)image.pages;
    const weiri_image_step *steps = (const weiri_image_step *)(page + 1);
    std::string all;
    for (uint32_t i = 0; i < page->nsteps; i++) {
        const bool moves = steps[i].kind <= WEIRI_IMAGE_REDUCE;
        all += steps[i].flags & WEIRI_IMAGE_SYNC ? "|" : " ";
        all += (steps[i].kind < sizeof letters - 1 ? letters[steps[i].kind] : '?') +
               std::to_string(moves ? steps[i].ndsts : steps[i].nids);
    }
    return all;
}

static void expect_steps(const char *name, const text &json, const char *expected)
{
    const owned_plan plan = parse(json);
    const std::string detects = plan ? steps_of(plan.get(), 0) : "no plan";
    ok(detects == expected, "found" + detects + ", expected" + expected, "%s", name);
}

/* Two ranks that write to each other, with `ops` in place of the first handshake. */
static text writes(const std::vector<text> &ops)
{
    ranks all = make_ranks(2, 1, 2, 1);
    for (int r = 0; r < 2; r++) {
        plan_text::rank &one = all[(size_t)r];
        const int id = one.channel(1 - r);
        for (const text &op : ops)
            one.add(0, op);
        one.add(0, move("put", {local('i', 0)}, {one.remote(1 - r, 'o', r)}, "memory", {id}));
        one.add(0, move("copy", {local('i', 0)}, {local('o', r)}));
        for (const text &op : {nop, sync("signal", {id}), sync("wait", {id}), nop})
            one.add(0, op);
    }
    return plan_text::plan("allgather", false, all);
}

static void images()
{
    const text signal = sync("signal", {0}), wait = sync("wait", {0});
    const text spare = move("copy", {local('i', 0)}, {local('s', 0)});
    expect_steps("the entry replaces the first handshake of all blocks", direct(3, 1), " r3|s2 w2");
    expect_steps("the entry replaces a first handshake; copies of the same bytes become one",
                 writes({signal, wait, nop}), " c2|s1 w1");
    expect_steps("a second handshake stays",
                 writes({signal, wait, nop, signal, wait, nop}), " s1 w1|c2|s1 w1");
    expect_steps("a signal after a copy stays", writes({spare, nop, signal, wait, nop}),
                 " c1|s1 w1|c2|s1 w1");
    expect_steps("copies to the same place are not joined",
                 writes({signal, wait, nop, move("copy", {local('s', 0)}, {local('o', 0)})}),
                 " c1 c1|c1|s1 w1");
}

/* The library's own plans, in and out of place, with several instances. */
static void examples()
{
    size_t count;
    const weiri_plan_example *all = weiri_plan_examples(&count);
    for (size_t i = 0; i < count; i++) {
        std::string why;
        for (int nranks = 2; nranks <= 4 && why.empty(); nranks++) {
            weiri_plan_example_options with = {};
            with.nranks = nranks;
            with.instances = nranks == 3 ? 2 : 1;
            with.in_place = nranks % 2;
            with.unit_bytes = 32;
            weir_plan *plan = nullptr;
            if (weiri_plan_example_make(&all[i], &with, &plan) != WEIR_OK)
                why = "no plan";
            const owned_plan owner(plan);
            for (size_t length = 0; length < 3 && why.empty(); length++)
                why = launches(plan,
                               {length ? WEIR_INT32 : WEIR_DOUBLE, WEIR_SUM,
                                lengths[2 * length + 1], 4, length ? 512u : 2048u, length == 2},
                               i + length, 3, plan->gpus[0].nlinks[WEIRI_PLAN_PORT] != 0);
        }
        ok(why.empty(), why, "%s", all[i].name);
    }
}

/* The DSL's samples, where they are installed beside the source. */
static void samples()
{
    static const struct {
        const char *name;
        size_t counts[3];
    } all[] = {
        {"exec_reduce", {1, 30, 257}},
        {"exec_transfer_pack", {1, 30, 257}},
        {"single_node_allgather_pkt.8", {1, 17, 40}},
        {"single_node_allreduce.8", {64, 301, 1030}},
        {"single_node_allreduce_pipeline.8", {3, 64, 500}},
        {"single_node_allreduce_pkt.8", {8, 129, 1030}},
        {"single_node_alltoall_alltoall.8", {5, 32, 61}},
    };
    for (const auto &one : all) {
        const text file = text("../shared/plans/") + one.name + ".json";
        FILE *there = fopen(file.c_str(), "r");
        if (!there) {
            ok(true, "", "%s # SKIP the sample is not installed beside the source", one.name);
            continue;
        }
        fclose(there);
        weir_plan *plan = nullptr;
        std::string why = weir_plan_read(file.c_str(), &plan) == WEIR_OK ? "" : "rejected";
        const owned_plan owner(plan);
        for (size_t i = 0; i < 3 && why.empty(); i++)
            why = launches(plan, {i == 1 ? WEIR_HALF : WEIR_INT32, i == 2 ? WEIR_MAX : WEIR_SUM,
                                  one.counts[i], 2 + 2 * (int)i, 2048, i == 1},
                           i + 1, 3);
        ok(why.empty(), why, "%s", one.name);
    }
}

/* Without NVLink several blocks may wait on one channel, but not signal through one. */
static void without_nvlink()
{
    static const struct {
        const char *name;
        text json;
        weir_status expected;
    } all[] = {
        {"a channel of one block", direct(3, 2), WEIR_OK},
        {"a channel of several blocks", handing_on(3), WEIR_ERR_UNSUPPORTED},
        {"ports", through_ports(3), WEIR_OK},
    };
    for (const auto &one : all) {
        const owned_plan plan = parse(one.json);
        weiri_plan_layout layout = {};
        weiri_program *program = nullptr;
        weiri_image image = {};
        weir_status status = weiri_plan_lay_out(
            plan.get(), 256 * weiri_plan_blocks(plan.get(), WEIR_PLAN_INPUT),
            256 * weiri_plan_blocks(plan.get(), WEIR_PLAN_OUTPUT), 4, &layout);
        if (status == WEIR_OK)
            status = weiri_program_compile(plan.get(), 0, &layout, &program);
        if (status == WEIR_OK)
            status = weiri_image_encode(plan.get(), program, 2048, 0, &image);
        free(program);
        free(image.pages);
        ok(status == one.expected, "status " + std::to_string(status), "without NVLink: %s",
           one.name);
    }
}

int main()
{
    lengths_of("packets in two phases", two_shot_packets(4), 2048);
    lengths_of("packets in two phases, 8 ranks", two_shot_packets(8), 2048);
    lengths_of("loads and stores of all ranks' buffers", direct(3, 2), 2048);
    lengths_of("most kinds of operations", many_kinds(), 2048);
    lengths_of("the same in short pages", many_kinds(), 256);
    lengths_of("all kinds of packets", packet_kinds(), 2048);
    lengths_of("packets without fences", unfenced_packets(), 2048);
    lengths_of("a pipeline with semaphores and a group", pipeline(2, 16), 2048);
    lengths_of("the same of 3 ranks in short pages", pipeline(3, 48), 288);
    lengths_of("stores into groups", groups(3), 2048);
    lengths_of("barriers, and channels of several blocks", handing_on(3), 2048);
    lengths_of("ports", through_ports(3), 2048, true);
    types_and_ops("packets", two_shot_packets(3));
    types_and_ops("loads and stores", direct(4, 2));
    images();
    examples();
    samples();
    lost_signal();
    without_nvlink();
    detects("a barrier that a block does not wait for",
          without(handing_on(3), plan_text::barrier(0, 2) + ",", 1));
    return tap_done();
}
