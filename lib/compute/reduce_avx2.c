/* The reduction functions for AVX2 and F16C. */
#define WEIRI_VECTOR_BYTES 32
#define WEIRI_REDUCE_TABLE weiri_reduce_avx2
#include "compute/reduce_body.h"
