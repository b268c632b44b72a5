/*
 * A program as the kernel reads it: an image. encode.c makes it of a weiri_program.
 *
 * A thread block has a list of steps in pages. It keeps one page at a time in its shared
 * memory: steps of one size, then their operands, then their ids, so that what a step needs
 * is in its page. Page b is the first one of block b; a page names the one behind it.
 *
 * Steps are simpler than the program's. Every step is straight: of all its operands, byte v
 * of the line lies at the operand's offset + v, or + 2 v where it is packets; a step whose
 * line has gaps has become one for each run. Fences are gone: a step has the flag MEETS if
 * the block's threads must meet before it, which they then do once, whatever asked for it.
 * The end of a loop is a step of its own, which names the first one of the body.
 *
 * Who must meet. Each thread moves its own share of a step's bytes, and waits and signals
 * are single threads'; so the block meets
 *
 *   - behind waits (of signals, semaphores, barriers), before anything that follows,
 *   - before signals, releases, barriers and triggers, behind anything that moved data,
 *   - between two steps that move data if one writes what the other reads or writes,
 *   - where the plan has a fence, and at both ends of a loop's turn.
 *
 * Counters, semaphores and barriers lie in device memory. Counters go on from launch to
 * launch. Of semaphores and barriers there are two sets: a launch uses the one of its
 * epoch's parity, and puts the other one, which the next launch uses, into its first state.
 */
#ifndef WEIR_PLAN_CUDA_IMAGE_H
#define WEIR_PLAN_CUDA_IMAGE_H

#include "coll/cuda/args.h"
#include "plan/compile/program.h"

enum {
#if defined(WEIR_EMULATED)
    WEIRI_IMAGE_PAGE_BYTES = 2048, /* it is copied whenever another block gets its turn */
#else
    WEIRI_IMAGE_PAGE_BYTES = 16384, /* the longest page: of shared memory, for each block */
#endif
    WEIRI_IMAGE_BUFFERS = 3, /* as a program's bases count: input, output, scratch */
    WEIRI_IMAGE_BASES = WEIRI_IMAGE_BUFFERS * WEIRI_GPU_RANKS_MAX,
    WEIRI_IMAGE_THREADS_MAX = 512,
};

typedef enum weiri_image_kind {
    WEIRI_IMAGE_COPY,
    WEIRI_IMAGE_REDUCE,
    WEIRI_IMAGE_SIGNAL,
    WEIRI_IMAGE_WAIT,
    WEIRI_IMAGE_BARRIER,
    WEIRI_IMAGE_ACQUIRE,
    WEIRI_IMAGE_RELEASE,
    WEIRI_IMAGE_PORT_PUT,
    WEIRI_IMAGE_PORT_SIGNAL,
    WEIRI_IMAGE_PORT_WAIT,
    WEIRI_IMAGE_PORT_FLUSH,
    WEIRI_IMAGE_LOOP,
    WEIRI_IMAGE_TURN, /* the end of a loop's body */
    WEIRI_IMAGE_NOTHING, /* meets, if it has the flag */
} weiri_image_kind;

/* Flags of a step. */
enum {
    WEIRI_IMAGE_MEETS = 1,
    WEIRI_IMAGE_RELAXED = 2,
    WEIRI_IMAGE_FROM_PACKETS = 4, /* copy, port put: the source; reduce: all but the first */
    WEIRI_IMAGE_TO_PACKETS = 8,   /* copy: the destinations; reduce: all but the first */
    WEIRI_IMAGE_IN_LOOP = 16,
};

/* What all steps of an image do, and a launch: bits. A kernel without those that a plan does not
 * need has less to fetch before it comes to what it does. */
enum {
    WEIRI_IMAGE_DOES_COPIES = 1, /* of data */
    WEIRI_IMAGE_DOES_REDUCES = 2,
    WEIRI_IMAGE_DOES_PACKETS = 4, /* copies from or to packets */
    WEIRI_IMAGE_DOES_PACKET_REDUCES = 8,
    WEIRI_IMAGE_DOES_SIGNALS = 16, /* and waits */
    WEIRI_IMAGE_DOES_OTHERS = 32,  /* loops, barriers, semaphores, ports */
    WEIRI_IMAGE_DOES_TELLS = 64,
    WEIRI_IMAGE_DOES_OPS = 128, /* the launch's operation is not the sum */
    WEIRI_IMAGE_DOES_ALL = 255,
};

