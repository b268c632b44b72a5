/*
 * Network addresses of fixed size, IPv4 or IPv6, as tables and unique ids carry them; and the
 * network interfaces of this node.
 */
#ifndef WEIR_BOOT_ADDRESS_H
#define WEIR_BOOT_ADDRESS_H

#include <weir/weir.h>

#include <net/if.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct weiri_address {
    uint8_t ip[16]; /* network order; IPv4 uses the first four */
    uint32_t scope; /* interface index of a link-local IPv6 address */
    uint16_t port;
    uint8_t is_ipv6;
    uint8_t unused;
} weiri_address;

typedef struct weiri_named_address {
    char interface[IF_NAMESIZE]; /* "" when none is named */
    weiri_address address;
} weiri_named_address;

enum { WEIRI_ADDRESS_TEXT_BYTES = 72 };

/* Formats an address ("10.0.0.4:50000", "[fe80::1%2]:50000") and returns text. */
const char *weiri_address_text(const weiri_address *address, char text[WEIRI_ADDRESS_TEXT_BYTES]);
socklen_t weiri_address_to_socket(const weiri_address *address, struct sockaddr_storage *name);
/* WEIR_ERR_UNSUPPORTED: neither IPv4 nor IPv6. */
weir_status weiri_address_from_socket(const struct sockaddr_storage *name, weiri_address *address);

/* Parses "interface:ip:port" or "ip:port", with IPv6 in brackets; host names are not resolved.
 * WEIR_ERR_INVALID if the text is malformed. */
weir_status weiri_named_address_parse(const char *text, weiri_named_address *named);

/* Finds the interface selection of the environment: WEIR_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME,
 * else *wish is NULL. variable (may be NULL) gets the name of the variable, the first one if none
 * is set. WEIR_ERR_INVALID if WEIR_SOCKET_IFNAME is set, but names no interface ("^", ",,"); such a
 * NCCL_SOCKET_IFNAME is ignored, as NCCL does. */
weir_status weiri_interface_wish(const char **wish, const char **variable);
/* Chooses an interface and returns its address with port 0, of the same family as like if that is
 * not NULL. wish has NCCL's syntax: a comma-separated list of names or prefixes; a leading "="
 * means exact names only, a leading "^" excludes the names. Of several interfaces, or if wish is
 * NULL, it chooses the one that peers can most likely reach: an exact name before a prefix, a
 * physical interface before a bridge of virtual machines or containers before loopback, IPv4
 * before IPv6. WEIR_ERR_SYSTEM if none matches; the error line lists the interfaces that are up. */
weir_status weiri_interface_address(const char *wish, const weiri_address *like,
                                    weiri_address *address);
/* Returns the name of the interface that has the address, or "?". */
void weiri_interface_name(const weiri_address *address, char name[IF_NAMESIZE]);

#endif
