/*
 * The host backend of the executor. The caller's thread runs all thread blocks of its rank
 * cooperatively: each runs until it has to wait, then the next one runs.
 *
 * Memory. A context has an arena: one allocation that peers map, with the same layout on all ranks.
 * It contains the counters of memory channels, each on a separate cache line; scratch; and, in
 * contexts with fixed buffers (is_fixed), input and output, or the single region of an in-place
 * plan. Buffers are fixed if peers cannot learn the addresses of the callers' buffers in each call:
 * if ports reach them, because a port is created for given memory, or if peers reach them in a
 * communicator that spans several nodes.
 * Otherwise, if a plan reaches peers' input or output, each rank posts the addresses of its buffers
 * in each call, as the collectives do (coll/coll.h); the contents of memory that peers cannot map
 * are staged in memory of the executor. The first step that needs a post reads it. That step comes
 * after the plan's own synchronization with the peer, so that in general no rank waits for a post.
 *
 * Memory order. Signals are stores with release, waits are loads with acquire. The blocks of a rank
 * run in one thread, so fences, barriers and semaphores within a rank need no memory fences.
 * Packets contain the number of the launch, which is never 0 and differs between launches.
 *
 * Separate flags (has_separate_flags). If a plan stores only packets in scratch, has no ports, and
 * its chunks are long enough, packets are stored differently: each half of scratch has all data
 * first, contiguously, and then one flag byte for each 8 bytes of data, stored with release after
 * the data. This transfers half as many cache lines, and reductions read the data in place. What
 * program.h has at byte P of scratch is then data at P / 2. A launch overwrites everything that the
 * previous launch wrote to the same half, so that 255 different flags are enough.
 */
#ifndef WEIR_PLAN_HOST_RUN_HOST_H
#define WEIR_PLAN_HOST_RUN_HOST_H

#include "coll/coll.h"
#include "plan/execute/executor.h"
#include <weir/port_device.h>

enum { WEIRI_HOST_PACKET_BLOCK = 4096 }; /* bytes of data that are unpacked at once */
#define WEIRI_HOST_NO_LOOP UINT32_MAX

/* The position of a thread block in its program. */
typedef struct weiri_host_block {
    uint32_t step;
    uint32_t loop;       /* the loop that contains the step, or WEIRI_HOST_NO_LOOP */
    uint64_t turn;       /* of that loop */
    uint64_t moved;      /* bytes of the span that the step has handled */
    uint32_t item;       /* ids that the step has handled */
    int entered;         /* 1: the step has entered its barrier, or requested its flush */
    uint64_t target;     /* the count that it waits for after that */
    const void *missing; /* the packet, or flag, that had not arrived at the last attempt */
    int post;            /* the rank whose post had not arrived at the last attempt; -1: none */
} weiri_host_block;

typedef struct weiri_host_channel {
    uint64_t *inbound, *outbound; /* memory: the rank's own counter, and the peer's */
    uint64_t sent, consumed;      /* signals sent; signals consumed by waits */
    weir_portchan *port;
} weiri_host_channel;

/* The state of a context in this backend. */
typedef struct weiri_host_context {
    weir_mem *arena;
    weir_mem **arenas; /* of all ranks; NULL if neither mapped nor reached by ports */
    uint64_t scratch_at, in_at, out_at, arena_bytes;
    int is_fixed;           /* 1: input and output are in the arena */
    int has_separate_flags; /* 1: packets have separate flags */
    uint64_t flags_at;      /* has_separate_flags: offset of the flags in a half of scratch */
    char **bases;           /* address of each rank's buffers in this launch, by base */
    weiri_host_channel *channels;
    weir_sem **sems;                 /* semaphores of port channels, by channel */
    uint64_t *semaphores, *barriers; /* values; entries of blocks into each barrier */
    weiri_host_block *blocks;
    const void **sources; /* temporary: addresses of the sources of a reduction */
    char *unpacked;       /* temporary: unpacked data of each source, result */
    int8_t *senders; /* for each chunk of the rank's scratch: the rank that puts packets there */
    uint64_t launches;
} weiri_host_context;

