/*
 * A program: a plan compiled for one rank and one layout. It is one block of plain data without
 * pointers, whose parts are found by their offsets, so that it can be copied to a GPU unchanged.
 * The compiler writes it; the executors on the host and on GPUs read it.
 *
 * Each thread block has a list of steps. A step is simpler than an operation of a plan: it copies
 * one source to several destinations (COPY; an operation with several pairs becomes several steps),
 * reduces sources into destinations (REDUCE), puts through a port (PORT_PUT), or moves nothing (the
 * others). An operation with two effects becomes two steps: a put with signal becomes its copies
 * and a signal. A reference to a switch channel becomes one operand for each rank of its group.
 *
 * Lines. The chunks of an operand, concatenated, form a line (plan/format/layout.h). A step handles
 * the bytes [first, end) of the lines of all its operands; in a loop, those of one turn
 * (weiri_step_span). In memory a line may have gaps, and its last chunks may have less data.
 * weiri_line_run returns how far all operands continue without a gap. If no line of a step has a
 * gap (WEIRI_STEP_STRAIGHT), which holds if the lengths divide evenly and for every step that does
 * not reach the end of a block, addresses are linear (weiri_straight_at). Bytes of a line without
 * data in one operand are not moved, except that packets carry zeros for them, because packets are
 * sent and awaited for whole chunks.
 *
 * Buffers. An operand names its buffer by a number, its base: WEIR_PLAN_BUFFERS * owner + buffer.
 * The executor has a table of their addresses, which may change with each launch: scratch of a plan
 * with double_scratch begins half_bytes later in every second launch.
 *
 * Packets hold 4 bytes of data in 8 bytes, with the flag of the launch (weir/device.h); byte v of a
 * line is in the packets at byte 2 v. Chunks begin at multiples of 8 bytes of data, so packets come
 * in pairs that are aligned to 16 bytes.
 *
 * Channels. Each end of a memory or port channel has a number, its index in `channels`: first the
 * rank's memory channels in order, then its port channels, then port channels that only the other
 * end lists (both ends of a port channel are created together). A signal on a memory channel
 * increments the peer's counter `outbound`; a wait consumes one count of the rank's own counter
 * `inbound`. Both ends compute the same numbers of counters. Counters are never reset. Semaphores
 * belong to the rank and have their initial values at the start of each launch. The number of a
 * barrier is its index among the rank's distinct pairs of barrier id and number of thread blocks.
 */
#ifndef WEIR_PLAN_COMPILE_PROGRAM_H
#define WEIR_PLAN_COMPILE_PROGRAM_H

#include <weir/target.h>

typedef enum weiri_step_kind {
    WEIRI_STEP_FENCE,       /* orders the block's earlier steps before its later ones */
    WEIRI_STEP_BARRIER,     /* slot, nblocks */
    WEIRI_STEP_SEM_ACQUIRE, /* ids: semaphores */
    WEIRI_STEP_SEM_RELEASE,
    WEIRI_STEP_SIGNAL, /* ids: channels, all of one type (is_port) */
    WEIRI_STEP_WAIT,
    WEIRI_STEP_FLUSH,    /* ids: port channels */
    WEIRI_STEP_COPY,     /* every destination gets the one source */
    WEIRI_STEP_REDUCE,   /* every destination gets the reduction of all sources, in order */
    WEIRI_STEP_PORT_PUT, /* one local source, one remote destination; ids: one port channel */
    WEIRI_STEP_LOOP,     /* the next nsteps steps are run `turns` times */
    WEIRI_STEP_KINDS
} weiri_step_kind;

/* Flags of a step. */
enum {
    WEIRI_STEP_RELAXED = 1,  /* signal, wait: orders nothing */
    WEIRI_STEP_IS_PORT = 2,  /* signal, wait: of port channels */
    WEIRI_STEP_IS_GROUP = 4, /* some operands stem from a switch channel */
    WEIRI_STEP_STRAIGHT = 8, /* no line has a gap; data_end is valid */
    WEIRI_STEP_IN_LOOP = 16, /* it belongs to the body of a loop */
};

