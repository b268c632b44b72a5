/* The messages of the handshake, and the caller's side. */
#include "boot/handshake.h"

#include "base/error.h"
#include "boot/link.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The names of the messages; the last digit is the protocol's version. */
#define MAGIC_CHALLENGE 0x3168634372696577u
#define MAGIC_HELLO 0x3169486872696577u
#define MAGIC_REPLY 0x3170655272696577u

_Static_assert(sizeof(weiri_address) == 24, "addresses have no padding");
_Static_assert(sizeof(weiri_challenge) == 32, "challenges have no padding");
_Static_assert(sizeof(weiri_hello) == 72, "hellos have no padding");
_Static_assert(sizeof(weiri_reply) == 224, "replies have no padding");

void weiri_text_clean(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

weir_status weiri_challenge_make(const weiri_job *job, weiri_challenge *challenge)
{
    *challenge =
        (weiri_challenge){.magic = MAGIC_CHALLENGE, .rank = job->rank, .nranks = job->nranks};
    return weiri_random(challenge->nonce, sizeof challenge->nonce);
}

/* Whether a message has the name of one of another version's. */
static int handshake_is_of_other_version(uint64_t magic, uint64_t expected)
{
    const uint64_t digit = UINT64_C(0xff) << 56;
    return magic != expected && ((magic ^ expected) & ~digit) == 0;
}

const char *weiri_hello_fault(const weiri_hello *hello)
{
    if (handshake_is_of_other_version(hello->magic, MAGIC_HELLO))
        return "it speaks another version of weir's protocol; start all ranks with the same "
               "library";
    return hello->magic == MAGIC_HELLO ? NULL : "it does not speak weir's protocol";
}

static void handshake_mac_hello(const weiri_job *job, const weiri_challenge *challenge,
                                const weiri_hello *hello, uint8_t mac[WEIRI_MAC_BYTES])
{
    uint8_t said[sizeof *challenge + offsetof(weiri_hello, mac)];
    memcpy(said, challenge, sizeof *challenge);
    memcpy(said + sizeof *challenge, hello, offsetof(weiri_hello, mac));
    weiri_mac(job->key, said, sizeof said, mac);
}

static void handshake_mac_reply(const weiri_job *job, const weiri_challenge *challenge,
                                const weiri_hello *hello, const weiri_reply *reply,
                                uint8_t mac[WEIRI_MAC_BYTES])
{
    uint8_t said[sizeof *challenge + sizeof *hello + offsetof(weiri_reply, mac)];
    memcpy(said, challenge, sizeof *challenge);
    memcpy(said + sizeof *challenge, hello, sizeof *hello);
    memcpy(said + sizeof *challenge + sizeof *hello, reply, offsetof(weiri_reply, mac));
    weiri_mac(job->key, said, sizeof said, mac);
}

int weiri_hello_proven(const weiri_job *job, const weiri_challenge *challenge,
                       const weiri_hello *hello)
{
    uint8_t mac[WEIRI_MAC_BYTES];
    handshake_mac_hello(job, challenge, hello, mac);
    return weiri_mac_equal(mac, hello->mac);
}

void weiri_reply_make(const weiri_job *job, const weiri_challenge *challenge,
                      const weiri_hello *hello, weir_status status, const char *text,
                      weiri_reply *reply)
{
    memset(reply, 0, sizeof *reply);
    reply->magic = MAGIC_REPLY;
    reply->status = status;
    snprintf(reply->text, sizeof reply->text, "%s", text);
    handshake_mac_reply(job, challenge, hello, reply, reply->mac);
}

static weir_status handshake_check_challenge(const weiri_job *job, int peer, const char *where,
                                             const weiri_challenge *challenge)
{
    if (handshake_is_of_other_version(challenge->magic, MAGIC_CHALLENGE))
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "rank %d: rank %d at %s speaks another version of weir's protocol; start "
                          "all ranks with the same library",
                          job->rank, peer, where);
    if (challenge->magic != MAGIC_CHALLENGE)
        return weiri_fail(WEIR_ERR_REFUSED,
                          "rank %d: the listener at %s is not a rank of weir; check the address",
                          job->rank, where);
    if (challenge->rank != peer)
        return weiri_fail(WEIR_ERR_REFUSED,
                          "rank %d expected rank %d at %s, but rank %d of %d answers; another job "
                          "may use this port",
                          job->rank, peer, where, challenge->rank, challenge->nranks);
    return WEIR_OK;
}

static weir_status handshake_make_hello(const weiri_job *job, const weiri_address *listens,
                                        const weiri_challenge *challenge, weiri_hello *hello)
{
    *hello = (weiri_hello){
        .magic = MAGIC_HELLO, .rank = job->rank, .nranks = job->nranks, .listens = *listens};
    weir_status status = weiri_random(hello->nonce, sizeof hello->nonce);
    if (status == WEIR_OK)
        handshake_mac_hello(job, challenge, hello, hello->mac);
    return status;
}

