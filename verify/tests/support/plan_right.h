/*
 * Small correct plans in the short form of plan_text.h. Included by tests that mutate
 * them.
 */
#ifndef VERIFY_TESTS_SUPPORT_PLAN_RIGHT_H
#define VERIFY_TESTS_SUPPORT_PLAN_RIGHT_H

#include "plan/format/plan.h"

#include "verify/tests/support/plan_text.h"

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

/* Each rank copies to its scratch and reads the other's. */
#define HANDSHAKE                                                                                  \
    "allreduce 2 i2 o2 s2\n"                                                                       \
    "0.0; copy i0+2 > s0+2; nop; signal @m1; wait @m1; nop;"                                       \
    " rre i0+1 1:s0+1 > o0+1; rre i1+1 1:s1+1 > o1+1; nop; signal @m1; wait @m1\n"                 \
    "1.0; copy i0+2 > s0+2; nop; signal @m0; wait @m0; nop;"                                       \
    " rre i0+2 0:s0+2 > o0+2; nop; wait @m0; signal @m0"
/* One-shot, with packets: their flags show that data have arrived, and the other half of scratch
 * when they may be overwritten. */
#define PACKETS                                                                                    \
    "allreduce 2 i1 o1 s1 double\n"                                                                \
    "0.0; ppkt i0+1 > 1:s0+1; repkt i0+1 s0+1 > o0+1\n"                                            \
    "1.0; ppkt i0+1 > 0:s0+1; repkt i0+1 s0+1 > o0+1"
/* In place, in two shots: what comes back is written where what was sent was read. */
#define TWO_SHOTS                                                                                  \
    "allreduce 2 i2 o2 s2 inplace double\n"                                                        \
    "0.0; ppkt i1+1 > 1:s0+1; respkt i0+1 s0+1 > i0+1 1:s1+1\n"                                    \
    "0.1; upkt s1+1 > i1+1\n"                                                                      \
    "1.0; ppkt i0+1 > 0:s0+1; respkt i1+1 s0+1 > i1+1 0:s1+1\n"                                    \
    "1.1; upkt s1+1 > i0+1"
/* The same with one scratch: the data that come back prove that the data sent were read. */
#define TWO_SHOTS_AGAIN                                                                            \
    "allreduce 2 i2 o2 s2\n"                                                                       \
    "0.0; ppkt i1+1 > 1:s0+1; respkt i0+1 s0+1 > o0+1 1:s1+1\n"                                    \
    "0.1; upkt s1+1 > o1+1\n"                                                                      \
    "1.0; ppkt i0+1 > 0:s0+1; respkt i1+1 s0+1 > o1+1 0:s1+1\n"                                    \
    "1.1; upkt s1+1 > o0+1"
#define UNPACKED                                                                                   \
    "allgather 1 i1 o1 s1\n"                                                                       \
    "0.0; cpkt i0+1 > s0+1; nop; upkt s0+1 > o0+1"
/* Two blocks a rank, a semaphore between them; in place. */
#define SEMAPHORES                                                                                 \
    "allgather 2 i1 o2 s1 inplace; sem 0 0\n"                                                      \
    "0.0; put o0+1 > 1:s0+1; nop; signal @m1; wait @m1; nop; sem_release $0\n"                     \
    "0.1; sem_acquire $0; nop; copy s0+1 > o1+1; nop; signal @m1/1; wait @m1/1\n"                  \
    "1.0; put o1+1 > 0:s0+1; nop; signal @m0; wait @m0; nop; sem_release $0\n"                     \
    "1.1; sem_acquire $0; nop; copy s0+1 > o0+1; nop; signal @m0/1; wait @m0/1"
/* Two thread blocks per rank with a barrier, each with half of the work. */
#define BARRIERS                                                                                   \
    "reduce_scatter 2 i4 o2 s2\n"                                                                  \
    "0.0; copy i2+1 > s0+1; barrier #0/2; signal @m1; wait @m1; nop;"                              \
    " rre i0+2 1:s0+2 > o0+2; nop; signal @m1; wait @m1\n"                                         \
    "0.1; copy i3+1 > s1+1; barrier #0/2\n"                                                        \
    "1.0; copy i0+1 > s0+1; barrier #0/2; signal @m0; wait @m0; nop;"                              \
    " rre i2+2 0:s0+2 > o0+2; nop; signal @m0; wait @m0\n"                                         \
    "1.1; copy i1+1 > s1+1; barrier #0/2"
