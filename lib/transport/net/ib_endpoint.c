/*
 * Endpoints of the ib transport: creating a queue pair, connecting it to the peer's, reconnecting
 * while the peer is not ready, and destroying it together with outstanding work.
 */
#include "transport/net/ib.h"

#include "base/error.h"
#include "base/log.h"
#include <weir/target.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Assigns a slot in the network's table, growing it if necessary. */
static weir_status take_slot(weiri_ib_net *ib, weiri_ib_endpoint *end)
{
    uint32_t slot = 0;
    while (slot < ib->nslots && ib->slots[slot])
        slot++;
    if (slot == ib->nslots) {
        uint32_t grown = ib->nslots ? 2 * ib->nslots : 8;
        weiri_ib_endpoint **slots = realloc(ib->slots, grown * sizeof(weiri_ib_endpoint *));
        if (!slots)
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %u endpoints", grown);
        for (uint32_t i = ib->nslots; i < grown; i++)
            slots[i] = NULL;
        ib->slots = slots;
        ib->nslots = grown;
    }
    ib->slots[slot] = end;
    end->slot = slot;
    end->generation = ++ib->generations & 0x7fff;
    return WEIR_OK;
}

/* Makes room in the completion queue for all completions that can be pending, so none is lost. */
static weir_status widen_queue(weiri_ib_net *ib)
{
    int needed = 0, entries = ib->cq_entries;
    for (uint32_t i = 0; i < ib->nslots; i++)
        needed += ib->slots[i] ? ib->sends + ib->receives : 0;
    if (needed <= entries)
        return WEIR_OK;
    while (entries < needed)
        entries *= 2;
    entries = entries < ib->limits.max_cqe ? entries : ib->limits.max_cqe;
    if (entries < needed)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "RDMA device %s: its completion queues have room for only %d endpoints; "
                          "use tcp",
                          ib->port.device, ib->limits.max_cqe / (ib->sends + ib->receives));
    int error = ib->verbs->resize_cq(ib->cq, entries);
    if (error)
        return weiri_ib_refused(ib, error > 0 ? error : errno, "a completion queue",
                                (size_t)entries * 64);
    ib->cq_entries = entries;
    return WEIR_OK;
}

/* Creates the queue pair, with inline data for a word if the device supports it. */
static weir_status ib_create_queue_pair(weiri_ib_net *ib, weiri_ib_endpoint *end)
{
    static const uint32_t inline_bytes[] = {64, 8, 0};
    for (int i = 0; i < 3 && !end->qp; i++) {
        struct ibv_qp_init_attr attributes = {
            .send_cq = ib->cq,
            .recv_cq = ib->cq,
            .cap = {.max_send_wr = (uint32_t)ib->sends,
                    .max_recv_wr = (uint32_t)ib->receives,
                    .max_send_sge = 2, /* a piece and its header */
                    .max_recv_sge = 1,
                    .max_inline_data = inline_bytes[i]},
            .qp_type = IBV_QPT_RC,
        };
        end->qp = ib->verbs->create_qp(ib->pd, &attributes);
        end->inline_bytes = end->qp ? attributes.cap.max_inline_data : 0;
    }
    return end->qp ? WEIR_OK
                   : weiri_ib_refused(ib, errno, "a queue pair",
                                      (size_t)(ib->sends + ib->receives) * 64);
}

static weir_status to_init(weiri_ib_net *ib, weiri_ib_endpoint *end)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .port_num = (uint8_t)ib->port.port,
                                     .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int error = ib->verbs->modify_qp(
        end->qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return error ? weiri_fail_errno(WEIR_ERR_SYSTEM, error, "RDMA port %s: a queue pair to rank %d",
                                    ib->name, end->base.peer)
                 : WEIR_OK;
}

