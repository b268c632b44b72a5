/*
 * What tests on GPUs share: how many there are, and a skip where that is too few. The
 * parent process never touches CUDA, because its children do.
 */
#ifndef VERIFY_TESTS_GPU_RANKS_H
#define VERIFY_TESTS_GPU_RANKS_H

#include "comm_ranks.h"

#include <cuda_runtime_api.h>
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

#endif
