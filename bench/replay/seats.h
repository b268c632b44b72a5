/*
 * Which rank of the job a process is, for formats whose calls name a communicator and a process: a
 * seat is a rank of a communicator as its process sees it. Ranks of the job are numbered as
 * processes appear, and in the end as in the largest communicator.
 */
#ifndef BENCH_REPLAY_SEATS_H
#define BENCH_REPLAY_SEATS_H

#include "bench/replay/read.h"

typedef struct replay_seat {
    char *key;
    uint32_t comm;
    int comm_rank, rank;         /* of the job, for now */
    int children, is_open;       /* for the format */
    uint64_t last[REPLAY_KINDS]; /* for the format: the last call's number */
} replay_seat;

typedef struct replay_seats {
    void *seats, *processes, *streams; /* trees of replay_seat, processes, and streams of these */
    int nprocesses;
    int64_t origin_us; /* the first time; 0: none yet */
    replay_seat *last;
} replay_seats;

/* Finds a seat of the current format, or NULL. */
replay_seat *replay_seat_find(replay_reader *reader, const char *key);
/* Finds the number of a process's stream, in the order in which they appear. */
weir_status replay_seat_stream(replay_reader *reader, const char *process, const char *stream,
                               uint8_t *number);
/* Adds a seat, or replaces the one with its key. process names the process, and its device if it
 * may have several. */
weir_status replay_seat_set(replay_reader *reader, long line, const char *key, const char *process,
                            const char *comm, int nranks, int comm_rank, replay_seat **seat);
/* Returns microseconds since 1970 as seconds since another time, which all files share. */
double replay_seats_time(replay_reader *reader, int64_t time_us);
/* The format's finish function. */
weir_status replay_seats_finish(replay_reader *reader, int failed);

/* Makes groups of the sends and receives of a rank that follow each other in a communicator, from
 * its call number `first` on, and notes it: for files that do not say what was a group. */
void replay_join_pairs(replay_reader *reader, int rank, size_t first);

#endif
