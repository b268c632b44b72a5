/* Staging in a build without CUDA: not available. */
#include "transport/net/staging.h"

const weiri_staging_ops *weiri_staging_ops_get(void)
{
    return NULL;
}
