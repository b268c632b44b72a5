/*
 * Chooses an RDMA port and one of its GIDs for a rank: applies the rule of nic.h to the ports of
 * this node, or what the environment asks for, and writes the reason as text.
 */
#include "transport/net/rdma_port.h"

#include "base/env.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many leading components two paths have in common. */
static int common_components(const char *a, const char *b)
{
    int common = 0;
    while (*a == '/' && *b == '/') {
        size_t length = 1 + strcspn(a + 1, "/");
        if (length != 1 + strcspn(b + 1, "/") || memcmp(a, b, length) != 0)
            break;
        common++;
        a += length;
        b += length;
    }
    return common;
}

weiri_nic_distance weiri_rdma_distance(const weiri_rdma_user *user, const weiri_rdma_port *port)
{
    enum { AT_ROOT = 2 }; /* "/devices/pci0000:00" */
    if (strncmp(user->gpu, "/devices/pci", 12) == 0) {
        int common = common_components(user->gpu, port->path);
        if (common > AT_ROOT)
            return WEIRI_NIC_SAME_SWITCH;
        if (common == AT_ROOT)
            return WEIRI_NIC_SAME_ROOT;
    }
    return user->numa >= 0 && user->numa == port->numa ? WEIRI_NIC_SAME_NUMA : WEIRI_NIC_FAR;
}

/* ---------------------------------------------------------------------- GIDs */

int weiri_rdma_gid_is_ipv4(const unsigned char bytes[16])
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(bytes, mapped, sizeof mapped) == 0;
}

void weiri_rdma_gid_text(const weiri_rdma_gid *gid, char text[WEIRI_RDMA_GID_TEXT_BYTES])
{
    int ipv4 = weiri_rdma_gid_is_ipv4(gid->bytes);
    inet_ntop(ipv4 ? AF_INET : AF_INET6, gid->bytes + (ipv4 ? 12 : 0), text,
              WEIRI_RDMA_GID_TEXT_BYTES);
}

const char *weiri_rdma_gid_type_name(weiri_rdma_gid_type type)
{
    static const char *const names[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
    return names[type];
}

/* Larger is better. A link-local address is not valid beyond its link. */
static int gid_worth(const weiri_rdma_gid *gid)
{
    int link_local = gid->bytes[0] == 0xfe && (gid->bytes[1] & 0xc0) == 0x80;
    int kind = weiri_rdma_gid_is_ipv4(gid->bytes) ? 2 : !link_local;
    return gid->type == WEIRI_GID_IB ? 0 : 3 * (gid->type == WEIRI_GID_ROCE_2) + kind;
}

int weiri_rdma_best_gid(const weiri_rdma_port *port)
{
    int best = -1;
    for (int i = 0; i < port->ngids; i++)
        if (best < 0 || gid_worth(&port->gids[i]) > gid_worth(&port->gids[best]))
            best = i;
    return best;
}

/* "0 (fe80::1), 1 (10.9.9.1)" */
static void list_gids(const weiri_rdma_port *port, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "%s", port->ngids ? "" : "none");
    for (int i = 0; i < port->ngids && used < bytes; i++) {
        char address[WEIRI_RDMA_GID_TEXT_BYTES];
        weiri_rdma_gid_text(&port->gids[i], address);
        used += (size_t)snprintf(text + used, bytes - used, "%s%d (%s)", i ? ", " : "",
                                 port->gids[i].index, address);
    }
}

static weir_status choose_gid(const weiri_rdma_port *port, long wanted, int *gid)
{
    char there[512];
    if (wanted < 0) {
        *gid = weiri_rdma_best_gid(port);
        if (*gid >= 0)
            return WEIR_OK;
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "RDMA port %s:%d has no GID: give its interface%s%s an IP address",
                          port->device, port->port, port->netdev[0] ? " " : "", port->netdev);
    }
    for (int i = 0; i < port->ngids; i++)
        if (port->gids[i].index == wanted) {
            *gid = i;
            return WEIR_OK;
        }
    list_gids(port, there, sizeof there);
    return weiri_fail(WEIR_ERR_INVALID, "%s=%ld: RDMA port %s:%d has no GID there; it has %s",
                      weiri_env_name(WEIRI_ENV_IB_GID_INDEX), wanted, port->device, port->port,
                      there);
}

