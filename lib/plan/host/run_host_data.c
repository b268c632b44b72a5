/*
 * Steps that move data, on the host. A step processes its lines run by run (program.h); with
 * packets or several destinations, a run is processed in blocks that fit the first-level cache,
 * because their data is read again.
 */
#include "plan/host/run_host.h"

#include "compute/copy.h"

#include <string.h>

/* A run of a step: its operands, and the position where it begins. */
typedef struct data_run {
    weiri_host_launch *launch;
    const weiri_step *step;
    const weiri_operand *operands;
    uint64_t v; /* byte of the line */
    size_t data_bytes, line_bytes;
} data_run;

static char *plan_host_address(const data_run *p, uint32_t operand)
{
    const weiri_operand *o = &p->operands[operand];
    const weiri_host_context *own = p->launch->own;
    uint64_t at = weiri_step_at(&p->launch->program->geometry, p->step, o, p->v);
    return own->bases[o->base] + (at >> (o->is_packets && own->has_separate_flags));
}

/* The address of byte `at` of the run, in an operand whose run begins at `begin`. */
static char *plan_host_operand_at(const data_run *p, uint32_t operand, char *begin, size_t at)
{
    return begin + (at << (p->operands[operand].is_packets && !p->launch->own->has_separate_flags));
}

static uint64_t *plan_host_packets_of(char *pointer)
{
    return (uint64_t *)(void *)pointer;
}

/* The address of the separate flags of data. */
static uint8_t *plan_host_flags_of(const data_run *p, uint32_t operand, const char *data)
{
    char *scratch = p->launch->own->bases[p->operands[operand].base];
    return (uint8_t *)scratch + p->launch->own->flags_at + (size_t)(data - scratch) / 8;
}

/* 1 if the packet that the block waits for has not arrived. */
static int plan_host_packet_is_missing(const weiri_host_launch *launch, weiri_host_block *block)
{
    if (!block->missing)
        return 0;
    if (weiri_host_flag_at(launch, block->missing) != launch->flag)
        return 1;
    block->missing = NULL;
    return 0;
}

/* The packet of a pair that has not arrived. */
static const uint64_t *plan_host_find_missing(const uint64_t *packets, size_t at, uint32_t flag)
{
    const uint64_t *first = packets + at / 4;
    return weir_load_relaxed(first) >> 32 == flag ? first + 1 : first;
}

static size_t plan_host_data_left(const data_run *p, size_t at, size_t bytes)
{
    const size_t left = p->data_bytes > at ? p->data_bytes - at : 0;
    return left < bytes ? left : bytes;
}

/* Reads the packets of bytes [at, at + bytes) of the run; returns for how many bytes they have
 * arrived, and sets block->missing if these are fewer. *data is set to the data: in scratch if
 * flags are separate, otherwise unpacked to `to`. */
static size_t plan_host_fetch_packets(const data_run *p, uint32_t operand, char *begin, size_t at,
                                      size_t bytes, char *to, weiri_host_block *block,
                                      const char **data)
{
    const uint32_t flag = p->launch->flag;
    char *from = plan_host_operand_at(p, operand, begin, at);
    size_t got;
    *data = p->launch->own->has_separate_flags ? from : to;
    if (p->launch->own->has_separate_flags) {
        const uint8_t *flags = plan_host_flags_of(p, operand, from);
        got = weiri_host_arrived(flags, bytes, flag);
        block->missing = got < bytes ? flags + got / 8 : NULL;
    } else {
        const uint64_t *packets = plan_host_packets_of(from);
        got = weiri_host_unpack(to, packets, plan_host_data_left(p, at, bytes), bytes, flag);
        block->missing = got < bytes ? plan_host_find_missing(packets, got, flag) : NULL;
    }
    return got;
}

/* Stores packets to a destination; with separate flags: the data, zeros after it, then flags. */
static void plan_host_store_packets(const data_run *p, uint32_t operand, char *to, size_t data,
                                    size_t bytes, const char *from)
{
    if (!p->launch->own->has_separate_flags) {
        weiri_host_pack(plan_host_packets_of(to), from, data, bytes, p->launch->flag);
        return;
    }
    weiri_copy(to, from, data);
    memset(to + data, 0, bytes - data);
    weiri_host_mark(plan_host_flags_of(p, operand, to), bytes, p->launch->flag);
}

/* Stores bytes [at, at + bytes) of the run to a destination. whole: the entire run at once, so that
 * streaming stores may pay. */
static void plan_host_store(const data_run *p, uint32_t operand, char *begin, size_t at,
                            size_t bytes, const char *from, int whole)
{
    const size_t data = plan_host_data_left(p, at, bytes);
    char *to = plan_host_operand_at(p, operand, begin, at);
    if (p->operands[operand].is_packets)
        plan_host_store_packets(p, operand, to, data, bytes, from);
    else if (to != from && whole)
        weiri_move(p->launch->host->coll, to, from, data, p->launch->total_bytes);
    else if (to != from)
        memcpy(to, from, data);
}

/* --------------------------------------------------------------------- copy */

