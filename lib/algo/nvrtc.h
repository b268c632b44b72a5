/*
 * NVRTC, CUDA's compiler as a library, opened when it is first needed. Neither building nor
 * starting weir requires it, and compiling requires no GPU. Functions are local and thread-safe.
 */
#ifndef WEIR_ALGO_NVRTC_H
#define WEIR_ALGO_NVRTC_H

#include <weir/weir.h>

/* Opens the library if necessary, and writes its version as major * 1000 + minor. driver_major is
 * the driver's CUDA version (13 for 13.x; 0: any). Prefers the library that WEIR_NVRTC_SO names,
 * then the one of the driver's version, then the newest. WEIR_ERR_SYSTEM if there is none. */
weir_status weiri_nvrtc_open(int driver_major, int *version);

/* Compiles a text into code for the GPU architecture that an option names; the caller frees *code.
 * name is the file name in messages, which are written to output, truncated to output_bytes - 1.
 * Call weiri_nvrtc_open first. WEIR_ERR_INVALID if the text does not compile. */
weir_status weiri_nvrtc_compile(const char *text, const char *name, const char *const *options,
                                int noptions, char **code, size_t *code_bytes, char *output,
                                size_t output_bytes);

#endif
