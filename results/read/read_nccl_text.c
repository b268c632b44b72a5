/*
 * Reads the tables of nccl-tests (since 2.10), rccl-tests, weir's benchmarks and mscclpp-test. The
 * headings define the columns: older versions have `error` for `#wrong` and no `root`, -C has
 * `cputime`, -I more columns, -S a time stamp, rccl-tests -O one half, mscclpp-test the in-place
 * half first and no types. Other lines, such as NCCL's debugging output, may occur anywhere
 * between, and in the middle of a row: its parts are put together again.
 */
#include "results/read/read_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 64 };

/* ---------------------------------------------------------------- sections */

/* The tool reports wrong values, and no row says which. */
static void check_footer(results_text *in)
{
    results_nccl *n = &in->nccl;
    if (n->rows > 0 && !n->has_footer && !n->is_mscclpp)
        results_lose(
            in->set, in->path, in->line,
            "a table without '# Out of bounds values' after it: the run was broken off, or "
            "its output was cut");
    if (n->failed_values <= 0 || in->set->count == n->first_row)
        return;
    for (size_t i = n->first_row; i < in->set->count; i++)
        if (in->set->rows[i].failed)
            return;
    results_note(in->set, in->path, in->line,
                 "the tool reports %d wrong values, but not in which row: "
                 "all rows of its table count as wrong",
                 n->failed_values);
    for (size_t i = n->first_row; i < in->set->count; i++)
        results_row_fail(&in->set->rows[i]);
}

/* How much a printed number may differ from what it stands for. */
static double rounding_of(const char *text)
{
    const char *dot = strchr(text, '.');
    return 0.5 * pow(10, dot ? -(double)strlen(dot + 1) : 0);
}

/* The number of ranks that has a bus factor; infinite: none has. */
static double ranks_of_factor(const char *collective, double factor)
{
    const int most = strcmp(collective, "allreduce") == 0 ? 2 : 1;
    return factor < most ? most / (most - factor) : INFINITY;
}

/* The bus factor of a row as its two bandwidths state it, if it is that of another number of ranks;
 * else 0. */
static double other_factor(const results_row *row)
{
    static const char *const names[] = {"allreduce", "allgather", "reduce_scatter", "alltoall"};
    const char *alg = row->text[RESULTS_ALGBW_GBS], *bus = row->text[RESULTS_BUSBW_GBS];
    const double factor = results_bus_factor(row->text[RESULTS_COLLECTIVE], row->nranks);
    double algbw, busbw;
    size_t i = 0;
    while (i < sizeof names / sizeof *names && strcmp(names[i], row->text[RESULTS_COLLECTIVE]) != 0)
        i++;
    if (i == sizeof names / sizeof *names || results_real(alg, &algbw) != 0 ||
        results_real(bus, &busbw) != 0 || algbw < 1) /* three digits */
        return 0;
    const double difference = fabs(busbw - factor * algbw);
    const double ranks = ranks_of_factor(row->text[RESULTS_COLLECTIVE], busbw / algbw);
    return difference > 1.01 * (rounding_of(bus) + factor * rounding_of(alg)) &&
                   fabs(ranks - row->nranks) >= 0.5
               ? busbw / algbw
               : 0;
}

/* The row of a section, of those whose bandwidths contradict its number of ranks, that states them
 * with the most digits; NULL: none. */
static const results_row *find_other_factor(const results_text *in)
{
    const results_row *found = NULL;
    for (size_t i = in->nccl.first_row; i < in->set->count; i++) {
        const results_row *row = &in->set->rows[i];
        if (other_factor(row) > 0 &&
            (!found || atof(row->text[RESULTS_BUSBW_GBS]) > atof(found->text[RESULTS_BUSBW_GBS])))
            found = row;
    }
    return found;
}

/* Leaves the rows of a section out if its bandwidths are those of another number of ranks: its list
 * of devices has lost lines, or --ranks is wrong. */
