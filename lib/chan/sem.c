/*
 * Semaphores. All ends of a rank share one allocation, the slab, so that a
 * peer maps one segment however many semaphores it has with this rank. A slot
 * is zeroed before its handle is given away, so a recycled one starts at zero.
 */
#include "base/error.h"
#include "chan/chan.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024 };

typedef struct sem_slab {
    weir_mem *memory; /* SLOTS x weiri_sem_words */
    unsigned char used[SLOTS];
} sem_slab;

static void slab_destroy(void *opaque)
{
    sem_slab *slab = opaque;
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
        if (status != WEIR_OK) {
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
    memset(slot, 0, sizeof *slot);
    status = weir_mem_register(comm, slot, sizeof *slot, words);
    if (status == WEIR_OK)
        *used = 1;
    return status;
}

static void slot_give(weir_comm *comm, weir_mem *words)
{
    sem_slab *slab = comm->sem_slab;
    slab->used[(weiri_sem_words *)weir_mem_pointer(words) - slab_words(slab)] = 0;
    weir_mem_free(words);
}

weir_status weir_sem_create(weir_conn *conn, weir_sem **sem)
{
    if (!conn || !sem)
        return weiri_fail(WEIR_ERR_INVALID, "weir_sem_create: conn and sem are required");
    weir_sem *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a semaphore");
    weir_comm *comm = conn->comm;
    made->conn = conn;
    weir_status status = slot_take(comm, &made->local);
    if (status != WEIR_OK)
        goto free_object;
    status = weir_mem_send(comm, made->local, conn->peer, conn->tag);
    if (status == WEIR_OK)
        status = weir_mem_recv(comm, conn->peer, conn->tag, &made->remote);
    if (status != WEIR_OK)
        goto give_slot;
    weiri_sem_words *own = weir_mem_pointer(made->local);
    weiri_sem_words *theirs = weir_mem_pointer(made->remote);
    made->device = (weir_sem_dev){&theirs->inbound.value, &own->inbound.value, &own->outbound,
                                  &own->expected};
    *sem = made;
    return WEIR_OK;
give_slot:
    slot_give(comm, made->local);
free_object:
    free(made);
    return status;
}

void weir_sem_free(weir_sem *sem)
{
    if (!sem)
        return;
    weir_mem_free(sem->remote);
    slot_give(sem->conn->comm, sem->local);
    free(sem);
}
