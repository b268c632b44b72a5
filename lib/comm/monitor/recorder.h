/*
 * WEIR_RECORD: a process writes a line of text for each collective, send, receive and barrier of
 * its communicators, which bench_replay runs again. docs/user/replay.md has the grammar.
 *
 * The newest lines are in a mapping of a second file, NAME.tail, so that they outlive a process
 * that is killed; whenever it is full, they are appended to the first one. (Pages that are used
 * again cost a third of new ones.) It begins with the size that the first file has while its own
 * lines are not in it, then the time to which they are relative, and ends with bytes of 0. A full
 * disk ends the recording with one line in the log, and never the job.
 */
#ifndef WEIR_COMM_MONITOR_RECORDER_H
#define WEIR_COMM_MONITOR_RECORDER_H

#include "comm/comm.h"

struct weiri_placement;

/* This process's rank of the job, by its launcher; without one its rank in its first communicator,
 * which is `rank` if there was none before. */
int weiri_recorder_job_rank(int rank);
/* After a communicator was created: begins to record it if the environment asks for that. Sets
 * comm->recorder, which is NULL if not. */
void weiri_recorder_open(weir_comm *comm, const struct weiri_placement *placements);
/* Before a communicator is destroyed. The last one's leaves one file. */
void weiri_recorder_close(weir_comm *comm);

/* The functions below need a comm->recorder. end_ns 0: the end is unknown, as on GPUs.
 * Thread-safe. */
void weiri_recorder_call(const weir_comm *comm, const weir_call *call, uint64_t begin_ns,
                         uint64_t end_ns);
void weiri_recorder_barrier(const weir_comm *comm, uint64_t begin_ns, uint64_t end_ns);
void weiri_recorder_message(const weir_comm *comm, int sends, int peer, size_t count,
                            weir_dtype dtype, weir_stream stream, uint64_t begin_ns,
                            uint64_t end_ns);
/* Returns a new number for the calls of a group. */
int weiri_recorder_new_group(void);
/* The group of the calls that this thread records from now on; -1: none. */
void weiri_recorder_set_group(int group);

#endif
