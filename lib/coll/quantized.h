/* weir_allreduce_quantized inside the library: its steps on GPUs. */
#ifndef WEIR_COLL_QUANTIZED_H
#define WEIR_COLL_QUANTIZED_H

#include "coll/coll.h"
#include "compute/quantize.h"

/* Enqueues a step on a GPU. Without CUDA it is never called. */
weir_status weiri_quantize_gpu(weir_comm *comm, const weiri_quantize_step *step,
                               weir_stream stream);

#endif