/* Checks the reply, of which *crossed becomes 1 if it is WEIRI_REPLY_CROSSED. */
static weir_status handshake_check_reply(const weiri_job *job, int peer, const char *where,
                                         const weiri_challenge *challenge, const weiri_hello *hello,
                                         weiri_reply *reply, int *crossed)
{
    uint8_t mac[WEIRI_MAC_BYTES];
    handshake_mac_reply(job, challenge, hello, reply, mac);
    weiri_text_clean(reply->text, sizeof reply->text);
    if (reply->magic == MAGIC_REPLY && reply->status < 0)
        return weiri_fail((weir_status)reply->status, "rank %d refused by rank %d at %s: %s",
                          job->rank, peer, where, reply->text);
    *crossed = reply->status == WEIRI_REPLY_CROSSED;
    if (reply->magic != MAGIC_REPLY || (reply->status != WEIR_OK && !*crossed) ||
        !weiri_mac_equal(mac, reply->mac))
        return weiri_fail(WEIR_ERR_REFUSED,
                          "rank %d: the listener at %s does not know this job's secret; it may "
                          "belong to another job",
                          job->rank, where);
    return WEIR_OK;
}

weir_status weiri_handshake_call(const weiri_job *job, int fd, int peer, const weiri_address *to,
                                 const weiri_address *listens, const weiri_deadline *deadline)
{
    char where[WEIRI_ADDRESS_TEXT_BYTES];
    weiri_address_text(to, where);
    weiri_challenge challenge;
    weiri_hello hello;
    weiri_reply reply;
    struct iovec part = {&hello, sizeof hello};
    size_t done = 0, sent = 0, got = 0;
    int crossed = 0;
    weir_status status = weiri_link_read(fd, peer, &challenge, sizeof challenge, deadline, &done);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d joins rank %d at %s", job->rank, peer, where);
    status = handshake_check_challenge(job, peer, where, &challenge);
    if (status == WEIR_OK)
        status = handshake_make_hello(job, listens, &challenge, &hello);
    if (status != WEIR_OK)
        return status;
    status = weiri_link_write(fd, peer, &part, 1, deadline, &sent);
    if (status == WEIR_OK)
        status = weiri_link_read(fd, peer, &reply, sizeof reply, deadline, &got);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d introduces itself to rank %d at %s", job->rank,
                                  peer, where);
    status = handshake_check_reply(job, peer, where, &challenge, &hello, &reply, &crossed);
    if (status == WEIR_OK && crossed)
        return weiri_fail(WEIR_ERR_REFUSED, "rank %d: rank %d at %s is connected already",
                          job->rank, peer, where);
    return status;
}

/* Reads the challenge; once it is complete, sends the hello, for which a new connection has room.
 */
static weir_status handshake_answer(const weiri_job *job, int fd, int peer, const char *where,
                                    const weiri_address *listens, weiri_handshake *shake)
{
    size_t sent = 0;
    struct iovec part = {&shake->hello, sizeof shake->hello};
    weir_status status =
        weiri_link_read_some(fd, peer, &shake->challenge, sizeof shake->challenge, &shake->done);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d joins rank %d at %s", job->rank, peer, where);
    if (shake->done < sizeof shake->challenge)
        return WEIR_OK;
    status = handshake_check_challenge(job, peer, where, &shake->challenge);
    if (status == WEIR_OK)
        status = handshake_make_hello(job, listens, &shake->challenge, &shake->hello);
    if (status == WEIR_OK)
        status = weiri_link_write_some(fd, peer, &part, 1, &sent);
    if (status == WEIR_OK && sent < sizeof shake->hello)
        status = weiri_fail(WEIR_ERR_PEER, "rank %d at %s takes no data", peer, where);
    shake->has_called = 1;
    shake->done = 0;
    return status;
}

weir_status weiri_handshake_advance(const weiri_job *job, int fd, int peer, const weiri_address *to,
                                    const weiri_address *listens, weiri_handshake *shake,
                                    weiri_handshake_end *end)
{
    char where[WEIRI_ADDRESS_TEXT_BYTES];
    int crossed = 0;
    weir_status status = WEIR_OK;
    *end = WEIRI_HANDSHAKE_GOES_ON;
    weiri_address_text(to, where);
    if (!shake->has_called)
        status = handshake_answer(job, fd, peer, where, listens, shake);
    if (status != WEIR_OK || !shake->has_called)
        return status;
    status = weiri_link_read_some(fd, peer, &shake->reply, sizeof shake->reply, &shake->done);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d introduces itself to rank %d at %s", job->rank,
                                  peer, where);
    if (shake->done < sizeof shake->reply)
        return WEIR_OK;
    status = handshake_check_reply(job, peer, where, &shake->challenge, &shake->hello,
                                   &shake->reply, &crossed);
    if (status == WEIR_OK)
        *end = crossed ? WEIRI_HANDSHAKE_CROSSED : WEIRI_HANDSHAKE_ADMITTED;
    return status;
}
