/* Reading recorded jobs: files, formats, and what formats call: see read.h. */
#define _GNU_SOURCE /* versionsort */
#include "bench/replay/read.h"

#include "base/error.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A format that recognises less comes later. */
static const replay_format *const formats[] = {
    &replay_format_text,      &replay_format_kineto,   &replay_format_execution_trace,
    &replay_format_inspector, &replay_format_nccl_log, &replay_format_chakra};
enum { FORMATS = sizeof formats / sizeof *formats };

/* --------------------------------------------------------- notes, failures */

void replay_note(replay_reader *reader, long line, const char *format, ...)
{
    replay_trace *trace = reader->trace;
    replay_note_entry *note;
    char text[sizeof note->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    weiri_text_escape(text, sizeof text);
    for (note = trace->notes; note < trace->notes + trace->nnotes; note++)
        if (!strcmp(note->text, text)) {
            note->count++;
            return;
        }
    if (trace->nnotes == REPLAY_NOTES_MAX) {
        trace->more_notes++;
        return;
    }
    *note = (replay_note_entry){.file = (uint16_t)reader->file, .line = (uint32_t)line, .count = 1};
    memcpy(note->text, text, sizeof text);
    trace->nnotes++;
}

weir_status replay_fail(replay_reader *reader, weir_status status, long line, const char *format,
                        ...)
{
    char text[512], place[32] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    weiri_text_escape(text, sizeof text);
    if (line > 0)
        snprintf(place, sizeof place, ":%ld", line);
    return weiri_fail(status, "%s%s: %s", reader->trace->files[reader->file], place, text);
}

/* ---------------------------------------------------------- building a trace */

void replay_comm_name(const char *name, char *shown)
{
    snprintf(shown, REPLAY_NAME_BYTES, "%s", *name ? name : "unnamed");
    for (char *c = shown; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == '#' || *c == 127)
            *c = '_';
}

weir_status replay_add_comm(replay_reader *reader, long line, const char *name, int nranks,
                            uint32_t *index)
{
    replay_trace *trace = reader->trace;
    replay_comm comm = {.nranks = nranks};
    replay_comm_name(name, comm.name);
    if (nranks < 1 || nranks > REPLAY_RANKS_MAX)
        return replay_fail(reader, WEIR_ERR_INVALID, line,
                           "communicator %s has %d ranks; from 1 to %d can be replayed", comm.name,
                           nranks, REPLAY_RANKS_MAX);
    /* Later ones are used more. */
    for (int i = trace->ncomms - 1; i >= 0; i--)
        if (!strcmp(trace->comms[i].name, comm.name)) {
            if (trace->comms[i].nranks != nranks)
                return replay_fail(reader, WEIR_ERR_INVALID, line,
                                   "communicator %s has %d ranks here and %d before; are these "
                                   "files of one job?",
                                   comm.name, nranks, trace->comms[i].nranks);
            *index = (uint32_t)i;
            return WEIR_OK;
        }
    if (trace->ncomms == REPLAY_COMMS_MAX)
        return replay_fail(reader, WEIR_ERR_UNSUPPORTED, line,
                           "more than %d communicators; cut the recording", REPLAY_COMMS_MAX);
    comm.ranks = replay_take(&trace->pool, (size_t)nranks, sizeof *comm.ranks);
    if (!comm.ranks || replay_grow(&trace->comms, (size_t)trace->ncomms, &trace->comms_room,
                                   sizeof *trace->comms) != 0)
        return replay_no_memory();
    for (int i = 0; i < nranks; i++)
        comm.ranks[i] = -1;
    *index = (uint32_t)trace->ncomms;
    trace->comms[trace->ncomms++] = comm;
    return WEIR_OK;
}

weir_status replay_set_member(replay_reader *reader, long line, uint32_t comm, int comm_rank,
                              int rank)
{
    replay_comm *c = &reader->trace->comms[comm];
    if (comm_rank < 0 || comm_rank >= c->nranks || rank < 0 || rank >= REPLAY_RANKS_MAX)
        return replay_fail(reader, WEIR_ERR_INVALID, line,
                           "rank %d of the job as rank %d of communicator %s, which has %d ranks",
                           rank, comm_rank, c->name, c->nranks);
    if (c->ranks[comm_rank] >= 0 && c->ranks[comm_rank] != rank)
        return replay_fail(reader, WEIR_ERR_INVALID, line,
                           "rank %d of communicator %s is rank %d of the job here and rank %d "
                           "before; are these files of one job?",
                           comm_rank, c->name, rank, c->ranks[comm_rank]);
    c->ranks[comm_rank] = rank;
    return WEIR_OK;
}

void replay_renumber(replay_trace *trace, const int *numbers)
{
    replay_rank moved[REPLAY_RANKS_MAX];
    trace->nranks = 0;
    for (int i = 0; i < REPLAY_RANKS_MAX; i++) {
        moved[numbers[i]] = trace->ranks[i];
        if (trace->ranks[i].count && numbers[i] >= trace->nranks)
            trace->nranks = numbers[i] + 1;
    }
    memcpy(trace->ranks, moved, sizeof moved);
    for (int i = 0; i < trace->ncomms; i++)
        for (int member = 0; member < trace->comms[i].nranks; member++)
            if (trace->comms[i].ranks[member] >= 0)
                trace->comms[i].ranks[member] = numbers[trace->comms[i].ranks[member]];
}

weir_status replay_add_call(replay_reader *reader, long line, int rank, const replay_call *call)
{
    replay_trace *trace = reader->trace;
    if (rank < 0 || rank >= REPLAY_RANKS_MAX)
        return replay_fail(reader, WEIR_ERR_INVALID, line,
                           "rank %d; ranks from 0 to %d can be replayed", rank,
                           REPLAY_RANKS_MAX - 1);
    replay_rank *r = &trace->ranks[rank];
    if (replay_grow(&r->calls, r->count, &r->room, sizeof *r->calls) != 0)
        return replay_no_memory();
    replay_call *added = &r->calls[r->count++];
    *added = *call;
    added->file = (uint16_t)reader->file;
    added->line = (uint32_t)line;
    if (rank >= trace->nranks)
        trace->nranks = rank + 1;
    return WEIR_OK;
}

weir_status replay_add_splits(replay_reader *reader, const uint64_t *sent, const uint64_t *received,
                              int nranks, uint64_t *splits)
{
    replay_trace *trace = reader->trace;
    *splits = trace->nsplits;
    for (int i = 0; i < 2 * nranks; i++) {
        if (replay_grow(&trace->splits, trace->nsplits, &trace->splits_room,
                        sizeof *trace->splits) != 0)
            return replay_no_memory();
        trace->splits[trace->nsplits++] = i < nranks ? sent[i]
                                          : received ? received[i - nranks]
                                                     : REPLAY_UNKNOWN;
    }
    return WEIR_OK;
}

/* -------------------------------------------------------------- reading files */

static weir_status add_file(replay_reader *reader, const char *path)
{
    replay_trace *trace = reader->trace;
    char **files = realloc(trace->files, (size_t)(trace->nfiles + 1) * sizeof *files);
    if (!files)
        return replay_no_memory();
    trace->files = files;
    files[trace->nfiles] = replay_take_text(&trace->pool, path);
    if (!files[trace->nfiles])
        return replay_no_memory();
    reader->file = trace->nfiles++;
    return WEIR_OK;
}

static const replay_format *recognise(const char *head, size_t bytes)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i]->recognises(head, bytes))
            return formats[i];
    return NULL;
}

