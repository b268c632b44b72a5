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

enum { MOST_GPUS = 8 };

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
static inline void run_gpu_ranks(int most, ranks_body *body, void *argument)
{
    const int sharing = sharing_ranks(), there = need_gpus(sharing ? 1 : 2);
    const int last = sharing ? sharing : there;
    if (sharing && (sharing < 2 || sharing > most))
        fail_msg("GPUS=%d: this test is for 2 to %d ranks", sharing, most);
    for (int nranks = sharing ? sharing : 2; nranks <= last && nranks <= most; nranks++)
        run_ranks_within(sharing ? 10 * LIMIT_MS : LIMIT_MS, nranks, body, argument);
}

/* Creates a communicator of the CUDA backend and selects its device. Returns NULL, after printing
 * the reason, if it fails. */
static inline weir_comm *open_gpu_comm(weir_boot *boot, int timeout_ms)
{
    weir_comm *comm = open_comm_with(boot, WEIR_BACKEND_CUDA, timeout_ms);
    if (comm && cudaSetDevice(weir_comm_device(comm)) != cudaSuccess) {
        weir_comm_destroy(comm);
        return NULL;
    }
    return comm;
}

/* A test whose body runs with every number of ranks, or with two ranks. */
static inline void test_on_gpus(void **state)
{
    const ranks_test *test = *state;
    run_gpu_ranks(MOST_GPUS, test->body, test->argument);
}

static inline void test_on_two_gpus(void **state)
{
    need_gpus(sharing_ranks() > 0 ? 1 : 2);
    test_ranks(state);
}

#define GPUS_TEST(name, body) AT(name, test_on_gpus, (&(ranks_test){0, body, NULL, NULL}))
#define TWO_GPUS_TEST(name, body, argument)                                                        \
    AT(name, test_on_two_gpus, (&(ranks_test){2, body, argument, NULL}))

/* A random number made of x. */
static inline uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

#endif