/* Copies packets to memory or to other packets; returns the bytes of the run that are done. */
static size_t plan_host_copy_packets(const data_run *p, weiri_host_block *block)
{
    const uint32_t first = p->step->nsrcs, ndsts = p->step->ndsts;
    const int straight =
        ndsts == 1 && !p->operands[first].is_packets && !p->launch->own->has_separate_flags;
    char *source = plan_host_address(p, 0), *temporary = p->launch->own->unpacked;
    const char *data;
    if (straight)
        return plan_host_fetch_packets(p, 0, source, 0, p->line_bytes, plan_host_address(p, first),
                                       block, &data);
    for (size_t at = 0; at < p->line_bytes;) {
        size_t left = p->line_bytes - at;
        size_t bytes = left < WEIRI_HOST_PACKET_BLOCK ? left : WEIRI_HOST_PACKET_BLOCK;
        size_t got = plan_host_fetch_packets(p, 0, source, at, bytes, temporary, block, &data);
        for (uint32_t i = 0; i < ndsts && got; i++)
            plan_host_store(p, first + i, plan_host_address(p, first + i), at, got, data, 0);
        at += got;
        if (got < bytes)
            return at;
    }
    return p->line_bytes;
}

static size_t plan_host_copy_run(const data_run *p, weiri_host_block *block)
{
    if (p->operands[0].is_packets)
        return plan_host_copy_packets(p, block);
    const char *source = plan_host_address(p, 0);
    for (uint32_t i = 0; i < p->step->ndsts; i++) {
        const uint32_t operand = p->step->nsrcs + i;
        plan_host_store(p, operand, plan_host_address(p, operand), 0, p->line_bytes, source, 1);
    }
    return p->line_bytes;
}

/* ------------------------------------------------------------------- reduce */

/* Sets the addresses of the sources for a block of the run; 0: packets have not arrived. */
static int plan_host_gather_sources(const data_run *p, char *const *begins, size_t at, size_t bytes,
                                    weiri_host_block *block)
{
    weiri_host_context *own = p->launch->own;
    char *temporary = own->unpacked;
    for (uint32_t i = 0; i < p->step->nsrcs; i++) {
        /* NOLINTNEXTLINE(*-core.CallAndMessage): begins has all operands */
        const char *data = plan_host_operand_at(p, i, begins[i], at);
        if (p->operands[i].is_packets &&
            plan_host_fetch_packets(p, i, begins[i], at, bytes, temporary, block, &data) < bytes)
            return 0;
        temporary += data == temporary ? WEIRI_HOST_PACKET_BLOCK : 0;
        own->sources[i] = data;
    }
    return 1;
}

/* Reduces a block of the run to the first destination, or to temporary memory if that holds
 * packets, and stores the result to the other destinations. */
static void plan_host_reduce_block(const data_run *p, char *const *begins, size_t at, size_t bytes)
{
    weiri_host_context *own = p->launch->own;
    const weiri_host_launch *launch = p->launch;
    const uint32_t first = p->step->nsrcs, ndsts = p->step->ndsts;
    char *spare = own->unpacked + (size_t)launch->program->sources_most * WEIRI_HOST_PACKET_BLOCK;
    const size_t data = plan_host_data_left(p, at, bytes);
    const int packed = p->operands[first].is_packets;
    const size_t streaming_from = launch->host->coll->streaming_from_bytes;
    const int streaming = ndsts == 1 && !packed && launch->total_bytes >= streaming_from;
    /* NOLINTNEXTLINE(*-core.CallAndMessage): begins has all operands */
    char *result = packed ? spare : plan_host_operand_at(p, first, begins[first], at);
    if (data)
        launch->reduce(result, own->sources, (int)first, data / launch->element_bytes,
                       (uint64_t)launch->program->nranks, streaming);
    for (uint32_t i = packed ? 0 : 1; i < ndsts; i++)
        /* NOLINTNEXTLINE(*-core.CallAndMessage): begins has all operands */
        plan_host_store(p, first + i, begins[first + i], at, bytes, result, 0);
}

static size_t plan_host_reduce_run(const data_run *p, weiri_host_block *block)
{
    char *begins[2 * WEIRI_PLAN_REFS_MAX]; /* a group's only reference has no more ranks */
    const uint32_t noperands = p->step->nsrcs + p->step->ndsts;
    int packets = 0;
    for (uint32_t i = 0; i < noperands; i++) {
        begins[i] = plan_host_address(p, i);
        packets |= p->operands[i].is_packets;
    }
    const size_t most = packets ? WEIRI_HOST_PACKET_BLOCK : WEIRI_BLOCK_BYTES;
    for (size_t at = 0; at < p->line_bytes;) {
        size_t left = p->line_bytes - at, bytes = left < most ? left : most;
        if (!plan_host_gather_sources(p, begins, at, bytes, block))
            return at;
        plan_host_reduce_block(p, begins, at, bytes);
        at += bytes;
    }
    return p->line_bytes;
}

/* -------------------------------------------------------------------- steps */

int weiri_host_move(weiri_host_launch *launch, const weiri_step *step, weiri_host_block *block)
{
    const int copies = step->kind == WEIRI_STEP_COPY;
    if (plan_host_packet_is_missing(launch, block))
        return 0;
    const weiri_operand *all = weiri_program_operands(launch->program);
    const weiri_line_part span = weiri_step_span(step, block->turn);
    for (uint64_t v = span.first + block->moved; v < span.end;) {
        const weiri_run next = weiri_step_run(&launch->program->geometry, step, all, v, span.end);
        const data_run p = {launch,          step,           all + step->first_operand, v,
                            next.data_bytes, next.line_bytes};
        const size_t done =
            copies ? plan_host_copy_run(&p, block) : plan_host_reduce_run(&p, block);
        block->moved += done;
        v += done;
        if (done < next.line_bytes)
            return 0;
    }
    return 1;
}