static void check_ranks(results_text *in)
{
    results_nccl *n = &in->nccl;
    const results_row *row = find_other_factor(in);
    if (!row || n->origin != RESULTS_NCCL_TESTS || n->devices.groups > 1)
        return;
    const double ranks = ranks_of_factor(row->text[RESULTS_COLLECTIVE], other_factor(row));
    const char *about =
        isfinite(ranks) ? results_keep_printed(in->set, ", but of about %.0f", ranks) : "";
    results_lose(
        in->set, in->path, row->line,
        "algbw %s and busbw %s are not those of %d ranks%s (%s); the rows of this table are "
        "left out",
        row->text[RESULTS_ALGBW_GBS], row->text[RESULTS_BUSBW_GBS], row->nranks, about,
        n->devices.listed > 0 ? "is its list of devices complete?" : "--ranks");
    size_t kept = n->first_row; /* wrong results stay */
    for (size_t i = n->first_row; i < in->set->count; i++)
        if (in->set->rows[i].failed)
            in->set->rows[kept++] = in->set->rows[i];
    in->set->count = kept;
}

static void drop_part(results_text *in)
{
    results_part *part = &in->nccl.part;
    if (part->count > 0)
        results_lose(in->set, in->path, part->line,
                     "a row of %d fields where the headings have %d (cut off?); left out",
                     part->count, in->nccl.table.count);
    part->count = 0;
}

void results_nccl_end(results_text *in)
{
    results_nccl *n = &in->nccl;
    drop_part(in);
    check_footer(in);
    check_ranks(in);
    if (n->rows > 0 && n->devices.listed == 1 && n->devices.ranks == 1)
        in->one_rank_tables++;
    n->failed_values = n->has_footer = 0;
    n->first_row = in->set->count;
}

void results_nccl_begin(results_text *in)
{
    in->sections++;
    in->collective[0] = '\0';
    in->nccl = (results_nccl){.contender = "nccl",
                              .origin = RESULTS_NCCL_TESTS,
                              .placements = {"out", "in"},
                              .first_row = in->set->count};
    in->nccl.run = results_text_run(in);
}

/* The parts of a section, in their order. */
enum { VERSION = 1, NAME, PARAMETERS, DEVICES, TABLE };

/* A part of the header: it belongs to another section than parts that follow it. Programs without a
 * table have begun at the same time, or failed and were started again. */
static void begin_part(results_text *in, int level)
{
    const results_nccl *n = &in->nccl;
    const int runs = n->level < TABLE ? n->runs : 0;
    const int is_next = level == DEVICES ? n->level == TABLE : n->level >= level;
    if (is_next || (in->tool != RESULTS_TOOL_NCCL && in->tool != RESULTS_TOOL_NONE)) {
        results_nccl_end(in);
        results_nccl_begin(in);
        in->nccl.runs = runs;
    }
    in->tool = RESULTS_TOOL_NCCL;
    in->nccl.level = level;
}

/* 22803 is 2.28.3; versions before 2.9 have one digit less. */
static const char *nccl_contender(results_set *set, const char *tool, const char *version)
{
    int code = atoi(version);
    if (code <= 0)
        return tool;
    int major = code >= 10000 ? code / 10000 : code / 1000;
    int minor = code >= 10000 ? code / 100 % 100 : code / 100 % 10;
    return results_keep_printed(set, "%s:%d.%d.%d", tool, major, minor, code % 100);
}

static void read_version(results_text *in, const char *line)
{
    const char *library = strstr(line, "nccl-library=");
    results_nccl *n = &in->nccl;
    if (strncmp(line, "# weir version", 14) == 0) {
        n->contender = "weir";
        n->origin = RESULTS_OWN_OUTPUT;
    } else if (strstr(line, "rccl")) {
        library = strstr(line, "rccl-library=");
        n->contender =
            library ? nccl_contender(in->set, "rccl", library + strlen("rccl-library=")) : "rccl";
    } else if (library) {
        n->contender = nccl_contender(in->set, "nccl", library + strlen("nccl-library="));
    }
}

/* # weir 0.1.0 (12.2.0, release), run 6b050d86-063c70-4bd5, 2026-11-24T04:07:34Z: the run's name is
 * also in its CSV and JSON. */
static void read_run(results_text *in, const char *line)
{
    const char *name = strstr(line, ", run ");
    if (!name)
        return;
    name += strlen(", run ");
    in->nccl.run = results_keep_text(in->set, name, strcspn(name, ", "));
}

static void add_host(results_text *in, const char *host)
{
    results_devices *d = &in->nccl.devices;
    for (int i = 0; i < d->nhosts; i++)
        if (strcmp(d->hosts[i], host) == 0)
            return;
    if (d->nhosts < RESULTS_HOSTS)
        d->hosts[d->nhosts++] = results_keep_text(in->set, host, strlen(host));
}

