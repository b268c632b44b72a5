/* Addresses as text and as socket addresses, and parsing of named addresses. */
#include "boot/address.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

socklen_t weiri_address_to_socket(const weiri_address *address, struct sockaddr_storage *name)
{
    memset(name, 0, sizeof *name);
    if (address->is_ipv6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)name;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(address->port);
        six->sin6_scope_id = address->scope;
        memcpy(&six->sin6_addr, address->ip, 16);
        return sizeof *six;
    }
    struct sockaddr_in *four = (struct sockaddr_in *)name;
    four->sin_family = AF_INET;
    four->sin_port = htons(address->port);
    memcpy(&four->sin_addr, address->ip, 4);
    return sizeof *four;
}

weir_status weiri_address_from_socket(const struct sockaddr_storage *name, weiri_address *address)
{
    weiri_address got = {0};
    if (name->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)name;
        got.is_ipv6 = 1;
        got.port = ntohs(six->sin6_port);
        got.scope = six->sin6_scope_id;
        memcpy(got.ip, &six->sin6_addr, 16);
    } else if (name->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)name;
        got.port = ntohs(four->sin_port);
        memcpy(got.ip, &four->sin_addr, 4);
    } else {
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "address family %d; expected IPv4 or IPv6",
                          name->ss_family);
    }
    *address = got;
    return WEIR_OK;
}

const char *weiri_address_text(const weiri_address *address, char text[WEIRI_ADDRESS_TEXT_BYTES])
{
    struct sockaddr_storage name;
    socklen_t bytes = weiri_address_to_socket(address, &name);
    char host[WEIRI_ADDRESS_TEXT_BYTES - 10]; /* leaves "[", "]", ":65535" and the end */
    if (getnameinfo((struct sockaddr *)&name, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST) !=
        0)
        snprintf(host, sizeof host, "?");
    snprintf(text, WEIRI_ADDRESS_TEXT_BYTES, address->is_ipv6 ? "[%s]:%u" : "%s:%u", host,
             address->port);
    return text;
}

static weir_status address_fail_malformed(const char *text, const char *why)
{
    return weiri_fail(WEIR_ERR_INVALID,
                      "'%s': %s; expected interface:ip:port or ip:port, as in "
                      "eth0:10.0.0.4:50000 or [::1]:50000",
                      text, why);
}

/* The positions of the three parts of a named address in its text; interface may be empty. */
typedef struct address_parts {
    const char *interface, *ip, *port;
    int interface_chars, ip_chars;
} address_parts;

static const char *address_split_bracketed(const char *text, const char *open, address_parts *parts)
{
    const char *close = strchr(open, ']');
    if (!close || close[1] != ':')
        return "no ']:' after the IPv6 address";
    if (open > text && open[-1] != ':')
        return "no ':' between interface and '['";
    *parts = (address_parts){.interface = text,
                             .interface_chars = open > text ? (int)(open - text) - 1 : 0,
                             .ip = open + 1,
                             .ip_chars = (int)(close - open) - 1,
                             .port = close + 2};
    return NULL;
}

static const char *address_split_plain(const char *text, address_parts *parts)
{
    const char *first = strchr(text, ':');
    if (!first)
        return "no port";
    const char *second = strchr(first + 1, ':');
    if (second && strchr(second + 1, ':'))
        return "too many colons (an IPv6 address goes in brackets)";
    const char *ip = second ? first + 1 : text;
    const char *end = second ? second : first;
    *parts = (address_parts){.interface = text,
                             .interface_chars = second ? (int)(first - text) : 0,
                             .ip = ip,
                             .ip_chars = (int)(end - ip),
                             .port = end + 1};
    return NULL;
}

static int address_parse_port(const char *text, uint16_t *port)
{
    if (*text < '0' || *text > '9')
        return 0;
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (*end || number < 1 || number > 65535)
        return 0;
    *port = (uint16_t)number;
    return 1;
}

static int address_parse_ip(const char *text, int is_ipv6, weiri_address *address)
{
    weiri_address got = {.is_ipv6 = (uint8_t)is_ipv6};
    if (!is_ipv6) {
        if (inet_pton(AF_INET, text, got.ip) != 1)
            return 0;
        *address = got;
        return 1;
    }
    /* Unlike inet_pton, this reads the "%eth0" of a link-local address. */
    struct addrinfo hints = {
        .ai_family = AF_INET6, .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (getaddrinfo(text, NULL, &hints, &found) != 0)
        return 0;
    struct sockaddr_storage name = {0};
    memcpy(&name, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return weiri_address_from_socket(&name, address) == WEIR_OK;
}

weir_status weiri_named_address_parse(const char *text, weiri_named_address *named)
{
    if (!text || !*text)
        return address_fail_malformed(text ? text : "", "no address");
    address_parts parts;
    const char *open = strchr(text, '[');
    const char *wrong =
        open ? address_split_bracketed(text, open, &parts) : address_split_plain(text, &parts);
    if (wrong)
        return address_fail_malformed(text, wrong);
    weiri_named_address got = {0};
    char ip[64];
    if (parts.interface_chars >= (int)sizeof got.interface)
        return address_fail_malformed(text, "the interface's name is too long");
    if (parts.ip_chars >= (int)sizeof ip)
        return address_fail_malformed(text, "the address is too long");
    memcpy(got.interface, parts.interface, (size_t)parts.interface_chars);
    memcpy(ip, parts.ip, (size_t)parts.ip_chars);
    ip[parts.ip_chars] = '\0';
    if (!address_parse_ip(ip, open != NULL, &got.address))
        return address_fail_malformed(text, open ? "no IPv6 address in the brackets"
                                                 : "no numeric IPv4 address");
    if (!address_parse_port(parts.port, &got.address.port))
        return address_fail_malformed(text, "the port is not a number from 1 to 65535");
    if (got.address.is_ipv6 && got.address.ip[0] == 0xfe && !got.address.scope)
        got.address.scope = if_nametoindex(got.interface);
    *named = got;
    return WEIR_OK;
}
