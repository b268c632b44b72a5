/* Rank 0's host by its name, for launchers that know names only: see by_name.h. */
#include "boot/by_name.h"

#include "base/error.h"
#include "boot/address.h"
#include "boot/tcp.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

weir_status weiri_launch_number(weiri_env_key key, long low, long high, const char *setters,
                                int *number)
{
    long value = 0;
    if (!weiri_env(key))
        return weiri_fail(WEIR_ERR_INVALID, "%s is not set; %s", weiri_env_name(key), setters);
    weir_status status = weiri_env_long(key, low, high, 0, &value);
    *number = (int)value;
    return status;
}

static weir_status by_name_resolve(const weiri_named_root *root, weiri_address *address)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL, *best;
    int error = getaddrinfo(root->host, NULL, &hints, &found);
    if (error)
        return weiri_fail(WEIR_ERR_SYSTEM, "%s=%s: %s", weiri_env_name(root->variable), root->host,
                          gai_strerror(error));
    for (best = found; best->ai_family != AF_INET && best->ai_next;)
        best = best->ai_next;
    struct sockaddr_storage name = {0};
    memcpy(&name, best->ai_addr, best->ai_addrlen);
    freeaddrinfo(found);
    return weiri_address_from_socket(&name, address);
}

static int by_name_is_loopback(const weiri_address *address)
{
    static const uint8_t six[16] = {[15] = 1};
    return address->is_ipv6 ? memcmp(address->ip, six, sizeof six) == 0 : address->ip[0] == 127;
}

/* 1 if the text says "this node" itself, so that no other node can be meant. */
static int by_name_means_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

weir_status weiri_boot_by_name_create(const weiri_named_root *root, int rank, int nranks,
                                      weir_boot **boot)
{
    char text[WEIRI_ADDRESS_TEXT_BYTES];
    const char *wish = NULL;
    weiri_address address = {0};
    weir_status status = by_name_resolve(root, &address);
    if (status == WEIR_OK && by_name_is_loopback(&address) && !by_name_means_loopback(root->host)) {
        if (rank == 0)
            memset(address.ip, 0, sizeof address.ip);
        else if ((status = weiri_interface_wish(&wish, NULL)) == WEIR_OK)
            status = weiri_interface_address(wish, NULL, &address);
    }
    if (status != WEIR_OK)
        return status;
    address.port = (uint16_t)root->port;
    weiri_address_text(&address, text);
    return weiri_boot_tcp_create_at(text, root->job, rank, nranks, boot);
}
