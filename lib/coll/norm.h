/* weir_allreduce_norm inside the library: a checked call on its way to the kernels. */
#ifndef WEIR_COLL_NORM_H
#define WEIR_COLL_NORM_H

#include "coll/coll.h"
#include <weir/norm.h>

/* Runs a call, of two or more ranks with GPUs of one node. Without CUDA it is never called. */
weir_status weiri_norm_gpu_run(weiri_coll *coll, const weir_norm_args *args);

#endif
