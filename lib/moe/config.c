/*
 * Configurations of expert-parallel groups: defaults, ranges, and the comparison between ranks.
 */
#include "moe/group.h"

#include "base/config.h"
#include "base/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *weir_moe_layout_name(weir_moe_layout layout)
{
    static const char *const names[] = {"expert", "rank", "flat"};
    return (unsigned)layout < WEIR_MOE_LAYOUT_COUNT ? names[layout] : NULL;
}

/* A field of the configuration, for checks of its range and comparisons between ranks. */
typedef struct moe_field {
    const char *name;
    size_t offset;
    int64_t least, most;
} moe_field;

#define FIELD(name, least, most)                                                                   \
    {                                                                                              \
#name, offsetof(weir_moe_config, name), least, most                                        \
    }
static const moe_field moe_fields[] = {
    FIELD(experts, 1, 65536),
    FIELD(topk, 1, WEIR_MOE_TOPK_MAX),
    FIELD(max_tokens, 1, 1 << 24),
    FIELD(hidden, 1, 1 << 24),
    FIELD(dtype, 0, WEIR_DTYPE_COUNT - 1),
    FIELD(dispatch_dtype, 0, WEIR_DTYPE_COUNT - 1),
    FIELD(layout, 0, WEIR_MOE_LAYOUT_COUNT - 1),
    FIELD(alignment, 1, 1 << 16),
    FIELD(expert_capacity, 0, INT32_MAX / 2),
    FIELD(recv_capacity, 0, INT32_MAX / 2),
    FIELD(handles, 1, 4096),
    FIELD(registered, 0, 1),
    FIELD(max_blocks, 0, 1 << 16),
};
enum { MOE_FIELDS = sizeof moe_fields / sizeof *moe_fields };

static int field_value(const weir_moe_config *config, const moe_field *field)
{
    int value;
    memcpy(&value, (const char *)config + field->offset, sizeof value);
    return value;
}

static weir_status config_check_types(const weir_moe_config *c)
{
    if (c->dtype != WEIR_BFLOAT16 && c->dtype != WEIR_HALF && c->dtype != WEIR_FLOAT)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_moe_create: dtype is %s; use bfloat16, half or float",
                          weir_dtype_name(c->dtype));
    if (c->dispatch_dtype != c->dtype && c->dispatch_dtype != WEIR_FP8_E4M3)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_moe_create: dispatch_dtype is %s; use dtype (%s) or f8e4m3",
                          weir_dtype_name(c->dispatch_dtype), weir_dtype_name(c->dtype));
    if ((size_t)c->hidden * weir_dtype_bytes(c->dtype) % 16)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "weir_moe_create: %d elements of %s are %zu bytes; a row must be a multiple "
            "of 16 bytes",
            c->hidden, weir_dtype_name(c->dtype), (size_t)c->hidden * weir_dtype_bytes(c->dtype));
    return WEIR_OK;
}

static weir_status config_check_layout(const weir_moe_config *c)
{
    const char *layout = weir_moe_layout_name(c->layout);
    if (c->layout != WEIR_MOE_EXPERT_MAJOR && (c->alignment > 1 || c->expert_capacity))
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_moe_create: %s is %d with layout %s; only layout expert has it",
                          c->alignment > 1 ? "alignment" : "expert_capacity",
                          c->alignment > 1 ? c->alignment : c->expert_capacity, layout);
    if (c->recv_capacity && (c->layout == WEIR_MOE_RANK_MAJOR || c->expert_capacity))
        return weiri_fail(
            WEIR_ERR_INVALID,
            "weir_moe_create: recv_capacity is %d, but %s gives the number of rows; set "
            "it to 0",
            c->recv_capacity, c->expert_capacity ? "expert_capacity" : "layout rank");
    return WEIR_OK;
}

weir_status weiri_moe_config_check(const weir_moe_config *config, int nranks)
{
    for (int i = 0; i < MOE_FIELDS; i++) {
        const int value = field_value(config, &moe_fields[i]);
        if (value < moe_fields[i].least || value > moe_fields[i].most)
            return weiri_fail(WEIR_ERR_INVALID,
                              "weir_moe_create: %s is %d; it must be %lld to %lld",
                              moe_fields[i].name, value, (long long)moe_fields[i].least,
                              (long long)moe_fields[i].most);
    }
    if (config->experts % nranks)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "weir_moe_create: %d experts cannot be divided evenly among %d ranks; use a "
            "multiple of %d",
            config->experts, nranks, nranks);
    weir_status status = config_check_types(config);
    return status == WEIR_OK ? config_check_layout(config) : status;
}

weir_status weiri_moe_config_resolve(const weir_moe_config *given, weir_moe_config *config)
{
    weir_moe_config resolved = WEIR_MOE_CONFIG_INIT;
    weir_status status = weiri_config_read("weir_moe_config", given, &resolved, sizeof resolved);
    if (status != WEIR_OK)
        return status;
    if (resolved.dispatch_dtype == WEIR_DTYPE_COUNT)
        resolved.dispatch_dtype = resolved.dtype;
    if (!resolved.alignment)
        resolved.alignment = 1;
    if (!resolved.handles)
        resolved.handles = 2;
    if (resolved.expert_capacity > 0 && resolved.alignment > 0)
        resolved.expert_capacity =
            (int)(((int64_t)resolved.expert_capacity + resolved.alignment - 1) /
                  resolved.alignment * resolved.alignment);
    *config = resolved;
    return WEIR_OK;
}

weir_status weiri_moe_config_compare(weir_comm *comm, const weir_moe_config *config)
{
    const size_t n = (size_t)weir_comm_nranks(comm);
    weir_moe_config *all = calloc(n, sizeof *all);
    weir_status status = WEIR_OK;
    if (!all)
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to compare configurations");
    else
        all[comm->rank] = *config;
    status = weir_boot_agree(weir_comm_boot(comm), status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(weir_comm_boot(comm), all, sizeof *all);
    for (size_t rank = 1; status == WEIR_OK && rank < n; rank++)
        for (int i = 0; status == WEIR_OK && i < MOE_FIELDS; i++)
            if (field_value(&all[0], &moe_fields[i]) != field_value(&all[rank], &moe_fields[i]))
                status =
                    weiri_fail(WEIR_ERR_MISMATCH,
                               "weir_moe_create: %s is %d on rank 0 and %d on rank %zu; pass the "
                               "same configuration on all ranks",
                               moe_fields[i].name, field_value(&all[0], &moe_fields[i]),
                               field_value(&all[rank], &moe_fields[i]), rank);
    free(all);
    return status;
}
