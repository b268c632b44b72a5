/* A build without CUDA: there is no GPU memory to stage. */
#include "transport/tcp_stage.h"

const weiri_tcp_stage_ops *weiri_tcp_stage_ops_get(void)
{
    return NULL;
}
