/*
 * The handshake of the tcp bootstrap, from both ends. Listening end: the bytes are a script of up
 * to four connections, which send arbitrary bytes, a genuine hello in pieces, one that was recorded
 * on another connection, or one with a changed byte, in any order, and hang up. Only a complete
 * genuine hello for the connection's own challenge admits a guest. Calling end: the bytes are what
 * the host answers; without the secret none of them is a proof.
 */
#include "verify/tests/support/fuzz_input.h"

#include "boot/guests.h"
#include "boot/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CALLERS = 4, STEPS_MAX = 64, NRANKS = 3 };

typedef struct caller {
    int fd, has_challenge;
    weiri_challenge challenge;
    weiri_hello hello; /* genuine, for this challenge */
    uint8_t sent[sizeof(weiri_hello)];
    size_t sent_bytes;
} caller;

typedef struct stage {
    weiri_job job;
    weiri_guests guests;
    int listener;
    struct sockaddr_in address;
    caller callers[CALLERS];
    uint8_t recorded[sizeof(weiri_hello)];
    int admitted;
} stage;

static weir_status stage_check(void *context, const weiri_job *job, const weiri_guest *guest)
{
    const stage *on = context;
    (void)job;
    for (int i = 0; i < CALLERS; i++) {
        const caller *from = &on->callers[i];
        if (from->has_challenge &&
            memcmp(&from->challenge, &guest->challenge, sizeof from->challenge) == 0) {
            FUZZ_DEMAND(from->sent_bytes >= sizeof from->hello);
            FUZZ_DEMAND(memcmp(from->sent, &from->hello, sizeof from->hello) == 0);
            return WEIR_OK;
        }
    }
    FUZZ_DEMAND(!"a guest was admitted that no caller is");
    return WEIR_ERR_REFUSED;
}

static void stage_take(void *context, const weiri_job *job, const weiri_guest *guest)
{
    stage *on = context;
    (void)job;
    on->admitted++;
    close(guest->fd);
}

/* Handles everything that has arrived. */
static void stage_act(stage *on)
{
    struct pollfd set[1 + 64 * CALLERS];
    for (int passes = 0; passes < 3; passes++) {
        FUZZ_DEMAND(on->guests.count < 64 * CALLERS);
        int entries = weiri_guests_watch(&on->guests, set);
        if (poll(set, (nfds_t)entries, 0) <= 0)
            return;
        FUZZ_DEMAND(weiri_guests_act(&on->guests, set, entries) == WEIR_OK);
    }
}

