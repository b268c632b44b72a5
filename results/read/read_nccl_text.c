/*
 * Reads the table that nccl-tests (since 2.10), rccl-tests and weir's benchmarks print. The
 * headings define the columns: older versions have `error` for `#wrong` and no `root`, -C adds
 * `cputime`, -I more columns, -S a time stamp. Other lines, such as NCCL's debugging output, may
 * occur anywhere between.
 */
#include "results/read/load.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 40, HALVES = 2, HOSTS = 256 };

typedef struct half {
    int time, algbw, busbw, wrong; /* columns; -1: absent */
} half;

typedef struct reader {
    results_set *set;
    const results_input *input;
    int line, sections;
    char collective[32];
    const char *contender, *run;
    results_origin origin;
    int ranks;                 /* in this section's list of devices */
    char *hosts[HOSTS];
    int nhosts, columns;       /* 0 columns: no headings yet */
    int count, type, redop, root;
    half halves[HALVES];
} reader;

/* 22803 is 2.28.3; versions before 2.9 have one digit less. */
static const char *nccl_contender(results_set *set, const char *version)
{
    int code = atoi(version);
    if (code <= 0)
        return "nccl";
    int major = code >= 10000 ? code / 10000 : code / 1000;
    int minor = code >= 10000 ? code / 100 % 100 : code / 100 % 10;
    return results_keep_printed(set, "nccl:%d.%d.%d", major, minor, code % 100);
}

static void read_version(reader *in, const char *line)
{
    const char *library = strstr(line, "nccl-library=");
    if (strncmp(line, "# weir version", 14) == 0) {
        in->contender = "weir";
        in->origin = RESULTS_OWN_OUTPUT;
    } else if (strstr(line, "rccl")) {
        in->contender = "rccl";
    } else if (library) {
        in->contender = nccl_contender(in->set, library + strlen("nccl-library="));
    }
}

static void begin_section(reader *in)
{
    in->ranks = in->nhosts = in->columns = 0;
    in->sections++;
    in->run = results_keep_printed(in->set, "%.200s#%d", in->input->path, in->sections);
}

/* # weir 0.1.0 (12.2.0, release), run 6b050d86-063c70-4bd5, 2026-11-24T04:07:34Z: the run's name is
 * also in its CSV and JSON. */
static void read_run(reader *in, const char *line)
{
    const char *name = strstr(line, ", run ");
    if (!name)
        return;
    name += strlen(", run ");
    in->run = results_keep_text(in->set, name, strcspn(name, ", "));
}

/* #  Rank  0 Group  0 Pid   1945 on         vm device  0 [0000:00:06] NVIDIA H200 */
static void read_device(reader *in, const char *line)
{
    int rank = -1;
    char host[128] = "";
    const char *on = strstr(line, " on ");
    if (sscanf(line, "# Rank %d", &rank) != 1 || rank < 0 || rank > 1000000 || !on)
        return;
    if (rank + 1 > in->ranks)
        in->ranks = rank + 1;
    sscanf(on, " on %127s", host);
    for (int i = 0; i < in->nhosts; i++)
        if (strcmp(in->hosts[i], host) == 0)
            return;
    if (in->nhosts < HOSTS)
        in->hosts[in->nhosts++] = results_keep_text(in->set, host, strlen(host));
}

/* Recognises a program's name in a command that the log shows, or in the file's name. */
static void guess_collective(reader *in, const char *text)
{
    char word[64];
    for (const char *at = text; *at;) {
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (length > 3 && length < sizeof word) {
            memcpy(word, at, length);
            word[length] = '\0';
            const char *name = results_collective(word);
            if (name)
                snprintf(in->collective, sizeof in->collective, "%s", name);
        }
        at += length ? length : 1;
    }
}

static void read_name(reader *in, const char *line)
{
    char name[64] = "";
    sscanf(line, "# Collective test starting: %63s", name);
    const char *known = results_collective(name);
    snprintf(in->collective, sizeof in->collective, "%s", known ? known : "");
    if (!known)
        results_note(in->set, in->input->path, in->line, "unknown collective '%s'", name);
}

/* #  size  count  type  redop  root  time  algbw  busbw  #wrong  time ... */
static void read_headings(reader *in, char *line)
{
    char *tokens[TOKENS];
    int count = results_split(line + 1, tokens, TOKENS), halves = 0;
    in->count = in->type = in->redop = in->root = -1;
    for (int i = 0; i < HALVES; i++)
        in->halves[i] = (half){-1, -1, -1, -1};
    for (int i = 0; i < count; i++) {
        half *current = halves ? &in->halves[halves - 1] : NULL;
        if (strcmp(tokens[i], "count") == 0)
            in->count = i;
        else if (strcmp(tokens[i], "type") == 0)
            in->type = i;
        else if (strcmp(tokens[i], "redop") == 0)
            in->redop = i;
        else if (strcmp(tokens[i], "root") == 0)
            in->root = i;
        else if ((strcmp(tokens[i], "time") == 0 || strcmp(tokens[i], "cputime") == 0) &&
                 halves < HALVES)
            in->halves[halves++].time = i;
        else if (current && strcmp(tokens[i], "algbw") == 0)
            current->algbw = i;
        else if (current && strcmp(tokens[i], "busbw") == 0)
            current->busbw = i;
        else if (current && (strcmp(tokens[i], "#wrong") == 0 || strcmp(tokens[i], "error") == 0))
            current->wrong = i;
    }
    in->columns = halves && in->type > 0 ? count : 0;
}

