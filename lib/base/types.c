/* Names and sizes of data types, operations, collectives and transports, and
 * the version line: everything that weir/weir.h lists in X-macros. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

static const char *const dtype_names[] = {
#define ROW(symbol, name, bytes) name,
    WEIR_DTYPE_MAP(ROW)
#undef ROW
};
static const unsigned char dtype_sizes[] = {
#define ROW(symbol, name, bytes) bytes,
    WEIR_DTYPE_MAP(ROW)
#undef ROW
};
static const char *const op_names[] = {
#define ROW(symbol, name) name,
    WEIR_OP_MAP(ROW)
#undef ROW
};
static const char *const collective_names[] = {
#define ROW(symbol, name) name,
    WEIR_COLLECTIVE_MAP(ROW)
#undef ROW
};

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
    return (unsigned)collective < WEIR_COLL_COUNT ? collective_names[collective] : NULL;
}

const char *weir_transport_name(weir_transport transport)
{
    static const char *const names[] = {"auto", "shm", "cuda_ipc", "ib", "tcp"};
    return (unsigned)transport < sizeof names / sizeof *names ? names[transport] : NULL;
}

/* The position of name in names; on failure a last error listing them all. */
static weir_status find_name(const char *what, const char *const *names, int count,
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
    weir_status status = find_name("data type", dtype_names, WEIR_DTYPE_COUNT, name, &position);
    if (status == WEIR_OK)
        *dtype = (weir_dtype)position;
    return status;
}

weir_status weir_op_parse(const char *name, weir_op *op)
{
    int position;
    weir_status status = find_name("operation", op_names, WEIR_OP_COUNT, name, &position);
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
