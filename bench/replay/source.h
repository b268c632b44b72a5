/*
 * A file that is read once, from the beginning to its end, in bounded memory: by blocks or by
 * lines. A file packed by gzip is unpacked.
 */
#ifndef BENCH_REPLAY_SOURCE_H
#define BENCH_REPLAY_SOURCE_H

#include <weir/weir.h>

enum { REPLAY_HEAD_BYTES = 1 << 16, REPLAY_LINE_BYTES = 1 << 20 };

typedef struct replay_source replay_source;

/* Opens a file; or, if data is not NULL, bytes in memory under that name, which stay the caller's
 * and must outlive the source. Local. WEIR_ERR_SYSTEM. Release with replay_source_close. */
weir_status replay_source_open(const char *path, const char *data, size_t bytes,
                               replay_source **source);
void replay_source_close(replay_source *source);
/* Finds what is read and not yet taken, followed by a NUL; reads more if that is nothing. *bytes is
 * 0 at the end of the file; at its beginning REPLAY_HEAD_BYTES or more, or the whole file.
 * WEIR_ERR_SYSTEM. */
weir_status replay_source_peek(replay_source *source, char **data, size_t *bytes);
/* Takes so many of these bytes. */
void replay_source_take(replay_source *source, size_t bytes);
/* Reads a line of at most REPLAY_LINE_BYTES, without its end: *line is NULL at the end of the file,
 * and else valid until the next call; *whole is 0 if the line has no end, because the file was cut
 * or the line is longer (its rest is skipped). *length counts NUL bytes in the line as well. */
weir_status replay_source_line(replay_source *source, char **line, size_t *length, int *whole);
/* The number of the last line, from 1. */
long replay_source_line_number(const replay_source *source);

#endif