/* #  Rank  0 Group  0 Pid   1945 on         vm device  0 [0000:00:06] NVIDIA H200 */
static void read_device(results_text *in, const char *line)
{
    results_devices *d = &in->nccl.devices;
    int rank = -1, group = 0;
    char host[128] = "";
    const char *on = strstr(line, " on "), *of_group = strstr(line, " Group ");
    const char *at = line + strspn(line, "# ");
    if (sscanf(at, "Rank %d", &rank) != 1 || rank < 0 || rank > 1000000 || !on)
        return;
    if (of_group)
        group = atoi(of_group + strlen(" Group "));
    if (group < 0 || group >= RESULTS_GROUPS_MOST)
        group = 0;
    d->listed++;
    d->zeros += rank == 0;
    d->in_group[group]++;
    if (rank + 1 > d->ranks)
        d->ranks = rank + 1;
    if (group + 1 > d->groups)
        d->groups = group + 1;
    sscanf(on, " on %127s", host);
    if (group == 0)
        add_host(in, host);
    if (in->nccl.origin == RESULTS_NCCL_TESTS && results_is_amd(on) &&
        strncmp(in->nccl.contender, "nccl", 4) == 0)
        in->nccl.contender = "rccl";
}

static void read_name(results_text *in, const char *line)
{
    char name[64] = "";
    sscanf(line, "# Collective test starting: %63s", name);
    const char *known = results_collective_in(name);
    snprintf(in->collective, sizeof in->collective, "%s", known ? known : "");
    if (!known)
        results_note(in->set, in->path, in->line, "unknown collective '%s'", name);
}

/* Begins a section at a table of another run, of which only the table is here: headings after rows.
 * Programs that ran side by side, whose lines are mixed, stay in one. */
static void begin_table(results_text *in)
{
    const results_nccl *n = &in->nccl;
    const int has_ended = n->has_footer || in->command[0] || n->runs <= 1;
    if (n->tried == 0 || n->origin == RESULTS_OWN_OUTPUT || !has_ended)
        return;
    results_nccl_end(in);
    results_nccl_begin(in);
}

/* #     out-of-place      in-place: the order of the table's halves. */
static void read_placements(results_text *in, const char *line)
{
    const char *out = strstr(line, "out-of-place"), *in_place = NULL;
    begin_table(in);
    for (const char *at = line; (at = strstr(at, "in-place")) != NULL && !in_place; at++)
        in_place = at;
    const int in_first = in_place && (!out || in_place < out);
    in->nccl.names_out = out != NULL;
    in->nccl.placements[0] = in_first ? "in" : "out";
    in->nccl.placements[1] = in_first ? "out" : "in";
}

static void report_cut(results_text *in)
{
    results_lose(in->set, in->path, in->line,
                 "the headings of the table end too early: its lines are cut off, or divided, at a "
                 "width; results of its second part are lost");
}

/* Whether headings of nccl-tests end too early: each half has a column of errors, and only
 * rccl-tests leaves a half out. */
static int is_cut_table(const results_nccl *n)
{
    const results_table *table = &n->table;
    const int last = table->halves - 1;
    if (last < 0 || n->is_mscclpp || n->origin != RESULTS_NCCL_TESTS)
        return 0;
    return (results_table_find(table, RESULTS_CELL_WRONG, last) < 0 &&
            results_table_find(table, RESULTS_CELL_ERROR, last) < 0) ||
           (last == 0 &&
            (table->cells[table->count - 1].meaning == RESULTS_CELL_OTHER ||
             (n->names_out && n->devices.listed > 0 && strncmp(n->contender, "nccl", 4) == 0)));
}

/* A table without types is mscclpp-test's, which reduces 32-bit integers. */
static void read_headings(results_text *in, char *line)
{
    results_nccl *n = &in->nccl;
    begin_table(in);
    drop_part(in);
    results_table_headings(&n->table, line);
    for (int i = 0; i < n->table.count; i++)
        n->table.cells[i].end += in->indent;
    n->is_unread = n->table.halves > RESULTS_TABLE_HALVES;
    if (n->is_unread)
        results_lose(in->set, in->path, in->line,
                     "tables next to each other; give each a file of its own");
    if (n->table.halves == 0 || n->is_unread ||
        results_table_find(&n->table, RESULTS_CELL_SIZE, -1) < 0)
        n->table.count = 0;
    n->is_mscclpp |= results_table_find(&n->table, RESULTS_CELL_TYPE, -1) < 0;
    if (is_cut_table(n))
        report_cut(in);
    n->headings++;
    n->level = TABLE;
    in->tool = RESULTS_TOOL_NCCL;
}

