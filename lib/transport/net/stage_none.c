/* A build without CUDA: there is no GPU memory to stage. */
#include "transport/net/stage.h"

const weiri_stage_ops *weiri_stage_ops_get(void)
{
    return NULL;
}
