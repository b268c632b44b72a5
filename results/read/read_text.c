/*
 * From lines to sections: see read_text.h. A section knows its collective from its own header; else
 * from the command that the log shows before it, or from the file's name. Never from the section
 * before it.
 */
#include "results/read/read_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *file_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ------------------------------------------------------------------ numbers */

/* ----------------------------------------------------------------- commands */

/* The number of ranks that a launcher's option gives, as "-np 4" or "--ntasks=4"; 0: none. */
static int ranks_of(const char *line)
{
    static const char *const options[] = {" -np ",      " -n ",       " --np ",
                                          " --ntasks ", " --ntasks=", " -ntasks "};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *at = strstr(line, options[i]);
        const long ranks = at ? strtol(at + strlen(options[i]), NULL, 10) : 0;
        if (ranks > 0 && ranks < 1000000)
            return (int)ranks;
    }
    return 0;
}

/* The collective of a program in a command: a word with _perf, or of OSU. */
static void read_command(const char *line, char *name)
{
    for (const char *at = line; *at;) {
        char word[256];
        size_t length = strcspn(at, " \t'\";&|=()");
        if (length > 0 && length < sizeof word) {
            memcpy(word, at, length);
            word[length] = '\0';
            const char *program = file_part(word), *found = NULL;
            if (strstr(program, "_perf") || strncmp(program, "osu_", 4) == 0)
                found = results_collective_in(program);
            if (found)
                snprintf(name, RESULTS_NAME_BYTES, "%s", found);
        }
        at += length ? length : 1;
    }
}

/* ------------------------------------------------------------------ failures */

/* Whether one of the words is in a line. */
static int has_word(const char *line, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(line, words[i]))
            return 1;
    return 0;
}

/* What programs, launchers and schedulers print when a run has failed, and what may be its cause,
 * but also stands in logs of runs that ended well. */
static results_trouble trouble_of(const char *line)
{
    static const char *const failures[] = {"Test NCCL failure",
                                           "Test CUDA failure",
                                           "Test failure",
                                           "Test HIP failure",
                                           "CUDA failure",
                                           "CUDA error",
                                           "HIP failure",
                                           "Segmentation fault",
                                           "Bus error",
                                           "Killed",
                                           "Out of memory",
                                           "out of memory",
                                           "oom-kill",
                                           "DUE TO TIME LIMIT",
                                           "CANCELLED AT",
                                           "MPI_ABORT",
                                           "MPI_Abort",
                                           "Aborted",
                                           "exited on signal",
                                           "error while loading shared libraries",
                                           "DATA VALIDATION ERROR",
                                           "srun: error",
                                           "slurmstepd: error",
                                           "BAD TERMINATION",
                                           "invalid device ordinal",
                                           "Requires MPI",
                                           "not enough slots",
                                           "unhandled system error",
                                           "unhandled cuda error",
                                           "non-zero status",
                                           "non-zero exit code",
                                           "Job step aborted",
                                           "Got invalid buffer",
                                           "ChildFailedError",
                                           "fallen off the bus"};
    static const char *const hints[] = {"NCCL WARN",
                                        "command not found",
                                        "cannot open shared object",
                                        "No such file or directory",
                                        "Permission denied",
                                        "Usage:",
                                        "USAGE:",
                                        "usage:"};
    if (strstr(line, " NCCL INFO "))
        return RESULTS_NO_TROUBLE;
    if (!isalpha((unsigned char)line[strspn(line, " \t[*!-")]) && !strchr("[*/.", line[0]))
        return RESULTS_NO_TROUBLE;
    if (!strstr(line, "NCCL WARN") && has_word(line, failures, sizeof failures / sizeof *failures))
        return RESULTS_FAILURE;
    return has_word(line, hints, sizeof hints / sizeof *hints) ? RESULTS_HINT : RESULTS_NO_TROUBLE;
}

/* Keeps the first failure, or without one the first hint. */
static void note_trouble(results_text *in, char *line)
{
    const results_trouble kind = trouble_of(line);
    if (kind <= in->trouble_kind)
        return;
    in->trouble_kind = kind;
    in->trouble = line + strspn(line, " \t");
    in->trouble_line = in->line;
}

/* -------------------------------------------------------------------- lines */

/* Whether a row has a number with a comma and two decimals, as a locale or a spreadsheet makes it.
 */
static int has_decimal_comma(const char *row)
{
    for (const char *at = row; (at = strchr(at, ',')) != NULL; at++)
        if (at > row && isdigit((unsigned char)at[-1]) && strspn(at + 1, "0123456789") == 2 &&
            strchr(" \t", at[3]))
            return 1;
    return 0;
}

