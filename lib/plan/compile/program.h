/*
 * A program: a plan compiled for one rank and one call's lengths. It is one piece of plain
 * data without pointers, whose parts are found by their offsets, so that it can be copied to
 * a GPU as it is; the host's interpreter and the kernel read the same bytes.
 *
 * A rank's thread blocks have lists of steps. A step is simpler than an operation of a plan:
 * it moves one source to some destinations (COPY; an operation with several pairs becomes
 * as many steps), reduces sources into destinations (REDUCE), puts through a port (PORT_PUT),
 * or orders (the others). Operations that do two things become two steps: a put with signal
 * is its copies and a signal. References to a switch channel have become one operand for each
 * rank of its group.
 *
 * Lines. layout.h says which bytes a chunk is; the chunks of an operand form a line, whole
 * ones, one behind the other, and a step handles the bytes [first, end) of the lines of all
 * its operands, in a loop those of one turn (weiri_step_span). In memory a line may have
 * gaps, and may be shorter than whole chunks. weiri_line_run says how far it goes without
 * either: as long as lengths divide, to its end; and where they do not, then still for
 * each step that does not meet the end of a block (WEIRI_STEP_STRAIGHT: weiri_straight_at).
 * What has no data in one of the operands is moved by none: packets there carry zeros, for
 * they are sent and awaited for whole chunks.
 *
 * Buffers. An operand names its buffer by a number, its base: WEIR_PLAN_BUFFERS * owner + buffer.
 * The executor has a table of their addresses, which may differ with each launch: scratch of
 * a plan with double_scratch begins half_bytes later in each second launch.
 *
 * Packets carry 4 bytes in 8, with the launch's flag (weir/device.h); byte v of a line lies in
 * the packets at 2 v. Chunks begin at multiples of 8 bytes of data, so two packets always lie
 * together, aligned to 16 bytes.
 *
 * Channels. Each end of a memory or port channel has a number, its place in `channels`: first
 * the rank's memory channels in their order, then its port channels, then the port channels
 * that only the other end lists, whose both ends are made together. A signal of a memory
 * channel adds 1 to the counter `outbound` of the peer, a wait consumes one of the own
 * counter `inbound`; every rank numbers its counters so that both ends know them. Counters
 * are never reset. Semaphores are the rank's own; every launch finds them at their initial
 * values. A barrier's number is its place among the rank's pairs of barrier id and number of
 * thread blocks.
 */
#ifndef WEIR_PLAN_COMPILE_PROGRAM_H
#define WEIR_PLAN_COMPILE_PROGRAM_H

#include <weir/target.h>

typedef enum weiri_step_kind {
    WEIRI_STEP_FENCE,       /* orders the block's earlier steps before its later ones */
    WEIRI_STEP_BARRIER,     /* slot, nblocks */
    WEIRI_STEP_SEM_ACQUIRE, /* ids: semaphores */
    WEIRI_STEP_SEM_RELEASE,
    WEIRI_STEP_SIGNAL,      /* ids: channels, all of one type (is_port) */
    WEIRI_STEP_WAIT,
    WEIRI_STEP_FLUSH,       /* ids: port channels */
    WEIRI_STEP_COPY,        /* every destination gets the one source */
    WEIRI_STEP_REDUCE,      /* every destination gets the reduction of all sources, in order */
    WEIRI_STEP_PORT_PUT,    /* one source, here, one destination there; ids: one port channel */
    WEIRI_STEP_LOOP,        /* the next nsteps steps are run `turns` times */
    WEIRI_STEP_KINDS
} weiri_step_kind;

/* Flags of a step. */
enum {
    WEIRI_STEP_RELAXED = 1,  /* signal, wait: orders nothing */
    WEIRI_STEP_IS_PORT = 2,  /* signal, wait: of port channels */
    WEIRI_STEP_IS_GROUP = 4, /* its operands came of a switch channel */
    WEIRI_STEP_STRAIGHT = 8, /* no line has a gap, and data ends at data_end in all of them */
    WEIRI_STEP_IN_LOOP = 16,
};

