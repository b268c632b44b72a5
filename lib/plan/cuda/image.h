/*
 * Image: the encoded program that the kernel executes. encode.c makes it of a weiri_program.
 *
 * Each thread block has a list of steps in pages. It keeps one page at a time in shared memory:
 * steps, all of the same size, then their operands, then their ids, so all that a step needs is in
 * its page. Page b is the first page of block b; each page names its successor.
 *
 * Steps are simpler than those of the program. The line of a step is its bytes in order, across
 * chunks. Every step is contiguous: byte v of the line lies, in each operand, at the operand's
 * offset + v, or + 2 v for packets; a step whose line has gaps becomes one step per contiguous run.
 * Fences are gone: a step has the flag SYNC if the block must synchronize (__syncthreads) before
 * it, once for all reasons together. The end of a loop is a step that names the first step of the
 * body.
 *
 * When a block synchronizes: each thread moves some of a step's bytes, and single threads wait and
 * signal; so the block synchronizes
 *
 *   - after waits (for signals, semaphores, barriers), before anything that follows,
 *   - before signals, releases, barriers and port requests, after anything that moved data,
 *   - between two steps that move data if one writes what the other reads or writes,
 *   - where the plan has a fence, and at both ends of a loop's iteration.
 *
 * Counters, semaphores and barriers lie in device memory. Counters keep counting from launch to
 * launch. Semaphores and barriers exist twice: a launch uses the set of its epoch's parity and
 * resets the other one, which the next launch uses. (The epoch is the number of this context's
 * launches.)
 */
#ifndef WEIR_PLAN_CUDA_IMAGE_H
#define WEIR_PLAN_CUDA_IMAGE_H

#include "coll/cuda/args.h"
#include "plan/compile/program.h"

enum {
#if defined(WEIR_EMULATED)
    WEIRI_IMAGE_PAGE_BYTES = 2048, /* the emulator copies it whenever another block runs */
#else
    WEIRI_IMAGE_PAGE_BYTES = 16384, /* of the longest page: shared memory of each block */
#endif
    WEIRI_IMAGE_BUFFERS = 3, /* numbered as a program's bases: input, output, scratch */
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
    WEIRI_IMAGE_LOOP_END, /* end of a loop's body */
    WEIRI_IMAGE_NOTHING,  /* only synchronizes, if it has the flag */
} weiri_image_kind;

/* Flags of a step. */
enum {
    WEIRI_IMAGE_SYNC = 1,
    WEIRI_IMAGE_RELAXED = 2,
    WEIRI_IMAGE_FROM_PACKETS = 4, /* copy, port put: the source; reduce: all sources but the
                                   * first */
    WEIRI_IMAGE_TO_PACKETS = 8,   /* copy: the destinations; reduce: all but the first */
    WEIRI_IMAGE_IN_LOOP = 16,
};

/* What the steps of an image, and a launch, require: bits. Kernels without unneeded parts have
 * fewer instructions to fetch. */
enum {
    WEIRI_IMAGE_DOES_COPIES = 1, /* of data */
    WEIRI_IMAGE_DOES_REDUCES = 2,
    WEIRI_IMAGE_DOES_PACKETS = 4, /* copies from or to packets */
    WEIRI_IMAGE_DOES_PACKET_REDUCES = 8,
    WEIRI_IMAGE_DOES_SIGNALS = 16, /* and waits */
    WEIRI_IMAGE_DOES_OTHERS = 32,  /* loops, barriers, semaphores, ports */
    WEIRI_IMAGE_DOES_ANNOUNCES = 64,
    WEIRI_IMAGE_DOES_OPS = 128, /* the launch's operation is not the sum */
    WEIRI_IMAGE_DOES_ALL = 255,
};

/* A step handles bytes [begin, end) of its line; in a loop, those of them that the iteration
 * handles and that lie in [run_begin, run_end). Bytes before data_end are data in all operands;
 * packets of later bytes are zeros. */
