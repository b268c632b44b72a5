/* Reading versioned configuration structures, and the default timeout. */
#include "base/config.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <stdatomic.h>
#include <string.h>

weir_status weiri_config_read(const char *type, const void *given, void *config,
                              size_t config_bytes)
{
    size_t size = 0;
    if (!given)
        return WEIR_OK;
    memcpy(&size, given, sizeof size);
    if (size <= sizeof size)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: size is %zu; initialise the structure with its _INIT macro", type,
                          size);
    for (size_t at = config_bytes; at < size; at++)
        if (((const char *)given)[at])
            return weiri_fail(WEIR_ERR_INVALID,
                              "%s: size is %zu, but this library knows %zu bytes; the fields after "
                              "them must be 0, or the library must be newer",
                              type, size, config_bytes);
    memcpy(config, given, size < config_bytes ? size : config_bytes);
    memcpy(config, &config_bytes, sizeof config_bytes);
    return WEIR_OK;
}

int weiri_config_timeout_ms(void)
{
    enum { DEFAULT_MS = 30000 };
    static atomic_flag has_warned = ATOMIC_FLAG_INIT;
    long value = DEFAULT_MS;
    if (weiri_env_long(WEIRI_ENV_TIMEOUT_MS, 1, WEIRI_TIMEOUT_MS_MAX, DEFAULT_MS, &value) !=
        WEIR_OK) {
        if (!atomic_flag_test_and_set(&has_warned))
            weiri_log(WEIRI_LOG_WARN, "%s", weir_last_error()); /* creation of a communicator
                                                                   rejects it */
        return DEFAULT_MS;
    }
    return (int)value;
}
