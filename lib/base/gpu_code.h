/* Which GPUs the kernels of a build serve. */
#ifndef WEIR_BASE_GPU_CODE_H
#define WEIR_BASE_GPU_CODE_H

#include <stddef.h>

enum { WEIRI_GPU_CODE_TEXT_BYTES = 256 };

/* Returns 1 if kernels compiled for these architectures, in the words of make's SM ("80 90 100"),
 * run on a GPU of this compute capability, and for a list that is no list. */
int weiri_gpu_code_serves(const char *architectures, int major, int minor);

/* Returns 1 if this build has no kernels for a GPU of this compute capability, as far as is known
 * before a launch; text, of WEIRI_GPU_CODE_TEXT_BYTES, then gets the message with the command that
 * builds them. */
int weiri_gpu_code_missing(int device, int major, int minor, char *text, size_t bytes);

#endif