typedef struct weiri_step {
    uint8_t kind, flags;
    uint8_t plan_kind; /* weiri_plan_kind of its operation, for messages */
    uint8_t unused;
    uint32_t op;            /* index of its operation in the thread block, for messages */
    uint32_t first_operand; /* sources, then destinations */
    uint32_t nsrcs, ndsts;
    uint32_t first_id, nids; /* range of ids */
    uint32_t slot, nblocks;  /* barrier: its number, and how many blocks enter it */
    uint32_t nsteps;         /* loop: steps of its body */
    uint64_t turns;          /* loop: how often the body runs */
    uint64_t turn_bytes;     /* in a loop: bytes of the line that a turn handles */
    uint64_t first, end;     /* the part of the line that the step handles, in bytes */
    uint64_t data_end;       /* STRAIGHT: all operands have data in the line's bytes before it */
} weiri_step;

typedef struct weiri_operand {
    uint64_t offset; /* of its line from the beginning of the buffer, or of the half; bytes */
    uint32_t index;  /* its first chunk */
    uint16_t base;   /* number of the buffer */
    uint8_t is_packets, is_scratch;
} weiri_operand;

/* One end of a channel. */
typedef struct weiri_channel {
    int32_t peer;
    int32_t ordinal; /* its index among the channels of this type between the two ranks */
    uint32_t is_port;
    uint32_t inbound;  /* memory: index of the rank's own counter */
    uint32_t outbound; /* memory: index of the peer's counter */
} weiri_channel;

typedef struct weiri_program_block {
    uint32_t id; /* of the plan, for messages */
    uint32_t first_step, nsteps;
} weiri_program_block;

/* The members of weiri_plan_layout that addresses depend on, in bytes and chunks. */
typedef struct weiri_geometry {
    uint64_t block_bytes, block_chunks, chunk_bytes, slot_bytes, half_bytes;
    uint64_t is_even; /* block_bytes == block_chunks * chunk_bytes */
} weiri_geometry;

typedef struct weiri_program {
    uint64_t bytes; /* of the program, including this header */
    int32_t rank, nranks;
    weiri_geometry geometry;
    uint64_t scratch_bytes; /* of a rank, both halves; the same on all ranks */
    uint64_t blocks_at, steps_at, operands_at, ids_at, channels_at, semaphores_at;
    uint32_t nblocks, nsteps, noperands, nids, nchannels, nsemaphores, nbarriers;
    uint32_t nthreads;     /* of a block */
    uint32_t ncounters;    /* inbound counters of the rank with the most; the same on all ranks */
    uint32_t sources_most; /* largest number of sources of a step */
} weiri_program;

/* -------------------------------------------------------------------- parts */

WEIR_FN const void *weiri_program_part(const weiri_program *program, uint64_t at)
{
    return (const char *)program + at;
}

WEIR_FN const weiri_program_block *weiri_program_blocks(const weiri_program *program)
{
    return (const weiri_program_block *)weiri_program_part(program, program->blocks_at);
}

WEIR_FN const weiri_step *weiri_program_steps(const weiri_program *program)
{
    return (const weiri_step *)weiri_program_part(program, program->steps_at);
}

WEIR_FN const weiri_operand *weiri_program_operands(const weiri_program *program)
{
    return (const weiri_operand *)weiri_program_part(program, program->operands_at);
}

WEIR_FN const uint32_t *weiri_program_ids(const weiri_program *program)
{
    return (const uint32_t *)weiri_program_part(program, program->ids_at);
}

WEIR_FN const weiri_channel *weiri_program_channels(const weiri_program *program)
{
    return (const weiri_channel *)weiri_program_part(program, program->channels_at);
}

/* Their initial values. */
WEIR_FN const uint32_t *weiri_program_semaphores(const weiri_program *program)
{
    return (const uint32_t *)weiri_program_part(program, program->semaphores_at);
}

/* ---------------------------------------------------------------- addresses */

typedef struct weiri_line_part {
    uint64_t first, end; /* bytes of the line */
} weiri_line_part;

/* The bytes that a step handles; turn matters only in a loop. */
WEIR_FN weiri_line_part weiri_step_span(const weiri_step *step, uint64_t turn)
{
    weiri_line_part span = {step->first, step->end};
    if (step->flags & WEIRI_STEP_IN_LOOP) {
        const uint64_t left = span.end - span.first;
        /* No overflow: turns * turn_bytes is at most about the length of the line. */
        const uint64_t at = turn * step->turn_bytes;
        span.first += at < left ? at : left;
        if (span.end - span.first > step->turn_bytes)
            span.end = span.first + step->turn_bytes;
    }
    return span;
}

