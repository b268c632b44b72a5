/* The functions of weigh.h for any processor: 16-byte vectors, or what the compiler makes of them.
 */
#define WEIRI_VECTOR_BYTES 16
#define WEIRI_WEIGH_TABLE weiri_weigh_plain
#include "compute/weigh_body.h"
