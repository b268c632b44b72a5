/*
 * Helpers for tests on GPUs: the number of GPUs, a skip if there are too few, and bodies that run
 * with every number of ranks. The parent process never touches CUDA, because its children do. With
 * WEIR_ALLOW_SHARED_GPU=1 GPUS=8, bodies run with 8 ranks only, on any number of GPUs; ranks that
 * share a GPU run in time slices, so this is slow.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_RANKS_H
#define VERIFY_TESTS_SUPPORT_GPU_RANKS_H

#include "verify/tests/support/comm_ranks.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Counts the GPUs in a child process. */
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

/* Returns the number of GPUs; skips the test if there are fewer than `least`. */
static inline int need_gpus(int least)
{
    int gpus = count_gpus();
    if (gpus >= least)
        return gpus;
    print_message("# needs %d GPU%s, here are %d\n", least, least == 1 ? "" : "s", gpus);
    skip();
    return 0;
}

/* The number of ranks that the environment allows to share GPUs; 0: none, -1: not a number. */
static inline int sharing_ranks(void)
{
    const char *allowed = getenv("WEIR_ALLOW_SHARED_GPU"), *ranks = getenv("GPUS");
    if (!allowed || strcmp(allowed, "1") != 0 || !ranks)
        return 0;
    return atoi(ranks) > 0 ? atoi(ranks) : -1;
}

/* Runs body with 2 ranks, 3 ranks, and so on up to the number of GPUs or `most`. If ranks may share
 * GPUs, runs it once, with that number of ranks and ten times the time limit. */
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
