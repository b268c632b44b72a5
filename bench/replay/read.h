/*
 * Reading recorded jobs. A job has one file, a file for each rank, or folders of files; each file's
 * format is recognised by its beginning. A format is a row of the table in read.c:
 *
 *     recognises   sees the first bytes of a file and returns whether the format is its own
 *     read         reads one file: replay_add_comm, replay_add_call, replay_note
 *     finish       after the last file, for formats that know ranks only then
 *
 * A reader leaves out what bench_replay cannot repeat, and notes it; it never adds a call whose
 * order, size or type it guessed. It fails only where no use can be made of the file.
 */
#ifndef BENCH_REPLAY_READ_H
#define BENCH_REPLAY_READ_H

#include "bench/replay/source.h"
#include "bench/replay/trace.h"

typedef struct replay_format replay_format;

typedef struct replay_reader {
    replay_trace *trace;
    const replay_format *format; /* of all files; NULL: none has been recognised */
    void *state;                 /* the format's, NULL at first */
    int file;                    /* index in trace->files of the current file */
    int is_named;                /* 1: the user named the file; 0: found in a folder */
} replay_reader;

struct replay_format {
    const char *name; /* in messages: "weir's text" */
    /* head: the first bytes of the file (all, if it is shorter), unpacked, and a NUL. Pure. */
    int (*recognises)(const char *head, size_t bytes);
    weir_status (*read)(replay_reader *reader, replay_source *source);
    /* Called once if the format has read a file; frees the format's state, also after a failure of
     * read (failed: 1). NULL: nothing to do. */
    weir_status (*finish)(replay_reader *reader, int failed);
};

extern const replay_format replay_format_text, replay_format_kineto, replay_format_execution_trace,
    replay_format_nccl_log, replay_format_inspector, replay_format_chakra;

/* Reads a job from files and folders. Afterwards ranks are numbered from 0 without gaps, every
 * communicator knows its ranks, every call was checked by itself (a peer outside of the
 * communicator, a count above REPLAY_COUNT_MAX), and times begin at 0. Local.
 * Release with replay_trace_free. WEIR_ERR_INVALID: weir_last_error names file, line and remedy. */
weir_status replay_read(char *const *paths, int npaths, replay_trace **trace);

/* The same of a file's bytes, for tests. */
weir_status replay_read_data(const char *name, const char *data, size_t bytes,
                             replay_trace **trace);

/* The last step of both: numbers ranks without gaps, removes communicators without calls, checks
 * each call by itself, and lets times begin at 0. WEIR_ERR_INVALID: a rank's recording is missing,
 * or a call is impossible; the error line names file and line. */
weir_status replay_complete(replay_reader *reader);

/* ------------------------------------------------------------- for formats */

/* The name that a communicator gets: without blanks and #, and cut to REPLAY_NAME_BYTES. Pure. */
void replay_comm_name(const char *name, char *shown);
/* Finds or adds the communicator of a name. nranks must be what it was
 * before; members' ranks are unknown at first. WEIR_ERR_INVALID if nranks differs or is out of
 * range. */
weir_status replay_add_comm(replay_reader *reader, long line, const char *name, int nranks,
                            uint32_t *comm);
/* Says which rank of the job has a rank of the communicator. WEIR_ERR_INVALID if the file said
 * otherwise before, or a number is out of range. */
weir_status replay_set_member(replay_reader *reader, long line, uint32_t comm, int comm_rank,
                              int rank);
/* Gives ranks of the job other numbers: a permutation of REPLAY_RANKS_MAX. */
void replay_renumber(replay_trace *trace, const int *numbers);
/* Appends a call to those of a rank of the job; file and line are filled in. */
weir_status replay_add_call(replay_reader *reader, long line, int rank, const replay_call *call);
/* Stores splits of an alltoallv: those sent to each rank of the communicator, then those received.
 * received NULL, or entries REPLAY_UNKNOWN: what the senders' calls say. */
weir_status replay_add_splits(replay_reader *reader, const uint64_t *sent, const uint64_t *received,
                              int nranks, uint64_t *splits);
/* Notes what is left out, and why: "send to a rank outside of the communicator: left out". Equal
 * texts become one line with a count, so put no numbers into them that differ from call to call.
 * line 0: the file as a whole. */
void replay_note(replay_reader *reader, long line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with "FILE:LINE: TEXT". Returns status. */
weir_status replay_fail(replay_reader *reader, weir_status status, long line, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));

#endif
