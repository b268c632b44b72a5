/* The reduction functions for AVX-512 (F, BW, VL, DQ). */
#define WEIRI_VECTOR_BYTES 64
#define WEIRI_REDUCE_TABLE weiri_reduce_avx512
#include "compute/reduce_body.h"
