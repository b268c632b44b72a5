/* Reads CSV (RFC 4180): weir's of every schema, and rccl-tests'. Columns are found by the names in
 * the header; another header line in the middle of a file starts another schema. */
#include "results/read/load.h"

#include <string.h>
#include <strings.h>

/* A quoted field longer than QUOTED_BYTES is treated as one that is never closed. */
enum { FIELDS = 128, QUOTED_BYTES = 4096 };

typedef struct record {
    char *field[FIELDS];
    int count;
    int line;     /* line of its start */
    int unclosed; /* a quote is never closed: the record is its first line */
    int binary;
} record;

typedef struct reader {
    char *at, *end;
    int line; /* the line of `at` */
} reader;

/* The end of the quoted field that starts at `from`, or NULL if it is never closed. */
static char *closing_quote(char *from, const char *end)
{
    if (end - from > QUOTED_BYTES)
        end = from + QUOTED_BYTES;
    for (char *at = from + 1; at < end; at++)
        if (*at == '"') {
            if (at + 1 < end && at[1] == '"')
                at++;
            else
                return at;
        }
    return NULL;
}

static void unquote(char *from, char *close)
{
    char *to = from;
    for (char *at = from + 1; at < close; at++) {
        if (*at == '"')
            at++;
        *to++ = *at;
    }
    *to = '\0';
}

static void count_lines(reader *in, const char *from, const char *to)
{
    while ((from = memchr(from, '\n', (size_t)(to - from))) != NULL) {
        in->line++;
        from++;
    }
}

/* Finds the end of the field at `from`. Overwrites nothing. */
static char *field_end(reader *in, char *from, record *made)
{
    char *at = from;
    if (*from == '"') {
        char *close = closing_quote(from, in->end);
        if (close) {
            count_lines(in, from, close);
            at = close + 1;
        } else {
            made->unclosed = 1;
        }
    }
    while (at < in->end && *at != ',' && *at != '\n')
        made->binary |= *at++ == '\0';
    return at;
}

static void finish_field(char *from, char *end, int unclosed)
{
    char *close = *from == '"' && !unclosed ? closing_quote(from, end) : NULL;
    *end = '\0';
    if (close)
        unquote(from, close);
    else if (end > from && end[-1] == '\r')
        end[-1] = '\0';
}

/* Reads the next record, skipping empty lines. Returns 0 at the end of the file. */
static int next_record(reader *in, record *made)
{
    while (in->at < in->end && (*in->at == '\n' || *in->at == '\r'))
        in->line += *in->at++ == '\n';
    *made = (record){.line = in->line};
    if (in->at >= in->end)
        return 0;
    for (int last = 0; !last;) {
        char *from = in->at, *end = field_end(in, from, made);
        last = end >= in->end || *end == '\n';
        in->at = end + (end < in->end);
        in->line += last && end < in->end;
        finish_field(from, end, made->unclosed);
        if (made->count < FIELDS)
            made->field[made->count] = from;
        made->count++;
    }
    return 1;
}

/* Whether a record is usable; reports it if not. */
static int is_sound(results_set *set, const results_input *input, const record *made, int columns)
{
    if (made->binary)
        results_lose(set, input->path, made->line, "binary data; line left out");
    else if (made->unclosed)
        results_lose(set, input->path, made->line, "a quote is never closed; line left out");
    else if (made->count > FIELDS)
        results_lose(set, input->path, made->line, "%d fields; line left out", made->count);
    else if (columns && made->count != columns)
        results_lose(set, input->path, made->line,
                     "%d fields where the header has %d%s; line left out", made->count, columns,
                     made->count < columns ? " (cut off?)" : "");
    else
        return 1;
    return 0;
}

/* Reads the header of weir's CSV: sets map to the column of each field (-1: unknown). Returns the
 * number of fields, or 0 if a required column is missing. */
