/*
 * How two ranks of a TCP job come to trust a connection. The caller is the
 * higher rank, the host the lower one, which listens.
 *
 *   host -> caller   challenge: who hosts, and a nonce
 *   caller -> host   hello: rank, number of ranks, where it listens, a nonce
 *                    of its own, and a MAC over all this and the challenge
 *   host -> caller   reply: admitted or why not, and a MAC over this, the
 *                    hello and the challenge
 *
 * The MACs are keyed with the job's secret, which never travels. Nonces are
 * fresh, so nothing that was overheard can be played again; a replying MAC
 * proves to the caller that it did not reach a stranger. What follows on the
 * connection is not encrypted.
 */
#ifndef WEIR_BOOT_HANDSHAKE_H
#define WEIR_BOOT_HANDSHAKE_H

#include "boot/address.h"
#include "boot/deadline.h"
#include "base/mac.h"

/* What all ranks of a job share, and which of them this is. */
typedef struct weiri_job {
    int rank, nranks, timeout_ms;
    uint8_t key[WEIRI_KEY_BYTES];
} weiri_job;

/* As they stand on the wire: no padding, all ranks have the same byte order. */
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

/* The host's side, without any waiting: it fills in what it sends, and checks
 * what it got. WEIR_ERR_SYSTEM: no random bytes. */
weir_status weiri_challenge_make(const weiri_job *job, weiri_challenge *challenge);
/* 1 if the first bytes of a hello, at least 8, can be one. */
int weiri_hello_plausible(const weiri_hello *hello);
/* 1 if whoever sent it knows the secret. */
int weiri_hello_proven(const weiri_job *job, const weiri_challenge *challenge,
                       const weiri_hello *hello);
void weiri_reply_make(const weiri_job *job, const weiri_challenge *challenge,
                      const weiri_hello *hello, weir_status status, const char *text,
                      weiri_reply *reply);

/* The caller's side, on a fresh connection to peer at the address to. Blocks
 * until the deadline. WEIR_ERR_REFUSED: no rank of this job is there, or it
 * does not want us; WEIR_ERR_MISMATCH: it says that we disagree;
 * WEIR_ERR_TIMEOUT; WEIR_ERR_PEER. */
weir_status weiri_handshake_call(const weiri_job *job, int fd, int peer, const weiri_address *to,
                                 const weiri_address *listens, const weiri_deadline *deadline);

/* Text from the network, made fit for one line of a log, in place. */
void weiri_text_clean(char *text, size_t bytes);

#endif
