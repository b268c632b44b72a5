/*
 * Guests: connections accepted at a listening socket whose peers have not been authenticated yet.
 * Each one is sent a challenge and has time to answer with a hello; the owner of the guests (the
 * host: reception.c, rendezvous.c, the TCP transport) never waits for a single one, so that none
 * can delay the others. A guest that sends invalid data or does not know the secret is rejected and
 * logged with its address: the first few with a line each, later ones as a number. The host decides
 * about guests that know the secret.
 *
 * Guests use at most a quarter of the descriptors that the process may open. If there are more, the
 * oldest one is rejected, after a moment in which a rank can send its hello; until then further
 * connections wait in the listening socket's queue.
 *
 * Nothing here blocks: the host polls the descriptors of weiri_guests_watch() together with its
 * own, not longer than weiri_guests_wait_ms(), and passes the result to weiri_guests_act().
 */
#ifndef WEIR_BOOT_GUESTS_H
#define WEIR_BOOT_GUESTS_H

#include "boot/handshake.h"

#include <poll.h>

/* An unauthenticated connection. */
typedef struct weiri_guest {
    int fd;
    char where[WEIRI_ADDRESS_TEXT_BYTES];
    weiri_challenge challenge;
    weiri_hello hello;
    size_t hello_bytes; /* bytes of the hello received so far */
    uint64_t came_ns;   /* when the connection was accepted */
} weiri_guest;

/* The host's decisions. */
typedef struct weiri_guests_host {
    void *context;
    /* Returns the job whose secret the guest has proven to know, or NULL. May be NULL: then the
     * guest must know the secret of the guests' own job. */
    const weiri_job *(*recognise)(void *context, const weiri_guest *guest);
    /* Returns 1 if the connection of an authenticated guest is not needed, because the host calls
     * the guest, or is connected to it: the reply says so (WEIRI_REPLY_CROSSED), and the connection
     * is closed without a line in the log. May be NULL. */
    int (*is_crossing)(void *context, const weiri_job *job);
    /* Returns WEIR_OK to admit an authenticated guest. A failure is sent to the guest, and
     * weiri_guests_act() returns it. */
    weir_status (*check)(void *context, const weiri_job *job, const weiri_guest *guest);
    /* Takes over the connection of a guest that was admitted and has been notified. */
    void (*take)(void *context, const weiri_job *job, const weiri_guest *guest);
    /* The text sent to a guest that recognise() does not know; NULL: the usual one. */
    const char *unknown;
} weiri_guests_host;

typedef struct weiri_guests {
    const weiri_job *job; /* its rank is named in the challenges */
    weiri_guests_host host;
    int listener;
    int count, most;
    weiri_guest *list;  /* in order of arrival */
    uint64_t resume_ns; /* no connection is accepted before; 0: none waits */
    int refused;
    int logged;         /* refused connections that the log has a line for or has counted */
    uint64_t logged_ns; /* when it last got a line */
    char last_refusal[160];
} weiri_guests;

/* Initialises guests. The listener stays the caller's; job must outlive the guests. If descriptors
 * suffice there is room for more guests than the host expects, so that strangers cannot keep the
 * expected ones out. */
weir_status weiri_guests_open(const weiri_job *job, const weiri_guests_host *host, int listener,
                              int expected, weiri_guests *guests);
/* Rejects guests that have not authenticated within ten seconds; for hosts without a deadline. */
void weiri_guests_expire(weiri_guests *guests);
/* Rejects all remaining guests and frees the list. A zeroed struct is allowed. */
void weiri_guests_close(weiri_guests *guests);

/* Returns the largest number of entries that weiri_guests_watch() fills. */
int weiri_guests_most_watched(const weiri_guests *guests);
/* Fills the first entries of a poll set and returns their number. */
int weiri_guests_watch(const weiri_guests *guests, struct pollfd *set);
/* Returns the time that the host may wait for events: wait_ms (-1: no limit), or less. */
int weiri_guests_wait_ms(const weiri_guests *guests, int wait_ms);
/* Returns 1 if connections have been made whose guests have not been decided about. */
int weiri_guests_pending(const weiri_guests *guests);
/* Handles the events of the poll set. Returns the failure of check(), or WEIR_ERR_SYSTEM. */
weir_status weiri_guests_act(weiri_guests *guests, const struct pollfd *set, int entries);

#endif
