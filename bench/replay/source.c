/* A file that is read in bounded memory: see source.h. */
#include "bench/replay/source.h"

#include "base/error.h"
#include "bench/replay/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct replay_source {
    replay_unpack *unpack; /* NULL: what is read is in memory */
    const char *left;      /* there: what is not yet read */
    size_t left_bytes;
    char *path;
    char *data; /* REPLAY_LINE_BYTES + 1: what is read and not yet given out */
    size_t at, end;
    int is_at_end;
    int is_in_line; /* the last line was too long: its rest comes next */
    long lines;
};

static ssize_t source_get(replay_source *source, char *to, size_t bytes, const char **fault)
{
    if (source->unpack)
        return replay_unpack_read(source->unpack, to, bytes, fault);
    const size_t got = source->left_bytes < bytes ? source->left_bytes : bytes;
    memcpy(to, source->left, got);
    source->left += got;
    source->left_bytes -= got;
    return (ssize_t)got;
}

/* Reads more behind `end`. */
static weir_status source_fill(replay_source *source)
{
    while (!source->is_at_end && source->end < REPLAY_LINE_BYTES) {
        const char *fault = NULL;
        ssize_t got =
            source_get(source, source->data + source->end, REPLAY_LINE_BYTES - source->end, &fault);
        if (got < 0)
            return weiri_fail(WEIR_ERR_SYSTEM, "cannot read %s: %s", source->path, fault);
        source->is_at_end = got == 0;
        source->end += (size_t)got;
        if (source->end >= REPLAY_HEAD_BYTES)
            break;
    }
    source->data[source->end] = '\0';
    return WEIR_OK;
}

/* Opens the file, or begins to read the data. */
static weir_status source_begin(replay_source *source, const char *path, int is_file)
{
    source->path = strdup(path);
    source->data = malloc(REPLAY_LINE_BYTES + 1);
    const int fd = is_file ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (is_file && fd < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot open %s", path);
    if (is_file && !(source->unpack = replay_unpack_open(fd)))
        close(fd);
    if (!source->path || !source->data || (is_file && !source->unpack))
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to read %s", path);
    return source_fill(source);
}

weir_status replay_source_open(const char *path, const char *data, size_t bytes,
                               replay_source **opened)
{
    replay_source *source = calloc(1, sizeof *source);
    if (!source)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to read %s", path);
    source->left = data;
    source->left_bytes = bytes;
    weir_status status = source_begin(source, path, !data);
    if (status == WEIR_OK)
        *opened = source;
    else
        replay_source_close(source);
    return status;
}

void replay_source_close(replay_source *source)
{
    if (!source)
        return;
    if (source->unpack)
        replay_unpack_close(source->unpack);
    free(source->path);
    free(source->data);
    free(source);
}

/* Moves what is left to the beginning of the buffer, and fills the rest. */
static weir_status source_refill(replay_source *source)
{
    memmove(source->data, source->data + source->at, source->end - source->at);
    source->end -= source->at;
    source->at = 0;
    return source_fill(source);
}

weir_status replay_source_peek(replay_source *source, char **data, size_t *bytes)
{
    weir_status status = source->at < source->end ? WEIR_OK : source_refill(source);
    *data = source->data + source->at;
    *bytes = source->end - source->at;
    return status;
}

void replay_source_take(replay_source *source, size_t bytes)
{
    source->at += bytes;
}

/* Skips what is left of a line that is too long. */
static weir_status source_skip_line(replay_source *source)
{
    weir_status status = WEIR_OK;
    char *stop = NULL;
    while (!stop && status == WEIR_OK && !(source->at == source->end && source->is_at_end)) {
        if (source->at == source->end)
            status = source_refill(source);
        stop = memchr(source->data + source->at, '\n', source->end - source->at);
        source->at = stop ? (size_t)(stop + 1 - source->data) : source->end;
    }
    return status;
}

weir_status replay_source_line(replay_source *source, char **line, size_t *length, int *whole)
{
    char *stop;
    weir_status status = source->is_in_line ? source_skip_line(source) : WEIR_OK;
    if (status != WEIR_OK)
        return status;
    source->is_in_line = 0;
    while (!(stop = memchr(source->data + source->at, '\n', source->end - source->at)) &&
           !source->is_at_end && source->end - source->at < REPLAY_LINE_BYTES) {
        status = source_refill(source);
        if (status != WEIR_OK)
            return status;
    }
    *line = source->data + source->at;
    *length = stop ? (size_t)(stop - *line) : source->end - source->at;
    *whole = stop != NULL;
    if (!stop && *length == 0) {
        *line = NULL;
        return WEIR_OK;
    }
    source->lines++;
    source->at += *length + (stop != NULL);
    if (stop && *length && stop[-1] == '\r')
        --*length;
    (*line)[*length] = '\0';
    source->is_in_line = !stop && !source->is_at_end;
    return WEIR_OK;
}

long replay_source_line_number(const replay_source *source)
{
    return source->lines;
}
