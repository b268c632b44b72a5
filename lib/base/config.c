/* Reading versioned configuration structures. */
#include "base/config.h"

#include "base/error.h"

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
                              "%s: size is %zu and this library knows %zu bytes; the fields after "
                              "them must be 0, or the library must be newer",
                              type, size, config_bytes);
    memcpy(config, given, size < config_bytes ? size : config_bytes);
    memcpy(config, &config_bytes, sizeof config_bytes);
    return WEIR_OK;
}