/* Through ports, from scratch; the last signals say that everyone has what he was sent. */
#define PORTS                                                                                      \
    "alltoall 2 i2 o2 s2\n"                                                                        \
    "0.0; copy i0+1 > o0+1; copy i1+1 > s0+1; nop; put s0+1 > 1:s1+1 @p1; nop; signal @p1; "       \
    "flush @p1; wait @p1; nop; copy s1+1 > o1+1; nop; signal @m1; wait @m1\n"                      \
    "1.0; copy i1+1 > o1+1; copy i0+1 > s0+1; nop; put s0+1 > 0:s1+1 @p0; nop; signal @p0; "       \
    "flush @p0; wait @p0; nop; copy s1+1 > o0+1; nop; signal @m0; wait @m0"
/* The same with one operation for put, signal and flush; and what a port moves is ordered
 * against the fences of later operations. */
#define PORTS_FUSED                                                                                \
    "alltoall 2 i2 o2 s2\n"                                                                        \
    "0.0; copy i0+1 > o0+1; copy i1+1 > s0+1; nop; pwsf s0+1 > 1:s1+1 @p1; wait @p1; nop; "        \
    "copy s1+1 > o1+1; nop; signal @m1; wait @m1\n"                                                \
    "1.0; copy i1+1 > o1+1; copy i0+1 > s0+1; nop; pwsf s0+1 > 0:s1+1 @p0; wait @p0; nop; "        \
    "copy s1+1 > o0+1; nop; signal @m0; wait @m0"
/* From scratch through two ports, which two threads serve; scratch is written again afterwards. */
#define TWO_PORTS                                                                                  \
    "broadcast 3 i1 o1 s1\n"                                                                       \
    "0.0; copy i0+1 > s0+1; copy i0+1 > o0+1; rlxwait @m1 m2; nop; "                               \
    "put s0+1 s0+1 > 1:o0+1 2:o0+1 @p1 p2; signal @p1 p2; flush @p1 p2; nop; copy i0+1 > s0+1\n"   \
    "1.0; rlxsignal @m0; wait @p0\n"                                                               \
    "2.0; rlxsignal @m0; wait @p0"
/* From rank 1 to all others, which say when they may be written to. */
#define BROADCAST                                                                                  \
    "broadcast 3 i1 o1 s0\n"                                                                       \
    "0.0; rlxsignal @m1; wait @m1\n"                                                               \
    "1.0; rlxwait @m0 m2; nop; put i0+1 i0+1 > 0:o0+1 2:o0+1 @m0 m2; copy i0+1 > o0+1; nop; "      \
    "signal @m0 m2\n"                                                                              \
    "2.0; rlxsignal @m1; wait @m1"
/* To rank 2, which reads the input of every rank and then signals it. */
#define REDUCE                                                                                     \
    "reduce 3 i1 o1 s0\n"                                                                          \
    "0.0; rlxsignal @m2; wait @m2\n"                                                               \
    "1.0; rlxsignal @m2; wait @m2\n"                                                               \
    "2.0; rlxwait @m0 m1; nop; rre i0+1 0:i0+1 1:i0+1 > o0+1; nop; signal @m0 m1"
/* Each of two ranks puts a block to the other one. last_0, last_1: how they end. */
#define SWAP_THAT_ENDS(last_0, last_1)                                                             \
    "alltoall 2 i2 o2 s0\n"                                                                        \
    "0.0; copy i0+1 > o0+1; rlxsignal @m1; rlxwait @m1; nop; put i1+1 > 1:o0+1 @m1" last_0 "\n"    \
    "1.0; copy i1+1 > o1+1; rlxsignal @m0; rlxwait @m0; nop; put i0+1 > 0:o1+1 @m0" last_1
#define SWAP SWAP_THAT_ENDS("; nop; signal @m1; wait @m1", "; nop; signal @m0; wait @m0")
/* Around a ring of three, block by block. */
#define RING                                                                                       \
    "allgather 3 i1 o3 s0 inplace\n"                                                               \
    "0.0; rlxsignal @m2; rlxwait @m1; nop; put o0+1 > 1:o0+1; nop; signal @m1; wait @m2; nop; "    \
    "put o2+1 > 1:o2+1; nop; signal @m1; wait @m2\n"                                               \
    "1.0; rlxsignal @m0; rlxwait @m2; nop; put o1+1 > 2:o1+1; nop; signal @m2; wait @m0; nop; "    \
    "put o0+1 > 2:o0+1; nop; signal @m2; wait @m0\n"                                               \
    "2.0; rlxsignal @m1; rlxwait @m0; nop; put o2+1 > 0:o2+1; nop; signal @m0; wait @m1; nop; "    \
    "put o1+1 > 0:o1+1; nop; signal @m0; wait @m1"
