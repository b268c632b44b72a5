/*
 * A server of text lines over TCP, in one thread. Clients that stay silent or do not read are
 * dropped after a while, also when there are too many; a line that is too long ends its client.
 */
#ifndef WEIR_COMM_MONITOR_SERVER_H
#define WEIR_COMM_MONITOR_SERVER_H

#include <stddef.h>
#include <stdint.h>

enum { WEIRI_SERVER_CLIENTS = 64, WEIRI_SERVER_LINE_BYTES = 16384 };

typedef struct weiri_client {
    int fd;
    uint64_t active_ns; /* when it last sent or received something */
    char *line;         /* what has been received of a line; used bytes of it */
    size_t used;
    char *out; /* what is to be sent, from sent to length; owned */
    size_t sent, length;
    int ends;                           /* close when everything is sent */
    int is_json, is_verbose, timeout_s; /* what the client has set */
} weiri_client;

typedef struct weiri_server {
    int listener; /* -1: serves nobody */
    int stop;     /* readable once the thread is to end */
    /* Answers a line, which has no end of line, by weiri_client_say. */
    void (*answer)(const struct weiri_server *server, weiri_client *client, char *line);
    /* Called every tick_ms, if that is not negative. */
    void (*tick)(void);
    int64_t tick_ms;
    weiri_client clients[WEIRI_SERVER_CLIENTS];
    int nclients;
} weiri_server;

/* Adds text to what the client gets. */
void weiri_client_say(weiri_client *client, const char *text, size_t length);
/* Serves until stop is readable, and then closes the clients. */
void weiri_server_run(weiri_server *server);

#endif
