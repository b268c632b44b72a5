/*
 * Reads the output of the OSU microbenchmarks and the Intel MPI benchmarks. Both print the size
 * that one rank contributes, except of reductions that scatter: OSU and IMB before 2019.1 print the
 * whole vector, IMB since then what one rank receives. weir's size is the larger of what a rank
 * sends and receives.
 */
#define _GNU_SOURCE /* memmem */
#include "results/read/read_text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TOKENS = RESULTS_TABLE_CELLS };

/* By how much the printed size is multiplied for weir's. */
static int size_factor(const results_text *in)
{
    static const char *const blocks[] = {"allgather", "allgatherv", "alltoall",
                                         "alltoallv", "gather",     "scatter"};
    const results_mpi *m = &in->mpi;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (strcmp(m->collective, blocks[i]) == 0)
            return m->ranks;
    return in->tool == RESULTS_TOOL_IMB && !m->is_old &&
                   strcmp(m->collective, "reduce_scatter") == 0
               ? m->ranks
               : 1;
}

static const char *bytes_of(results_text *in, const char *size)
{
    unsigned long long bytes = 0;
    const int factor = size_factor(in);
    if (factor <= 1 || results_whole(size, &bytes) != 0)
        return size;
    return results_keep_printed(in->set, "%llu", bytes * (unsigned long long)factor);
}

/* ------------------------------------------------------------------- OSU */

/* "MPI-CUDA", "NCCL": the library, and whose memory it moves. */
static void read_flavour(results_mpi *m, const char *title)
{
    const char *const word = title + strlen("# OSU ");
    const size_t length = strcspn(word, " ");
    const int is_gpu = memmem(word, length, "CUDA", 4) || memmem(word, length, "ROCM", 4) ||
                       memmem(word, length, "OPENACC", 7) || memmem(word, length, "NCCL", 4) ||
                       memmem(word, length, "RCCL", 4);
    m->contender = strncmp(word, "NCCL", 4) == 0   ? "nccl"
                   : strncmp(word, "RCCL", 4) == 0 ? "rccl"
                                                   : "mpi";
    m->backend = is_gpu ? "cuda" : "host";
}

/* # OSU MPI-CUDA Allreduce Latency Test v7.4 */
static void read_osu_title(results_text *in, const char *line)
{
    results_mpi *m = &in->mpi;
    char name[96] = "";
    const char *from = strchr(line + strlen("# OSU "), ' ');
    const char *to = strstr(line, " Latency Test");
    if (from && strncmp(from, " MANAGED ", 9) == 0)
        from += strlen(" MANAGED");
    if (from && to && to > from && (size_t)(to - from) < sizeof name)
        memcpy(name, from, (size_t)(to - from));
    *m = (results_mpi){.ranks = in->set->ranks > 0 ? in->set->ranks : in->command_ranks};
    in->command_ranks = 0;
    read_flavour(m, line);
    m->collective = results_collective(name);
    in->tool = RESULTS_TOOL_OSU;
    in->sections++;
    if (strstr(name, "Non-blocking") || strstr(name, "Non-Blocking"))
        results_note(in->set, in->path, in->line,
                     "'%s': non-blocking collectives, whose times include "
                     "computation, are not read",
                     line + 2);
    else if (!m->collective)
        results_note(in->set, in->path, in->line, "unknown collective '%s'", line + 2);
}

/* ------------------------------------------------------------------- IMB */

/* # Intel(R) MPI Benchmarks 2019 Update 6, MPI-1 part */
static void read_imb_version(results_text *in, const char *line)
{
    const char *at = strstr(line, "Benchmarks ");
    int year = 0, minor = 0;
    if (!at)
        at = strstr(line, "Suite V");
    if (!at || sscanf(at + strcspn(at, "0123456789"), "%d", &year) != 1)
        return;
    at += strcspn(at, "0123456789");
    at += strspn(at, "0123456789");
    if (*at == '.')
        minor = atoi(at + 1);
    else if (strncmp(at, " Update ", 8) == 0)
        minor = atoi(at + 8);
    in->mpi = (results_mpi){.has_version = 1,
                            .is_old = year < 2019 || (year == 2019 && minor == 0),
                            .backend = strstr(line, "GPU") ? "cuda" : "host"};
    in->tool = RESULTS_TOOL_IMB;
}

