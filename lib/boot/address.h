/*
 * Network addresses in a form that travels: fixed size, IPv4 or IPv6, in
 * tables and unique ids. And the network interfaces of this machine.
 */
#ifndef WEIR_BOOT_ADDRESS_H
#define WEIR_BOOT_ADDRESS_H

#include <weir/weir.h>

#include <net/if.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct weiri_address {
    uint8_t ip[16];    /* network order; IPv4 uses the first four */
    uint32_t scope;    /* interface index of a link-local IPv6 address */
    uint16_t port;
    uint8_t is_ipv6;
    uint8_t unused;
} weiri_address;

typedef struct weiri_named_address {
    char interface[IF_NAMESIZE]; /* "" when none is named */
    weiri_address address;
} weiri_named_address;

enum { WEIRI_ADDRESS_TEXT_BYTES = 72 };

/* "10.0.0.4:50000" or "[fe80::1%2]:50000", into text; returns text. */
const char *weiri_address_text(const weiri_address *address, char text[WEIRI_ADDRESS_TEXT_BYTES]);
socklen_t weiri_address_to_socket(const weiri_address *address, struct sockaddr_storage *name);
/* WEIR_ERR_UNSUPPORTED: neither IPv4 nor IPv6. */
weir_status weiri_address_from_socket(const struct sockaddr_storage *name, weiri_address *address);

/* Reads "interface:ip:port" or "ip:port", IPv6 in brackets. Names are not
 * looked up. WEIR_ERR_INVALID says what is wrong and what is expected. */
weir_status weiri_named_address_parse(const char *text, weiri_named_address *named);

/* What the environment says of interfaces: WEIR_SOCKET_IFNAME, or NCCL_SOCKET_IFNAME where that is
 * not set; NULL: nothing. variable (or NULL) gets the name of that one, the first if none. */
const char *weiri_interface_wish(const char **variable);
/* An address of an interface, port 0; with like, one of its family. A wish is as NCCL has them: a
 * name, what names begin with, or several with commas between; behind "=" names alone, behind
 * "^" those that are not wanted. Of several, and without a wish (NULL), the one that others can
 * most likely reach: a name before what begins so, a real interface before a bridge of virtual
 * machines and containers before loopback, IPv4 before IPv6. WEIR_ERR_SYSTEM: there is none; the
 * text lists those that are up. */
weir_status weiri_interface_address(const char *wish, const weiri_address *like,
                                    weiri_address *address);
/* The name of the interface that has the address, "?" if none has. */
void weiri_interface_name(const weiri_address *address, char name[IF_NAMESIZE]);

#endif