typedef struct weiri_step {
    uint8_t kind, flags;
    uint8_t plan_kind;       /* weiri_plan_kind of the operation it came of, for messages */
    uint8_t unused;
    uint32_t op;             /* which of the thread block's operations, for messages */
    uint32_t first_operand;  /* sources, then destinations */
    uint32_t nsrcs, ndsts;
    uint32_t first_id, nids; /* of ids */
    uint32_t slot, nblocks;  /* barrier */
    uint32_t nsteps;         /* loop: of its body */
    uint64_t turns;          /* loop */
    uint64_t turn_bytes;     /* in a loop: what of the line a turn handles */
    uint64_t first, end;     /* the part of its line, in bytes */
    uint64_t data_end;       /* STRAIGHT: the line's bytes before it are data, in all operands */
} weiri_step;

typedef struct weiri_operand {
    uint64_t offset;   /* bytes from the buffer's begin, or the half's, to where its line begins */
    uint32_t index;    /* its first chunk */
    uint16_t base;     /* which buffer */
    uint8_t is_packets;
    uint8_t is_scratch;
} weiri_operand;

/* One end of a channel. */
typedef struct weiri_channel {
    int32_t peer;
    int32_t ordinal;   /* which of those between the two ranks */
    uint32_t is_port;
    uint32_t inbound;  /* memory: which of the own counters, */
    uint32_t outbound; /* and which of the peer's */
} weiri_channel;

typedef struct weiri_program_block {
    uint32_t id; /* as the plan has it, for messages */
    uint32_t first_step, nsteps;
} weiri_program_block;

/* What of weiri_plan_layout addresses need. Bytes and chunks. */
typedef struct weiri_geometry {
    uint64_t block_bytes, block_chunks, chunk_bytes;
    uint64_t slot_bytes, half_bytes;
    uint64_t is_even; /* block_bytes == block_chunks * chunk_bytes */
} weiri_geometry;

typedef struct weiri_program {
    uint64_t bytes; /* of the whole, this header included */
    int32_t rank, nranks;
    weiri_geometry geometry;
    uint64_t scratch_bytes; /* of a rank, both halves; the same on all ranks */
    uint64_t blocks_at, steps_at, operands_at, ids_at, channels_at, semaphores_at;
    uint32_t nblocks, nsteps, noperands, nids, nchannels, nsemaphores, nbarriers;
    uint32_t nthreads;      /* of a block */
    uint32_t ncounters;     /* inbound ones of the rank with the most; the same on all ranks */
    uint32_t sources_most;  /* of a step */
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

/* What a step handles in a turn, which counts where it is in a loop. */
WEIR_FN weiri_line_part weiri_step_span(const weiri_step *step, uint64_t turn)
{
    weiri_line_part span = {step->first, step->end};
    if (step->flags & WEIRI_STEP_IN_LOOP) {
        const uint64_t left = span.end - span.first;
        /* a turn's number is small enough: turns * turn_bytes is about the line's length */
        const uint64_t at = turn * step->turn_bytes;
        span.first += at < left ? at : left;
        if (span.end - span.first > step->turn_bytes)
            span.end = span.first + step->turn_bytes;
    }
    return span;
}

/* Of a STRAIGHT step: where byte v of an operand's line lies, in bytes from its buffer. */
WEIR_FN uint64_t weiri_straight_at(const weiri_operand *operand, uint64_t v)
{
    return operand->offset + (v << operand->is_packets);
}

/* The same for every step; v is within the line. What is not data has the address of
 * its block's end. */
WEIR_FN uint64_t weiri_operand_at(const weiri_geometry *geometry, const weiri_operand *operand,
                                  uint64_t v)
{
    const uint64_t chunk = v / geometry->chunk_bytes, rest = v - chunk * geometry->chunk_bytes;
    const uint64_t index = operand->index + chunk;
    if (operand->is_scratch)
        return index * geometry->slot_bytes + (rest << operand->is_packets);
    const uint64_t block = index / geometry->block_chunks;
    const uint64_t within =
        (index - block * geometry->block_chunks) * geometry->chunk_bytes + rest;
    return block * geometry->block_bytes +
           (within < geometry->block_bytes ? within : geometry->block_bytes);
}

/* How an operand's line goes on from a byte: so many bytes until a gap, of which the first
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

/* From byte v to before byte end of the lines of all operands of a step: the bytes for which
 * each of them lies in one piece of memory, and how many of these are data in all of them.
 * Each operand begins at weiri_operand_at. end > v. */
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

/* The same for any step, STRAIGHT or not. */
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
