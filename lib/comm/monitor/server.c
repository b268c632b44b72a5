/* Accepts clients, splits what they send into lines, and sends the answers; see server.h. */
#define _GNU_SOURCE
#include "comm/monitor/server.h"

#include "base/fd.h"

#include <weir/target.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IDLE_S = 60, POLL_MS = 1000 };

void weiri_client_say(weiri_client *client, const char *text, size_t length)
{
    char *longer = realloc(client->out, client->length + length);
    if (!longer) {
        client->ends = 1;
        return;
    }
    memcpy(longer + client->length, text, length);
    client->out = longer;
    client->length += length;
}

static void server_drop(weiri_server *server, int index)
{
    const weiri_client client = server->clients[index];
    /* Out of the list first: a child that is forked now closes the descriptors in the list. */
    server->clients[index] = server->clients[--server->nclients];
    close(client.fd);
    free(client.line);
    free(client.out);
}

/* Makes room for a client by dropping the one that was silent for the longest time. */
static void server_make_room(weiri_server *server)
{
    int oldest = 0;
    if (server->nclients < WEIRI_SERVER_CLIENTS)
        return;
    for (int i = 1; i < server->nclients; i++)
        if (server->clients[i].active_ns < server->clients[oldest].active_ns)
            oldest = i;
    server_drop(server, oldest);
}

static void server_accept(weiri_server *server)
{
    const int fd =
        weiri_fd_raise(accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd < 0)
        return;
    server_make_room(server);
    char *line = malloc(WEIRI_SERVER_LINE_BYTES);
    if (!line) {
        close(fd);
        return;
    }
    server->clients[server->nclients++] =
        (weiri_client){.fd = fd, .active_ns = weir_clock_ns(), .line = line, .timeout_s = 5};
}

/* Answers every complete line. Returns 0 if a line is too long. */
static int server_answer_lines(weiri_server *server, weiri_client *client)
{
    char *at = client->line, *end;
    size_t left = client->used;
    while (!client->ends && (end = memchr(at, '\n', left)) != NULL) {
        left -= (size_t)(end + 1 - at);
        *end = '\0';
        if (end > at && end[-1] == '\r')
            end[-1] = '\0';
        server->answer(server, client, at);
        at = end + 1;
    }
    if (client->ends)
        left = 0; /* nothing more is expected */
    memmove(client->line, at, left);
    client->used = left;
    return left < WEIRI_SERVER_LINE_BYTES;
}

/* Returns 0 if the client is to be dropped. */
static int server_receive(weiri_server *server, weiri_client *client)
{
    const ssize_t got = recv(client->fd, client->line + client->used,
                             WEIRI_SERVER_LINE_BYTES - client->used, MSG_DONTWAIT);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got == 0)
        return 0;
    client->active_ns = weir_clock_ns();
    client->used += (size_t)got;
    return server_answer_lines(server, client);
}

static int server_send(weiri_client *client)
{
    while (client->sent < client->length) {
        const ssize_t done = send(client->fd, client->out + client->sent,
                                  client->length - client->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (done < 0)
            return errno == EINTR || errno == EAGAIN;
        client->active_ns = weir_clock_ns();
        client->sent += (size_t)done;
    }
    client->sent = client->length = 0;
    return !client->ends;
}

/* Serves a client for which poll has returned events. Returns 0 if it is to be dropped. */
static int server_serve(weiri_server *server, weiri_client *client, short events)
{
    const uint64_t idle_ns = weir_clock_ns() - client->active_ns;
    if (events & (POLLERR | POLLNVAL) || idle_ns > IDLE_S * 1000000000ull)
        return 0;
    if (!client->ends && events & (POLLIN | POLLHUP) && !server_receive(server, client))
        return 0;
    return !(client->length || client->ends) || server_send(client);
}

/* Waits for events of stop, listener and clients. Returns the number of entries; 0: the server is
 * to end. */
static int server_wait(weiri_server *server, struct pollfd *set, int wait_ms)
{
    set[0] = (struct pollfd){.fd = server->stop, .events = POLLIN};
    set[1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    for (int i = 0; i < server->nclients; i++) {
        const weiri_client *client = &server->clients[i];
        short events = client->ends ? 0 : POLLIN;
        if (client->length)
            events = POLLOUT; /* it reads the answers before it asks for more */
        set[2 + i] = (struct pollfd){.fd = client->fd, .events = events};
    }
    const int count = 2 + server->nclients;
    if (poll(set, (nfds_t)count, wait_ms) <= 0)
        for (int i = 0; i < count; i++)
            set[i].revents = 0;
    return set[0].revents ? 0 : count;
}

/* Calls tick if it is due. Returns how long to wait at most. */
static int server_tick(const weiri_server *server, uint64_t *next_ns)
{
    const uint64_t now_ns = weir_clock_ns();
    if (server->tick_ms < 0 || !server->tick)
        return POLL_MS;
    const uint64_t interval_ns = (uint64_t)(server->tick_ms ? server->tick_ms : 1) * 1000000u;
    if (now_ns >= *next_ns) {
        if (*next_ns)
            server->tick();
        *next_ns = now_ns + interval_ns;
    }
    const uint64_t left_ms = (*next_ns - now_ns) / 1000000u + 1;
    return left_ms < POLL_MS ? (int)left_ms : POLL_MS;
}

void weiri_server_run(weiri_server *server)
{
    struct pollfd set[2 + WEIRI_SERVER_CLIENTS];
    uint64_t next_ns = 0;
    int count;
    while ((count = server_wait(server, set, server_tick(server, &next_ns))) > 0) {
        for (int i = count - 3; i >= 0; i--) /* dropping moves the last one, which was served */
            if (!server_serve(server, &server->clients[i], set[2 + i].revents))
                server_drop(server, i);
        if (set[1].revents)
            server_accept(server);
    }
    while (server->nclients)
        server_drop(server, server->nclients - 1);
}
