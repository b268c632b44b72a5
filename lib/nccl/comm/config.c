/*
 * Reading NCCL's configuration structures. They grow with each version of NCCL: size is that of the
 * caller's header, and members behind it have their defaults.
 */
#include "nccl/comm/init.h"

#include "base/env.h"
#include "base/error.h"
#include "nccl/rma/rma.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

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

weir_block_policy weiri_nccl_policy(int flags)
{
    return flags & 2 ? WEIR_BLOCKS_ZERO : flags & 1 ? WEIR_BLOCKS_EFFICIENCY : WEIR_BLOCKS_DEFAULT;
}

static ncclResult_t config_read_budget(const ncclConfig_t *own, weiri_budget *budget)
{
    const int open = NCCL_CONFIG_UNDEF_INT, least = own->minCTAs != open ? own->minCTAs : 1;
    ncclResult_t result = config_check_member("minCTAs", least, 1, INT_MAX);
    if (result == ncclSuccess && own->maxCTAs != open)
        result = config_check_member("maxCTAs", own->maxCTAs, least > 1 ? least : 1, INT_MAX);
    if (result == ncclSuccess && own->CTAPolicy != open)
        result = config_check_member("CTAPolicy", own->CTAPolicy, 0, WEIRI_NCCL_POLICIES);
    budget->least = own->minCTAs != open ? own->minCTAs : budget->least;
    budget->most = own->maxCTAs != open ? own->maxCTAs : budget->most;
    budget->policy = own->CTAPolicy != open ? weiri_nccl_policy(own->CTAPolicy) : budget->policy;
    return result;
}

/* "2", "ZERO", "NCCL_CTA_POLICY_ZERO", several joined by |. Returns -1 for other texts. */
static int parse_policy(const char *text)
{
    static const char *const names[] = {"DEFAULT", "EFFICIENCY", "ZERO"};
    int flags = 0;
    while (*text) {
        const size_t length = strcspn(text, "|"), prefix = strlen("NCCL_CTA_POLICY_");
        const char *word = text;
        size_t left = length;
        if (length > prefix && strncasecmp(text, "NCCL_CTA_POLICY_", prefix) == 0) {
            word += prefix;
            left -= prefix;
        }
        int found =
            left == 1 && *word >= '0' && *word <= '0' + WEIRI_NCCL_POLICIES ? *word - '0' : -1;
        for (int i = 0; i < 3; i++)
            if (strlen(names[i]) == left && strncasecmp(names[i], word, left) == 0)
                found = i;
        if (found < 0)
            return -1;
        flags |= found;
        text += length + (text[length] == '|');
    }
    return flags;
}

/* The environment precedes what the program has configured, as in NCCL. */
weir_status weiri_nccl_read_environment(weiri_budget *budget)
{
    long least = budget->least, most = budget->most;
    const char *policy = weiri_env(WEIRI_ENV_NCCL_CTA_POLICY);
    const int flags = policy ? parse_policy(policy) : 0;
    weir_status status = weiri_env_long(WEIRI_ENV_NCCL_MIN_CTAS, 1, INT_MAX, least, &least);
    if (status == WEIR_OK)
        status = weiri_env_long(WEIRI_ENV_NCCL_MAX_CTAS, 1, INT_MAX, most, &most);
    if (status == WEIR_OK && flags < 0)
        status =
            weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected DEFAULT, EFFICIENCY, ZERO, or 0 to %d",
                       weiri_env_name(WEIRI_ENV_NCCL_CTA_POLICY), policy, WEIRI_NCCL_POLICIES);
    if (status != WEIR_OK)
        return status;
    *budget =
        (weiri_budget){(int)least, (int)most, policy ? weiri_nccl_policy(flags) : budget->policy};
    return WEIR_OK;
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
    own.blocking = own.numRmaCtx = own.numRmaSig = NCCL_CONFIG_UNDEF_INT;
    own.minCTAs = own.maxCTAs = own.CTAPolicy = NCCL_CONFIG_UNDEF_INT;
    memcpy(&own, config, config->size < sizeof own ? config->size : sizeof own);
    settings->blocking = value_or(own.blocking, base->blocking);
    settings->contexts = value_or(own.numRmaCtx, base->contexts);
    settings->signals = value_or(own.numRmaSig, base->signals);
    ncclResult_t result = config_check_member("blocking", settings->blocking, 0, 1);
    if (result == ncclSuccess)
        result = config_read_budget(&own, &settings->budget);
    if (result == ncclSuccess)
        result = config_check_member("numRmaCtx", settings->contexts, 0, WEIRI_RMA_INDICES_MAX);
    if (result == ncclSuccess)
        result = config_check_member("numRmaSig", settings->signals, 1,
                                     settings->contexts ? WEIRI_RMA_INDICES_MAX / settings->contexts
                                                        : WEIRI_RMA_INDICES_MAX);
    return result;
}
