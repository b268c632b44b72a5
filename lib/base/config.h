/*
 * Versioned configuration structures (weir_comm_config, weir_proxy_config) and the default timeout.
 *
 * The first field of such a structure, size, is the caller's sizeof. A version that appends fields
 * thereby recognises callers that were compiled with an older header. An appended field must
 * increase sizeof: it must not fall into trailing padding of the old structure.
 */
#ifndef WEIR_BASE_CONFIG_H
#define WEIR_BASE_CONFIG_H

#include <weir/weir.h>

/* Copies the caller's structure, which may be NULL, over config, which has config_bytes bytes and
 * holds the defaults: fields that the caller's structure lacks keep them. type ("weir_comm_config")
 * is for the error line. WEIR_ERR_INVALID if size is too small to be a size that sizeof returned,
 * or if the part that this version does not know is not all zero. */
weir_status weiri_config_read(const char *type, const void *given, void *config,
                              size_t config_bytes);

/* The longest timeout: a day. */
enum { WEIRI_TIMEOUT_MS_MAX = 86400000 };

/* Returns the timeout of waits, in milliseconds, where the caller's configuration has none:
 * WEIR_TIMEOUT_MS, else its default. An invalid value is logged once and counts as unset. */
int weiri_config_timeout_ms(void);

#endif