/* Offset in its buffer of byte v of an operand's line, in a STRAIGHT step. */
WEIR_FN uint64_t weiri_straight_at(const weiri_operand *operand, uint64_t v)
{
    return operand->offset + (v << operand->is_packets);
}

/* The same for any step; v is less than the length of the line. Bytes without data get the address
 * of the end of their block. */
WEIR_FN uint64_t weiri_operand_at(const weiri_geometry *geometry, const weiri_operand *operand,
                                  uint64_t v)
{
    const uint64_t chunk = v / geometry->chunk_bytes, rest = v - chunk * geometry->chunk_bytes;
    const uint64_t index = operand->index + chunk;
    if (operand->is_scratch)
        return index * geometry->slot_bytes + (rest << operand->is_packets);
    const uint64_t block = index / geometry->block_chunks;
    const uint64_t within = (index - block * geometry->block_chunks) * geometry->chunk_bytes + rest;
    return block * geometry->block_bytes +
           (within < geometry->block_bytes ? within : geometry->block_bytes);
}

/* A run of a line from a given byte on: line_bytes until the next gap, of which the first
 * data_bytes are data. */
typedef struct weiri_run {
    uint64_t line_bytes, data_bytes;
} weiri_run;

WEIR_FN weiri_run weiri_operand_run(const weiri_geometry *geometry, const weiri_operand *operand,
                                    uint64_t v)
{
    weiri_run run = {UINT64_MAX, UINT64_MAX};
    const uint64_t chunk = v / geometry->chunk_bytes, rest = v - chunk * geometry->chunk_bytes;
    if (operand->is_scratch) {
        if (geometry->slot_bytes != geometry->chunk_bytes << operand->is_packets)
            run.line_bytes = run.data_bytes = geometry->chunk_bytes - rest;
    } else if (!geometry->is_even) {
        const uint64_t within =
            (operand->index + chunk) % geometry->block_chunks * geometry->chunk_bytes + rest;
        run.line_bytes = geometry->block_chunks * geometry->chunk_bytes - within;
        run.data_bytes = within < geometry->block_bytes ? geometry->block_bytes - within : 0;
    }
    return run;
}

/* The run of bytes [v, end) of the lines of several operands: line_bytes for which each operand is
 * contiguous in memory, data_bytes of which are data in all operands. An operand's run begins at
 * weiri_operand_at. Requires end > v. */
WEIR_FN weiri_run weiri_line_run(const weiri_geometry *geometry, const weiri_operand *operands,
                                 uint32_t noperands, uint64_t v, uint64_t end)
{
    weiri_run least = {end - v, end - v};
    for (uint32_t i = 0; i < noperands; i++) {
        const weiri_run run = weiri_operand_run(geometry, &operands[i], v);
        if (run.line_bytes < least.line_bytes)
            least.line_bytes = run.line_bytes;
        if (run.data_bytes < least.data_bytes)
            least.data_bytes = run.data_bytes;
    }
    if (least.data_bytes > least.line_bytes)
        least.data_bytes = least.line_bytes;
    return least;
}

/* The same for the operands of a step, STRAIGHT or not. */
WEIR_FN weiri_run weiri_step_run(const weiri_geometry *geometry, const weiri_step *step,
                                 const weiri_operand *operands, uint64_t v, uint64_t end)
{
    if (step->flags & WEIRI_STEP_STRAIGHT) {
        const uint64_t data = step->data_end > v ? step->data_end - v : 0;
        weiri_run run = {end - v, data < end - v ? data : end - v};
        return run;
    }
    return weiri_line_run(geometry, operands + step->first_operand, step->nsrcs + step->ndsts, v,
                          end);
}

WEIR_FN uint64_t weiri_step_at(const weiri_geometry *geometry, const weiri_step *step,
                               const weiri_operand *operand, uint64_t v)
{
    return step->flags & WEIRI_STEP_STRAIGHT ? weiri_straight_at(operand, v)
                                             : weiri_operand_at(geometry, operand, v);
}

#endif
