/*
 * Reading NCCL's configuration structures. They grow with each version of NCCL: size is that of the
 * caller's header, and members behind it have their defaults.
 */
#include "nccl/comm/init.h"

#include "nccl/rma/rma.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

/* A member's value; undefined ones have `fallback`. */
static int value_or(int value, int fallback)
{
    return value == NCCL_CONFIG_UNDEF_INT ? fallback : value;
}

static ncclResult_t config_check_member(const char *name, int value, int low, int high)
{
    if (value >= low && value <= high)
        return ncclSuccess;
    return weiri_nccl_fail(ncclInvalidArgument, "ncclConfig_t: %s is %d, expected %d to %d", name,
                           value, low, high);
}

ncclResult_t weiri_nccl_read_config(const ncclConfig_t *config, const weiri_nccl_settings *parent,
                                    weiri_nccl_settings *settings)
{
    static const weiri_nccl_settings defaults = {.blocking = 1, .contexts = 1, .signals = 1};
    const weiri_nccl_settings *base = parent && !config ? parent : &defaults;
    ncclConfig_t own;
    *settings = *base;
    if (!config)
        return ncclSuccess;
    if (config->magic != NCCL_CONFIG_MAGIC || config->size < offsetof(ncclConfig_t, blocking))
        return weiri_nccl_fail(ncclInvalidArgument,
                               "the configuration was not set to NCCL_CONFIG_INITIALIZER");
    own.blocking = own.maxCTAs = own.numRmaCtx = own.numRmaSig = NCCL_CONFIG_UNDEF_INT;
    memcpy(&own, config, config->size < sizeof own ? config->size : sizeof own);
    settings->blocking = value_or(own.blocking, base->blocking);
    settings->contexts = value_or(own.numRmaCtx, base->contexts);
    settings->signals = value_or(own.numRmaSig, base->signals);
    settings->max_blocks = value_or(own.maxCTAs, base->max_blocks);
    ncclResult_t result = config_check_member("blocking", settings->blocking, 0, 1);
    if (result == ncclSuccess && own.maxCTAs != NCCL_CONFIG_UNDEF_INT)
        result = config_check_member("maxCTAs", own.maxCTAs, 1, INT_MAX);
    if (result == ncclSuccess)
        result = config_check_member("numRmaCtx", settings->contexts, 0, WEIRI_RMA_INDICES_MAX);
    if (result == ncclSuccess)
        result = config_check_member("numRmaSig", settings->signals, 1,
                                     settings->contexts ? WEIRI_RMA_INDICES_MAX / settings->contexts
                                                        : WEIRI_RMA_INDICES_MAX);
    return result;
}
