/*
 * Memory of weir_mem_alloc for torch.cuda.MemPool, whose allocator is a pair of C functions without
 * an argument for their owner. So there is a pair for each of NATIVE_POOLS_MAX pools, which stands
 * for a communicator while the pool is open. PyTorch calls them from any thread and without the
 * interpreter lock. They return NULL on failure, which PyTorch reports as out of memory.
 */
#include "native.h"

#include <pthread.h>
#include <stdlib.h>

enum { NATIVE_POOLS_MAX = 16 };

typedef struct pool_memory {
    struct pool_memory *next;
    weir_mem *mem;
    void *pointer;
} pool_memory;

static struct {
    weir_comm *comm; /* NULL: not in use, or the communicator was destroyed */
    int device, is_taken;
    pool_memory *memories; /* the latest first */
} pools[NATIVE_POOLS_MAX];
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;

static void *pool_take(int pool, size_t bytes, int device)
{
    pool_memory *memory = malloc(sizeof *memory);
    void *pointer = NULL;
    pthread_mutex_lock(&pools_lock);
    if (memory && pools[pool].comm && pools[pool].device == device &&
        native_weir.mem_alloc(pools[pool].comm, bytes, &memory->mem) == WEIR_OK) {
        pointer = memory->pointer = native_weir.mem_pointer(memory->mem);
        memory->next = pools[pool].memories;
        pools[pool].memories = memory;
        memory = NULL;
    }
    pthread_mutex_unlock(&pools_lock);
    free(memory);
    return pointer;
}

/* Without a communicator the memory is gone, or is left to the end of the process. */
static void pool_return(int pool, void *pointer)
{
    pthread_mutex_lock(&pools_lock);
    for (pool_memory **at = &pools[pool].memories; *at; at = &(*at)->next) {
        pool_memory *memory = *at;
        if (memory->pointer != pointer)
            continue;
        *at = memory->next;
        native_weir.mem_free(memory->mem);
        free(memory);
        break;
    }
    pthread_mutex_unlock(&pools_lock);
}

#define POOL(n)                                                                                    \
    __attribute__((visibility("default"))) void *weir_pool_alloc_##n(size_t, int, void *);         \
    __attribute__((visibility("default"))) void weir_pool_free_##n(void *, size_t, int, void *);   \
    void *weir_pool_alloc_##n(size_t bytes, int device, void *stream)                              \
    {                                                                                              \
        (void)stream;                                                                              \
        return pool_take(n, bytes, device);                                                        \
    }                                                                                              \
    void weir_pool_free_##n(void *pointer, size_t bytes, int device, void *stream)                 \
    {                                                                                              \
        (void)bytes, (void)device, (void)stream;                                                   \
        pool_return(n, pointer);                                                                   \
    }
POOL(0)
POOL(1)
POOL(2)
POOL(3)
POOL(4)
POOL(5)
POOL(6)
POOL(7)
POOL(8)
POOL(9)
POOL(10)
POOL(11)
POOL(12)
POOL(13)
POOL(14)
POOL(15)

/* pool_open(comm, device) -> pool; -1 if all are in use */
PyObject *native_pool_open(PyObject *module, PyObject *arguments)
{
    PyObject *comm;
    int device, found = -1;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Oi", &comm, &device))
        return NULL;
    void *handle = PyLong_AsVoidPtr(comm);
    if (PyErr_Occurred())
        return NULL;
    pthread_mutex_lock(&pools_lock);
    for (int i = 0; i < NATIVE_POOLS_MAX && found < 0; i++)
        if (!pools[i].is_taken)
            found = i;
    if (found >= 0) {
        pools[found].comm = handle;
        pools[found].device = device;
        pools[found].is_taken = 1;
    }
    pthread_mutex_unlock(&pools_lock);
    return PyLong_FromLong(found);
}

static int pool_number(PyObject *arguments, int *pool)
{
    if (!PyArg_ParseTuple(arguments, "i", pool))
        return 0;
    if (*pool >= 0 && *pool < NATIVE_POOLS_MAX)
        return 1;
    PyErr_Format(PyExc_ValueError, "pool %d: expected 0 to %d", *pool, NATIVE_POOLS_MAX - 1);
    return 0;
}

/* pool_close(pool): no more allocations; the number is reused if no memory is left */
PyObject *native_pool_close(PyObject *module, PyObject *arguments)
{
    int pool;
    (void)module;
    if (!pool_number(arguments, &pool))
        return NULL;
    pthread_mutex_lock(&pools_lock);
    pools[pool].comm = NULL;
    pools[pool].is_taken = pools[pool].memories != NULL;
    pthread_mutex_unlock(&pools_lock);
    Py_RETURN_NONE;
}

/* pool_memories(pool) -> [(address of the weir_mem, address of the memory), ...], in order of
 * allocation */
PyObject *native_pool_memories(PyObject *module, PyObject *arguments)
{
    int pool;
    (void)module;
    if (!pool_number(arguments, &pool))
        return NULL;
    PyObject *list = PyList_New(0);
    pthread_mutex_lock(&pools_lock);
    for (pool_memory *memory = pools[pool].memories; list && memory; memory = memory->next) {
        PyObject *entry = Py_BuildValue("(NN)", PyLong_FromVoidPtr(memory->mem),
                                        PyLong_FromVoidPtr(memory->pointer));
        if (!entry || PyList_Append(list, entry) != 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    pthread_mutex_unlock(&pools_lock);
    if (list && PyList_Reverse(list) != 0)
        Py_CLEAR(list);
    return list;
}
