/*
 * Which GPUs the kernels of a build serve. Code for an architecture runs on GPUs of its major
 * number whose minor number is not lower; PTX, which a build contains for the last architecture, is
 * compiled by the driver for any GPU that is not older. Code of a name with a suffix ("90a") runs
 * on that GPU alone ("a") or on its major number ("f").
 */
#include "base/gpu_code.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef WEIR_GPU_CODE
#define WEIR_GPU_CODE "?" /* a build without CUDA, or with architectures in NVCCFLAGS */
#endif

int weiri_gpu_code_serves(const char *architectures, int major, int minor)
{
    const long device = 10L * major + minor;
    char *end = NULL;
    for (const char *at = architectures;; at = end) {
        const long code = strtol(at, &end, 10);
        if (end == at)
            return 1; /* a list that cannot be read rejects nothing */
        const char suffix = *end;
        end += suffix == 'a' || suffix == 'f';
        while (*end == ' ')
            end++;
        const int is_near = code / 10 == device / 10 && code <= device;
        if (suffix == 'a' ? code == device : is_near)
            return 1;
        if (*end == '\0')
            return suffix != 'a' && suffix != 'f' && code <= device;
    }
}

int weiri_gpu_code_missing(int device, int major, int minor, char *text, size_t bytes)
{
    if (weiri_gpu_code_serves(WEIR_GPU_CODE, major, minor))
        return 0;
    if (major < 8)
        snprintf(text, bytes,
                 "there are no kernels for GPU %d (compute capability %d.%d): 8.0 or later is "
                 "needed; use another GPU",
                 device, major, minor);
    else
        snprintf(text, bytes,
                 "this build has no kernels for GPU %d (compute capability %d.%d; the build has "
                 "SM=%s): in weir's sources, make SM=%d%d builds them",
                 device, major, minor, WEIR_GPU_CODE, major, minor);
    return 1;
}