/* Two recordings of one job would give it each call twice: all files have one format. */
static weir_status set_format(replay_reader *reader, const replay_format *format)
{
    if (!reader->format)
        reader->format = format;
    reader->trace->format = reader->format->name;
    return reader->format == format
               ? WEIR_OK
               : replay_fail(reader, WEIR_ERR_INVALID, 0,
                             "%s, but the files before it are %s; name files of one format",
                             format->name, reader->format->name);
}

/* Reads a file; or, if data is not NULL, these bytes of it. */
static weir_status read_file(replay_reader *reader, const char *name, const char *data,
                             size_t length)
{
    replay_source *source = NULL;
    char *head = NULL;
    size_t bytes = 0;
    if (reader->trace->nfiles > UINT16_MAX)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "more than %d files", UINT16_MAX);
    weir_status status = replay_source_open(name, data, length, &source);
    if (status != WEIR_OK)
        return status;
    status = add_file(reader, name);
    if (status == WEIR_OK)
        status = replay_source_peek(source, &head, &bytes);
    const replay_format *format = status == WEIR_OK ? recognise(head, bytes) : NULL;
    if (status == WEIR_OK && format) {
        status = set_format(reader, format);
        if (status == WEIR_OK)
            status = format->read(reader, source);
    } else if (status == WEIR_OK && (!bytes || !reader->is_named)) {
        replay_note(reader, 0, bytes ? "no recording of calls: left out" : "empty: left out");
    } else if (status == WEIR_OK) {
        status = replay_fail(reader, WEIR_ERR_INVALID, 0,
                             "not a recording that is known; docs/user/replay.md lists the "
                             "formats");
    }
    replay_source_close(source);
    return status;
}

