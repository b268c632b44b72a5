/* Names and sizes of the public enums, and the version string. The unit test checks that no value
 * lacks a name. */
#include "base/contract.h"
#include "base/error.h"
#include "base/transports.h"

#include <stdio.h>
#include <string.h>

static const char *const dtype_names[] = {
    [WEIR_INT8] = "int8",         [WEIR_UINT8] = "uint8",     [WEIR_INT32] = "int32",
    [WEIR_UINT32] = "uint32",     [WEIR_INT64] = "int64",     [WEIR_UINT64] = "uint64",
    [WEIR_HALF] = "half",         [WEIR_FLOAT] = "float",     [WEIR_DOUBLE] = "double",
    [WEIR_BFLOAT16] = "bfloat16", [WEIR_FP8_E4M3] = "f8e4m3", [WEIR_FP8_E5M2] = "f8e5m2",
};
static const unsigned char dtype_sizes[] = {
    [WEIR_INT8] = 1,   [WEIR_UINT8] = 1,    [WEIR_INT32] = 4,    [WEIR_UINT32] = 4,
    [WEIR_INT64] = 8,  [WEIR_UINT64] = 8,   [WEIR_HALF] = 2,     [WEIR_FLOAT] = 4,
    [WEIR_DOUBLE] = 8, [WEIR_BFLOAT16] = 2, [WEIR_FP8_E4M3] = 1, [WEIR_FP8_E5M2] = 1,
};
static const char *const op_names[] = {
    [WEIR_SUM] = "sum", [WEIR_PROD] = "prod", [WEIR_MAX] = "max",
    [WEIR_MIN] = "min", [WEIR_AVG] = "avg",
};

_Static_assert(sizeof dtype_names / sizeof *dtype_names == WEIR_DTYPE_COUNT,
               "every data type has a name");
_Static_assert(sizeof dtype_sizes == WEIR_DTYPE_COUNT, "every data type has a size");
_Static_assert(sizeof op_names / sizeof *op_names == WEIR_OP_COUNT, "every operation has a name");

size_t weir_dtype_bytes(weir_dtype dtype)
{
    return (unsigned)dtype < WEIR_DTYPE_COUNT ? dtype_sizes[dtype] : 0;
}

const char *weir_dtype_name(weir_dtype dtype)
{
    return (unsigned)dtype < WEIR_DTYPE_COUNT ? dtype_names[dtype] : NULL;
}

const char *weir_op_name(weir_op op)
{
    return (unsigned)op < WEIR_OP_COUNT ? op_names[op] : NULL;
}

const char *weir_collective_name(weir_collective collective)
{
    return weiri_contract_of((int)collective)->name;
}

/* The cost of shm, which only emulates a network, is that of sockets. */
static const weiri_transport_row transports[] = {
    [WEIR_TRANSPORT_AUTO] = {.name = "auto", .network = -1},
    [WEIR_TRANSPORT_SHM] = {.name = "shm", .network = 2, .cost = {30, 15, 1, 8, 4}},
    [WEIR_TRANSPORT_CUDA_IPC] = {.name = "cuda_ipc", .network = -1},
    [WEIR_TRANSPORT_IB] = {.name = "ib", .network = 0, .joins_nodes = 1, .cost = {4, 1, 12, 4, 8}},
    [WEIR_TRANSPORT_TCP] = {.name = "tcp",
                            .network = 1,
                            .joins_nodes = 1,
                            .cost = {30, 15, 1, 8, 4}},
};

_Static_assert(sizeof transports / sizeof *transports == WEIRI_TRANSPORTS,
               "every transport has a row");

const weiri_transport_row *weiri_transport_row_of(int transport)
{
    return (unsigned)transport < WEIRI_TRANSPORTS ? &transports[transport] : NULL;
}

int weiri_transport_find(const char *name)
{
    for (int i = 0; i < WEIRI_TRANSPORTS; i++)
        if (strcmp(transports[i].name, name) == 0)
            return i;
    return -1;
}

weir_transport weiri_transport_at(int network)
{
    int transport = 0;
    while (transports[transport].network != network)
        transport++;
    return (weir_transport)transport;
}

const char *weir_transport_name(weir_transport transport)
{
    const weiri_transport_row *row = weiri_transport_row_of((int)transport);
    return row ? row->name : NULL;
}

const char *weir_backend_name(weir_backend backend)
{
    static const char *const names[] = {"host", "cuda", "auto"};
    return (unsigned)backend < sizeof names / sizeof *names ? names[backend] : NULL;
}

const char *weir_block_policy_name(weir_block_policy policy)
{
    static const char *const names[] = {"auto", "default", "efficiency", "zero"};
    return (unsigned)policy < sizeof names / sizeof *names ? names[policy] : NULL;
}

/* Finds the position of name in names. On failure the error line lists all known names. */
static weir_status types_find_name(const char *what, const char *const *names, int count,
                                   const char *name, int *position)
{
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        if (name && strcmp(names[i], name) == 0) {
            *position = i;
            return WEIR_OK;
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                     names[i]);
    }
    return weiri_fail(WEIR_ERR_INVALID, "unknown %s '%s'; known are %s", what, name ? name : "",
                      known);
}

weir_status weir_dtype_parse(const char *name, weir_dtype *dtype)
{
    int position;
    weir_status status =
        types_find_name("data type", dtype_names, WEIR_DTYPE_COUNT, name, &position);
    if (status == WEIR_OK)
        *dtype = (weir_dtype)position;
    return status;
}

weir_status weir_op_parse(const char *name, weir_op *op)
{
    int position;
    weir_status status = types_find_name("operation", op_names, WEIR_OP_COUNT, name, &position);
    if (status == WEIR_OK)
        *op = (weir_op)position;
    return status;
}

#ifndef WEIR_BUILD_NAME
#define WEIR_BUILD_NAME "unknown build"
#endif

const char *weir_version_string(void)
{
    return "weir " WEIR_VERSION " (" __VERSION__ ", " WEIR_BUILD_NAME ")";
}