/* A step handles bytes [begin, end) of its line, in a loop of these what the turn handles,
 * and of that what lies in [run_begin, run_end). Bytes before data_end are data in all operands;
 * packets of what lies behind are zeros. */
typedef struct weiri_image_step {
    uint8_t kind, flags;
    uint16_t nsrcs, ndsts;
    uint16_t nids;
    uint32_t first; /* operand, or id, counted in the page */
    uint32_t op;    /* which of the plan's thread block's operations it came of */
    union {
        struct {
            uint64_t begin, end, run_begin, run_end, data_end;
        };
        struct {
            uint32_t slot, nblocks; /* barrier */
        };
        struct {
            uint64_t turns, turn_bytes; /* loop */
            uint32_t page, step;        /* turn: the body's first step */
        };
    };
} weiri_image_step;

/* In the page an offset from a base; the kernel makes a pointer of it. */
typedef struct weiri_image_operand {
    union {
        uint64_t offset;
        char *line;
    };
    uint32_t base, unused;
} weiri_image_operand;

/* An id: number << 8 | peer, with the top bit where several blocks use the channel so. */
enum { WEIRI_IMAGE_ID_SHIFT = 8, WEIRI_IMAGE_ID_MOST = 1 << 22 };
#define WEIRI_IMAGE_SHARED ((uint32_t)1 << 31)

/* Begins a page. */
typedef struct weiri_image_page {
    uint32_t nsteps, noperands;
    uint32_t ids_at; /* bytes from the page's begin; the operands are right behind the steps */
    uint32_t next;   /* page; 0: none */
} weiri_image_page;

/* A memory channel in device memory: the peer's counter, mapped here, and the own one; how
 * often it was signalled, and waited for. */
typedef struct __attribute__((aligned(32))) weiri_image_channel {
    uint64_t *outbound, *inbound;
    uint64_t signals, waits;
} weiri_image_channel;

/* Each rank's segment, which all peers map: where ranks tell of their buffers, then a
 * counter for each channel, then scratch. */
typedef struct weiri_image_cell {
    uint64_t in[2], out[2]; /* packets of 16 bytes, each a weiri_gpu_desc */
} weiri_image_cell;
typedef struct weiri_image_counter {
    uint64_t value, unused[3];
} weiri_image_counter;
#define WEIRI_IMAGE_COUNTERS_AT (2 * WEIRI_GPU_RANKS_MAX * sizeof(weiri_image_cell))
WEIR_FN uint64_t weiri_image_scratch_at(uint32_t ncounters)
{
    const uint64_t end = WEIRI_IMAGE_COUNTERS_AT + ncounters * sizeof(weiri_image_counter);
    return (end + 511) / 512 * 512;
}

/* Where the address space of port channels begins: their offsets are addresses less that. */
#define WEIRI_IMAGE_PORT_BASE ((uintptr_t)4096)
struct weir_portchan_dev;

/* Ranks tell each other at entry where their buffers are. Who only stores into peers' needs no
 * fence behind what it hears, as a store waits for nothing but its address; loads do. */
enum { WEIRI_IMAGE_TELLS = 1, WEIRI_IMAGE_TELLS_FOR_LOADS };

/* What a launch is given, by value. */
typedef struct weiri_image_args {
    weiri_gpu_view view; /* with a state of its own, which numbers this context's launches */
    const char *pages;
    uint32_t page_bytes;
    uint32_t tells;      /* WEIRI_IMAGE_TELLS*, or 0 */
    uint32_t nsemaphores, nbarriers;
    uint64_t *semaphores;    /* two sets */
    uint64_t *barriers;      /* two sets */
    const uint32_t *initial; /* of semaphores */
    weiri_image_channel *channels;
    struct weir_portchan_dev *const *ports; /* by the same numbers */
    uint64_t *failed_at; /* 0, or (block + 1) << 32 | operation of a wait that failed */
    char *segment[WEIRI_GPU_RANKS_MAX]; /* every rank's, mapped here */
    uint64_t scratch_at, half_bytes;
    const char *in;
    char *out;
    weiri_gpu_desc in_desc, out_desc;
    int32_t op; /* weir_op; not avg */
} weiri_image_args;

#endif