static int is_tail(const char *name)
{
    const size_t length = strlen(name);
    return length > 5 && !strcmp(name + length - 5, ".tail");
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !is_tail(entry->d_name);
}

/* Reads a file and, of a job that was killed, NAME.tail: lines that were to follow the file's first
 * so many bytes, unless they are in it already. */
static weir_status read_with_tail(replay_reader *reader, const char *path)
{
    char name[4200];
    unsigned long long after = 0;
    struct stat found;
    weir_status status = read_file(reader, path, NULL, 0);
    snprintf(name, sizeof name, "%.4095s.tail", path);
    FILE *tail = status == WEIR_OK ? fopen(name, "re") : NULL;
    if (!tail)
        return status;
    const int follows = fscanf(tail, "# after %llu", &after) == 1 && stat(path, &found) == 0 &&
                        (unsigned long long)found.st_size == after;
    fclose(tail);
    return follows ? read_file(reader, name, NULL, 0) : WEIR_OK;
}

/* Reads a file, or the files of a folder, in the order of names in which numbers count. */
static weir_status read_path(replay_reader *reader, const char *path)
{
    struct stat found;
    if (stat(path, &found) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot open %s", path);
    reader->is_named = !S_ISDIR(found.st_mode);
    if (reader->is_named)
        return read_with_tail(reader, path);
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_visible, versionsort);
    if (count < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot read the folder %s", path);
    weir_status status = WEIR_OK;
    for (int i = 0; i < count; i++) {
        char name[4096];
        const int fits =
            snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name) < (int)sizeof name;
        if (status == WEIR_OK && fits && stat(name, &found) == 0 && S_ISREG(found.st_mode))
            status = read_with_tail(reader, name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static weir_status reader_begin(replay_reader *reader)
{
    *reader = (replay_reader){.trace = calloc(1, sizeof *reader->trace), .is_named = 1};
    if (reader->trace)
        reader->trace->ranks = calloc(REPLAY_RANKS_MAX, sizeof *reader->trace->ranks);
    if (reader->trace && reader->trace->ranks)
        return WEIR_OK;
    free(reader->trace);
    return replay_no_memory();
}

/* Completes the trace of all files, or frees it after a failure. */
static weir_status reader_end(replay_reader *reader, weir_status status, replay_trace **trace)
{
    weir_status finished = WEIR_OK;
    if (reader->format && reader->format->finish)
        finished = reader->format->finish(reader, status != WEIR_OK);
    status = status == WEIR_OK ? finished : status;
    if (status == WEIR_OK)
        status = replay_complete(reader);
    if (status == WEIR_OK)
        *trace = reader->trace;
    else
        replay_trace_free(reader->trace);
    return status;
}

weir_status replay_read(char *const *paths, int npaths, replay_trace **trace)
{
    replay_reader reader;
    weir_status status = reader_begin(&reader);
    if (status != WEIR_OK)
        return status;
    for (int i = 0; i < npaths && status == WEIR_OK; i++)
        status = read_path(&reader, paths[i]);
    return reader_end(&reader, status, trace);
}

weir_status replay_read_data(const char *name, const char *data, size_t bytes, replay_trace **trace)
{
    replay_reader reader;
    const weir_status status = reader_begin(&reader);
    return status == WEIR_OK ? reader_end(&reader, read_file(&reader, name, data, bytes), trace)
                             : status;
}