static void caller_connect(stage *on, caller *who)
{
    if (who->fd >= 0)
        close(who->fd);
    memset(who, 0, sizeof *who);
    who->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct linger none = {1, 0}; /* no connection stays in TIME_WAIT */
    setsockopt(who->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    const int failed = connect(who->fd, (struct sockaddr *)&on->address, sizeof on->address);
    /* Earlier inputs may have used all ports, and libFuzzer's alarm interrupts the call. */
    FUZZ_DEMAND(!failed || errno == EADDRNOTAVAIL || errno == EINTR);
    stage_act(on);
    if (recv(who->fd, &who->challenge, sizeof who->challenge, MSG_DONTWAIT) !=
        sizeof who->challenge)
        return;
    who->has_challenge = 1;
    int pair[2];
    FUZZ_DEMAND(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    /* The caller's own code makes the hello; it gets no reply. */
    weiri_job job = on->job;
    job.rank = 1;
    const weiri_address nowhere = {.ip = {127, 0, 0, 1}, .port = 1};
    weiri_deadline deadline = weiri_deadline_in(1000);
    FUZZ_DEMAND(send(pair[0], &who->challenge, sizeof who->challenge, 0) > 0);
    shutdown(pair[0], SHUT_WR);
    FUZZ_DEMAND(weiri_handshake_call(&job, pair[1], 0, &nowhere, &nowhere, &deadline) != WEIR_OK);
    FUZZ_DEMAND(recv(pair[0], &who->hello, sizeof who->hello, 0) == sizeof who->hello);
    close(pair[0]);
    close(pair[1]);
}

static void caller_send(caller *who, const void *data, size_t bytes)
{
    if (send(who->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)bytes)
        return;
    size_t room = sizeof who->sent - who->sent_bytes, kept = bytes < room ? bytes : room;
    memcpy(who->sent + who->sent_bytes, data, kept);
    who->sent_bytes += kept;
}

/* One step: its first byte selects the caller and what it does, the second one how much. */
static size_t stage_step(stage *on, const uint8_t *data, size_t bytes)
{
    caller *who = &on->callers[data[0] % CALLERS];
    uint8_t piece[sizeof(weiri_hello)];
    size_t used = 2, length = data[1] % (sizeof piece + 1), at = who->sent_bytes;
    int action = data[0] / CALLERS % 6;
    if (who->fd < 0 || action == 0) {
        caller_connect(on, who);
        return used;
    }
    if (length > sizeof piece - at)
        length = sizeof piece - at;
    memcpy(piece, (const uint8_t *)&who->hello + at, length);
    if (action == 1) { /* arbitrary bytes */
        length = length < bytes - 2 ? length : bytes - 2;
        memcpy(piece, data + 2, length);
        used += length;
    } else if (action == 2) { /* recorded on another connection */
        memcpy(piece, on->recorded + at, length);
    } else if (action == 3 && length > 0) { /* a changed byte */
        piece[length - 1] ^= 1;
    } else if (action == 4) {
        shutdown(who->fd, SHUT_WR);
        length = 0;
    } /* else: genuine */
    if (length > 0)
        caller_send(who, piece, length);
    memcpy(on->recorded, &who->hello, sizeof on->recorded);
    stage_act(on);
    return used;
}

static void listening_end(const uint8_t *data, size_t bytes)
{
    static stage on;
    weiri_guests_host host = {.context = &on, .check = stage_check, .take = stage_take};
    socklen_t length = sizeof on.address;
    if (on.listener <= 0) {
        on.job = (weiri_job){.rank = 0, .nranks = NRANKS, .timeout_ms = 1000, .key = {1, 2, 3}};
        on.address =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        on.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        FUZZ_DEMAND(bind(on.listener, (struct sockaddr *)&on.address, length) == 0);
        FUZZ_DEMAND(listen(on.listener, 64) == 0);
        FUZZ_DEMAND(getsockname(on.listener, (struct sockaddr *)&on.address, &length) == 0);
    }
    for (int i = 0; i < CALLERS; i++)
        on.callers[i] = (caller){.fd = -1};
    FUZZ_DEMAND(weiri_guests_open(&on.job, &host, on.listener, NRANKS, &on.guests) == WEIR_OK);
    for (int steps = 0; bytes >= 2 && steps < STEPS_MAX; steps++) {
        size_t used = stage_step(&on, data, bytes);
        data += used;
        bytes -= used;
    }
    stage_act(&on);
    for (int i = 0; i < CALLERS; i++)
        if (on.callers[i].fd >= 0)
            close(on.callers[i].fd);
    weiri_guests_close(&on.guests);
}

static void calling_end(const uint8_t *data, size_t bytes)
{
    int pair[2];
    const weiri_job job = {.rank = 1, .nranks = NRANKS, .timeout_ms = 1000, .key = {1, 2, 3}};
    const weiri_address nowhere = {.ip = {127, 0, 0, 1}, .port = 1};
    weiri_deadline deadline = weiri_deadline_in(1000);
    FUZZ_DEMAND(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    FUZZ_DEMAND(send(pair[0], data, bytes, MSG_DONTWAIT) == (ssize_t)bytes);
    shutdown(pair[0], SHUT_WR);
    FUZZ_DEMAND(weiri_handshake_call(&job, pair[1], 0, &nowhere, &nowhere, &deadline) != WEIR_OK);
    FUZZ_DEMAND(*weir_last_error());
    close(pair[0]);
    close(pair[1]);
}

void fuzz_input(const uint8_t *data, size_t bytes)
{
    if (bytes > 0 && bytes < 4096 && data[0] % 4 == 0)
        calling_end(data + 1, bytes - 1);
    else if (bytes > 0)
        listening_end(data + 1, bytes - 1);
}
