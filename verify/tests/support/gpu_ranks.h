/*
 * What tests on GPUs share: how many there are, a skip where that is too few, and bodies
 * run by every number of ranks. The parent process never touches CUDA, because its
 * children do. WEIR_ALLOW_SHARED_GPU=1 GPUS=8 runs such bodies by 8 ranks alone, on any
 * number of GPUs: ranks that share one take turns on it, so this is slow.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_RANKS_H
#define VERIFY_TESTS_SUPPORT_GPU_RANKS_H

#include "verify/tests/support/comm_ranks.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* GPUs of this machine, counted in a process of its own. */
static inline int count_gpus(void)
{
    int status = 0, count = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(cudaGetDeviceCount(&count) == cudaSuccess ? count : 0);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 0;
}

/* How many there are; skips the test where that is below least. */
static inline int need_gpus(int least)
{
    int gpus = count_gpus();
    if (gpus >= least)
        return gpus;
    print_message("# needs %d GPU%s, here are %d\n", least, least == 1 ? "" : "s", gpus);
    skip();
    return 0;
}

/* The number of ranks that were told to share GPUs, -1 where that is no number; 0: none were. */
static inline int sharing_ranks(void)
{
    const char *allowed = getenv("WEIR_ALLOW_SHARED_GPU"), *ranks = getenv("GPUS");
    if (!allowed || strcmp(allowed, "1") != 0 || !ranks)
        return 0;
    return atoi(ranks) > 0 ? atoi(ranks) : -1;
}

/* Runs body by 2 ranks, by 3, and so on up to the number of GPUs or of most, whichever is
 * less; by those that were told to share GPUs alone, ten times as long if need be. */
static inline void run_gpu_ranks(int most, int (*body)(weir_boot *boot, void *argument),
                                 void *argument)
{
    const int sharing = sharing_ranks(), there = need_gpus(sharing ? 1 : 2);
    const int last = sharing ? sharing : there;
    if (sharing && (sharing < 2 || sharing > most))
        fail_msg("GPUS=%d: this test is for 2 to %d ranks", sharing, most);
    for (int nranks = sharing ? sharing : 2; nranks <= last && nranks <= most; nranks++)
        run_ranks_within(sharing ? 10 * LIMIT_MS : LIMIT_MS, nranks, body, argument);
}

#endif
