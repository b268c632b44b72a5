/* A build without CUDA: there is no GPU memory to stage. */
#include "transport/net/staging.h"

const weiri_staging_ops *weiri_staging_ops_get(void)
{
    return NULL;
}
