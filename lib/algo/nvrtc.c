/*
 * The functions of NVRTC that weir uses, declared here because a build may have no CUDA. NVRTC has
 * no system headers, so it gets those that weir's headers include as text.
 */
#include "algo/nvrtc.h"

#include "base/env.h"
#include "base/error.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opaque_program *program;

/* X(function, parameters); all return 0 or an error code. */
#define FUNCTIONS(X)                                                                               \
    X(nvrtcVersion, (int *major, int *minor))                                                      \
    X(nvrtcCreateProgram, (program * made, const char *text, const char *name, int nheaders,       \
                           const char *const *headers, const char *const *names))                  \
    X(nvrtcDestroyProgram, (program * of))                                                         \
    X(nvrtcCompileProgram, (program of, int noptions, const char *const *options))                 \
    X(nvrtcGetProgramLogSize, (program of, size_t * bytes))                                        \
    X(nvrtcGetProgramLog, (program of, char *log))                                                 \
    X(nvrtcGetCUBINSize, (program of, size_t * bytes))                                             \
    X(nvrtcGetCUBIN, (program of, char *code))

typedef struct nvrtc_functions {
#define POINTER(name, parameters) int(*name) parameters;
    FUNCTIONS(POINTER)
#undef POINTER
    const char *(*nvrtcGetErrorString)(int error);
} nvrtc_functions;

enum { COMPILATION_FAILED = 6 };

static const char *const header_names[] = {"stddef.h", "stdint.h", "time.h"};
static const char *const header_texts[] = {
    "#pragma once\n"
    "typedef unsigned long size_t;\n"
    "typedef long ptrdiff_t;\n"
    "#ifndef NULL\n#define NULL 0\n#endif\n"
    "#define offsetof(type, member) __builtin_offsetof(type, member)\n",
    "#pragma once\n"
    "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\n"
    "typedef short int16_t;\ntypedef unsigned short uint16_t;\n"
    "typedef int int32_t;\ntypedef unsigned int uint32_t;\n"
    "typedef long int64_t;\ntypedef unsigned long uint64_t;\n"
    "typedef long intptr_t;\ntypedef unsigned long uintptr_t;\n"
    "#define INT32_MAX 2147483647\n#define UINT32_MAX 4294967295u\n"
    "#define INT64_MAX 9223372036854775807l\n#define UINT64_MAX 18446744073709551615ul\n"
    "#define SIZE_MAX 18446744073709551615ul\n",
    "#pragma once\n",
};
enum { HEADERS = sizeof header_names / sizeof *header_names };

static nvrtc_functions nvrtc; /* written once; racing threads write equal values */
static int is_open;

static int nvrtc_look_up(void *library)
{
    nvrtc_functions found;
    int complete = 1;
    void *symbol;
    memset(&found, 0, sizeof found);
#define LOOK_UP(name, parameters)                                                                  \
    symbol = dlsym(library, #name);                                                                \
    memcpy(&found.name, &symbol, sizeof symbol);                                                   \
    complete &= symbol != NULL;
    FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    symbol = dlsym(library, "nvrtcGetErrorString");
    memcpy(&found.nvrtcGetErrorString, &symbol, sizeof symbol);
    if (!complete || !symbol)
        return 0;
    nvrtc = found;
    return 1;
}

static int nvrtc_try_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 0;
    if (nvrtc_look_up(library))
        return 1;
    dlclose(library);
    return 0;
}

/* Tries the driver's version, then all others from the newest on; each in the linker's search path,
 * then in the toolkit's usual folder. */
static int nvrtc_search(int driver_major)
{
    enum { OLDEST = 11, NEWEST = 16 };
    static const char *const paths[] = {"libnvrtc.so.%d", "/usr/local/cuda/lib64/libnvrtc.so.%d"};
    for (int offset = -1; offset <= NEWEST - OLDEST; offset++) {
        int version = offset < 0 ? driver_major : NEWEST - offset;
        for (size_t i = 0; version && i < sizeof paths / sizeof *paths; i++) {
            char path[128];
            snprintf(path, sizeof path, paths[i], version);
            if (nvrtc_try_open(path))
                return 1;
        }
    }
    return nvrtc_try_open("libnvrtc.so") || nvrtc_try_open("libnvrtc.so.11.2") ||
           nvrtc_try_open("/usr/local/cuda/lib64/libnvrtc.so");
}

weir_status weiri_nvrtc_open(int driver_major, int *version)
{
    int major = 0, minor = 0;
    const char *given = weiri_env(WEIRI_ENV_NVRTC_SO), *name = weiri_env_name(WEIRI_ENV_NVRTC_SO);
    if (!__atomic_load_n(&is_open, __ATOMIC_ACQUIRE)) {
        if (given && !nvrtc_try_open(given))
            return weiri_fail(WEIR_ERR_SYSTEM, "%s=%s: the file cannot be opened as NVRTC", name,
                              given);
        if (!given && !nvrtc_search(driver_major))
            return weiri_fail(WEIR_ERR_SYSTEM,
                              "no compiler for GPU kernels: libnvrtc.so was not found; install the "
                              "CUDA toolkit's NVRTC, or set %s to its path",
                              name);
        __atomic_store_n(&is_open, 1, __ATOMIC_RELEASE);
    }
    if (nvrtc.nvrtcVersion(&major, &minor) != 0)
        return weiri_fail(WEIR_ERR_SYSTEM, "NVRTC does not report its version");
    *version = 1000 * major + minor;
    return WEIR_OK;
}

static weir_status nvrtc_fail(int error, const char *name)
{
    return weiri_fail(WEIR_ERR_SYSTEM, "NVRTC cannot compile %s: %s", name,
                      nvrtc.nvrtcGetErrorString(error));
}

static void nvrtc_read_log(program of, char *output, size_t output_bytes)
{
    size_t bytes = 0;
    char *log = NULL;
    snprintf(output, output_bytes, "no message");
    if (nvrtc.nvrtcGetProgramLogSize(of, &bytes) == 0 && bytes && (log = malloc(bytes + 1))) {
        if (nvrtc.nvrtcGetProgramLog(of, log) == 0)
            snprintf(output, output_bytes, "%.*s", (int)bytes, log);
        free(log);
    }
}

static weir_status nvrtc_read_code(program of, const char *name, char **code, size_t *code_bytes)
{
    size_t bytes = 0;
    int error = nvrtc.nvrtcGetCUBINSize(of, &bytes);
    if (error || !bytes)
        return nvrtc_fail(error, name);
    char *made = malloc(bytes);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the code of %s", name);
    error = nvrtc.nvrtcGetCUBIN(of, made);
    if (error) {
        free(made);
        return nvrtc_fail(error, name);
    }
    *code = made;
    *code_bytes = bytes;
    return WEIR_OK;
}

weir_status weiri_nvrtc_compile(const char *text, const char *name, const char *const *options,
                                int noptions, char **code, size_t *code_bytes, char *output,
                                size_t output_bytes)
{
    program made = NULL;
    int error = nvrtc.nvrtcCreateProgram(&made, text, name, HEADERS, header_texts, header_names);
    if (error)
        return nvrtc_fail(error, name);
    error = nvrtc.nvrtcCompileProgram(made, noptions, options);
    nvrtc_read_log(made, output, output_bytes);
    weir_status status = WEIR_OK;
    if (error == COMPILATION_FAILED)
        status = weiri_fail(WEIR_ERR_INVALID, "%s does not compile", name);
    else if (error)
        status = nvrtc_fail(error, name);
    else
        status = nvrtc_read_code(made, name, code, code_bytes);
    nvrtc.nvrtcDestroyProgram(&made);
    return status;
}