/* A pipeline of two blocks: one brings the peer's data to scratch, one reduces them. */
#define PIPELINE                                                                                   \
    "allreduce 2 i1 o1 s1; sem 0 0\n"                                                              \
    "0.0; rlxsignal @m1; rlxwait @m1; nop; pipeline 1024*1; get 1:i0+1 > s0+1; nop; "              \
    "sem_release $0; nop; end; signal @m1; wait @m1\n"                                             \
    "0.1; pipeline 1024*1; sem_acquire $0; nop; re i0+1 s0+1 > o0+1; nop; end\n"                   \
    "1.0; rlxsignal @m0; rlxwait @m0; nop; pipeline 1024*1; get 0:i0+1 > s0+1; nop; "              \
    "sem_release $0; nop; end; signal @m0; wait @m0\n"                                             \
    "1.1; pipeline 1024*1; sem_acquire $0; nop; re i0+1 s0+1 > o0+1; nop; end"
/* The same in turns of 16 bytes, with at most two turns between the blocks. */
#define PIPELINE_WITH_CREDITS                                                                      \
    "allreduce 2 i1 o1 s1; sem 0 2\n"                                                              \
    "0.0; rlxsignal @m1; rlxwait @m1; nop; pipeline 16*1; sem_acquire $1; nop; "                   \
    "get 1:i0+1 > s0+1; nop; sem_release $0; nop; end; signal @m1; wait @m1\n"                     \
    "0.1; pipeline 16*1; sem_acquire $0; nop; re i0+1 s0+1 > o0+1; nop; sem_release $1; end\n"     \
    "1.0; rlxsignal @m0; rlxwait @m0; nop; pipeline 16*1; sem_acquire $1; nop; "                   \
    "get 0:i0+1 > s0+1; nop; sem_release $0; nop; end; signal @m0; wait @m0\n"                     \
    "1.1; pipeline 16*1; sem_acquire $0; nop; re i0+1 s0+1 > o0+1; nop; sem_release $1; end"
/* A block is one turn ahead of another, and both handle two chunks. */
#define PIPELINE_AHEAD                                                                             \
    "custom 1 i2 o2 s2; sem 0 2\n"                                                                 \
    "0.0; pipeline 16*2; sem_acquire $1; nop; copy i0+2 > s0+2; nop; sem_release $0; end; nop; "   \
    "sem_release $0\n"                                                                             \
    "0.1; sem_acquire $0; nop; pipeline 16*2; sem_acquire $0; nop; copy s0+2 > o0+2; nop; "        \
    "sem_release $1; nop; end"
/* A group of two blocks that divide what they copy. */
#define GROUPS                                                                                     \
    "allgather 2 i2 o4 s0\n"                                                                       \
    "0.0; copy i0+2 > o0+2; rlxsignal @m1; rlxwait @m1; nop; get 1:i0+2 > o2+2 %0/2; "             \
    "nop; signal @m1; wait @m1\n"                                                                  \
    "0.1; rlxsignal @m1/1; rlxwait @m1/1; nop; get 1:i0+2 > o2+2 %1/2; "                           \
    "nop; signal @m1/1; wait @m1/1\n"                                                              \
    "1.0; copy i0+2 > o2+2; rlxsignal @m0; rlxwait @m0; nop; get 0:i0+2 > o0+2 %0/2; "             \
    "nop; signal @m0; wait @m0\n"                                                                  \
    "1.1; rlxsignal @m0/1; rlxwait @m0/1; nop; get 0:i0+2 > o0+2 %1/2; "                           \
    "nop; signal @m0/1; wait @m0/1"
/* Every rank reduces a chunk of everyone's and stores it at everyone's. */
#define SWITCHES                                                                                   \
    "allreduce 2 i2 o2 s0 inplace\n"                                                               \
    "0.0; rlxsignal @m1; rlxwait @m1; nop; glres g0i0+1 > g0i0+1; nop; signal @m1; wait @m1\n"     \
    "1.0; rlxsignal @m0; rlxwait @m0; nop; glres g0i1+1 > g0i1+1; nop; signal @m0; wait @m0"
/* One block waits for two others of its rank; which comes first does not matter. */
#define GATHER                                                                                     \
    "custom 1 i2 o2 s2; sem 0\n"                                                                   \
    "0.0; copy i0+1 > s0+1; nop; sem_release $0\n"                                                 \
    "0.1; copy i1+1 > s1+1; nop; sem_release $0\n"                                                 \
    "0.2; sem_acquire $0; sem_acquire $0; nop; copy s0+2 > o0+2"

/* Two blocks exclude each other, and say when they are done. */
#define EXCLUSION                                                                                  \
    "custom 1 i2 o2 s2; sem 1 1 0\n"                                                               \
    "0.0; sem_acquire $0; nop; copy i0+1 > s0+1; nop; sem_release $0; sem_release $2\n"            \
    "0.1; sem_acquire $0; nop; copy i1+1 > s1+1; nop; sem_release $0; sem_release $2\n"            \
    "0.2; sem_acquire $2 2; nop; copy s0+2 > o0+2"

