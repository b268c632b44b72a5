/* The mapped transports of this build, and the choice by WEIR_TRANSPORT. */
#include "transport/transport.h"

#include "base/env.h"
#include "base/error.h"
#include "base/transports.h"

#include <stdio.h>

static const weiri_transport_ops *const built[] = {&weiri_transport_shm};

/* The table that maps segments of a kind; NULL if this build has none. */
static const weiri_transport_ops *transport_of(uint32_t kind)
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
    const weiri_transport_ops *ops = transport_of(key->kind);
    return ops ? ops->segment_map(key, segment)
               : weiri_fail(WEIR_ERR_UNSUPPORTED, "this build cannot map memory of kind %u",
                            key->kind);
}

void weiri_segment_destroy(weiri_segment *segment)
{
    if (segment->ops)
        segment->ops->segment_destroy(segment);
}

/* "auto, shm, cuda_ipc, ib or tcp" */
static const char *transport_names(char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < WEIRI_TRANSPORTS && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                 i == 0                      ? ""
                                 : i == WEIRI_TRANSPORTS - 1 ? " or "
                                                             : ", ",
                                 weiri_transport_row_of(i)->name);
    return text;
}

weir_status weiri_transport_select(const weiri_transport_ops **ops)
{
    const char *wanted = weiri_env(WEIRI_ENV_TRANSPORT);
    const int transport = wanted ? weiri_transport_find(wanted) : WEIR_TRANSPORT_AUTO;
    char names[128];
    if (transport < 0)
        return weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected %s",
                          weiri_env_name(WEIRI_ENV_TRANSPORT), wanted,
                          transport_names(names, sizeof names));
    /* A network transport joins nodes; within a node, ranks map memory. */
    *ops = built[0];
    if (transport == WEIR_TRANSPORT_AUTO || weiri_transport_row_of(transport)->joins_nodes)
        return WEIR_OK;
    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        if ((int)built[i]->transport == transport) {
            *ops = built[i];
            return WEIR_OK;
        }
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "transport '%s' is not in this build; use shm or auto",
                      wanted);
}
