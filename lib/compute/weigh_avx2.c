/* The functions of weigh.h for AVX2 and F16C. */
#define WEIRI_VECTOR_BYTES 32
#define WEIRI_WEIGH_TABLE weiri_weigh_avx2
#include "compute/weigh_body.h"
