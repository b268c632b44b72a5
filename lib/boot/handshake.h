/*
 * The handshake that authenticates a connection between two ranks of a TCP job. The caller is the
 * higher rank and the host, the lower one, listens; or either, where connections are made when they
 * are first used (transport/net/tcp_first_use.c).
 *
 *   host -> caller   challenge: the host's rank, and a nonce
 *   caller -> host   hello: rank, number of ranks, listening address, a nonce, and a MAC over these
 *                    and the challenge
 *   host -> caller   reply: admitted or the reason why not, and a MAC over this, the hello and the
 *                    challenge
 *
 * The MACs are keyed with the job's secret, which is never sent. Nonces are random, so recorded
 * messages cannot be replayed; the MAC of the reply proves to the caller that the host knows the
 * secret. The connection itself is not encrypted.
 */
#ifndef WEIR_BOOT_HANDSHAKE_H
#define WEIR_BOOT_HANDSHAKE_H

#include "boot/address.h"
#include "boot/deadline.h"
#include "base/mac.h"

/* A job as one of its ranks sees it. */
typedef struct weiri_job {
    int rank, nranks, timeout_ms;
    uint8_t key[WEIRI_KEY_BYTES];
} weiri_job;

/* The messages as they are sent: no padding; all ranks have the same byte order. */
typedef struct weiri_challenge {
    uint64_t magic;
    int32_t rank, nranks;
    uint8_t nonce[WEIRI_NONCE_BYTES];
} weiri_challenge;

typedef struct weiri_hello {
    uint64_t magic;
    int32_t rank, nranks;
    weiri_address listens;
    uint8_t nonce[WEIRI_NONCE_BYTES];
    uint8_t mac[WEIRI_MAC_BYTES];
} weiri_hello;

typedef struct weiri_reply {
    uint64_t magic;
    int32_t status;
    char text[196];
    uint8_t mac[WEIRI_MAC_BYTES];
} weiri_reply;

/* The status of a reply that declines a connection, because the host is calling the caller itself
 * or is connected to it already. */
enum { WEIRI_REPLY_CROSSED = 1 };

/* The host's side. Non-blocking: the functions only fill in and check messages. WEIR_ERR_SYSTEM if
 * there are no random bytes. */
weir_status weiri_challenge_make(const weiri_job *job, weiri_challenge *challenge);
/* Returns NULL if the first bytes received, at least 8, can be a hello, else why not. */
const char *weiri_hello_fault(const weiri_hello *hello);
/* Returns 1 if the sender knows the secret. */
int weiri_hello_proven(const weiri_job *job, const weiri_challenge *challenge,
                       const weiri_hello *hello);
void weiri_reply_make(const weiri_job *job, const weiri_challenge *challenge,
                      const weiri_hello *hello, weir_status status, const char *text,
                      weiri_reply *reply);

/* The caller's side, on a new connection to peer at the address to. Blocks until the deadline.
 * WEIR_ERR_REFUSED if what listens there is not a rank of this job, or rejects this rank;
 * WEIR_ERR_MISMATCH if the host reports a contradiction or speaks another version of the protocol;
 * WEIR_ERR_TIMEOUT; WEIR_ERR_PEER. */
weir_status weiri_handshake_call(const weiri_job *job, int fd, int peer, const weiri_address *to,
                                 const weiri_address *listens, const weiri_deadline *deadline);

/* The caller's side in steps, for callers that do other things meanwhile. Zeroed at first. */
typedef enum weiri_handshake_end {
    WEIRI_HANDSHAKE_GOES_ON,
    WEIRI_HANDSHAKE_ADMITTED,
    WEIRI_HANDSHAKE_CROSSED /* the host is calling this rank, see WEIRI_REPLY_CROSSED */
} weiri_handshake_end;

typedef struct weiri_handshake {
    weiri_challenge challenge;
    weiri_hello hello;
    weiri_reply reply;
    size_t done;    /* bytes of the message that is being read */
    int has_called; /* the hello was sent; the reply is next */
} weiri_handshake;

/* Takes the steps that are possible without blocking, on a new connection that is established, and
 * fills *end. Returns the errors of weiri_handshake_call. */
weir_status weiri_handshake_advance(const weiri_job *job, int fd, int peer, const weiri_address *to,
                                    const weiri_address *listens, weiri_handshake *handshake,
                                    weiri_handshake_end *end);

/* Replaces unprintable characters of text received from the network, in place. */
void weiri_text_clean(char *text, size_t bytes);

#endif
