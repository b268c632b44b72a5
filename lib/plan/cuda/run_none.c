/* A build without CUDA runs no plans on GPUs. */
#include "plan/execute/executor.h"

const weiri_executor_ops *weiri_executor_cuda(void)
{
    return NULL;
}
