/*
 * NVRTC, the compiler of CUDA as a library, opened when it is first needed: neither a build
 * nor a start of weir needs it, and compiling needs no GPU.
 */
#ifndef WEIR_ALGO_NVRTC_H
#define WEIR_ALGO_NVRTC_H

#include <weir/weir.h>

/* The version of the library that serves a driver of a CUDA version (13 for 13.x; 0: any), as
 * major * 1000 + minor. Opens it: WEIR_NVRTC_SO, else the one of that version, else the newest
 * that there is. Local; any thread. WEIR_ERR_SYSTEM: there is none. */
weir_status weiri_nvrtc_open(int driver_major, int *version);

/* Compiles a text into code for a GPU (an option names it), which the caller frees. name is
 * what messages say; output gets them, cut to output_bytes - 1. Local. WEIR_ERR_INVALID: it does
 * not compile. After weiri_nvrtc_open. */
weir_status weiri_nvrtc_compile(const char *text, const char *name, const char *const *options,
                                int noptions, char **code, size_t *code_bytes, char *output,
                                size_t output_bytes);

#endif
