/* The reduction functions for any processor, in 16-byte vectors. */
#define WEIRI_VECTOR_BYTES 16
#define WEIRI_REDUCE_TABLE weiri_reduce_plain
#include "compute/reduce_body.h"