/* # Benchmarking Allreduce */
static void read_imb_title(results_text *in, const char *line)
{
    results_mpi *m = &in->mpi;
    char name[96] = "";
    const int is_old = in->tool == RESULTS_TOOL_IMB && m->is_old;
    const int has_version = in->tool == RESULTS_TOOL_IMB && m->has_version;
    const char *backend = in->tool == RESULTS_TOOL_IMB && m->backend ? m->backend : "host";
    sscanf(line, "# Benchmarking %95s", name);
    *m = (results_mpi){.collective = results_collective(name),
                       .contender = "mpi",
                       .backend = backend,
                       .has_version = has_version,
                       .is_old = is_old};
    in->tool = RESULTS_TOOL_IMB;
    in->sections++;
    if (!m->collective)
        results_note(in->set, in->path, in->line, "unknown collective '%s'", name);
}

/* # ( 2 groups of 4 processes each running simultaneous ) */
static void read_imb_groups(results_mpi *m, const char *line)
{
    int groups = 0, ranks = 0;
    if (sscanf(line, "# ( %d groups of %d processes", &groups, &ranks) == 2 && groups > 0 &&
        ranks > 0) {
        m->groups = groups;
        m->ranks = ranks;
    }
}

/* ----------------------------------------------------------------- lines */

static int is_headings(const char *line)
{
    return strncmp(line, "# Size", 6) == 0 || strncmp(line, "#bytes", 6) == 0;
}

/* A table that times more than the collective. */
static void read_headings(results_text *in, char *line)
{
    results_mpi *m = &in->mpi;
    results_table_headings(&m->table, line);
    if (!m->collective || results_table_find(&m->table, RESULTS_CELL_OVERLAP, -1) < 0)
        return;
    results_note(in->set, in->path, in->line, "a table of overlap with computation; not read");
    m->collective = NULL;
}

int results_mpi_comment(results_text *in, char *line)
{
    results_mpi *m = &in->mpi;
    char type[32];
    if (strncmp(line, "# OSU ", 6) == 0)
        read_osu_title(in, line);
    else if (strstr(line, "MPI Benchmark") && strstr(line, "Intel"))
        read_imb_version(in, line);
    else if (strncmp(line, "# Benchmarking ", 15) == 0)
        read_imb_title(in, line);
    else if (in->tool != RESULTS_TOOL_OSU && in->tool != RESULTS_TOOL_IMB)
        return 0;
    else if (sscanf(line, "# Datatype: %31[A-Z_0-9a-z]", type) == 1)
        m->dtype = results_dtype(results_keep_text(in->set, type, strlen(type)));
    else if (strncmp(line, "# #processes", 12) == 0)
        m->ranks = strchr(line, '=') ? atoi(strchr(line, '=') + 1) : 0;
    else if (strncmp(line, "# (", 3) == 0)
        read_imb_groups(m, line);
    else if (is_headings(line))
        read_headings(in, line);
    else
        return 0;
    return 1;
}

/* The field of that meaning in its unit; "": none. */
static const char *field_of(const results_text *in, char **fields, int count,
                            results_meaning meaning)
{
    const int at = results_table_find(&in->mpi.table, meaning, -1);
    return at < 0 || at >= count
               ? ""
               : results_text_scaled(in->set, &in->mpi.table.cells[at], fields[at]);
}

/* Only "-" and N/A say that nothing was checked. */
static const char *verdict_of(const results_text *in, char **fields, int count)
{
    const char *word = field_of(in, fields, count, RESULTS_CELL_VERDICT);
    const char *defects = field_of(in, fields, count, RESULTS_CELL_WRONG);
    double wrong;
    if (results_real(defects, &wrong) == 0)
        return wrong != 0 ? "fail" : "pass";
    if (!word[0] || strcmp(word, "-") == 0 || strcmp(word, "N/A") == 0)
        return "off";
    return strcasecmp(word, "pass") == 0 ? "pass" : "fail";
}

/* OSU and IMB print times with two decimals: the last number of a file that is cut has fewer. */
static int is_cut_time(const results_text *in, char **fields, int count)
{
    const results_cell *cell = &in->mpi.table.cells[in->mpi.table.count - 1];
    const char *dot = strchr(fields[count - 1], '.');
    return count == in->mpi.table.count && (!dot || strlen(dot) < 3) &&
           (cell->meaning == RESULTS_CELL_TIME || cell->meaning == RESULTS_CELL_MAX);
}

