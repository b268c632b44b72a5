/*
 * Semaphores. All ends of a rank share one allocation, the slab, so that a peer maps one segment
 * however many semaphores it has with this rank. A slot (the counters of one end) is zeroed before
 * its handle is sent to the peer, so a reused slot starts at zero.
 *
 * Both ends of a new semaphore exchange offers, map each other's counters, and then exchange the
 * result, so that either both ends have the semaphore or neither has.
 */
#include "base/error.h"
#include "chan/chan.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024 };

typedef struct sem_slab {
    weir_mem *memory;       /* SLOTS x weiri_sem_words */
    weiri_port_slab *ports; /* the same slots for port channels */
    unsigned char used[SLOTS];
} sem_slab;

static void slab_destroy(void *opaque)
{
    sem_slab *slab = opaque;
    weiri_port_slab_destroy(slab->ports);
    weir_mem_free(slab->memory);
    free(slab);
}

static weir_status slab_get(weir_comm *comm, sem_slab **slab)
{
    if (!comm->sem_slab) {
        sem_slab *made = calloc(1, sizeof *made);
        if (!made)
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for semaphores");
        weir_status status = weir_mem_alloc(comm, SLOTS * sizeof(weiri_sem_words), &made->memory);
        if (status == WEIR_OK)
            status = weiri_port_slab_create(comm, SLOTS, &made->ports);
        if (status != WEIR_OK) {
            weir_mem_free(made->memory);
            free(made);
            return status;
        }
        comm->sem_slab = made;
        comm->sem_slab_destroy = slab_destroy;
    }
    *slab = comm->sem_slab;
    return WEIR_OK;
}

static weiri_sem_words *slab_words(const sem_slab *slab)
{
    return weir_mem_pointer(slab->memory);
}

static weir_status slot_take(weir_comm *comm, weir_mem **words)
{
    sem_slab *slab = NULL;
    weir_status status = slab_get(comm, &slab);
    if (status != WEIR_OK)
        return status;
    unsigned char *used = memchr(slab->used, 0, SLOTS);
    if (!used)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "more than %d semaphores in one communicator", SLOTS);
    weiri_sem_words *slot = slab_words(slab) + (used - slab->used);
    if (comm->gpu)
        status = comm->gpu->ops->clear(comm, slot, sizeof *slot);
    else
        memset(slot, 0, sizeof *slot);
    if (status == WEIR_OK)
        status = weir_mem_register(comm, slot, sizeof *slot, words);
    if (status == WEIR_OK)
        *used = 1;
    return status;
}

static int sem_slot_of(const sem_slab *slab, const weir_mem *words)
{
    return (int)((weiri_sem_words *)weir_mem_pointer(words) - slab_words(slab));
}

static void slot_give(weir_comm *comm, weir_mem *words)
{
    sem_slab *slab = comm->sem_slab;
    slab->used[sem_slot_of(slab, words)] = 0;
    weir_mem_free(words);
}

/* An end's first message: its counters, or the status of its failure. */
typedef struct offer {
    int32_t status;
    weir_mem_handle words; /* used if the connection maps memory */
    weiri_port_address port;
} offer;

static weir_status sem_exchange(weir_conn *conn, const void *mine, void *theirs, size_t bytes)
{
    weir_boot *boot = conn->comm->boot;
    weir_status status = weir_boot_send(boot, mine, bytes, conn->peer, conn->tag);
    return status == WEIR_OK ? weir_boot_recv(boot, theirs, bytes, conn->peer, conn->tag) : status;
}

static weir_status sem_peer_failed(const weir_conn *conn, int32_t status)
{
    return weiri_fail(
        (weir_status)status,
        "rank %d could not create its end of a semaphore with rank %d; see that rank's "
        "own message",
        conn->peer, conn->comm->rank);
}

static weiri_net *net_of(const weir_conn *conn)
{
    return conn->endpoint ? conn->endpoint->net : NULL;
}

/* Fills this end's offer. Over a network nothing is mapped, so only port channels can use the
 * semaphore. */
static weir_status sem_make_offer(weir_sem *sem, offer *mine)
{
    const weir_conn *conn = sem->conn;
    sem_slab *slab = conn->comm->sem_slab;
    weir_status status = weiri_port_slab_open(slab->ports, sem_slot_of(slab, sem->local),
                                              net_of(conn), &sem->port, &mine->port);
    if (status == WEIR_OK && !conn->endpoint)
        status = weir_mem_export(sem->local, &mine->words);
    return status;
}

static weir_status sem_accept_offer(weir_sem *sem, const offer *theirs)
{
    const weir_conn *conn = sem->conn;
    sem_slab *slab = conn->comm->sem_slab;
    weir_status status =
        weiri_port_slab_join(slab->ports, conn->peer, net_of(conn), &theirs->port, &sem->port);
    if (status == WEIR_OK && !conn->endpoint)
        status = weir_mem_import(conn->comm, &theirs->words, &sem->remote);
    return status;
}

/* Agrees with the peer, also after a failure of this end, which then fails both. */
static weir_status sem_agree(weir_sem *sem, weir_status status)
{
    weir_conn *conn = sem->conn;
    offer mine, theirs;
    memset(&mine, 0, sizeof mine);
    if (status == WEIR_OK)
        status = sem_make_offer(sem, &mine);
    mine.status = status;
    weir_status met = sem_exchange(conn, &mine, &theirs, sizeof mine);
    if (met != WEIR_OK)
        return met;
    if (status != WEIR_OK || theirs.status != WEIR_OK)
        return status != WEIR_OK ? status : sem_peer_failed(conn, theirs.status);
    status = sem_accept_offer(sem, &theirs);
    int32_t end = status, other_end = WEIR_OK;
    met = sem_exchange(conn, &end, &other_end, sizeof end);
    if (status == WEIR_OK && met != WEIR_OK)
        status = met;
    if (status == WEIR_OK && other_end != WEIR_OK)
        status = sem_peer_failed(conn, other_end);
    return status;
}

weir_status weir_sem_create(weir_conn *conn, weir_sem **sem)
{
    if (!conn || !sem)
        return weiri_fail(WEIR_ERR_INVALID, "weir_sem_create: conn and sem are required");
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, conn->comm, "weir_sem_create");
    if (status != WEIR_OK)
        return status;
    weir_sem *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_setup_end(&setup, weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a semaphore"));
    made->conn = conn;
    status = sem_agree(made, slot_take(conn->comm, &made->local));
    status = weiri_setup_end(&setup, status);
    if (status != WEIR_OK)
        goto give_slot;
    weiri_sem_words *own = weir_mem_pointer(made->local);
    weiri_sem_words *theirs = made->remote ? weir_mem_pointer(made->remote) : NULL;
    made->device = (weir_sem_dev){theirs ? &theirs->inbound.value : NULL, &own->inbound.value,
                                  &own->outbound, &own->expected};
    *sem = made;
    return WEIR_OK;
give_slot:
    weir_mem_free(made->remote);
    if (made->local)
        slot_give(conn->comm, made->local);
    free(made);
    return status;
}

void weir_sem_free(weir_sem *sem)
{
    if (!sem || weiri_comm_is_forked(sem->conn->comm))
        return;
    weir_mem_free(sem->remote);
    slot_give(sem->conn->comm, sem->local);
    free(sem);
}
