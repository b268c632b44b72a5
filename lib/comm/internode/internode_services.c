/*
 * Services: functions that every poll of the network runs, so that objects which receive messages
 * of other nodes act on them whichever thread polls. One lock protects the list and what the
 * services work on. A poll that finds it taken runs none, because another thread does.
 */
#include "comm/internode/internode.h"

#include "base/error.h"

#include <stdlib.h>

weir_status weiri_internode_services_open(weiri_internode *internode)
{
    weiri_internode_services *services = calloc(1, sizeof *services);
    if (!services)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the services of a network");
    pthread_mutex_init(&services->lock, NULL);
    internode->services = services;
    return WEIR_OK;
}

void weiri_internode_services_close(weiri_internode *internode)
{
    if (internode->services)
        pthread_mutex_destroy(&internode->services->lock);
    free(internode->services);
    internode->services = NULL;
}

void weiri_internode_serve_begin(const weiri_internode *internode)
{
    pthread_mutex_lock(&internode->services->lock);
}

void weiri_internode_serve_end(const weiri_internode *internode)
{
    pthread_mutex_unlock(&internode->services->lock);
}

void weiri_internode_service_add(const weiri_internode *internode, weiri_internode_service *one)
{
    weiri_internode_serve_begin(internode);
    one->next = internode->services->first;
    __atomic_store_n(&internode->services->first, one, __ATOMIC_RELEASE);
    weiri_internode_serve_end(internode);
}

void weiri_internode_service_remove(const weiri_internode *internode, weiri_internode_service *one)
{
    weiri_internode_service **at = &internode->services->first;
    weiri_internode_serve_begin(internode);
    while (*at && *at != one)
        at = &(*at)->next;
    if (*at)
        __atomic_store_n(at, one->next, __ATOMIC_RELEASE);
    weiri_internode_serve_end(internode);
}

void weiri_internode_serve(const weiri_internode *internode)
{
    weiri_internode_services *services = internode->services;
    if (!services || !__atomic_load_n(&services->first, __ATOMIC_ACQUIRE) ||
        pthread_mutex_trylock(&services->lock) != 0)
        return;
    for (weiri_internode_service *one = services->first; one; one = one->next)
        one->run(one->context);
    weiri_internode_serve_end(internode);
}
