/*
 * Test double: a CUDA driver (libcuda.so.1) without devices, for the real CUDA runtime. It reports
 * version STANDIN_VERSION, and its initialization returns STANDIN_START.
 */
#include <string.h>

#ifndef STANDIN_VERSION
#define STANDIN_VERSION 99000
#endif
#ifndef STANDIN_START
#define STANDIN_START 100 /* no device */
#endif
#define EXPORT __attribute__((visibility("default")))

typedef int look_up(const char *name, void **function, int version, unsigned long long flags,
                    int *found);
EXPORT int cuInit(unsigned flags);
EXPORT int cuDriverGetVersion(int *version);
EXPORT look_up cuGetProcAddress_v2;

int cuInit(unsigned flags)
{
    (void)flags;
    return STANDIN_START;
}

int cuDriverGetVersion(int *version)
{
    *version = STANDIN_VERSION;
    return 0;
}

static int refuse(void)
{
    enum { NO_DEVICE = 100 };
    return NO_DEVICE;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                        int *found)
{
    (void)version, (void)flags;
    if (found)
        *found = 0;
    if (strcmp(name, "cuInit") == 0)
        memcpy(function, &(int (*)(unsigned)){cuInit}, sizeof *function);
    else if (strcmp(name, "cuDriverGetVersion") == 0)
        memcpy(function, &(int (*)(int *)){cuDriverGetVersion}, sizeof *function);
    else if (strcmp(name, "cuGetProcAddress") == 0)
        memcpy(function, &(look_up *){cuGetProcAddress_v2}, sizeof *function);
    else
        memcpy(function, &(int (*)(void)){refuse}, sizeof *function);
    return 0;
}