/* #      bytes             N    type      op     time  algbw  busbw      res */
static int is_first_version(const char *line)
{
    return strstr(line, " bytes ") && strstr(line, " algbw ") && strstr(line, " res");
}

static void refuse_first_version(results_text *in)
{
    results_lose(in->set, in->path, in->line,
                 "a table of nccl-tests before 2.0, whose columns and units differ; not read");
    in->nccl.table.count = 0;
    in->nccl.is_unread = 1;
    in->tool = RESULTS_TOOL_NCCL;
}

/* # Out of bounds values : 3 FAILED */
static void read_footer(results_text *in, const char *line)
{
    const char *colon = strchr(line, ':');
    in->nccl.has_footer = 1;
    in->nccl.failed_values = colon ? atoi(colon + 1) : 0;
    if (colon && strstr(colon, "FAILED") && in->nccl.failed_values < 1)
        in->nccl.failed_values = 1;
    drop_part(in);
}

/* # Avg bus bandwidth    : 12.5 FAILED: below NCCL_TESTS_MIN_BW. */
static void read_average(results_text *in, const char *line)
{
    if (strstr(line, "FAILED"))
        results_lose(in->set, in->path, in->line,
                     "the tool reports that its bandwidth is below what was "
                     "demanded: %.100s",
                     line + 2);
}

/* Whether a line after the headings has headings only, with which they go on. */
static int continues_headings(const results_text *in, const char *line)
{
    char word[32];
    int length = 0, count = 0;
    if (in->nccl.level != TABLE || in->nccl.rows > 0 || in->nccl.table.halves != 1)
        return 0;
    for (; sscanf(line, "%31s%n", word, &length) == 1; line += length, count++)
        if (!results_table_is_heading(word))
            return 0;
    return count > 1;
}

static int is_headings(const char *line)
{
    return strstr(line, " size ") && strstr(line, " count ") && strstr(line, "time");
}

int results_nccl_comment(results_text *in, char *line)
{
    if (strstr(line, "nccl-tests version") || (strstr(line, "rccl") && !strstr(line, "Rank ")) ||
        strncmp(line, "# weir version", 14) == 0) {
        begin_part(in, VERSION);
        read_version(in, line);
    } else if (strncmp(line, "# weir ", 7) == 0) {
        read_run(in, line);
    } else if (strncmp(line, "# Collective test starting:", 27) == 0) {
        begin_part(in, NAME);
        read_name(in, line);
    } else if (strncmp(line, "# nThread ", 10) == 0 || strncmp(line, "# minBytes ", 11) == 0) {
        begin_part(in, PARAMETERS);
        in->nccl.runs++;
        in->nccl.is_mscclpp = line[2] == 'm';
    } else if (strstr(line, "Rank ") && strstr(line, " on ")) {
        begin_part(in, DEVICES);
        read_device(in, line);
    } else if (is_first_version(line)) {
        refuse_first_version(in);
    } else if (is_headings(line)) {
        read_headings(in, line);
    } else if (strstr(line, "(us)") || strstr(line, "(ms)") || strstr(line, "(s)")) {
        results_table_units(&in->nccl.table, line);
    } else if (strstr(line, "out-of-place") || strstr(line, "in-place")) {
        read_placements(in, line);
    } else if (strstr(line, "MSCCL++")) {
        in->nccl.is_mscclpp = 1;
    } else if (strncmp(line, "# Out of bounds", 15) == 0) {
        read_footer(in, line);
    } else if (strncmp(line, "# Avg bus", 9) == 0) {
        read_average(in, line);
    } else {
        return 0;
    }
    return 1;
}

/* -------------------------------------------------------------------- rows */

/* Before 2.12, `error` was the largest difference: 0 or a small number is right, and an asterisk
 * marks one that is not. */
