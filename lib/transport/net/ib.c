/*
 * The ib transport's ops table, open and close. Open chooses a port and opens its device, with one
 * protection domain and one completion queue. Close also frees what callers have left.
 */
#include "transport/net/ib.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fills in the thread's GPU if it has one already, else the NUMA node of its cores. */
static void ib_describe_user(int rank, weiri_rdma_user *user)
{
    char address[16];
    *user = (weiri_rdma_user){.numa = weiri_rdma_own_numa("/sys"), .ordinal = rank};
    if (weiri_ib_gpu_address(address) && weiri_rdma_pci_path("/sys", address, user->gpu))
        user->numa = weiri_rdma_numa_of("/sys", address);
}

static weir_status choose_port(weiri_ib_net *ib)
{
    weiri_rdma_port *ports = NULL;
    weiri_rdma_choice choice;
    weiri_rdma_user user;
    int count = 0;
    long wanted_gid = -1;
    char address[WEIRI_RDMA_GID_TEXT_BYTES];
    weir_status status = weiri_env_long(WEIRI_ENV_IB_GID_INDEX, 0, 65535, -1, &wanted_gid);
    if (status == WEIR_OK)
        status = weiri_rdma_ports("/sys", &ports, &count);
    ib_describe_user(ib->base.rank, &user);
    if (status == WEIR_OK)
        status = weiri_rdma_choose(ports, count, &user, weiri_env(WEIRI_ENV_IB_HCA), wanted_gid,
                                   &choice);
    if (status == WEIR_OK) {
        ib->port = ports[choice.port];
        ib->base.nic_path = ib->port.path;
        ib->gid = ib->port.gids[choice.gid];
        snprintf(ib->name, sizeof ib->name, "%s:%d", ib->port.device, ib->port.port);
        weiri_rdma_gid_text(&ib->gid, address);
        weiri_log(WEIRI_LOG_INFO, "transport ib: %s, %s, %g Gbit/s: %s; GID %d, %s (%s)", ib->name,
                  ib->port.ethernet ? "Ethernet" : "InfiniBand", ib->port.gbits, choice.why,
                  ib->gid.index, address, weiri_rdma_gid_type_name(ib->gid.type));
    }
    free(ports);
    return status;
}

static weir_status ib_open_device(weiri_ib_net *ib)
{
    int count = 0;
    struct ibv_device **devices = ib->verbs->get_device_list(&count), *found = NULL;
    for (int i = 0; devices && i < count; i++)
        if (strcmp(ib->verbs->get_device_name(devices[i]), ib->port.device) == 0)
            found = devices[i];
    if (found)
        ib->device = ib->verbs->open_device(found);
    int error = errno;
    if (devices)
        ib->verbs->free_device_list(devices);
    if (!found)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "RDMA device %s: libibverbs has no driver for it; apt-get install "
                          "ibverbs-providers, or use tcp",
                          ib->port.device);
    if (!ib->device)
        return weiri_fail_errno(WEIR_ERR_UNSUPPORTED, error,
                                "RDMA device %s cannot be opened (is /dev/infiniband given to this "
                                "container, and may this user write there?)",
                                ib->port.device);
    return WEIR_OK;
}

static int ib_least(int a, int b)
{
    return a < b ? a : b;
}

static weir_status ib_query(weiri_ib_net *ib)
{
    if (ib->verbs->query_port(ib->device, (uint8_t)ib->port.port, &ib->attributes) != 0 ||
        ib->verbs->query_device(ib->device, &ib->limits) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "RDMA port %s does not answer", ib->name);
    ib->sends = ib_least(WEIRI_IB_SENDS, ib->limits.max_qp_wr);
    ib->receives = ib_least(WEIRI_IB_RECEIVES, ib->limits.max_qp_wr);
    ib->chunk_bytes = WEIRI_IB_CHUNK_BYTES;
    if (ib->attributes.max_msg_sz && ib->attributes.max_msg_sz < ib->chunk_bytes)
        ib->chunk_bytes = ib->attributes.max_msg_sz;
    return WEIR_OK;
}

static weir_status make_queues(weiri_ib_net *ib)
{
    ib->pd = ib->verbs->alloc_pd(ib->device);
    if (!ib->pd)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "RDMA device %s: no protection domain",
                                ib->port.device);
    ib->channel = ib->verbs->create_comp_channel(ib->device);
    if (!ib->channel ||
        fcntl(ib->channel->fd, F_SETFL, fcntl(ib->channel->fd, F_GETFL) | O_NONBLOCK) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "RDMA device %s: no completion channel",
                                ib->port.device);
    ib->cq_entries = ib->sends + ib->receives;
    ib->cq = ib->verbs->create_cq(ib->device, ib->cq_entries, NULL, ib->channel, 0);
    if (!ib->cq)
        return weiri_ib_refused(ib, errno, "a completion queue", (size_t)ib->cq_entries * 64);
    return WEIR_OK;
}

static void close_net(weiri_net *net)
{
    if (!net)
        return;
    weiri_ib_net *ib = weiri_ib_of(net);
    for (uint32_t i = 0; i < ib->nslots; i++)
        if (ib->slots[i])
            weiri_ib_endpoint_destroy(&ib->slots[i]->base);
    weiri_staging_close(&ib->stage);
    while (ib->mems)
        weiri_ib_mem_deregister(&ib->mems->base);
    free(ib->slots);
    if (ib->cq)
        ib->verbs->destroy_cq(ib->cq);
    if (ib->channel)
        ib->verbs->destroy_comp_channel(ib->channel);
    if (ib->pd)
        ib->verbs->dealloc_pd(ib->pd);
    if (ib->device)
        ib->verbs->close_device(ib->device);
    pthread_mutex_destroy(&net->lock);
    free(ib);
}

static weir_status ib_open_net(int rank, int nranks, int timeout_ms, weiri_net **net)
{
    weiri_ib_net *ib = calloc(1, sizeof *ib);
    if (!ib)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a network transport");
    ib->base =
        (weiri_net){.ops = &weiri_net_ib, .rank = rank, .nranks = nranks, .timeout_ms = timeout_ms};
    pthread_mutex_init(&ib->base.lock, NULL);
    ib->stage.ops = weiri_staging_ops_get();
    weir_status status = choose_port(ib);
    if (status == WEIR_OK)
        status = weiri_verbs_load(&ib->verbs);
    if (status == WEIR_OK)
        status = ib_open_device(ib);
    if (status == WEIR_OK)
        status = ib_query(ib);
    if (status == WEIR_OK)
        status = make_queues(ib);
    if (status != WEIR_OK) {
        close_net(&ib->base);
        return status;
    }
    *net = &ib->base;
    return WEIR_OK;
}

const weiri_net_ops weiri_net_ib = {
    .transport = WEIR_TRANSPORT_IB,
    .open = ib_open_net,
    .close = close_net,
    .endpoint_create = weiri_ib_endpoint_create,
    .endpoint_connect = weiri_ib_endpoint_connect,
    .endpoint_destroy = weiri_ib_endpoint_destroy,
    .mem_register = weiri_ib_mem_register,
    .mem_deregister = weiri_ib_mem_deregister,
    .put = weiri_ib_put,
    .signal = weiri_ib_signal,
    .progress = weiri_ib_progress,
    .arm = weiri_ib_arm,
};
