/* The functions of weigh.h for AVX-512. */
#define WEIRI_VECTOR_BYTES 64
#define WEIRI_WEIGH_TABLE weiri_weigh_avx512
#include "compute/weigh_body.h"