static int read_header(results_set *set, const results_input *input, const record *header, int *map)
{
    static const int needed[] = {RESULTS_COLLECTIVE, RESULTS_NRANKS,    RESULTS_CONTENDER,
                                 RESULTS_DTYPE,      RESULTS_PLACEMENT, RESULTS_BYTES,
                                 RESULTS_MEDIAN_US};
    int has[RESULTS_COLUMNS] = {0};
    for (int i = 0; i < header->count; i++) {
        map[i] = results_column_find(header->field[i]);
        if (map[i] >= 0 && has[map[i]]++) {
            results_lose(set, input->path, header->line, "two columns '%s'; rows left out",
                         header->field[i]);
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!has[needed[i]]) {
            results_lose(set, input->path, header->line,
                         "no column '%s' (docs/user/csv-columns.md lists them); rows left out",
                         results_column_name((results_column)needed[i]));
            return 0;
        }
    for (int i = 0; i < header->count; i++)
        if (map[i] < 0)
            results_note(set, input->path, header->line, "unknown column '%s'; left out",
                         header->field[i]);
    return header->count;
}

void results_read_csv(results_set *set, results_input *input)
{
    reader in = {.at = input->text, .end = input->text + input->length, .line = 1};
    record made;
    int map[FIELDS], columns = 0, has_header = 0;
    while (next_record(&in, &made)) {
        int is_header = made.count <= FIELDS && strcmp(made.field[0], "schema") == 0;
        if (!is_sound(set, input, &made, is_header ? 0 : columns))
            continue;
        if (is_header || !has_header) {
            columns = read_header(set, input, &made, map);
            has_header = 1;
            continue;
        }
        if (columns == 0)
            continue;
        results_row row = results_row_make(input->path, made.line, RESULTS_OWN_CSV);
        for (int i = 0; i < columns; i++)
            if (map[i] >= 0)
                row.text[map[i]] = made.field[i];
        results_add(set, &row);
    }
}

/* The columns of rccl-tests' CSV, found by the names of its header. */
typedef enum rccl_column {
    RCCL_CYCLE,
    RCCL_COLLECTIVE,
    RCCL_NODES,
    RCCL_RANKS,
    RCCL_PER_NODE,
    RCCL_GPUS_PER_RANK,
    RCCL_GPUS,
    RCCL_SIZE,
    RCCL_TYPE,
    RCCL_REDOP,
    RCCL_INPLACE,
    RCCL_TIME,
    RCCL_ALGBW,
    RCCL_BUSBW,
    RCCL_WRONG,
    RCCL_COLUMNS
} rccl_column;

typedef struct rccl_header {
    int at[RCCL_COLUMNS]; /* -1: absent */
    int count;
} rccl_header;

static void read_rccl_header(results_set *set, const results_input *input, const record *made,
                             rccl_header *header)
{
    static const char *const names[] = {"numCycle",     "collective",  "nodes",   "ranks",
                                        "ranksPerNode", "gpusPerRank", "gpus",    "size",
                                        "type",         "redop",       "inplace", "time",
                                        "algbw",        "busbw",       "#wrong"};
    header->count = made->count;
    for (int i = 0; i < RCCL_COLUMNS; i++) {
        header->at[i] = -1;
        for (int k = 0; k < made->count && k < FIELDS; k++)
            if (strcasecmp(made->field[k], names[i]) == 0)
                header->at[i] = k;
    }
    if (header->at[RCCL_SIZE] >= 0 && header->at[RCCL_TIME] >= 0 &&
        header->at[RCCL_COLLECTIVE] >= 0)
        return;
    results_lose(set, input->path, made->line,
                 "rccl-tests' header without the column size, time or "
                 "collective; rows left out");
    header->count = 0;
}

/* A field; "" if the header has no such column. The header may lack `nodes` although rows have it.
 */
static const char *rccl_field(const rccl_header *header, const record *made, rccl_column column)
{
    const int shift = made->count == header->count + 1 && header->at[RCCL_NODES] < 0;
    int at = header->at[column];
    if (at > header->at[RCCL_COLLECTIVE])
        at += shift;
    return at < 0 || at >= made->count ? "" : made->field[at];
}

/* The ranks of the communicator: the processes' GPUs. */
static void set_rccl_ranks(results_set *set, const rccl_header *header, const record *made,
                           results_row *row)
{
    unsigned long long ranks = 0, per_node = 0, gpus = 1;
    if (results_whole(rccl_field(header, made, RCCL_RANKS), &ranks) != 0)
        results_whole(rccl_field(header, made, RCCL_GPUS), &ranks);
    results_whole(rccl_field(header, made, RCCL_PER_NODE), &per_node);
    results_whole(rccl_field(header, made, RCCL_GPUS_PER_RANK), &gpus);
    if (ranks > 0 && ranks < 1000000 && gpus < 1000)
        row->text[RESULTS_NRANKS] = results_keep_printed(set, "%llu", ranks * (gpus ? gpus : 1));
    if (per_node > 0 && ranks >= per_node)
        row->text[RESULTS_NNODES] = results_keep_printed(set, "%llu", ranks / per_node);
}

static void add_rccl(results_set *set, const results_input *input, const rccl_header *header,
                     const record *made)
{
    results_row row = results_row_make(input->path, made->line, RESULTS_NCCL_TESTS);
    const char *collective = rccl_field(header, made, RCCL_COLLECTIVE);
    const char *name = results_collective(collective),
               *wrong = rccl_field(header, made, RCCL_WRONG);
    set_rccl_ranks(set, header, made, &row);
    row.text[RESULTS_RUN_ID] = results_keep_printed(set, "%.200s#%.20s", input->path,
                                                    rccl_field(header, made, RCCL_CYCLE));
    row.text[RESULTS_COLLECTIVE] = name ? name : collective;
    row.text[RESULTS_BACKEND] = "cuda";
    row.text[RESULTS_CONTENDER] = "rccl";
    row.text[RESULTS_BYTES] = rccl_field(header, made, RCCL_SIZE);
    row.text[RESULTS_DTYPE] = results_dtype(rccl_field(header, made, RCCL_TYPE));
    row.text[RESULTS_REDOP] = rccl_field(header, made, RCCL_REDOP);
    row.text[RESULTS_ROOT] = "-1";
    row.text[RESULTS_PLACEMENT] =
        strcmp(rccl_field(header, made, RCCL_INPLACE), "0") == 0 ? "out" : "in";
    row.text[RESULTS_MEDIAN_US] = rccl_field(header, made, RCCL_TIME);
    row.text[RESULTS_ALGBW_GBS] = rccl_field(header, made, RCCL_ALGBW);
    row.text[RESULTS_BUSBW_GBS] = rccl_field(header, made, RCCL_BUSBW);
    row.text[RESULTS_VERIFY] = strcmp(wrong, "0") == 0                  ? "pass"
                               : !wrong[0] || strcmp(wrong, "N/A") == 0 ? "off"
                                                                        : "fail";
    row.text[RESULTS_WRONG] = strcmp(wrong, "N/A") == 0 ? "0" : wrong;
    results_add(set, &row);
}

void results_read_rccl_csv(results_set *set, results_input *input)
{
    reader in = {.at = input->text, .end = input->text + input->length, .line = 1};
    rccl_header header = {.count = 0};
    record made;
    while (next_record(&in, &made)) {
        if (!is_sound(set, input, &made, 0))
            continue;
        if (strcmp(made.field[0], "numCycle") == 0)
            read_rccl_header(set, input, &made, &header);
        else if (header.count == 0)
            continue;
        else if (made.count < header.count || made.count > header.count + 1)
            results_lose(set, input->path, made.line,
                         "%d fields where the header has %d (cut off?); "
                         "line left out",
                         made.count, header.count);
        else
            add_rccl(set, input, &header, &made);
    }
}
