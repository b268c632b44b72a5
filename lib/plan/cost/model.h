/*
 * The machine that estimates assume: a few numbers, each a latency or a bandwidth.
 *
 * A rank's thread blocks run side by side. An operation begins when its block is there and
 * what it waits for has come, takes op_us (nop: fence_us), and then moves its bytes at the
 * pace of its block: block_gbs for what it reads or for what it writes, whichever is more;
 * reduce_gbs for operands beyond the first. What operations use at the same time has a
 * limit: the link from one rank to another (pair_gbs), all links out of a rank and into it
 * (link_gbs), its memory (memory_gbs, reads and writes together), the memory of all ranks
 * of a machine (machine_gbs), the network where ranks are on different machines (net_gbs a
 * rank, each way). Where they want more, all that use it become slower in the same
 * proportion.
 *
 * A signal is seen signal_us after it was given, or relaxed_us; packets packet_us after they
 * were written; between machines all of them net_us later. A port's proxy begins port_us after it
 * was asked, moves port_gbs, and works through a channel's requests one after the other.
 * Thread blocks that meet go on barrier_us after the last.
 *
 * Presets have measured figures where there are any, and say so; nothing here tells what
 * a machine will do, only which of two plans is likely to be faster, and why.
 */
#ifndef WEIR_PLAN_COST_MODEL_H
#define WEIR_PLAN_COST_MODEL_H

#include <weir/weir.h>

#include <stdio.h>

/* X(key, unit, meaning) of the numbers, in a file's order. */
#define WEIRI_PLAN_MODEL_MAP(X)                                                                    \
    X(launch_us, "us", "until the thread blocks begin")                                            \
    X(op_us, "us", "of an operation, before it moves bytes")                                       \
    X(fence_us, "us", "of a nop")                                                                  \
    X(barrier_us, "us", "from the last of meeting thread blocks to their going on")                \
    X(signal_us, "us", "until a signal is seen")                                                   \
    X(relaxed_us, "us", "likewise, of one that orders nothing")                                    \
    X(packet_us, "us", "until packets are seen")                                                   \
    X(port_us, "us", "until a port's proxy begins")                                                \
    X(net_us, "us", "more, between machines")                                                      \
    X(block_gbs, "GB/s", "what a thread block reads, or writes")                                   \
    X(reduce_gbs, "GB/s", "operands that a thread block reduces")                                  \
    X(pair_gbs, "GB/s", "from one rank to another")                                                \
    X(link_gbs, "GB/s", "out of a rank to all others, and into it")                                \
    X(memory_gbs, "GB/s", "a rank's memory, reads and writes")                                     \
    X(machine_gbs, "GB/s", "the memory of all ranks of a machine together; 0: theirs")             \
    X(port_gbs, "GB/s", "of a port")                                                               \
    X(net_gbs, "GB/s", "between machines, of a rank, each way")

typedef struct weiri_plan_model {
    char name[64];
    char about[128];    /* where its numbers come from */
    int ranks;          /* at most; */
    int machine_ranks;  /* ranks of a machine, one after the other */
#define WEIRI_PLAN_MODEL_NUMBER(key, unit, meaning) double key;
    WEIRI_PLAN_MODEL_MAP(WEIRI_PLAN_MODEL_NUMBER)
#undef WEIRI_PLAN_MODEL_NUMBER
} weiri_plan_model;

/* A preset by its name, or a file: lines "key = value" with the keys above, ranks and
 * machine_ranks, '#' begins a comment; "base = PRESET" comes first (default: h200x8); or a
 * file of measured links (base/links.h), whose bandwidths and latencies replace those
 * between ranks of host or h200x8. WEIR_ERR_INVALID names file and line, or the presets. */
weir_status weiri_plan_model_read(const char *name, weiri_plan_model *model);

/* The presets, a line each. */
void weiri_plan_model_list(FILE *to);
/* A model as such a file. */
void weiri_plan_model_write(const weiri_plan_model *model, FILE *to);

#endif
