/*
 * Guests: connections at a listening socket whose far ends have not yet proven who
 * they are. Each is sent a challenge and may take its time with the hello; nobody is
 * waited for alone, so nobody can hold up the others. Who says rubbish, or does not
 * know the secret, is refused and logged with its address. What becomes of those who
 * do know it is their host's to say.
 *
 * Nothing here waits: the host polls what weiri_guests_watch() gives, with descriptors
 * of its own, and hands what poll said to weiri_guests_act().
 */
#ifndef WEIR_BOOT_GUESTS_H
#define WEIR_BOOT_GUESTS_H

#include "boot/handshake.h"

#include <poll.h>

/* A connection whose far end has not proven who it is. */
typedef struct weiri_guest {
    int fd;
    char where[WEIRI_ADDRESS_TEXT_BYTES];
    weiri_challenge challenge;
    weiri_hello hello;
    size_t hello_bytes; /* how much of it has arrived */
    uint64_t came_ns;
} weiri_guest;

/* What the host decides; context is the host's. */
typedef struct weiri_guests_host {
    void *context;
    /* The job whose secret the guest has proven to know; NULL: none. Without this function
     * it is the guests' own job that they must know. */
    const weiri_job *(*recognise)(void *context, const weiri_guest *guest);
    /* Why a guest that knows the secret cannot be let in, WEIR_OK if it can. A failure is
     * told to the guest, and ends weiri_guests_act(). */
    weir_status (*check)(void *context, const weiri_job *job, const weiri_guest *guest);
    /* The guest has been told that it is in; its connection passes to the host. */
    void (*take)(void *context, const weiri_job *job, const weiri_guest *guest);
} weiri_guests_host;

typedef struct weiri_guests {
    const weiri_job *job; /* whose rank the challenges name */
    weiri_guests_host host;
    int listener;
    int count, most;
    weiri_guest *list; /* in the order of their arrival */
    int refused;
    char last_refusal[160];
} weiri_guests;

/* The listener stays the caller's; job must live as long. More guests are let in than the
 * host waits for (expected), so that strangers alone cannot fill the room.
 * WEIR_ERR_NO_MEMORY. */
weir_status weiri_guests_open(const weiri_job *job, const weiri_guests_host *host, int listener,
                              int expected, weiri_guests *guests);
/* Refuses who has not said in ten seconds who it is; for hosts without a deadline. */
void weiri_guests_expire(weiri_guests *guests);
/* Refuses who is still there. A zeroed struct is allowed. */
void weiri_guests_close(weiri_guests *guests);

/* Entries that weiri_guests_watch() fills at most. */
int weiri_guests_most_watched(const weiri_guests *guests);
/* Fills the first entries of a poll set; returns how many. */
int weiri_guests_watch(const weiri_guests *guests, struct pollfd *set);
/* Acts on so many entries. Fails with what check() returns; WEIR_ERR_SYSTEM. */
weir_status weiri_guests_act(weiri_guests *guests, const struct pollfd *set, int entries);

#endif
