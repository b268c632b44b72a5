/* Selection of the network interface to listen at and to connect from. */
#include "boot/address.h"

#include "base/env.h"
#include "base/error.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static int is_link_local(const weiri_address *address)
{
    return address->is_ipv6 && address->ip[0] == 0xfe && (address->ip[1] & 0xc0) == 0x80;
}

/* Reads the address of an entry; returns 0 if it is not up and running, or has no IP address. */
static int interface_read_entry(const struct ifaddrs *entry, weiri_address *address)
{
    unsigned int wanted = IFF_UP | IFF_RUNNING;
    if (!entry->ifa_addr || (entry->ifa_flags & wanted) != wanted)
        return 0;
    int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6)
        return 0;
    struct sockaddr_storage name = {0};
    memcpy(&name, entry->ifa_addr,
           family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    return weiri_address_from_socket(&name, address) == WEIR_OK;
}

/* An interface has one entry per address; returns 1 for the first usable one. */
static int interface_is_first_entry(const struct ifaddrs *entries, const struct ifaddrs *entry)
{
    weiri_address address;
    if (!interface_read_entry(entry, &address))
        return 0;
    for (const struct ifaddrs *before = entries; before != entry; before = before->ifa_next)
        if (strcmp(before->ifa_name, entry->ifa_name) == 0 &&
            interface_read_entry(before, &address))
            return 0;
    return 1;
}

/* Writes the names of the usable interfaces, each once: "lo, eth0". */
static void interface_list_names(const struct ifaddrs *entries, char *names, size_t bytes)
{
    size_t used = 0;
    names[0] = '\0';
    for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next) {
        if (!interface_is_first_entry(entries, entry) || used + IF_NAMESIZE + 2 > bytes)
            continue;
        used +=
            (size_t)snprintf(names + used, bytes - used, "%s%s", used ? ", " : "", entry->ifa_name);
    }
}

static int interface_is_bridge(const char *name)
{
    static const char *const prefixes[] = {"docker", "virbr", "br-", "veth", "cni", "podman"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return 1;
    return 0;
}

static int interface_preference(const struct ifaddrs *entry, const weiri_address *address)
{
    int place = 2;
    if (interface_is_bridge(entry->ifa_name))
        place = 1;
    if (entry->ifa_flags & IFF_LOOPBACK)
        place = 0;
    return 1 + 2 * place + !address->is_ipv6;
}

/* Returns 2 if an entry of the wish is the name, 1 if it is a prefix of the name or if the name is
 * not among excluded ones, else 0. */
static int interface_suits(const char *wish, const char *name)
{
    const int is_refusal = *wish == '^';
    wish += is_refusal;
    const int is_exact = *wish == '=';
    wish += is_exact;
    int found = 0;
    while (*wish) {
        const size_t length = strcspn(wish, ",");
        if (length && strncmp(wish, name, length) == 0 && (!name[length] || !is_exact))
            found = !name[length] ? 2 : found ? found : 1;
        wish += length + (wish[length] == ',');
    }
    return is_refusal ? !found : found;
}

/* Rates an interface: the higher the better; 0 if it must not be used. */
static int interface_score(const struct ifaddrs *entry, const weiri_address *here, const char *wish,
                           const weiri_address *like)
{
    enum { PREFERENCES = 16 };
    const int suited = wish ? interface_suits(wish, entry->ifa_name) : 1;
    if (!suited || (!wish && is_link_local(here)))
        return 0;
    if (like && (here->is_ipv6 != like->is_ipv6 || is_link_local(here) != is_link_local(like)))
        return 0;
    return suited * PREFERENCES + 2 * interface_preference(entry, here) + !is_link_local(here);
}

weir_status weiri_interface_address(const char *wish, const weiri_address *like,
                                    weiri_address *address)
{
    struct ifaddrs *entries;
    if (getifaddrs(&entries) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "network interfaces");
    int best = 0;
    weiri_address here;
    for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next) {
        const int mine =
            interface_read_entry(entry, &here) ? interface_score(entry, &here, wish, like) : 0;
        if (mine > best) {
            best = mine;
            *address = here;
        }
    }
    char names[256] = "";
    if (!best)
        interface_list_names(entries, names, sizeof names);
    freeifaddrs(entries);
    if (best)
        return WEIR_OK;
    if (!wish)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "no network interface is up, not even loopback; try 'ip link set lo up'");
    return weiri_fail(
        WEIR_ERR_SYSTEM, "network interface '%.60s' is not up%s; interfaces that are: %s",
        wish + (*wish == '='), like ? (like->is_ipv6 ? " with IPv6" : " with IPv4") : "", names);
}

static int interface_wish_is_empty(const char *wish)
{
    return wish[strspn(wish, "^=,")] == '\0';
}

weir_status weiri_interface_wish(const char **wish, const char **variable)
{
    const char *own = weiri_env(WEIRI_ENV_SOCKET_IFNAME);
    const char *of_nccl = weiri_env(WEIRI_ENV_NCCL_SOCKET_IFNAME);
    if (own && interface_wish_is_empty(own))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s='%.60s' names no interface; expected names or prefixes separated by "
                          "commas, after \"=\" exact names, after \"^\" excluded ones",
                          weiri_env_name(WEIRI_ENV_SOCKET_IFNAME), own);
    if (of_nccl && interface_wish_is_empty(of_nccl))
        of_nccl = NULL;
    if (variable)
        *variable = weiri_env_name(!own && of_nccl ? WEIRI_ENV_NCCL_SOCKET_IFNAME
                                                   : WEIRI_ENV_SOCKET_IFNAME);
    *wish = own ? own : of_nccl;
    return WEIR_OK;
}

void weiri_interface_name(const weiri_address *address, char name[IF_NAMESIZE])
{
    struct ifaddrs *entries;
    weiri_address here;
    snprintf(name, IF_NAMESIZE, "?");
    if (getifaddrs(&entries) != 0)
        return;
    for (const struct ifaddrs *entry = entries; entry; entry = entry->ifa_next)
        if (interface_read_entry(entry, &here) && here.is_ipv6 == address->is_ipv6 &&
            memcmp(here.ip, address->ip, sizeof here.ip) == 0)
            snprintf(name, IF_NAMESIZE, "%s", entry->ifa_name);
    freeifaddrs(entries);
}
