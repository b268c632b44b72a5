/*
 * weir's text of a recorded job: a line for each communicator and each call. docs/user/replay.md
 * has the grammar.
 */
#include "bench/replay/read.h"

#include "programs/numbers.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 16 };

/* ------------------------------------------------------------------ reading */

typedef struct text_line {
    replay_reader *reader;
    long number;
    char *words[WORDS_MAX];
    int count;
    double begin_s; /* of the file's times */
} text_line;

#define BAD(line, ...) replay_fail((line)->reader, WEIR_ERR_INVALID, (line)->number, __VA_ARGS__)

/* A call's line begins with a time and a rank. */
static int is_call(const char *line)
{
    char *end;
    if (*line == '-')
        end = (char *)(uintptr_t)line + 1;
    else
        (void)strtod(line, &end);
    return end > line && *end == ' ' && (end += strspn(end, " "), *end == 'r') &&
           isdigit((unsigned char)end[1]);
}

static int text_recognises(const char *head, size_t bytes)
{
    const char *line = head;
    (void)bytes;
    while (*line == '#' || *line == '\n' || *line == '\r') {
        if (!strncmp(line, "# weir recording", 16))
            return 1;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return !strncmp(line, "comm ", 5) || !strncmp(line, "begin ", 6) ||
           !strncmp(line, "place ", 6) || is_call(line);
}

/* Reads "0-3,8" into the communicator's ranks. Returns how many; -1: not such a list. */
static int ranks_read(const char *list, int *ranks)
{
    int count = 0;
    const char *at = list;
    do {
        char *end;
        const long first = strtol(at, &end, 10);
        long last = first;
        if (!isdigit((unsigned char)*at))
            return -1;
        if (*end == '-') {
            at = end + 1;
            if (!isdigit((unsigned char)*at))
                return -1;
            last = strtol(at, &end, 10);
        }
        if (last < first || last >= REPLAY_RANKS_MAX || count + last - first >= REPLAY_RANKS_MAX)
            return -1;
        for (long rank = first; rank <= last; rank++)
            ranks[count++] = (int)rank;
        at = end + 1;
        if (*end != ',' && *end)
            return -1;
        if (!*end)
            return count;
    } while (1);
}

static weir_status comm_read(text_line *line)
{
    int ranks[REPLAY_RANKS_MAX];
    uint32_t comm = 0;
    const int count = line->count == 3 ? ranks_read(line->words[2], ranks) : -1;
    if (count < 0)
        return BAD(line, "expected: comm NAME RANKS, with ranks such as 0-3,8");
    weir_status status = replay_add_comm(line->reader, line->number, line->words[1], count, &comm);
    for (int i = 0; i < count && status == WEIR_OK; i++)
        status = replay_set_member(line->reader, line->number, comm, i, ranks[i]);
    return status;
}

static int op_read(const char *word)
{
    for (int op = 0; op < WEIR_OP_COUNT; op++)
        if (!strcmp(word, weir_op_name((weir_op)op)))
            return op;
    return -1;
}

/* Reads "1,2,?,4"; a "?" for all of them; 0, or -1. */
static int splits_read(const char *list, int nranks, uint64_t *splits)
{
    const char *at = list;
    if (!strcmp(list, "?")) {
        for (int i = 0; i < nranks; i++)
            splits[i] = REPLAY_UNKNOWN;
        return 0;
    }
    for (int i = 0; i < nranks; i++) {
        char *end;
        if (!isdigit((unsigned char)*at))
            return -1;
        errno = 0;
        splits[i] = strtoull(at, &end, 10);
        if (errno || splits[i] > REPLAY_COUNT_MAX || *end != (i + 1 < nranks ? ',' : '\0'))
            return -1;
        at = end + 1;
    }
    return 0;
}

static weir_status call_splits(text_line *line, const char *sent, const char *received,
                               replay_call *call)
{
    const int nranks = line->reader->trace->comms[call->comm].nranks;
    uint64_t from[REPLAY_RANKS_MAX], to[REPLAY_RANKS_MAX];
    if (!sent || splits_read(sent, nranks, to) != 0 || *sent == '?' ||
        splits_read(received ? received : "?", nranks, from) != 0)
        return BAD(line,
                   "alltoallv: expected sent=N,N,... with %d numbers of elements, and "
                   "received= the like or ?",
                   nranks);
    return replay_add_splits(line->reader, to, from, nranks, &call->splits);
}

/* Reads a whole number; fails with a line that names the word. */
static weir_status number_read(text_line *line, const char *word, const char *text, long long most,
                               long long *number)
{
    if (weiri_whole_read(text, 0, most, number) == 0)
        return WEIR_OK;
    return BAD(line, "%s %s: expected a whole number from 0 to %lld", word, text, most);
}

static const char *value_of(const char *word, const char *key)
{
    const size_t length = strlen(key);
    return !strncmp(word, key, length) && word[length] == '=' ? word + length + 1 : NULL;
}

/* Reads what follows type, operation and count. */
static weir_status call_words(text_line *line, int at, replay_call *call)
{
    static const char *const peers[] = {"root", "to", "from"};
    const int peer = call->kind == REPLAY_SEND ? 1 : call->kind == REPLAY_RECV ? 2 : 0;
    const char *sent = NULL, *received = NULL, *value;
    weir_status status = WEIR_OK;
    long long number = 0;
    double seconds = 0;
    for (; at < line->count && status == WEIR_OK; at++) {
        const char *word = line->words[at];
        if (!strcmp(word, "inplace")) {
            call->in_place = 1;
        } else if (!strcmp(word, "unregistered")) {
            call->unregistered = 1;
        } else if ((value = value_of(word, "took")) && weiri_decimal_read(value, &seconds) == 0) {
            call->duration_s = (float)seconds;
        } else if ((value = value_of(word, "group"))) {
            status = number_read(line, "group", value, INT32_MAX, &number);
            call->group = (int32_t)number;
        } else if ((value = value_of(word, "buffers"))) {
            status = number_read(line, "buffers", value, REPLAY_BUFFERS_MAX - 1, &number);
            call->buffers = (int32_t)number;
        } else if ((value = value_of(word, "stream"))) {
            status = number_read(line, "stream", value, UINT8_MAX, &number);
            call->stream = (uint8_t)number;
        } else if ((value = value_of(word, peers[peer]))) {
            status = number_read(line, peers[peer], value, REPLAY_RANKS_MAX - 1, &number);
            call->peer = (int32_t)number;
        } else if ((value = value_of(word, "sent"))) {
            sent = value;
        } else if ((value = value_of(word, "received"))) {
            received = value;
        } else {
            status = BAD(line,
                         "%s: unknown; expected %s=RANK, took=SECONDS, group=N, stream=N, inplace, "
                         "unregistered, buffers=N%s",
                         word, peers[peer],
                         call->kind == REPLAY_ALLTOALLV ? ", sent=N,... or received=N,..." : "");
        }
    }
    return status == WEIR_OK && call->kind == REPLAY_ALLTOALLV
               ? call_splits(line, sent, received, call)
               : status;
}

/* Reads type, operation and count. *at becomes the next word's. */
static weir_status call_data(text_line *line, int *at, replay_call *call)
{
    const replay_kind kind = (replay_kind)call->kind;
    const int has_op = replay_kind_has_op(kind), has_count = kind != REPLAY_ALLTOALLV;
    const int needs = 1 + has_op + has_count;
    if (kind == REPLAY_BARRIER)
        return WEIR_OK;
    if (line->count - *at < needs)
        return BAD(line, "%s: expected TYPE%s%s", replay_kind_name(kind), has_op ? " OP" : "",
                   has_count ? " COUNT" : "");
    const int type = replay_dtype_parse(line->words[(*at)++]);
    if (type < 0)
        return BAD(line,
                   "type %s: expected f32, bf16, f16, f64, i32 or another of docs/user/"
                   "replay.md",
                   line->words[*at - 1]);
    call->dtype = (uint8_t)type;
    if (has_op) {
        const int op = op_read(line->words[(*at)++]);
        if (op < 0)
            return BAD(line, "operation %s: expected sum, prod, max, min or avg",
                       line->words[*at - 1]);
        call->op = (uint8_t)op;
    }
    long long count = 0;
    weir_status status = has_count ? number_read(line, "count", line->words[(*at)++],
                                                 (long long)REPLAY_COUNT_MAX, &count)
                                   : WEIR_OK;
    call->count = (uint64_t)count;
    return status;
}

/* Finds the communicator of a call, whose line came before. */
static int comm_find(const replay_trace *trace, const char *name)
{
    for (int i = trace->ncomms - 1; i >= 0; i--)
        if (!strcmp(trace->comms[i].name, name))
            return i;
    return -1;
}

/* Refuses a rank's calls from a second file: another run's, or the same file's. A file and its
 * .tail are one recording. */
static weir_status call_check_file(text_line *line, int rank)
{
    const replay_trace *trace = line->reader->trace;
    const replay_rank *r = &trace->ranks[rank];
    const int before = r->count ? r->calls[r->count - 1].file : line->reader->file;
    const char *first = trace->files[before], *second = trace->files[line->reader->file];
    const size_t length = strlen(first);
    if (before == line->reader->file ||
        (!strncmp(first, second, length) && !strcmp(second + length, ".tail")))
        return WEIR_OK;
    return BAD(line, "rank %d also has calls in %s: name each file once, and files of one run",
               rank, first);
}

static weir_status rank_read(text_line *line, const char *word, long long *rank)
{
    if (*word == 'r' && weiri_whole_read(word + 1, 0, REPLAY_RANKS_MAX - 1, rank) == 0)
        return WEIR_OK;
    return BAD(line, "rank %s: expected r and a number from 0 to %d", word, REPLAY_RANKS_MAX - 1);
}

static weir_status call_read(text_line *line)
{
    replay_call call = REPLAY_CALL_INIT;
    long long rank = 0;
    double start = 0;
    if (line->count < 4)
        return BAD(line, "expected: TIME rRANK COMMUNICATOR CALL ...");
    if (!strcmp(line->words[0], "-"))
        start = NAN;
    else if (weiri_decimal_read(line->words[0], &start) != 0)
        return BAD(line, "time %s: expected seconds or -", line->words[0]);
    call.start_s = line->begin_s + start;
    weir_status status = rank_read(line, line->words[1], &rank);
    if (status != WEIR_OK)
        return status;
    const int comm = comm_find(line->reader->trace, line->words[2]);
    if (comm < 0)
        return BAD(line, "communicator %s: no line \"comm %s RANKS\" before", line->words[2],
                   line->words[2]);
    const int kind = replay_kind_parse(line->words[3]);
    if (kind < 0)
        return BAD(line,
                   "call %s: expected allreduce, reduce_scatter, allgather, broadcast, "
                   "reduce, alltoall, alltoallv, gather, scatter, send, recv or barrier",
                   line->words[3]);
    call.comm = (uint32_t)comm;
    call.kind = (uint8_t)kind;
    int at = 4;
    status = call_check_file(line, (int)rank);
    if (status == WEIR_OK)
        status = call_data(line, &at, &call);
    if (status == WEIR_OK)
        status = call_words(line, at, &call);
    return status == WEIR_OK ? replay_add_call(line->reader, line->number, (int)rank, &call)
                             : status;
}

/* "place r3 node7 0-3,8": where a rank ran. */
static weir_status place_read(text_line *line)
{
    long long rank = 0;
    if (line->count != 4)
        return BAD(line, "expected: place rRANK NODE CPUS");
    weir_status status = rank_read(line, line->words[1], &rank);
    if (status != WEIR_OK)
        return status;
    replay_trace *trace = line->reader->trace;
    char *place = line->words[2]; /* the next word follows behind blanks */
    memmove(place + strlen(place) + 1, line->words[3], strlen(line->words[3]) + 1);
    place[strlen(place)] = ' ';
    trace->ranks[rank].place = replay_take_text(&trace->pool, place);
    return trace->ranks[rank].place ? WEIR_OK : replay_no_memory();
}

static weir_status line_read(text_line *line, char *text)
{
    char *rest = NULL;
    int version = 1;
    if (sscanf(text, "# weir recording %d", &version) == 1 && version != 1)
        return BAD(line, "recording of version %d: this program reads version 1; use a newer one",
                   version);
    line->count = 0;
    text[strcspn(text, "#")] = '\0';
    for (char *word = strtok_r(text, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        if (line->count == WORDS_MAX)
            return BAD(line, "more than %d words", WORDS_MAX);
        line->words[line->count++] = word;
    }
    if (!line->count)
        return WEIR_OK;
    if (!strcmp(line->words[0], "comm"))
        return comm_read(line);
    if (!strcmp(line->words[0], "place"))
        return place_read(line);
    if (strcmp(line->words[0], "begin"))
        return call_read(line);
    if (line->count != 2 || weiri_decimal_read(line->words[1], &line->begin_s) != 0)
        return BAD(line, "expected: begin SECONDS");
    return WEIR_OK;
}

static weir_status text_read(replay_reader *reader, replay_source *source)
{
    text_line line = {.reader = reader};
    char *text;
    size_t length;
    int whole = 1;
    weir_status status = replay_source_line(source, &text, &length, &whole);
    while (status == WEIR_OK && text) {
        reader->trace->is_cut |= !whole;
        line.number = replay_source_line_number(source);
        if (strlen(text) != length && !whole) /* a block that a killed job did not fill */
            replay_note(reader, line.number, "the recording ends here: the rest is empty");
        else if (strlen(text) != length)
            return BAD(&line, "a byte 0 in the line: no text");
        else if (!whole)
            replay_note(reader, line.number, "the line is cut off: left out");
        else
            status = line_read(&line, text);
        if (status == WEIR_OK)
            status = replay_source_line(source, &text, &length, &whole);
    }
    return status;
}

const replay_format replay_format_text = {
    .name = "weir's text", .recognises = text_recognises, .read = text_read};

/* ------------------------------------------------------------------ writing */

static void write_list(const uint64_t *splits, int count, FILE *to)
{
    for (int i = 0; i < count; i++)
        if (splits[i] == REPLAY_UNKNOWN) {
            fputc('?', to); /* then all of them are unknown */
            return;
        } else {
            fprintf(to, "%s%llu", i ? "," : "", (unsigned long long)splits[i]);
        }
}

static void write_call(const replay_trace *trace, int rank, const replay_call *call, FILE *to)
{
    const replay_comm *comm = &trace->comms[call->comm];
    const replay_kind kind = (replay_kind)call->kind;
    if (isnan(call->start_s))
        fputc('-', to);
    else
        fprintf(to, "%.9f", call->start_s);
    fprintf(to, " r%d %s %s", rank, comm->name, replay_kind_name(kind));
    if (kind != REPLAY_BARRIER)
        fprintf(to, " %s", weir_dtype_name((weir_dtype)call->dtype));
    if (replay_kind_has_op(kind))
        fprintf(to, " %s", weir_op_name((weir_op)call->op));
    if (kind != REPLAY_BARRIER && kind != REPLAY_ALLTOALLV)
        fprintf(to, " %llu", (unsigned long long)call->count);
    if (replay_kind_has_root(kind))
        fprintf(to, " root=%d", call->peer);
    if (replay_is_message(call))
        fprintf(to, " %s=%d", kind == REPLAY_SEND ? "to" : "from", call->peer);
    if (kind == REPLAY_ALLTOALLV) {
        fputs(" sent=", to);
        write_list(trace->splits + call->splits, comm->nranks, to);
        fputs(" received=", to);
        write_list(trace->splits + call->splits + comm->nranks, comm->nranks, to);
    }
    if (call->in_place)
        fputs(" inplace", to);
    if (call->unregistered)
        fputs(" unregistered", to);
    if (call->buffers >= 0)
        fprintf(to, " buffers=%d", call->buffers);
    if (call->group >= 0)
        fprintf(to, " group=%d", call->group);
    if (call->stream)
        fprintf(to, " stream=%u", call->stream);
    if (!isnan(call->duration_s))
        fprintf(to, " took=%.9f", (double)call->duration_s);
    fputc('\n', to);
}

int replay_text_write(const replay_trace *trace, FILE *to)
{
    fputs("# weir recording 1\n", to);
    for (int i = 0; i < trace->ncomms; i++) {
        fprintf(to, "comm %s ", trace->comms[i].name);
        for (int member = 0; member < trace->comms[i].nranks; member++)
            fprintf(to, "%s%d", member ? "," : "", trace->comms[i].ranks[member]);
        fputc('\n', to);
    }
    for (int rank = 0; rank < trace->nranks; rank++)
        if (trace->ranks[rank].place)
            fprintf(to, "place r%d %s\n", rank, trace->ranks[rank].place);
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++)
            write_call(trace, rank, &trace->ranks[rank].calls[i], to);
    return ferror(to) ? -1 : 0;
}