static weir_status make_control(weiri_ib_net *ib, weiri_ib_endpoint *end)
{
    const size_t bytes = (sizeof *end->control + 4095) / 4096 * 4096;
    end->control = aligned_alloc(4096, bytes);
    if (!end->control)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an endpoint");
    memset(end->control, 0, bytes);
    end->control_mr = ib->verbs->reg_mr(ib->pd, end->control, bytes,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return end->control_mr ? WEIR_OK : weiri_ib_refused(ib, errno, "memory", bytes);
}

static void fill_address(const weiri_ib_net *ib, const weiri_ib_endpoint *end,
                         weiri_net_address *address)
{
    weiri_ib_address own = {
        .magic = WEIRI_IB_MAGIC,
        .rank = (uint32_t)ib->base.rank,
        .number = end->qp->qp_num,
        .first_packet = end->first_packet,
        .lid = ib->attributes.lid,
        .mtu = (uint8_t)ib->attributes.active_mtu,
        .ethernet = (uint8_t)ib->port.ethernet,
        .gid_type = (uint8_t)ib->gid.type,
        .inbox = (uint64_t)(uintptr_t)&end->control->theirs,
        .inbox_rkey = end->control_mr->rkey,
    };
    _Static_assert(sizeof own <= sizeof address->bytes, "an address holds it");
    memcpy(own.gid, ib->gid.bytes, sizeof own.gid);
    snprintf(own.device, sizeof own.device, "%.50s:%d", ib->port.device, ib->port.port);
    gethostname(own.host, sizeof own.host - 1);
    memset(address->bytes, 0, sizeof address->bytes);
    memcpy(address->bytes, &own, sizeof own);
}

weir_status weiri_ib_endpoint_create(weiri_net *net, int peer, weiri_endpoint **endpoint,
                                     weiri_net_address *own)
{
    enum { FIRST_OPS = 64 };
    weiri_ib_net *ib = weiri_ib_of(net);
    weiri_ib_endpoint *end = calloc(1, sizeof *end);
    if (!end)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an endpoint");
    end->base = (weiri_endpoint){.net = net, .peer = peer};
    end->ib = ib;
    end->slot = UINT32_MAX;
    snprintf(end->peer_name, sizeof end->peer_name, "rank %d", peer);
    end->capacity = FIRST_OPS;
    end->ops = malloc(FIRST_OPS * sizeof *end->ops);
    weir_status status =
        end->ops ? take_slot(ib, end) : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an endpoint");
    if (status == WEIR_OK)
        status = widen_queue(ib);
    if (status == WEIR_OK)
        status = ib_create_queue_pair(ib, end);
    if (status == WEIR_OK)
        status = to_init(ib, end);
    if (status == WEIR_OK)
        status = make_control(ib, end);
    if (status == WEIR_OK)
        status = weiri_ib_boxes_open(end);
    if (status != WEIR_OK) {
        weiri_ib_endpoint_destroy(&end->base);
        return status;
    }
    end->taken = (uint32_t)ib->receives;
    /* Differs between queue pairs with the same number, so that stale packets are not accepted. */
    end->first_packet =
        (uint32_t)(weir_clock_ns() >> 10 ^ (uint64_t)end->generation << 12) & 0xffffff;
    weiri_ib_post_receives(end, 1);
    fill_address(ib, end, own);
    *endpoint = &end->base;
    return WEIR_OK;
}

void weiri_ib_endpoint_destroy(weiri_endpoint *endpoint)
{
    weiri_ib_endpoint *end = (weiri_ib_endpoint *)(void *)endpoint;
    weiri_ib_net *ib = end->ib;
    if (end->base.failed != WEIR_OK && !end->is_reported)
        ib->failures--;
    if (end->qp)
        ib->verbs->destroy_qp(end->qp);
    if (end->control_mr)
        ib->verbs->dereg_mr(end->control_mr);
    weiri_ib_boxes_close(end);
    if (end->slot != UINT32_MAX)
        ib->slots[end->slot] = NULL;
    /* Its completions that are left in the queue would take up room of other endpoints. */
    if (end->qp)
        weiri_ib_reap(ib);
    free(end->control);
    free(end->ops);
    free(end);
}

/* ------------------------------------------------------------------- connect */

enum { RETRIES = 7 }; /* the most that a queue pair allows */

/* Returns n of the retransmission timeout, 4.096 us << n. A packet and its retries together take at
 * most half of the deadline, unless n is the least: a lost packet, which is more frequent than a
 * lost peer, costs one timeout. */
static uint8_t answer_time(int timeout_ms)
{
    enum { LEAST = 14, MOST = 17 }; /* 67 ms, 0.54 s */
    uint8_t n = LEAST;
    while (n < MOST &&
           (uint64_t)timeout_ms * 1000 / 2 >= (RETRIES + 1) * (UINT64_C(4096) << (n + 1)) / 1000)
        n++;
    return n;
}

static void fill_path(const weiri_ib_net *ib, const weiri_ib_address *peer,
                      struct ibv_qp_attr *attributes)
{
    struct ibv_ah_attr *path = &attributes->ah_attr;
    path->port_num = (uint8_t)ib->port.port;
    path->dlid = peer->lid;
    /* Within an InfiniBand subnet the LID is enough. */
    path->is_global = ib->port.ethernet || !peer->lid || memcmp(peer->gid, ib->gid.bytes, 8) != 0;
    if (path->is_global) {
        memcpy(path->grh.dgid.raw, peer->gid, sizeof peer->gid);
        path->grh.sgid_index = (uint8_t)ib->gid.index;
        path->grh.hop_limit = 64;
    }
}

static int to_receiving(weiri_ib_net *ib, weiri_ib_endpoint *end, const weiri_ib_address *peer)
{
    int mtu =
        (int)ib->attributes.active_mtu < peer->mtu ? (int)ib->attributes.active_mtu : peer->mtu;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)mtu,
        .dest_qp_num = peer->number,
        .rq_psn = peer->first_packet,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 1, /* 10 us: soon retry a peer that has no receive posted */
    };
    fill_path(ib, peer, &attributes);
    return ib->verbs->modify_qp(end->qp, &attributes,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                    IBV_QP_MIN_RNR_TIMER);
}

