/*
 * The model of a machine that estimates assume: some latencies and bandwidths.
 *
 * The thread blocks of a rank run concurrently. An operation begins when its block has reached it
 * and what it waits for has arrived. It takes op_us (a nop: fence_us), and then moves its bytes at
 * the speed of its block: block_gbs for the larger of bytes read and bytes written, reduce_gbs for
 * operands of a reduction beyond the first. Concurrent operations share: the link from one rank to
 * another (pair_gbs), all links out of a rank and all links into it (link_gbs each), the rank's
 * memory (memory_gbs, reads and writes together), the memory of all ranks of a node (machine_gbs),
 * and between nodes the network (net_gbs for each rank and direction). If the demand exceeds such a
 * bandwidth, all its users slow down in the same proportion.
 *
 * A signal becomes visible after signal_us, a relaxed one after relaxed_us, packets after
 * packet_us; between nodes, net_us later. A port's proxy begins an operation port_us after the
 * request, transfers at port_gbs, and executes the requests of a channel in order. Thread blocks
 * leave a barrier barrier_us after the last has entered it.
 *
 * Presets use measured figures where they exist, and say so. An estimate shows which of two plans
 * is likely to be faster, and why; it does not predict the time on a given machine.
 */
#ifndef WEIR_PLAN_COST_MODEL_H
#define WEIR_PLAN_COST_MODEL_H

#include <weir/weir.h>

#include <stdio.h>

/* The numbers of a model: X(key, unit, meaning), in the order of a file. */
#define WEIRI_PLAN_MODEL_MAP(X)                                                                    \
    X(launch_us, "us", "launch, until the thread blocks begin")                                    \
    X(op_us, "us", "start of an operation, before it moves bytes")                                 \
    X(fence_us, "us", "a fence (nop)")                                                             \
    X(barrier_us, "us", "barrier of thread blocks, after the last has entered it")                 \
    X(signal_us, "us", "until a signal is visible")                                                \
    X(relaxed_us, "us", "until a relaxed signal is visible")                                       \
    X(packet_us, "us", "until packets are visible")                                                \
    X(port_us, "us", "until a port's proxy begins a request")                                      \
    X(net_us, "us", "additional latency between nodes")                                            \
    X(block_gbs, "GB/s", "reads, or writes, of one thread block")                                  \
    X(reduce_gbs, "GB/s", "operands that one thread block reduces")                                \
    X(pair_gbs, "GB/s", "from one rank to another")                                                \
    X(link_gbs, "GB/s", "out of a rank to all others, and into it")                                \
    X(memory_gbs, "GB/s", "memory of a rank, reads and writes together")                           \
    X(machine_gbs, "GB/s", "memory of all ranks of a node together; 0: no such limit")             \
    X(port_gbs, "GB/s", "transfers of a port")                                                     \
    X(net_gbs, "GB/s", "network, for each rank and direction")

typedef struct weiri_plan_model {
    char name[64];
    char about[128]; /* origin of the numbers */
    int ranks;       /* largest number of ranks */
    int node_ranks;  /* ranks of a node; nodes have consecutive ranks */
#define WEIRI_PLAN_MODEL_NUMBER(key, unit, meaning) double key;
    WEIRI_PLAN_MODEL_MAP(WEIRI_PLAN_MODEL_NUMBER)
#undef WEIRI_PLAN_MODEL_NUMBER
} weiri_plan_model;

/* Reads a model: a preset by its name; or a file of lines "key = value" with the keys above, ranks
 * and machine_ranks, '#' for comments, and "base = PRESET" first (default: h200x8); or a file of
 * measured links (base/links.h), whose bandwidths and latencies replace those between ranks in host
 * or h200x8. Local. WEIR_ERR_INVALID: the message names file and line, or the presets. */
weir_status weiri_plan_model_read(const char *name, weiri_plan_model *model);

/* Prints the presets, one line each. */
void weiri_plan_model_list(FILE *to);

#endif
