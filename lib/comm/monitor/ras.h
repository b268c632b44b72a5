/* The RAS service: the socket, its commands, and the question to other processes. */
#ifndef WEIR_COMM_MONITOR_RAS_H
#define WEIR_COMM_MONITOR_RAS_H

#include "comm/monitor/server.h"
#include "comm/monitor/view.h"

/* Listens at "host:port"; every process of this user may, and the system chooses one for each
 * client. Returns -1, with an error line, if it cannot. */
int weiri_ras_listen(const char *address);
/* Listens at this node's address for other processes. Returns -1 if it cannot. */
int weiri_records_listen(weiri_address *address);

/* How many hashes a process reads in the question of another one, which fit in a line. */
enum { WEIRI_RECORDS_KNOWN = 512 };

/* Answer a line of a RAS client, and of another process. */
void weiri_ras_answer(const weiri_server *server, weiri_client *client, char *line);
void weiri_records_answer(const weiri_server *server, weiri_client *client, char *line);

/* Writes the question to a process. If that process is on this node, the question names the
 * communicators that this process sees itself, as many as are read. */
void weiri_gather_ask(const weiri_view *view, int is_same_node, FILE *to);

/* Asks the processes that the view names, and the processes that their answers name, about their
 * ranks; for timeout_s at most (0: 60), and until stop is readable. Ranks of which nothing is heard
 * become silent. (gather.c) */
void weiri_gather(weiri_view *view, int stop, int timeout_s);

#endif
