/*
 * Encryption of sockets, which weir does not have: a request for it is refused, so that no program
 * takes its traffic for encrypted.
 */
#include "nccl/abi.h"

#include <stddef.h>
#include <string.h>

enum { PSK_LEAST_BYTES = 32 }; /* as in NCCL */

static ncclResult_t encryption_check_key(const char *psk)
{
    if (!psk)
        return weiri_nccl_fail(ncclInvalidArgument,
                               "ncclSetEncryption: NCCL_ENCRYPTION_MODE_PSK needs a key in psk");
    if (strnlen(psk, PSK_LEAST_BYTES) < PSK_LEAST_BYTES)
        return weiri_nccl_fail(ncclInvalidArgument,
                               "ncclSetEncryption: psk has fewer than %d bytes", PSK_LEAST_BYTES);
    return weiri_nccl_fail(ncclInvalidUsage,
                           "ncclSetEncryption: weir's sockets are not encrypted; use an encrypted "
                           "network (WireGuard, IPsec, MACsec), or NCCL");
}

ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config)
{
    if (!config)
        return ncclSuccess;
    if (config->magic != NCCL_CONFIG_MAGIC || config->size < sizeof *config)
        return weiri_nccl_fail(ncclInvalidArgument,
                               "ncclSetEncryption: the configuration was not set to "
                               "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
    if (config->mode == NCCL_ENCRYPTION_MODE_NONE)
        return ncclSuccess;
    if (config->mode != NCCL_ENCRYPTION_MODE_PSK)
        return weiri_nccl_fail(ncclInvalidArgument, "ncclSetEncryption: unknown mode %d",
                               config->mode);
    return encryption_check_key(config->psk);
}
WEIRI_NCCL_ALIAS(SetEncryption);