static const char *verdict_of(const results_cell *cell, const char *wrong)
{
    double value;
    if (strchr(wrong, '*'))
        return "fail";
    if (strcmp(wrong, "N/A") == 0)
        return "off";
    if (results_real(wrong, &value) != 0 || value < 0) /* nan, inf */
        return "fail";
    return value < (cell->meaning == RESULTS_CELL_ERROR ? 1e-2 : 1e-9) ? "pass" : "fail";
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

typedef struct half {
    results_text *in;
    char **fields;
    int count, number;
} half;

/* A field of that meaning, in its unit; "": none. */
static const char *field_of(const half *of, results_meaning meaning, int number)
{
    const results_table *table = &of->in->nccl.table;
    const int at = results_table_find(table, meaning, number);
    if (at < 0 || at >= of->count)
        return "";
    return results_text_scaled(of->in->set, &table->cells[at], value_of(of->fields[at]));
}

static void set_verdict(const half *of, results_row *row)
{
    const results_table *table = &of->in->nccl.table;
    int at = results_table_find(table, RESULTS_CELL_WRONG, of->number);
    if (at < 0)
        at = results_table_find(table, RESULTS_CELL_ERROR, of->number);
    row->text[RESULTS_VERIFY] =
        at < 0 || at >= of->count ? "off" : verdict_of(&table->cells[at], of->fields[at]);
}

/* What the tool, its devices and its options say of all rows of a section. The time of the
 * processor, and groups that ran at the same time, are details of the candidate: such rows are
 * comparable with each other only. */
static void set_section(const half *of, results_row *row, int is_cpu_time)
{
    results_text *in = of->in;
    results_nccl *n = &in->nccl;
    const results_devices *d = &n->devices;
    const char *base = n->is_mscclpp ? "mscclpp" : n->contender;
    const int ranks = d->groups > 1 ? d->in_group[0] : d->ranks;
    if (!n->nranks) {
        n->nranks = ranks > 0 ? results_keep_printed(in->set, "%d", ranks) : "";
        n->nnodes = d->nhosts > 0 && d->listed >= d->ranks /* none is left out */
                        ? results_keep_printed(in->set, "%d", d->nhosts)
                        : "";
    }
    row->text[RESULTS_CONTENDER] = results_contender_detail(in->set, base, is_cpu_time, d->groups);
    row->text[RESULTS_RUN_ID] = n->run;
    row->text[RESULTS_HOST] = d->nhosts ? d->hosts[0] : "";
    row->text[RESULTS_BACKEND] = n->origin == RESULTS_OWN_OUTPUT ? "" : "cuda";
    row->text[RESULTS_NRANKS] = n->nranks;
    row->text[RESULTS_NNODES] = n->nnodes;
}

static const char *or_else(const char *text, const char *other)
{
    return text[0] ? text : other;
}

static void add_half(results_text *in, char **fields, int count, int number)
{
    const half of = {in, fields, count, number};
    const results_nccl *n = &in->nccl;
    results_row row =
        results_row_make(in->path, in->line, n->is_mscclpp ? RESULTS_MSCCLPP : n->origin);
    const int reduces = strstr(in->collective, "reduce") != NULL;
    const int is_cpu_time = results_table_find(&n->table, RESULTS_CELL_CPU_TIME, number) >= 0;
    const int at = results_table_find(
        &n->table, is_cpu_time ? RESULTS_CELL_CPU_TIME : RESULTS_CELL_TIME, number);
    const char *printed = at < count ? value_of(fields[at]) : "";
    const char *time = at < count ? results_text_scaled(in->set, &n->table.cells[at], printed) : "";
    set_verdict(&of, &row);
    if (!time[0] && strcmp(row.text[RESULTS_VERIFY], "fail") != 0)
        return; /* not measured: alltoall, for one, has no in-place form */
    set_section(&of, &row, is_cpu_time);
    row.text[RESULTS_COLLECTIVE] = n->collective;
    row.text[RESULTS_DTYPE] =
        n->is_mscclpp ? "int32" : results_dtype(field_of(&of, RESULTS_CELL_TYPE, -1));
    row.text[RESULTS_REDOP] =
        n->is_mscclpp && reduces ? "sum" : or_else(field_of(&of, RESULTS_CELL_REDOP, -1), "none");
    row.text[RESULTS_ROOT] = or_else(field_of(&of, RESULTS_CELL_ROOT, -1), "-1");
    row.text[RESULTS_PLACEMENT] = n->placements[number];
    row.text[RESULTS_BYTES] = field_of(&of, RESULTS_CELL_SIZE, -1);
    row.text[RESULTS_COUNT] = field_of(&of, RESULTS_CELL_COUNT, -1);
    row.text[RESULTS_MEDIAN_US] = time;
    row.text[RESULTS_MIN_US] = field_of(&of, RESULTS_CELL_MIN, number);
    row.text[RESULTS_MAX_US] = field_of(&of, RESULTS_CELL_MAX, number);
    row.text[RESULTS_P99_US] = field_of(&of, RESULTS_CELL_P99, number);
    row.text[RESULTS_ALGBW_GBS] = field_of(&of, RESULTS_CELL_ALGBW, number);
    row.text[RESULTS_BUSBW_GBS] = field_of(&of, RESULTS_CELL_BUSBW, number);
    row.text[RESULTS_DIST] = strcmp(in->collective, "alltoallv") == 0 ? "spread:1" : "";
    results_text_resolution(in->set, &row, printed,
                            n->table.cells[at].scale > 0 ? n->table.cells[at].scale : 1);
    results_add(in->set, &row);
    in->nccl.rows++;
}

/* The collective of the section, from the best of its sources. Returns whether there is one. */
static int find_collective(results_text *in)
{
    const char *const from[] = {in->command, in->file};
    if (in->nccl.collective)
        return 1;
    for (size_t i = 0; i < sizeof from / sizeof *from && !in->collective[0]; i++)
        snprintf(in->collective, sizeof in->collective, "%s", from[i]);
    if (in->collective[0])
        in->nccl.collective = results_keep_text(in->set, in->collective, strlen(in->collective));
    return in->collective[0] != '\0';
}

/* Programs that ran side by side instead of as ranks of one: their rows cannot be distinguished. */
static int is_mixed(const results_text *in)
{
    const results_devices *d = &in->nccl.devices;
    return (d->zeros > 1 && d->groups <= 1) || (in->nccl.runs > 1 && in->nccl.headings > 1);
}

/* Whether the table reduces although its collective, as a command or the file's name states it,
 * does not; or the other way round. The table of sendrecv has the operation of -o, which it does
 * not use. */
static int contradicts(const results_text *in, char **fields, int count)
{
    const int at = results_table_find(&in->nccl.table, RESULTS_CELL_REDOP, -1);
    return at >= 0 && at < count && in->nccl.level == TABLE &&
           strcmp(in->collective, "sendrecv") != 0 &&
           (strcmp(fields[at], "none") == 0) == (strstr(in->collective, "reduce") != NULL);
}

/* Whether the table's root contradicts its collective, as contradicts: "reduce_perf" may be the end
 * of a divided "all_reduce_perf". */
static int contradicts_root(const results_text *in, char **fields, int count)
{
    static const char *const rooted[] = {"broadcast", "reduce", "gather", "scatter"};
    const int at = results_table_find(&in->nccl.table, RESULTS_CELL_ROOT, -1);
    int has_root = 0;
    if (at < 0 || at >= count || in->nccl.origin == RESULTS_OWN_OUTPUT)
        return 0;
    for (size_t i = 0; i < sizeof rooted / sizeof *rooted; i++)
        has_root |= strcmp(in->collective, rooted[i]) == 0;
    return has_root == (fields[at][0] == '-');
}

static void add_fields(results_text *in, char **fields, int count)
{
    in->seen++;
    in->nccl.tried++;
    if (is_mixed(in)) {
        results_lose(in->set, in->path, in->line,
                     "%d runs of one rank each are mixed here (rank 0 more "
                     "than once): the program was built without MPI, or started by the launcher of "
                     "another MPI; row left out",
                     in->nccl.devices.zeros > 1 ? in->nccl.devices.zeros : in->nccl.runs);
        return;
    }
    if (!find_collective(in)) {
        results_lose(in->set, in->path, in->line,
                     "the log does not name its collective "
                     "(old nccl-tests); put it into the file's name; row left out");
        return;
    }
    if (contradicts(in, fields, count) || contradicts_root(in, fields, count)) {
        results_lose(in->set, in->path, in->line,
                     "the table's operation or root contradicts its collective, %s "
                     "according to its header, its command or the file's name; row left out",
                     in->collective);
        return;
    }
    for (int i = 0; i < in->nccl.table.halves; i++)
        add_half(in, fields, count, i);
    in->command[0] = '\0';
}

/* The number of fields with which a row may end: all, or of mscclpp-test those of its first half.
 */
static int is_whole_row(const results_nccl *n, int count)
{
    const int second =
        n->table.halves > 1 ? results_table_find(&n->table, RESULTS_CELL_TIME, 1) : -1;
    return count == n->table.count || (n->is_mscclpp && second > 0 && count == second);
}

/* A field to which other text sticks: "0node-a:991:12" is 0, "N/Anode" none. Cuts it off, if what
 * is left is a field of the column. Returns whether it did. */
static int cut_field(const results_cell *cell, char *token)
{
    const size_t length = strncmp(token, "N/A", 3) == 0 ? 3 : strspn(token, "0123456789.");
    char *rest = token + length, was = *rest;
    if (length == 0 || !(isalpha((unsigned char)was) || was == '[' || was == '/'))
        return 0;
    *rest = '\0';
    if (cell->meaning != RESULTS_CELL_OTHER && cell->meaning != RESULTS_CELL_TYPE &&
        results_table_fits(cell, token))
        return 1;
    *rest = was;
    return 0;
}

/* Takes the fields that fit the next columns. Returns their number; writes whether the row's text
 * ends there, because other text sticks to its last field. */
static int take_fields(results_part *part, const results_table *table, char **tokens, int count)
{
    int taken = 0;
    while (taken < count && part->count < table->count) {
        const results_cell *cell = &table->cells[part->count];
        int is_cut = 0;
        if (!results_table_fits(cell, tokens[taken]) && !(is_cut = cut_field(cell, tokens[taken])))
            break;
        part->fields[part->count++] = tokens[taken++];
        if (is_cut)
            break;
    }
    return taken;
}

/* Fills the operation in, which versions up to 2.13, and hypercube_perf of all, leave blank if
 * there is none. Returns the number of fields. */
static int fill_operation(const results_table *table, char **tokens, int count)
{
    static char none[] = "none";
    const int at = results_table_find(table, RESULTS_CELL_REDOP, -1);
    if (at < 0 || at >= count || count < table->count - 1 || count >= TOKENS ||
        !results_table_fits(&table->cells[at + 1], tokens[at]) ||
        results_table_fits(&table->cells[at], tokens[at]))
        return count;
    memmove(&tokens[at + 1], &tokens[at], (size_t)(count - at) * sizeof *tokens);
    tokens[at] = none;
    return count + 1;
}

static int begins_row(const results_table *table, char **tokens, int count)
{
    const int known = table->count < 3 ? table->count : 3;
    if (count < 2)
        return 0;
    for (int i = 0; i < known && i < count; i++)
        if (!results_table_fits(&table->cells[i], tokens[i]))
            return 0;
    return 1;
}

/* Of mscclpp-test's row with one half: 1 if that is the second half, whose headings are nearer, 0
 * if it is the first, -1 if the place of its time is lost. */
static int is_second_half(const results_nccl *n)
{
    const results_cell *cells = n->table.cells;
    const int first = results_table_find(&n->table, RESULTS_CELL_TIME, 0);
    const int second = results_table_find(&n->table, RESULTS_CELL_TIME, 1);
    if (n->part.time_end < 0 || n->table.count - second != second - first)
        return -1;
    return abs(n->part.time_end - cells[second].end) < abs(n->part.time_end - cells[first].end);
}

/* Moves the fields of the half that a row has to where the table has them. */
static void move_half(results_nccl *n)
{
    static char none[] = "N/A";
    results_part *part = &n->part;
    const int first = results_table_find(&n->table, RESULTS_CELL_TIME, 0);
    const int second = results_table_find(&n->table, RESULTS_CELL_TIME, 1);
    for (int i = part->count - 1; i >= first; i--)
        part->fields[i + second - first] = part->fields[i];
    for (int i = first; i < second; i++)
        part->fields[i] = none;
    part->count += second - first;
}

/* Puts a row of mscclpp-test with one half into its place. Returns whether it is known. */
static int place_half(results_text *in)
{
    results_nccl *n = &in->nccl;
    const int is_second = n->part.count < n->table.count ? is_second_half(n) : 0;
    if (is_second > 0)
        move_half(n);
    else if (is_second < 0)
        results_lose(in->set, in->path, n->part.line,
                     "a row with one half, in-place or out-of-place: which one is not known, "
                     "because its blanks are lost; left out");
    return is_second >= 0;
}

static void finish_part(results_text *in)
{
    results_part *part = &in->nccl.part;
    if (!is_whole_row(&in->nccl, part->count))
        return;
    if (!place_half(in)) {
        part->count = 0;
        return;
    }
    const int count = part->count, line = in->line;
    part->count = 0;
    in->line = part->line;
    add_fields(in, part->fields, count);
    in->line = line;
}

/* Where the first time of a row ends: only if its blanks are kept, so that its fields are below
 * their headings. */
static int time_end(const results_text *in, const char *line, char **tokens, int count)
{
    const int at = results_table_find(&in->nccl.table, RESULTS_CELL_TIME, 0);
    if (at < 1 || at >= count || tokens[1] - (tokens[0] + strlen(tokens[0])) < 2)
        return -1;
    return in->indent + (int)(tokens[at] - line) + (int)strlen(tokens[at]);
}

/* Reads a line of the table; it begins with two whole numbers. A line that continues a part of a
 * row has numbers only. */
void results_nccl_row(results_text *in, char *line)
{
    char *tokens[TOKENS];
    unsigned long long number;
    results_nccl *n = &in->nccl;
    int count = results_split(line, tokens, TOKENS);
    if (n->part.count > 0 && !begins_row(&n->table, tokens, count)) {
        const int before = n->part.count;
        if (take_fields(&n->part, &n->table, tokens, count) < count)
            n->part.count = before; /* other text that begins with a number */
        else
            finish_part(in);
        return;
    }
    if (count < 2 || results_whole(tokens[0], &number) != 0 ||
        results_whole(tokens[1], &number) != 0)
        return;
    drop_part(in);
    if (n->is_unread)
        return;
    if (n->table.count == 0) {
        results_lose(in->set, in->path, in->line, "a row without headings before it; left out");
        return;
    }
    n->part.line = in->line;
    n->part.time_end = time_end(in, line, tokens, count);
    count = fill_operation(&n->table, tokens, count);
    take_fields(&n->part, &n->table, tokens, count);
    finish_part(in);
    if (n->part.count > 0 && n->part.count < 2)
        n->part.count = 0;
}

/* Whether a row follows other text in one line: the fields at the end of the line. */
static int find_row_behind(results_text *in, char *line)
{
    char *tokens[TOKENS];
    const results_table *table = &in->nccl.table;
    const int count = results_split(line, tokens, TOKENS), first = count - table->count;
    if (table->count < 6 || first < 1)
        return 0;
    for (int i = 0; i < table->count; i++)
        if (!results_table_fits(&table->cells[i], tokens[first + i]))
            return 0;
    drop_part(in);
    add_fields(in, tokens + first, table->count);
    return 1;
}

/* A line that neither begins with '#' nor with a digit. */
void results_nccl_other(results_text *in, char *line)
{
    if (continues_headings(in, line)) {
        report_cut(in);
    } else if (strstr(line, "rccl-tests") || strncmp(line, "RCCL version", 12) == 0) {
        if (in->nccl.level == TABLE)
            begin_part(in, VERSION);
        in->nccl.contender = "rccl";
    } else if (strncmp(line, "NCCL version ", 13) == 0 && strcmp(in->nccl.contender, "nccl") == 0) {
        in->nccl.contender = results_keep_printed(in->set, "nccl:%.*s",
                                                  (int)strspn(line + 13, "0123456789."), line + 13);
    } else if (in->tool == RESULTS_TOOL_NCCL && in->nccl.table.count > 0 && strstr(line, "  ")) {
        char *copy = results_keep_text(in->set, line, strlen(line));
        if (!find_row_behind(in, copy) && in->nccl.part.count > 0) {
            char *tokens[TOKENS];
            copy = results_keep_text(in->set, line, strlen(line));
            const int count = results_split(copy, tokens, TOKENS), before = in->nccl.part.count;
            if (take_fields(&in->nccl.part, &in->nccl.table, tokens, count) == 0)
                in->nccl.part.count = before;
            finish_part(in);
        }
    }
}
