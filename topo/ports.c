/*
 * The RDMA ports of this machine, and which of them the `ib` transport of each rank uses: the
 * library's table and choice (lib/transport/net/rdma_port.h), applied to the places of ranks.
 * Recorded machines have none, because GIDs are addresses.
 */

#include "base/env.h"
#include "topo/model.h"

weir_status weiri_topo_collect_ports(weiri_topo *topo)
{
    return weiri_rdma_ports("/sys", &topo->ports, &topo->nports);
}

/* A rank's GPU, or the cores of its place, as the network transport describes a rank. */
static void describe_user(const weiri_topo *topo, int gpu, int numa, int ordinal,
                          weiri_rdma_user *user)
{
    *user = (weiri_rdma_user){.numa = numa, .ordinal = ordinal};
    if (gpu < 0)
        return;
    const weiri_topo_device *device = &topo->gpus.entries[gpu].device;
    user->numa = weiri_rdma_numa_of("/sys", device->pci);
    if (!weiri_rdma_pci_path("/sys", device->pci, user->gpu))
        user->gpu[0] = '\0';
}

weir_status weiri_topo_choose_port(const weiri_topo *topo, const weiri_place *place,
                                   weiri_rdma_choice *choice)
{
    weiri_rdma_user user;
    long gid = -1;
    describe_user(topo, place->gpu, place->numa, place->local_rank, &user);
    weir_status status = weiri_env_long(WEIRI_ENV_IB_GID_INDEX, 0, 65535, -1, &gid);
    return status ? status
                  : weiri_rdma_choose(topo->ports, topo->nports, &user, weiri_env(WEIRI_ENV_IB_HCA),
                                      gid, choice);
}

weiri_topo_path weiri_topo_gpu_port(const weiri_topo *topo, int gpu, int port)
{
    weiri_rdma_user user;
    describe_user(topo, gpu, -1, 0, &user);
    return (weiri_topo_path)weiri_rdma_distance(&user, &topo->ports[port]);
}
