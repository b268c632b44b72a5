/* Stands in for run_cuda.c in a build without CUDA. */
#include "plan/execute/executor.h"

const weiri_executor_ops *weiri_executor_cuda(void)
{
    return NULL;
}
