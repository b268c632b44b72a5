/*
 * Test double: the CUDA driver (libcuda.so.1) in the process of a peer in Python, next to a rank
 * with gpu_standin.c. It opens the rank's memory by the path in the handle. Work is done when it is
 * enqueued, once for a graph: a replay does nothing. Events count what was recorded and replayed,
 * so that a time is the number of replays in between, in ms.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct handle {
    char path[64];
} handle;

enum { INVALID = 1, HEADER_BYTES = 4096, EVENTS = 2 };

static int capturing, replays, recorded[EVENTS], nevents;

EXPORT int cuInit(unsigned flags);
EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuCtxSetCurrent(void *context);
EXPORT int cuStreamCreate(void **stream, unsigned flags);
EXPORT int cuStreamSynchronize(void *stream);
EXPORT int cuEventCreate(int **event, unsigned flags);
EXPORT int cuEventRecord(int *event, void *stream);
EXPORT int cuEventElapsedTime(float *ms, const int *start, const int *end);
EXPORT int cuIpcOpenMemHandle_v2(unsigned long long *pointer, handle made, unsigned flags);
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode);
EXPORT int cuStreamEndCapture(void *stream, void **graph);
EXPORT int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
EXPORT int cuGraphLaunch(void *exec, void *stream);
EXPORT int cuGraphDestroy(void *graph);
EXPORT int cuGraphExecDestroy(void *exec);

static int a_stream, a_graph, an_exec;

int cuInit(unsigned flags)
{
    return flags ? INVALID : 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = &a_stream;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    return context ? 0 : INVALID;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    *stream = &a_stream;
    return flags == 1 ? 0 : INVALID;
}

int cuStreamSynchronize(void *stream)
{
    return stream == &a_stream && !capturing ? 0 : INVALID;
}

int cuEventCreate(int **event, unsigned flags)
{
    if (nevents == EVENTS || flags)
        return INVALID;
    *event = &recorded[nevents++];
    return 0;
}

int cuEventRecord(int *event, void *stream)
{
    *event = replays;
    return stream == &a_stream && !capturing ? 0 : INVALID;
}

int cuEventElapsedTime(float *ms, const int *start, const int *end)
{
    *ms = (float)(*end - *start + 1);
    return 0;
}

int cuIpcOpenMemHandle_v2(unsigned long long *pointer, handle made, unsigned flags)
{
    struct stat found;
    const int fd = flags == 1 ? open(made.path, O_RDWR) : -1;
    if (fd < 0 || fstat(fd, &found) != 0)
        return INVALID;
    char *memory = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return INVALID;
    *pointer = (unsigned long long)(memory + HEADER_BYTES);
    return 0;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    capturing = 1;
    return stream == &a_stream && mode == 2 ? 0 : INVALID;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    (void)stream;
    capturing = 0;
    *graph = &a_graph;
    return 0;
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    *exec = &an_exec;
    return graph == &a_graph && !flags ? 0 : INVALID;
}

int cuGraphLaunch(void *exec, void *stream)
{
    replays++;
    return exec == &an_exec && stream == &a_stream ? 0 : INVALID;
}

int cuGraphDestroy(void *graph)
{
    return graph == &a_graph ? 0 : INVALID;
}

int cuGraphExecDestroy(void *exec)
{
    return exec == &an_exec ? 0 : INVALID;
}