/* --------------------------------------------------------------------- ports */

/* "mlx5_0" or "mlx5_0:1" */
static int is_wanted(const weiri_rdma_port *port, const char *wanted)
{
    size_t length = strlen(port->device);
    return !wanted || (strncmp(wanted, port->device, length) == 0 &&
                       (!wanted[length] ||
                        (wanted[length] == ':' && atoi(wanted + length + 1) == port->port)));
}

/* "mlx5_0:1 (ACTIVE), mlx5_1:1 (DOWN)" */
static void list_ports(const weiri_rdma_port *ports, int count, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "%s", count ? "" : "none");
    for (int i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s:%d (%s)", i ? ", " : "",
                                 ports[i].device, ports[i].port, ports[i].state);
}

static weir_status rdma_reject(const weiri_rdma_port *ports, int count, const char *wanted,
                               int named)
{
    char there[512];
    list_ports(ports, count, there, sizeof there);
    if (wanted && !named)
        return weiri_fail(WEIR_ERR_INVALID, "%s=%s: no such RDMA port here; there are: %s",
                          weiri_env_name(WEIRI_ENV_IB_HCA), wanted, there);
    if (count == 0)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "transport ib: this node has no RDMA device (/sys/class/infiniband); "
                          "load its driver, or use tcp");
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "transport ib: no RDMA port is active: %s; plug in its cable, set its "
                      "interface up (ip link set NAME up) or start a subnet manager, or use tcp",
                      there);
}

static void rdma_explain(const weiri_rdma_port *port, const weiri_rdma_user *user, int equals,
                         const char *wanted, char why[256])
{
    const char *distance = weiri_nic_distance_name((int)weiri_rdma_distance(user, port));
    if (wanted)
        snprintf(why, 256, "%s=%s", weiri_env_name(WEIRI_ENV_IB_HCA), wanted);
    else if (equals > 1)
        snprintf(why, 256, "one of %d active ports as near to the %s (%s); rank %d takes this one",
                 equals, user->gpu[0] ? "GPU" : "cores", distance, user->ordinal);
    else
        snprintf(why, 256, "the active port nearest to the %s (%s)", user->gpu[0] ? "GPU" : "cores",
                 distance);
}

weir_status weiri_rdma_choose(const weiri_rdma_port *ports, int count, const weiri_rdma_user *user,
                              const char *wanted_hca, long wanted_gid, weiri_rdma_choice *choice)
{
    size_t room = (size_t)count + 1;
    weiri_nic_view *views = calloc(room, sizeof *views);
    int *which = calloc(room, sizeof *which);
    weir_status status = WEIR_OK;
    int nviews = 0, named = 0;
    weiri_rdma_choice made = {0};
    if (!views || !which) {
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d RDMA ports", count);
        goto release;
    }
    for (int i = 0; i < count; i++) {
        named += is_wanted(&ports[i], wanted_hca);
        if (!is_wanted(&ports[i], wanted_hca) || !ports[i].active)
            continue;
        views[nviews] = (weiri_nic_view){.up = ports[i].ngids > 0,
                                         .verbs = 1,
                                         .distance = (int)weiri_rdma_distance(user, &ports[i])};
        which[nviews++] = i;
    }
    int best = weiri_nic_pick(views, nviews, user->ordinal);
    if (best < 0) {
        status = rdma_reject(ports, count, wanted_hca, named);
        goto release;
    }
    made.port = which[best];
    rdma_explain(&ports[made.port], user, weiri_nic_equals(views, nviews, best), wanted_hca,
                 made.why);
    status = choose_gid(&ports[made.port], wanted_gid, &made.gid);
    if (status == WEIR_OK)
        *choice = made;
release:
    free(which);
    free(views);
    return status;
}
