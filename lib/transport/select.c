/* The mapped transports of this build, and the choice by WEIR_TRANSPORT. */
#include "transport/transport.h"

#include "base/env.h"
#include "base/error.h"

#include <string.h>

static const weiri_transport_ops *const built[] = {&weiri_transport_shm};

const weiri_transport_ops *weiri_transport_of(uint32_t kind)
{
    switch (kind) {
    case WEIRI_SEGMENT_MEMFD:
        return &weiri_transport_shm;
#if WEIR_HAVE_CUDA
    case WEIRI_SEGMENT_CUDA_FD:
        return &weiri_transport_cuda_fd;
    case WEIRI_SEGMENT_CUDA_IPC:
        return &weiri_transport_cuda_ipc;
#endif
    default:
        return NULL;
    }
}

weir_status weiri_segment_map(const weiri_segment_key *key, weiri_segment *segment)
{
    const weiri_transport_ops *ops = weiri_transport_of(key->kind);
    return ops ? ops->segment_map(key, segment)
               : weiri_fail(WEIR_ERR_UNSUPPORTED, "this build cannot map memory of kind %u",
                            key->kind);
}

void weiri_segment_destroy(weiri_segment *segment)
{
    if (segment->ops)
        segment->ops->segment_destroy(segment);
}

weir_status weiri_transport_select(const weiri_transport_ops **ops)
{
    const char *wanted = weiri_env(WEIRI_ENV_TRANSPORT);
    if (!wanted || strcmp(wanted, weir_transport_name(WEIR_TRANSPORT_AUTO)) == 0) {
        *ops = built[0];
        return WEIR_OK;
    }
    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        if (strcmp(wanted, weir_transport_name(built[i]->transport)) == 0) {
            *ops = built[i];
            return WEIR_OK;
        }
    /* A network transport joins nodes; within a node, ranks map memory. */
    if (strcmp(wanted, weir_transport_name(WEIR_TRANSPORT_IB)) == 0 ||
        strcmp(wanted, weir_transport_name(WEIR_TRANSPORT_TCP)) == 0) {
        *ops = built[0];
        return WEIR_OK;
    }
    for (int known = WEIR_TRANSPORT_AUTO; known <= WEIR_TRANSPORT_TCP; known++)
        if (strcmp(wanted, weir_transport_name((weir_transport)known)) == 0)
            return weiri_fail(WEIR_ERR_UNSUPPORTED,
                              "transport '%s' is not in this build; use shm or auto", wanted);
    return weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected auto, shm, cuda_ipc, ib or tcp",
                      weiri_env_name(WEIRI_ENV_TRANSPORT), wanted);
}