typedef struct weiri_image_step {
    uint8_t kind, flags;
    uint16_t nsrcs, ndsts, nids;
    uint32_t first; /* operand or id, by index in the page */
    uint32_t op;    /* of the plan's thread block, from which the step was made */
    union {
        struct {
            uint64_t begin, end, run_begin, run_end, data_end;
        };
        struct {
            uint32_t slot, nblocks; /* barrier */
        };
        struct {
            uint64_t iterations, iteration_bytes; /* loop */
            uint32_t page, step;                  /* end of a loop: the first step of the body */
        };
    };
} weiri_image_step;

/* In the page an offset from a base, which the kernel turns into a pointer. */
typedef struct weiri_image_operand {
    union {
        uint64_t offset;
        char *line;
    };
    uint32_t base, unused;
} weiri_image_operand;

/* An id: number << 8 | peer, with the top bit set if several blocks use the channel in this
 * direction. */
enum { WEIRI_IMAGE_ID_SHIFT = 8, WEIRI_IMAGE_ID_MOST = 1 << 22 };
#define WEIRI_IMAGE_SHARED ((uint32_t)1 << 31)

/* The head of a page. */
typedef struct weiri_image_page {
    uint32_t nsteps, noperands;
    uint32_t ids_at; /* bytes from the begin of the page; operands follow the steps */
    uint32_t next;   /* page; 0: this is the last one */
} weiri_image_page;

/* A memory channel in device memory: the peer's counter, as mapped on this rank, and this rank's
 * counter; the number of signals and of waits so far. */
typedef struct __attribute__((aligned(32))) weiri_image_channel {
    uint64_t *outbound, *inbound, signals, waits;
} weiri_image_channel;

/* Each rank has a segment, which all peers map: announcements, two sets of one per rank; then a
 * counter per channel; then scratch. In an announcement a peer writes where its buffers are. */
typedef struct weiri_image_announcement {
    uint64_t in[2], out[2]; /* packets of 16 bytes, each a weiri_gpu_desc */
} weiri_image_announcement;
typedef struct weiri_image_counter {
    uint64_t value, unused[3];
} weiri_image_counter;
#define WEIRI_IMAGE_COUNTERS_AT (2 * WEIRI_GPU_RANKS_MAX * sizeof(weiri_image_announcement))
WEIR_FN uint64_t weiri_image_scratch_at(uint32_t ncounters)
{
    const uint64_t end = WEIRI_IMAGE_COUNTERS_AT + ncounters * sizeof(weiri_image_counter);
    return (end + 511) / 512 * 512;
}

/* The begin of the address space of port channels: their offsets are addresses minus this. */
#define WEIRI_IMAGE_PORT_BASE ((uintptr_t)4096)
struct weir_portchan_dev;

/* Ranks announce their buffers at entry. A rank that only stores into peers' buffers needs no fence
 * after it has received an announcement, as a store depends on its address; loads need one. */
enum { WEIRI_IMAGE_ANNOUNCES = 1, WEIRI_IMAGE_ANNOUNCES_FOR_LOADS };

/* The argument of a launch, by value. */
typedef struct weiri_image_args {
    weiri_gpu_view view; /* with its own state, which counts this context's launches */
    const char *pages;
    uint32_t page_bytes;
    uint32_t announces; /* WEIRI_IMAGE_ANNOUNCES*, or 0 */
    uint32_t nsemaphores, nbarriers;
    uint64_t *semaphores;    /* two sets */
    uint64_t *barriers;      /* two sets */
    const uint32_t *initial; /* values of semaphores */
    weiri_image_channel *channels;
    struct weir_portchan_dev *const *ports; /* by channel */
    uint64_t *failed_at; /* 0, or (block + 1) << 32 | operation of a wait that failed */
    char *segment[WEIRI_GPU_RANKS_MAX]; /* of every rank, as mapped on this rank */
    uint64_t scratch_at, half_bytes;
    const char *in;
    char *out;
    weiri_gpu_desc in_desc, out_desc;
    int32_t op, dtype; /* weir_op, not WEIR_AVG; weir_dtype */
} weiri_image_args;

#endif
