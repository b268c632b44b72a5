/*
 * The host backend of the executor. One thread, the caller's, runs all thread blocks of its
 * rank: each goes on until it has to wait, and then the next one does.
 *
 * Memory. A context has an arena, one allocation that peers map, laid out alike on all ranks:
 * the counters of memory channels, each on a line of its own, then scratch, then, where
 * peers cannot be told in each call where the callers' buffers are (ports, which know their
 * memory when they are made; ranks of several machines), input and output, or the one region
 * of a plan for use in place. Otherwise, where a plan reaches peers' input or output, ranks
 * post their buffers in each call as the collectives do; memory that peers cannot map is
 * copied to a stage of the executor. A post is read by the first step that needs it, which
 * comes behind the plan's own meeting with that rank: so posts make nobody wait.
 *
 * Memory order. Signals are stores with release, waits loads with acquire. A rank's blocks
 * share a thread, so fences, barriers and semaphores within it need no more than its order.
 * Packets carry the launch's number, which is never 0 and different in each launch.
 *
 * Packets apart. Where a plan has nothing but packets in scratch, chunks are long enough, and
 * no port moves packets as they are, a half of scratch has data first, all of it in one
 * piece, and then a byte of flag for each 8 bytes of data, stored with release behind them:
 * half as many lines travel, and reductions read the data where it is. What program.h has at
 * byte P of scratch is data at P / 2. A launch overwrites all that the launch before it
 * wrote in that half, so 255 flags in turn are enough.
 */
#ifndef WEIR_PLAN_HOST_RUN_HOST_H
#define WEIR_PLAN_HOST_RUN_HOST_H

#include "coll/coll.h"
#include "plan/execute/ports.h"
#include <weir/port_device.h>

enum { WEIRI_HOST_PACKET_BLOCK = 4096 }; /* bytes of data that are unpacked at once */
#define WEIRI_HOST_NO_LOOP UINT32_MAX

/* A thread block's place in its program. */
typedef struct weiri_host_block {
    uint32_t step;
    uint32_t loop;       /* the loop that it is in, or WEIRI_HOST_NO_LOOP */
    uint64_t turn;
    uint64_t moved;      /* bytes of the span that the step has handled */
    uint32_t item;       /* ids that the step has handled */
    int entered;         /* the step has told others: a barrier, a flush */
    uint64_t target;     /* for which count it waits then */
    const void *missing; /* the packet, or flag, that was not there at the last look */
    int post;            /* whose post was not there at the last look; -1: all were */
} weiri_host_block;

typedef struct weiri_host_channel {
    uint64_t *inbound, *outbound; /* memory: own counter, the peer's */
    uint64_t sent, consumed;      /* signals; consumed by waits */
    weir_portchan *port;
} weiri_host_channel;

/* What a context has in this backend. */
typedef struct weiri_host_context {
    weir_mem *arena;
    weir_mem **arenas;    /* of all ranks; NULL where neither mapped nor reached by ports */
    uint64_t scratch_at, in_at, out_at, arena_bytes;
    int is_fixed;         /* input and output are in the arena */
    int is_apart;         /* packets are */
    uint64_t flags_at;    /* apart: in a half of scratch */
    char **bases;         /* of each rank's buffers in this launch */
    weiri_host_channel *channels;
    weir_sem **sems;      /* of port channels, by channel */
    uint64_t *semaphores, *meetings; /* values; how many blocks have come to each barrier */
    weiri_host_block *blocks;
    const void **sources; /* of a reduction */
    char *unpacked;       /* a block of each of its sources, and of its result */
    int8_t *senders;      /* of each chunk of the own scratch: which rank puts packets there */
    uint64_t launches;
} weiri_host_context;

/* What the executor has in this backend. */
typedef struct weiri_host {
    weir_comm *here;   /* the ranks that map each other's memory */
    weiri_coll *coll;  /* of these */
    weiri_plan_ports ports;
    weir_mem *stages[2]; /* stand in for input and output; as long as any call needed */
} weiri_host;

/* A launch. */
typedef struct weiri_host_launch {
    weir_executor *executor;
    weiri_host *host;
    weiri_plan_context *context;
    weiri_host_context *own;
    const weiri_program *program;
    uint32_t flag;         /* of its packets; apart: of a byte */
    uint64_t total_bytes;  /* of the message, which tells how to store */
    size_t element_bytes;
    weiri_reduce_fn reduce;
    uint64_t unread;       /* ranks, as bits, whose posts this launch has not read */
    weir_status status;    /* of what failed in a step */
} weiri_host_launch;

/* run_host_launch.c. As weir_executor_run, for a call that is checked. */
weir_status weiri_host_run(weir_executor *executor, weiri_plan_context *context,
                           const weiri_plan_call *call);
/* Where a buffer lies in its rank's arena in this launch; and the rank that puts
 * packets to an address of the own scratch, -1 if none does. */
uint64_t weiri_host_arena_offset(const weiri_host_launch *launch, uint32_t base);
int weiri_host_sender(const weiri_host_launch *launch, const void *packet);
/* Reads a rank's post, if it is there: 1; 0: it is not; -1: launch->status. */
int weiri_host_read_post(weiri_host_launch *launch, int rank);

/* run_host_steps.c: runs all blocks to their ends. */
weir_status weiri_host_interpret(weiri_host_launch *launch);

/* run_host_data.c: steps that handle data. They go on from block->moved; 1: the step is
 * done, 0: packets are missing (block->missing). */
int weiri_host_copy(weiri_host_launch *launch, const weiri_step *step, weiri_host_block *block);
int weiri_host_reduce(weiri_host_launch *launch, const weiri_step *step, weiri_host_block *block);

/* run_host_packets.c. line_bytes is a multiple of 8, of which the first data_bytes are data;
 * packets are aligned to 16 bytes. Writes packets of all; what lies behind the data is 0. */
void weiri_host_pack(uint64_t *packets, const char *from, size_t data_bytes, size_t line_bytes,
                     uint32_t flag);
/* Reads packets into memory as far as they have arrived: how many bytes, a multiple of 8. */
size_t weiri_host_unpack(char *to, const uint64_t *packets, size_t data_bytes, size_t line_bytes,
                         uint32_t flag);

/* Packets apart: flags of bytes whose data is stored; and for how many of the bytes flags have
 * come, a multiple of 8, whose data may then be read. */
void weiri_host_mark(uint8_t *flags, size_t line_bytes, uint32_t flag);
size_t weiri_host_arrived(const uint8_t *flags, size_t line_bytes, uint32_t flag);
/* The flag that is at a packet, or of it, now. */
uint32_t weiri_host_flag_at(const weiri_host_launch *launch, const void *packet);

/* run_host_ports.c. Connections and semaphores come before the arena's handle, channels
 * behind the exchange. All but settle and the last two are collective, and not agreed. */
weir_status weiri_host_ports_connect(weir_executor *executor, weiri_plan_context *context);
weir_status weiri_host_ports_create(weir_executor *executor, weiri_plan_context *context);
/* Waits until all that was put has arrived. */
weir_status weiri_host_ports_settle(weir_executor *executor, weiri_plan_context *context);
void weiri_host_ports_free(weiri_plan_context *context);
void weiri_host_ports_close(weir_executor *executor);

#endif