/* IMB's slowest rank, OSU's mean of the ranks. */
static void set_times(const results_text *in, char **fields, int count, results_row *row)
{
    const char *most = field_of(in, fields, count, RESULTS_CELL_MAX);
    int at = results_table_find(&in->mpi.table, RESULTS_CELL_TIME, -1);
    row->text[RESULTS_MIN_US] = field_of(in, fields, count, RESULTS_CELL_MIN);
    row->text[RESULTS_MAX_US] = most;
    row->text[RESULTS_P99_US] = field_of(in, fields, count, RESULTS_CELL_P99);
    row->text[RESULTS_ITERS] = field_of(in, fields, count, RESULTS_CELL_ITERS);
    if (in->tool == RESULTS_TOOL_IMB && most[0])
        at = results_table_find(&in->mpi.table, RESULTS_CELL_MAX, -1);
    if (at < 0 || at >= count)
        return;
    const results_cell *cell = &in->mpi.table.cells[at];
    row->text[RESULTS_MEDIAN_US] = results_text_scaled(in->set, cell, fields[at]);
    results_text_resolution(in->set, row, fields[at], cell->scale > 0 ? cell->scale : 1);
}

static void add(results_text *in, char **fields, int count)
{
    results_mpi *m = &in->mpi;
    results_row row = results_row_make(in->path, in->line,
                                       in->tool == RESULTS_TOOL_OSU ? RESULTS_OSU : RESULTS_IMB);
    const int reduces = strstr(m->collective, "reduce") != NULL;
    static const char *const rooted[] = {"broadcast", "reduce", "gather", "scatter"};
    row.text[RESULTS_ROOT] = "-1";
    for (size_t i = 0; i < sizeof rooted / sizeof *rooted; i++)
        if (strcmp(m->collective, rooted[i]) == 0)
            row.text[RESULTS_ROOT] = "0";
    row.text[RESULTS_BYTES] = bytes_of(in, field_of(in, fields, count, RESULTS_CELL_SIZE));
    if (m->ranks > 0)
        row.text[RESULTS_NRANKS] = results_keep_printed(in->set, "%d", m->ranks);
    row.text[RESULTS_RUN_ID] = results_text_run(in);
    row.text[RESULTS_COLLECTIVE] = m->collective;
    row.text[RESULTS_BACKEND] = m->backend;
    row.text[RESULTS_CONTENDER] = results_contender_detail(in->set, m->contender, 0, m->groups);
    row.text[RESULTS_DTYPE] = m->dtype ? m->dtype : reduces ? "float" : "uint8";
    row.text[RESULTS_REDOP] = reduces ? "sum" : "none";
    row.text[RESULTS_PLACEMENT] = "out";
    row.text[RESULTS_VERIFY] = verdict_of(in, fields, count);
    set_times(in, fields, count, &row);
    results_add(in->set, &row);
}

/* Whether what a row's size means is not known. */
static int is_ambiguous(const results_text *in)
{
    return in->tool == RESULTS_TOOL_IMB && !in->mpi.has_version && in->mpi.ranks > 1 &&
           strcmp(in->mpi.collective, "reduce_scatter") == 0;
}

/* Whether IMB says why it has not measured a size: "1048576 out-of-mem.; needed X= 2.5 GB". */
static int is_reason(const char *word)
{
    static const char *const reasons[] = {"out-of-mem", "int-overflow", "time-out"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strncmp(word, reasons[i], strlen(reasons[i])) == 0)
            return 1;
    return 0;
}

void results_mpi_row(results_text *in, char *line)
{
    results_mpi *m = &in->mpi;
    char *fields[TOKENS];
    unsigned long long bytes;
    if (!m->collective)
        return;
    const int count = results_split(line, fields, TOKENS);
    if (count < 2 || results_whole(fields[0], &bytes) != 0)
        return;
    in->seen++;
    m->is_folded |= m->table.count > 0 && count > m->table.count;
    if (is_reason(fields[1]))
        results_lose(in->set, in->path, in->line, "the size %s was not measured (%.*s)", fields[0],
                     (int)strcspn(fields[1], ".;,"), fields[1]);
    else if (m->table.count == 0)
        results_lose(in->set, in->path, in->line, "a row without headings before it; left out");
    else if (count < m->table.count)
        results_lose(in->set, in->path, in->line,
                     "a row of %d fields where the headings have %d (cut "
                     "off?); left out",
                     count, m->table.count);
    else if (m->is_folded)
        results_lose(in->set, in->path, in->line,
                     "a row of %d fields in a table with %d headings and wider rows (folded lines, "
                     "whose rests look like rows?); left out",
                     count, m->table.count);
    else if (is_cut_time(in, fields, count))
        results_lose(in->set, in->path, in->line,
                     "the time '%s' has less than two decimals (cut off?); row left out",
                     fields[count - 1]);
    else if (is_ambiguous(in))
        results_lose(
            in->set, in->path, in->line,
            "sizes of Reduce_scatter depend on IMB's version, which is not in the file; row "
            "left out");
    else if (bytes > 0)
        add(in, fields, count);
}
