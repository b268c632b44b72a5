/*
 * The commands of the RAS protocol, one per line, in any case: CLIENT PROTOCOL n, TIMEOUT s,
 * SET FORMAT text|json, STATUS and VERBOSE STATUS, after whose answer the connection is closed.
 * docs/developer/monitoring.md has the protocol and its sources.
 */
#define _GNU_SOURCE
#include "comm/monitor/ras.h"

#include "base/c_locale.h"
#include "base/fd.h"
#include "base/error.h"
#include "boot/socket.h"
#include "comm/monitor/status.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROTOCOL = 2, BACKLOG = 128 };

/* ------------------------------------------------------------------ sockets */

static int ras_bind(const struct addrinfo *at)
{
    const int yes = 1;
    const int fd =
        weiri_fd_raise(socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Binds to the first address that works, IPv4 first: clients that are given "localhost" try both.
 */
static int ras_bind_any(const struct addrinfo *list)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2; i++)
        for (const struct addrinfo *at = list; at; at = at->ai_next) {
            const int fd = at->ai_family == families[i] ? ras_bind(at) : -1;
            if (fd >= 0)
                return fd;
        }
    return -1;
}

int weiri_ras_listen(const char *address)
{
    char host[WEIRI_RAS_ADDRESS_BYTES];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    const char *port = strrchr(address, ':');
    if (!port || !port[1]) {
        weiri_fail(WEIR_ERR_INVALID, "RAS address '%s': expected HOST:PORT", address);
        return -1;
    }
    const char *from = address + (*address == '['), *end = port - (*address == '[');
    snprintf(host, sizeof host, "%.*s", (int)(end > from ? end - from : 0), from);
    const int failed =
        getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port + 1, &hints, &list);
    if (failed) {
        weiri_fail(WEIR_ERR_INVALID, "RAS address '%s': %s", address, gai_strerror(failed));
        return -1;
    }
    const int fd = ras_bind_any(list);
    if (fd < 0)
        weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot listen for RAS clients at %s", address);
    freeaddrinfo(list);
    return fd;
}

int weiri_records_listen(weiri_address *address)
{
    const char *wish = NULL;
    int fd = -1;
    if (weiri_interface_wish(&wish, NULL) != WEIR_OK ||
        weiri_interface_address(wish, NULL, address) != WEIR_OK ||
        weiri_socket_listen(address, &fd) != WEIR_OK)
        return -1;
    if (weiri_socket_address(fd, address) == WEIR_OK)
        return fd;
    close(fd);
    return -1;
}

/* ----------------------------------------------------------------- commands */

static void ras_say(weiri_client *client, const char *text)
{
    weiri_client_say(client, text, strlen(text));
}

/* Returns the rest of a line that begins with a command, in any case; else NULL. */
static char *ras_after(char *line, const char *command)
{
    const size_t length = strlen(command);
    return strncasecmp(line, command, length) == 0 ? line + length : NULL;
}

static void ras_refuse(weiri_client *client, const char *what, const char *text)
{
    char line[192];
    snprintf(line, sizeof line, "ERROR: %.80s %.80s\n", what, text);
    ras_say(client, line);
}

static void ras_set_timeout(weiri_client *client, const char *text)
{
    char *end = NULL;
    const long seconds = strtol(text, &end, 10);
    if (end == text || *end || seconds < 0 || seconds > 3600) {
        ras_refuse(client, "Invalid timeout value", text);
        return;
    }
    client->timeout_s = (int)seconds;
    ras_say(client, "OK\n");
}

static void ras_set_format(weiri_client *client, const char *text)
{
    const int is_json = strcasecmp(text, "json") == 0;
    if (!is_json && strcasecmp(text, "text") != 0) {
        ras_refuse(client, "Invalid format", text);
        return;
    }
    client->is_json = is_json;
    ras_say(client, "OK\n");
}

/* Sends what print writes. */
static void ras_say_view(weiri_client *client, const weiri_view *view,
                         void (*print)(const weiri_view *view, FILE *to))
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return;
    const locale_t before = weiri_c_locale_begin();
    print(view, file);
    weiri_c_locale_end(before);
    if (fclose(file) == 0)
        weiri_client_say(client, text, length);
    free(text);
}

static void ras_status(const weiri_server *server, weiri_client *client)
{
    weiri_view view = {.ncomms = 0};
    const uint64_t start_ns = weir_clock_ns();
    weiri_view_look(&view);
    weiri_gather(&view, server->stop, client->timeout_s);
    view.took_ns = weir_clock_ns() - start_ns;
    ras_say_view(client, &view, client->is_json ? weiri_status_json : weiri_status_text);
    weiri_view_free(&view);
    client->ends = 1;
}

void weiri_ras_answer(const weiri_server *server, weiri_client *client, char *line)
{
    char answer[64], *rest;
    if (ras_after(line, "client protocol ")) {
        snprintf(answer, sizeof answer, "SERVER PROTOCOL %d\n", PROTOCOL);
        ras_say(client, answer);
    } else if ((rest = ras_after(line, "timeout ")) != NULL) {
        ras_set_timeout(client, rest);
    } else if ((rest = ras_after(line, "set format ")) != NULL) {
        ras_set_format(client, rest);
    } else if (strcasecmp(line, "status") == 0 || strcasecmp(line, "verbose status") == 0) {
        ras_status(server, client);
    } else if (ras_after(line, "monitor")) {
        ras_refuse(client, "weir does not send events; ask for STATUS instead of", line);
    } else {
        ras_refuse(client, "Unknown command", line);
    }
}

/* "WEIR RECORDS HASH...": the hashes of communicators that the asker can see itself. */
void weiri_records_answer(const weiri_server *server, weiri_client *client, char *line)
{
    uint64_t known[WEIRI_RECORDS_KNOWN];
    int nknown = 0;
    (void)server;
    char *at = ras_after(line, "weir records"), *end = NULL, *text = NULL;
    size_t length = 0;
    client->ends = 1;
    if (!at)
        return;
    for (; nknown < WEIRI_RECORDS_KNOWN; at = end) {
        known[nknown] = strtoull(at, &end, 16);
        if (end == at)
            break;
        nknown++;
    }
    weiri_view view = {.ncomms = 0};
    weiri_view_look(&view);
    FILE *file = open_memstream(&text, &length);
    if (file) {
        weiri_records_write(&view, known, nknown, file);
        if (fclose(file) == 0)
            weiri_client_say(client, text, length);
        free(text);
    }
    weiri_view_free(&view);
}
