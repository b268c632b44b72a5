/*
 * The bootstrap from torchrun's environment: RANK and WORLD_SIZE give this rank and the number of
 * ranks, MASTER_ADDR and MASTER_PORT the node of rank 0. PyTorch's store listens at MASTER_PORT, so
 * rank 0 listens at the next port, or at WEIR_BOOT_PORT. Host names are resolved; any local
 * interface may be used.
 */
#include "base/env.h"
#include "base/error.h"
#include "boot/address.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

static weir_status torchrun_read_number(weiri_env_key key, long low, long high, int *number)
{
    long value = 0;
    if (!weiri_env(key))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s is not set; torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and "
                          "MASTER_PORT",
                          weiri_env_name(key));
    weir_status status = weiri_env_long(key, low, high, 0, &value);
    *number = (int)value;
    return status;
}

/* Resolves a host name; prefers IPv4. */
static weir_status torchrun_resolve(const char *host, weiri_address *address)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL, *best;
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error)
        return weiri_fail(WEIR_ERR_SYSTEM, "%s=%s: %s", weiri_env_name(WEIRI_ENV_MASTER_ADDR), host,
                          gai_strerror(error));
    for (best = found; best->ai_family != AF_INET && best->ai_next;)
        best = best->ai_next;
    struct sockaddr_storage name = {0};
    memcpy(&name, best->ai_addr, best->ai_addrlen);
    freeaddrinfo(found);
    return weiri_address_from_socket(&name, address);
}

static weir_status torchrun_find_root(char text[WEIRI_ADDRESS_TEXT_BYTES])
{
    const char *host = weiri_env(WEIRI_ENV_MASTER_ADDR);
    weiri_address root = {0};
    int port = 0;
    if (!host)
        return weiri_fail(WEIR_ERR_INVALID, "%s is not set; torchrun sets it",
                          weiri_env_name(WEIRI_ENV_MASTER_ADDR));
    weir_status status = weiri_env(WEIRI_ENV_BOOT_PORT)
                             ? torchrun_read_number(WEIRI_ENV_BOOT_PORT, 1, 65535, &port)
                             : torchrun_read_number(WEIRI_ENV_MASTER_PORT, 1, 65534, &port);
    if (status == WEIR_OK)
        status = torchrun_resolve(host, &root);
    if (status != WEIR_OK)
        return status;
    root.port = (uint16_t)(weiri_env(WEIRI_ENV_BOOT_PORT) ? port : port + 1);
    weiri_address_text(&root, text);
    return WEIR_OK;
}

weir_status weir_boot_torchrun_create(weir_boot **boot)
{
    char root[WEIRI_ADDRESS_TEXT_BYTES];
    int rank = 0, nranks = 0;
    if (!boot)
        return weiri_fail(WEIR_ERR_INVALID, "weir_boot_torchrun_create: boot is required");
    weir_status status = torchrun_read_number(WEIRI_ENV_RANK, 0, 65535, &rank);
    if (status == WEIR_OK)
        status = torchrun_read_number(WEIRI_ENV_WORLD_SIZE, 1, 65536, &nranks);
    if (status == WEIR_OK)
        status = torchrun_find_root(root);
    if (status != WEIR_OK)
        return status;
    status = weir_boot_tcp_create_at(root, rank, nranks, boot);
    return status == WEIR_OK
               ? status
               : weiri_fail_context(status, "bootstrap from torchrun's environment");
}