/* The state of the executor in this backend. */
typedef struct weiri_host {
    weir_comm *node;  /* the sub-communicator of the ranks that map each other's memory */
    weiri_coll *coll; /* the state of its collectives, for posts */
    weiri_plan_ports ports;
    weir_mem *stages[2]; /* staging buffers for input and output; as long as any call needed */
} weiri_host;

/* One launch. */
typedef struct weiri_host_launch {
    weir_executor *executor;
    weiri_host *host;
    weiri_plan_context *context;
    weiri_host_context *own;
    const weiri_program *program;
    uint32_t flag;        /* of its packets; has_separate_flags: one byte */
    uint64_t total_bytes; /* of the message; selects between normal and streaming stores */
    size_t element_bytes;
    weiri_reduce_fn reduce;
    weiri_rank_set unread; /* ranks whose posts this launch has not read */
    weir_status status;    /* of a failed step */
} weiri_host_launch;

/* run_host_launch.c. Performs weir_executor_run for a call that has been checked. */
weir_status weiri_host_run(weir_executor *executor, weiri_plan_context *context,
                           const weir_call *call);
/* The offset of a buffer in its rank's arena in this launch; and the rank that puts packets to an
 * address of this rank's scratch, -1 if none does. */
uint64_t weiri_host_arena_offset(const weiri_host_launch *launch, uint32_t base);
int weiri_host_sender(const weiri_host_launch *launch, const void *packet);
/* Reads a rank's post. 1: done; 0: it has not arrived; -1: it failed with launch->status. */
int weiri_host_read_post(weiri_host_launch *launch, int rank);

/* run_host_steps.c: runs all blocks to their end. Blocks the caller. */
weir_status weiri_host_interpret(weiri_host_launch *launch);

/* run_host_data.c: performs a step that copies or reduces data, from block->moved on. 1: the step
 * is done; 0: packets have not arrived (block->missing). */
int weiri_host_move(weiri_host_launch *launch, const weiri_step *step, weiri_host_block *block);

/* run_host_packets.c. line_bytes is a multiple of 8, and only the first data_bytes of them are
 * data; packets are aligned to 16 bytes. pack writes packets for the line, with zeros after the
 * data. */
void weiri_host_pack(uint64_t *packets, const char *from, size_t data_bytes, size_t line_bytes,
                     uint32_t flag);
/* Reads packets to memory as far as they have arrived; returns the number of bytes of the line, a
 * multiple of 8. */
size_t weiri_host_unpack(char *to, const uint64_t *packets, size_t data_bytes, size_t line_bytes,
                         uint32_t flag);

/* Separate flags: mark stores the flags of line_bytes whose data is stored; arrived returns for how
 * many bytes flags have arrived, a multiple of 8; their data may then be read. */
void weiri_host_mark(uint8_t *flags, size_t line_bytes, uint32_t flag);
size_t weiri_host_arrived(const uint8_t *flags, size_t line_bytes, uint32_t flag);
/* The current flag of a packet, or the flag at that address if flags are separate. */
uint32_t weiri_host_flag_at(const weiri_host_launch *launch, const void *packet);

/* run_host_ports.c. connect, before the arenas are allocated, makes connections and semaphores;
 * create, after they are exchanged, makes the channels. Both are collective; their status is not
 * agreed. The others are local. */
weir_status weiri_host_ports_connect(weir_executor *executor, weiri_plan_context *context);
weir_status weiri_host_ports_create(weir_executor *executor, weiri_plan_context *context);
/* Blocks until all outstanding puts have completed. */
weir_status weiri_host_ports_settle(weir_executor *executor, weiri_plan_context *context);
void weiri_host_ports_free(weiri_plan_context *context);

#endif
