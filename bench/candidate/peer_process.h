/*
 * A process of a rank that runs a peer, so that a crash or a hang there ends only the peer. Rank
 * and process talk over a socket: the rank sends a command, and the process answers with any number
 * of exchanges, which the ranks carry out together, and then with done or failed. The processes of
 * all ranks thus exchange bytes without a connection of their own.
 *
 * Both directions use a bench_peer_message, followed by its bytes.
 */
#ifndef BENCH_CANDIDATE_PEER_PROCESS_H
#define BENCH_CANDIDATE_PEER_PROCESS_H

#include "bench/job/job.h"
#include <weir/peer.h>

enum {
    /* commands, whose bytes the peer's kind defines */
    BENCH_PEER_PROBE = 1,
    BENCH_PEER_CREATE,
    BENCH_PEER_CALL,
    /* answers */
    BENCH_PEER_EXCHANGE, /* this rank's block; the reply is the blocks of its group, bare */
    BENCH_PEER_DONE,
    BENCH_PEER_FAILED, /* with one line */
    /* how a process ended */
    BENCH_PEER_HANGS,
    BENCH_PEER_CRASHES,
};

typedef struct bench_peer_message {
    uint32_t kind, bytes;
    double us; /* done: the time that the peer's call took; else 0 */
} bench_peer_message;

typedef struct bench_peer_process {
    bench_job *job;
    int pid, fd;                  /* 0 and -1: there is no process */
    char failure[WEIR_PEER_TEXT]; /* why the peer is left out, the same on every rank; else empty */
} bench_peer_process;

/* Forks; the child calls body with its end of the socket, and must not return from it. Local. A
 * failure shows in the first command. */
void bench_peer_process_start(bench_peer_process *process, bench_job *job,
                              void (*body)(void *context, int fd), void *context);
/* Sends a command and carries it out with all ranks; what names it in the failure. Returns 0 with
 * the answer's bytes in answer (at most room; may be NULL), or -1 on every rank after a failure,
 * which has ended the process. Collective. */
int bench_peer_process_do(bench_peer_process *process, uint32_t kind, const void *data,
                          size_t bytes, const char *what, void *answer, size_t room);
/* The same for a call that exchanges nothing: *us is the time that the process reports. Local. The
 * failure is this rank's. */
int bench_peer_process_call(bench_peer_process *process, const void *data, size_t bytes,
                            double *us);
/* Ends the process. Local. */
void bench_peer_process_end(bench_peer_process *process);

/* For the child: whole messages. Return 0, or -1 if the other side has gone. */
int bench_peer_send(int fd, uint32_t kind, const void *data, size_t bytes);
int bench_peer_receive(int fd, bench_peer_message *message, void *data, size_t room);
/* The child's exchange, as weir_peer_job.allgather. */
int bench_peer_exchange(int fd, int rank, int nranks, void *all, size_t bytes);

#endif