/* Before 2.12, `error` was the largest difference: 0 or a small number is right. */
static const char *verdict_of(const char *wrong)
{
    double value;
    if (results_real(wrong, &value) != 0)
        return "off";
    return value < 1e-2 ? "pass" : "fail";
}

/* nan and N/A are how the table says that there is no value. */
static const char *value_of(const char *token)
{
    static const char *const none[] = {"N/A", "nan", "-nan"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strcmp(token, none[i]) == 0)
            return "";
    return token;
}

static void add_half(reader *in, char **tokens, const half *of, const char *placement)
{
    results_row row = results_row_make(in->input->path, in->line, in->origin);
    if (of->algbw < 0 || of->busbw < 0)
        return;
    const char *time = value_of(tokens[of->time]);
    row.text[RESULTS_VERIFY] = of->wrong < 0 ? "off" : verdict_of(tokens[of->wrong]);
    if (!time[0] && strcmp(row.text[RESULTS_VERIFY], "fail") != 0)
        return; /* not measured: alltoall, for one, has no in-place form */
    row.text[RESULTS_RUN_ID] = in->run;
    row.text[RESULTS_HOST] = in->nhosts ? in->hosts[0] : "";
    row.text[RESULTS_COLLECTIVE] = results_keep_text(in->set, in->collective,
                                                     strlen(in->collective));
    row.text[RESULTS_BACKEND] = in->origin == RESULTS_OWN_OUTPUT ? "" : "cuda";
    if (in->ranks > 0)
        row.text[RESULTS_NRANKS] = results_keep_printed(in->set, "%d", in->ranks);
    if (in->nhosts > 0)
        row.text[RESULTS_NNODES] = results_keep_printed(in->set, "%d", in->nhosts);
    row.text[RESULTS_CONTENDER] = in->contender;
    row.text[RESULTS_DTYPE] = results_dtype(tokens[in->type]);
    row.text[RESULTS_REDOP] = in->redop < 0 ? "none" : tokens[in->redop];
    row.text[RESULTS_ROOT] = in->root < 0 ? "-1" : tokens[in->root];
    row.text[RESULTS_PLACEMENT] = placement;
    row.text[RESULTS_BYTES] = tokens[0];
    row.text[RESULTS_COUNT] = in->count < 0 ? "" : tokens[in->count];
    row.text[RESULTS_MEDIAN_US] = time;
    row.text[RESULTS_ALGBW_GBS] = value_of(tokens[of->algbw]);
    row.text[RESULTS_BUSBW_GBS] = value_of(tokens[of->busbw]);
    row.text[RESULTS_DIST] = strcmp(in->collective, "alltoallv") == 0 ? "spread:1" : "";
    results_add(in->set, &row);
}

/* Reads a line of the table; it begins with two whole numbers. */
static void read_row(reader *in, char *line)
{
    char *tokens[TOKENS];
    unsigned long long number;
    int count = results_split(line, tokens, TOKENS);
    if (count < 2 || results_whole(tokens[0], &number) != 0 ||
        results_whole(tokens[1], &number) != 0)
        return;
    if (in->columns == 0 || count < in->columns) {
        results_note(in->set, in->input->path, in->line, in->columns == 0
                     ? "a row without headings before it; left out"
                     : "a row of %d fields where the headings have %d (cut off?); left out",
                     count, in->columns);
        return;
    }
    if (!in->collective[0]) {
        results_note(in->set, in->input->path, in->line, "the log does not name its collective "
                     "(old nccl-tests); put it into the file's name; row left out");
        return;
    }
    for (int i = 0; i < HALVES; i++)
        if (in->halves[i].time >= 0)
            add_half(in, tokens, &in->halves[i], i == 0 ? "out" : "in");
}

void results_read_nccl_text(results_set *set, results_input *input)
{
    char *at = input->text, *end = input->text + input->length, *line;
    const char *slash = strrchr(input->path, '/');
    reader in = {.set = set, .input = input, .contender = "nccl", .origin = RESULTS_NCCL_TESTS};
    guess_collective(&in, slash ? slash + 1 : input->path);
    begin_section(&in);
    while ((line = results_next_line(&at, end))) {
        in.line++;
        if (line[0] == '#' && (strstr(line, " version ") || strstr(line, "rccl")))
            read_version(&in, line);
        else if (strncmp(line, "# weir ", 7) == 0)
            read_run(&in, line);
        else if (strncmp(line, "# Collective test starting:", 27) == 0)
            read_name(&in, line);
        else if (strncmp(line, "# nThread ", 10) == 0)
            begin_section(&in);
        else if (line[0] == '#' && strstr(line, "Rank "))
            read_device(&in, line);
        else if (line[0] == '#' && strstr(line, " size ") && strstr(line, "time"))
            read_headings(&in, line);
        else if (line[0] != '#' && strstr(line, "_perf") && in.columns == 0)
            guess_collective(&in, line);
        else if (isdigit((unsigned char)line[strspn(line, " \t")]))
            read_row(&in, line);
    }
}
