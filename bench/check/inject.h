/*
 * Faults that --inject puts into a run of weir, to show that the checks catch them. When a call has
 * returned, the output, input or canaries of one rank (the victim) or of several are changed as a
 * broken collective would have left them; with skip-signal, the victim does not make the call.
 */
#ifndef BENCH_CHECK_INJECT_H
#define BENCH_CHECK_INJECT_H

#include "bench/options/faults.h"
#include "bench/trial/trial.h"

/* 1 if this rank does not make the call. Pure. */
int bench_inject_skips_call(bench_fault fault, const weirv_case *c);
/* Injects a fault into what the candidate's last call, described by c, left in the trial's buffers;
 * BENCH_FAULT_NONE does nothing. The fault lies in the part of the output that holds element `at`,
 * unless it concerns the whole buffer. Counts faults that changed something in trial->planted.
 * Local, blocking. */
weir_status bench_inject_trial(bench_trial *trial, bench_candidate *candidate, bench_fault fault,
                               const weirv_case *c, size_t at);
/* An element for `at`: one in the part of the output that a neighbour of the victim produces. The
 * same on every rank, except for alltoallv. Pure. */
size_t bench_inject_place(const weirv_case *c);

#endif