/* Chunks of a block, of which the last may be shorter, through scratch. */
#define SLOTS                                                                                      \
    "allreduce 1 i2 o2 s1\n"                                                                       \
    "0.0; copy i0+1 > s0+1; nop; copy s0+1 > o0+1; copy i1+1 > o1+1"
/* Data and packets side by side: only the signal says that the data are there. */
#define MIXED                                                                                      \
    "allgather 2 i2 o4 s2 double\n"                                                                \
    "0.0; copy i0+2 > o0+2; put i0+1 > 1:s1+1; ppkt i1+1 > 1:s0+1; nop; signal @m1; wait @m1; "    \
    "nop; upkt s0+1 > o3+1; copy s1+1 > o2+1\n"                                                    \
    "1.0; copy i0+2 > o2+2; put i0+1 > 0:s1+1; ppkt i1+1 > 0:s0+1; nop; signal @m0; wait @m0; "    \
    "nop; upkt s0+1 > o1+1; copy s1+1 > o0+1"

/* Neither input nor output: signals and scratch alone. */
#define NO_MESSAGE                                                                                 \
    "custom 2 i0 o0 s2\n"                                                                          \
    "0.0; put s0+1 > 1:s1+1; nop; signal @m1; wait @m1\n"                                          \
    "1.0; wait @m0; nop; copy s1+1 > s0+1; nop; signal @m0"

/* What executors run correctly, but the stricter memory model rejects. Packet operations of a block
 * on the same chunk without a fence: */
#define UNFENCED_PACKETS                                                                           \
    "allreduce 2 i1 o1 s2 double\n"                                                                \
    "0.0; ppkt i0+1 > 1:s0+1; repkt i0+1 s0+1 > o0+1; cpkt o0+1 > s1+1; upkt s1+1 > o0+1\n"        \
    "1.0; ppkt i0+1 > 0:s0+1; repkt i0+1 s0+1 > o0+1; cpkt o0+1 > s1+1; upkt s1+1 > o0+1"
/* A packet that is stored to a group of ranks, and thereby also onto itself: */
#define PACKETS_ONTO_THEMSELVES                                                                    \
    "allgather 2 i1 o2 s2 inplace double\n"                                                        \
    "0.0; cpkt o0+1 > s0+1; gstorepkt s0+1 > g0s0+1; upkt s0+1 > o0+1\n"                           \
    "0.1; upkt s1+1 > o1+1\n"                                                                      \
    "1.0; cpkt o1+1 > s1+1; gstorepkt s1+1 > g0s1+1; upkt s1+1 > o1+1\n"                           \
    "1.1; upkt s0+1 > o0+1"
/* Two pairs of blocks that use the same barrier in sequence: */
#define BARRIER_OF_TWO_PAIRS                                                                       \
    "custom 1 i2 o2 s4; sem 0 0\n"                                                                 \
    "0.0; copy i0+1 > s0+1; barrier #0/2; copy s1+1 > o1+1; nop; sem_release $0\n"                 \
    "0.1; copy i1+1 > s1+1; barrier #0/2; copy s0+1 > o0+1; nop; sem_release $1\n"                 \
    "0.2; sem_acquire $0; nop; copy o1+1 > s2+1; barrier #0/2; copy s3+1 > o1+1\n"                 \
    "0.3; sem_acquire $1; nop; copy o0+1 > s3+1; barrier #0/2; copy s2+1 > o0+1"

static const char *const right_plans[] = {
    HANDSHAKE,      PACKETS,    TWO_SHOTS, TWO_SHOTS_AGAIN,
    UNPACKED,       SEMAPHORES, BARRIERS,  PORTS,
    PORTS_FUSED,    SWAP,       BROADCAST, TWO_PORTS,
    REDUCE,         RING,       PIPELINE,  PIPELINE_WITH_CREDITS,
    PIPELINE_AHEAD, GROUPS,     SWITCHES,  GATHER,
    EXCLUSION,      SLOTS,      MIXED,     NO_MESSAGE,
};
enum { RIGHT_PLANS = sizeof right_plans / sizeof *right_plans };
static const char *const unstrict_plans[] = {UNFENCED_PACKETS, PACKETS_ONTO_THEMSELVES,
                                             BARRIER_OF_TWO_PAIRS};
enum { UNSTRICT_PLANS = sizeof unstrict_plans / sizeof *unstrict_plans };

/* The plan of such a text; a build without a reader skips the test. */
static weir_plan *plan_of(const char *text)
{
    char *json = plan_json(text);
    weir_plan *plan = NULL;
    weir_status status = weir_plan_parse(json, strlen(json), "text", &plan);
    free(json);
    if (status == WEIR_ERR_UNSUPPORTED)
        skip();
    if (status != WEIR_OK)
        fail_msg("%s\n%s", weir_last_error(), text);
    return plan;
}

#endif