int results_is_markdown(const char *line)
{
    return strspn(line, "|:- \t") == strlen(line) && strchr(line, '|') && strstr(line, "--");
}

/* What keeps rows from being read, whatever tool has printed them; NULL: nothing. */
static const char *rewritten_as(const char *at)
{
    if (results_is_markdown(at))
        return "a Markdown table: give what the tool printed";
    if (isdigit((unsigned char)*at) && has_decimal_comma(at))
        return "numbers with a decimal comma: run the tool with LC_ALL=C, or give what it printed";
    return NULL;
}

static void read_line(results_text *in, char *line)
{
    char *at = line + strspn(line, " \t");
    const char *rewritten = rewritten_as(at);
    in->indent = (int)(at - line);
    if (rewritten) {
        if (!in->rewritten)
            results_lose(in->set, in->path, in->line, "%s; such rows are left out", rewritten);
        in->rewritten = 1;
    } else if (*at == '#') {
        for (char *tab = at; (tab = strchr(tab, '\t')) != NULL;)
            *tab = ' ';
        if (!results_mpi_comment(in, at))
            results_nccl_comment(in, at);
    } else if (in->tool == RESULTS_TOOL_OSU || in->tool == RESULTS_TOOL_IMB) {
        if (isdigit((unsigned char)*at))
            results_mpi_row(in, at);
        else
            results_nccl_other(in, at);
    } else if (isdigit((unsigned char)*at)) {
        results_nccl_row(in, at);
    } else {
        results_nccl_other(in, at);
    }
    if (!*at || *at == '#' || isdigit((unsigned char)*at))
        return;
    if (strstr(at, "_perf") || strstr(at, "osu_"))
        read_command(at, in->command);
    if (strstr(at, "osu_"))
        in->command_ranks = ranks_of(at);
    note_trouble(in, line);
}

/* Without a row, the most likely reason. */
static void explain_nothing(results_text *in)
{
    if (in->rewritten)
        return;
    if (in->trouble)
        results_lose(in->set, in->path, in->trouble_line,
                     "no row: the log reports a failure: %.200s", in->trouble);
    else if (in->nccl.headings > 0 || in->mpi.table.count > 0)
        results_lose(in->set, in->path, 0,
                     "no row: the log ends after the headings of its table: the "
                     "run was broken off before its first row, or its output was cut");
    else
        results_lose(in->set, in->path, 0,
                     "no row: the log has a program's header and no table: the run "
                     "was broken off, or only a part of its output is here");
}

static void explain_trouble(results_text *in, int sources)
{
    if (in->trouble_kind == RESULTS_FAILURE)
        results_lose(in->set, in->path, in->trouble_line, "the log reports a failure: %.200s",
                     in->trouble);
    else if (in->trouble)
        results_note(in->set, in->path, in->trouble_line, "the log reports a failure: %.200s",
                     in->trouble);
    if (in->one_rank_tables > 1 && sources > 1)
        results_note(in->set, in->path, 0,
                     "%d runs of one rank each, not one run of %d ranks: the "
                     "program was built without MPI, or started by the launcher of another MPI",
                     in->one_rank_tables, in->one_rank_tables);
}

static void read_source(results_text *in, const results_lines *lines, size_t *at)
{
    const int source = lines->list[*at].source;
    in->tool = RESULTS_TOOL_NONE;
    in->command[0] = '\0';
    in->mpi = (results_mpi){.ranks = 0};
    results_nccl_begin(in);
    for (; *at < lines->count && lines->list[*at].source == source; ++*at) {
        in->line = lines->list[*at].number;
        read_line(in, lines->list[*at].text);
    }
    results_nccl_end(in);
}

int results_read_text(results_set *set, const char *path, const results_lines *lines)
{
    const size_t before = set->count, problems = set->problems;
    results_text in = {.set = set, .path = path};
    const char *named = results_collective_in(file_part(path));
    int has_section = lines->has_marker;
    snprintf(in.file, sizeof in.file, "%s", named ? named : "");
    for (size_t i = 0; i < lines->count && !has_section; i++)
        has_section = strstr(lines->list[i].text, "(elements)") != NULL;
    for (size_t at = 0; at < lines->count && has_section;)
        read_source(&in, lines, &at);
    if (has_section && set->count == before && set->problems == problems && !in.seen)
        explain_nothing(&in);
    else if (has_section)
        explain_trouble(&in, lines->sources);
    return has_section;
}