static int to_sending(weiri_ib_net *ib, weiri_ib_endpoint *end)
{
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTS,
        .timeout = answer_time(ib->base.timeout_ms),
        .retry_cnt = RETRIES,
        .rnr_retry = 7, /* means no limit; the network's deadline ends the retries */
        .sq_psn = end->first_packet,
        .max_rd_atomic = 1,
    };
    return ib->verbs->modify_qp(end->qp, &attributes,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Checks that the two ports can communicate. */
static weir_status check_peer(const weiri_ib_net *ib, const weiri_ib_endpoint *end,
                              const weiri_ib_address *peer)
{
    if (peer->magic != WEIRI_IB_MAGIC || peer->rank != (uint32_t)end->base.peer)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "transport ib: the address given for rank %d's endpoint is invalid; do all "
            "ranks use the same transport and version of weir?",
            end->base.peer);
    if (peer->ethernet != ib->port.ethernet ||
        (peer->ethernet && peer->gid_type != (uint8_t)ib->gid.type) ||
        (peer->ethernet &&
         weiri_rdma_gid_is_ipv4(peer->gid) != weiri_rdma_gid_is_ipv4(ib->gid.bytes)))
        return weiri_fail(WEIR_ERR_PEER,
                          "transport ib: %s and this rank's %s (GID %d, %s) are of different "
                          "kinds; choose the same kind with %s and %s",
                          end->peer_name, ib->name, ib->gid.index,
                          weiri_rdma_gid_type_name(ib->gid.type), "WEIR_IB_HCA",
                          "WEIR_IB_GID_INDEX");
    return WEIR_OK;
}

/* Makes the queue pair ready to send and posts the greeting. */
static int ib_join(weiri_ib_net *ib, weiri_ib_endpoint *end)
{
    int error = to_receiving(ib, end, &end->address);
    if (!error)
        error = to_sending(ib, end);
    if (!error)
        weiri_ib_send_immediate(end, WEIRI_IB_GREETING, 0);
    return error;
}

/* Nothing has arrived, so everything is posted again. A new generation number makes completions of
 * the old queue pair state invalid. */
void weiri_ib_rejoin(weiri_ib_endpoint *end)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RESET};
    weiri_ib_net *ib = end->ib;
    end->lost = 0;
    end->generation = ++ib->generations & 0x7fff;
    end->requests = end->requests_done = 0;
    end->head = end->head_done = end->base.sent = 0;
    end->taken = (uint32_t)ib->receives;
    int error = ib->verbs->modify_qp(end->qp, &attributes, IBV_QP_STATE);
    if (!error && to_init(ib, end) == WEIR_OK) {
        weiri_ib_post_receives(end, 1);
        error = ib_join(ib, end);
    }
    if (error)
        weiri_ib_fail(end, WEIR_ERR_PEER, "transport ib: %s does not respond to %s: %s",
                      end->peer_name, ib->name, strerror(error));
}

static void name_peer(weiri_ib_endpoint *end, weiri_ib_address *peer)
{
    char address[WEIRI_RDMA_GID_TEXT_BYTES];
    weiri_rdma_gid gid = {.index = 0};
    peer->device[sizeof peer->device - 1] = peer->host[sizeof peer->host - 1] = '\0';
    memcpy(gid.bytes, peer->gid, sizeof gid.bytes);
    weiri_rdma_gid_text(&gid, address);
    snprintf(end->peer_name, sizeof end->peer_name, "rank %d (%.24s of %.24s, %s)", end->base.peer,
             peer->device, peer->host, address);
}

weir_status weiri_ib_endpoint_connect(weiri_endpoint *endpoint, const weiri_net_address *peers)
{
    weiri_ib_endpoint *end = (weiri_ib_endpoint *)(void *)endpoint;
    weiri_ib_net *ib = end->ib;
    memcpy(&end->address, peers->bytes, sizeof end->address);
    if (end->address.magic == WEIRI_IB_MAGIC)
        name_peer(end, &end->address);
    weir_status status = check_peer(ib, end, &end->address);
    if (status != WEIR_OK)
        return status;
    int error = ib_join(ib, end);
    end->connected_ns = weir_clock_ns();
    if (error)
        return weiri_fail_errno(WEIR_ERR_PEER, error,
                                "transport ib: no connection from %s (GID %d) to %s; is there a "
                                "route between the two (ip route get), and are both ports up?",
                                ib->name, ib->gid.index, end->peer_name);
    return WEIR_OK;
}
