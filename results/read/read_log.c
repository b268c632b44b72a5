/*
 * Reads a log. Its lines are cleaned first (lines.h); what they then are decides: a CSV or JSON
 * that a collector changed, the text of a known tool, or something else, of which the message says
 * what it probably is.
 */
#include "results/read/read_text.h"

#include <string.h>

/* What a file seems to be that contains no results. */
static const char *nature_of(const results_input *input)
{
    static const struct {
        const char *magic, *what;
        size_t bytes;
    } kinds[] = {
        {"\x1f\x8b", "compressed by gzip: decompress it first", 2},
        {"BZh", "compressed by bzip2: decompress it first", 3},
        {"\xfd"
         "7zXZ",
         "compressed by xz: decompress it first", 5},
        {"\x28\xb5\x2f\xfd", "compressed by zstd: decompress it first", 4},
        {"PK\x03\x04", "a zip archive or an office document: extract it, or export text", 4},
        {"%PDF", "a PDF", 4},
        {"\x89PNG", "a picture", 4},
        {"\x7f"
         "ELF",
         "a program: give what it prints", 4},
        {"<!DOCTYPE", "a web page: save the text itself", 9},
        {"<html", "a web page: save the text itself", 5},
        {"SQLite format 3", "an SQLite file: use --store", 15}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (input->length >= kinds[i].bytes &&
            memcmp(input->text, kinds[i].magic, kinds[i].bytes) == 0)
            return kinds[i].what;
    return NULL;
}

/* What text of other programs, or of a run that failed, is. */
static const char *speaker_of(const results_lines *lines, int *number)
{
    static const struct {
        const char *words, *what;
    } kinds[] = {{"RDMA_Write BW Test", "output of perftest, which measures no collective"},
                 {"#bytes     #iterations", "output of perftest, which measures no collective"},
                 {"[ ID] Interval", "output of iperf3, which measures no collective"},
                 {"nvbandwidth Version", "output of nvbandwidth, which measures no collective"},
                 {"#bytes #repetitions", "a table of the Intel MPI Benchmarks without its line "
                                         "'# Benchmarking', which names the collective"},
                 {"Bandwidth, GB/s", "output of ucc_perftest, which is not read"},
                 {"count(elems)", "output of nccom-test, which is not read"},
                 {"command not found", "the program was not found"},
                 {"No such file or directory", "the program was not found"},
                 {"error while loading shared libraries", "the program lacks a library"},
                 {"not enough slots", "the launcher found too few processors"},
                 {"DUE TO TIME LIMIT", "the job's time limit ended it"},
                 {"Permission denied", "the program could not be run"},
                 {"Segmentation fault", "the program crashed"},
                 {"Out of memory", "memory ran out"},
                 {"usage:", "the program printed its usage: wrong options"},
                 {"USAGE:", "the program printed its usage: wrong options"},
                 {"Usage:", "the program printed its usage: wrong options"}};
    for (size_t i = 0; i < lines->count; i++) {
        *number = lines->list[i].number;
        if (results_is_markdown(lines->list[i].text))
            return "a Markdown table: give what the tool printed";
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (strstr(lines->list[i].text, kinds[k].words))
                return kinds[k].what;
    }
    return NULL;
}

static void explain(results_set *set, const results_input *input, const results_lines *lines,
                    int is_binary)
{
    int line = 0;
    const char *what = speaker_of(lines, &line);
    if (what)
        results_lose(set, input->path, line,
                     "text; not a known kind of result file "
                     "(docs/user/comparing.md): %s",
                     what);
    else
        results_lose(set, input->path, 0,
                     "%s; not a known kind of result file "
                     "(docs/user/comparing.md)",
                     is_binary ? "binary data" : "text");
}

static int begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* The first line that begins a CSV, or lines of JSON with one result each; else the number of
 * lines. */
static size_t find_data(const results_lines *lines)
{
    size_t i = 0;
    for (; i < lines->count; i++) {
        const char *text = lines->list[i].text + strspn(lines->list[i].text, " ");
        if (begins(text, "schema,run_id,") || begins(text, "numCycle,") ||
            (text[0] == '{' && strstr(text, "\"size\"") && strstr(text, "\"name\"")))
            break;
    }
    return i;
}

/* Reads data that a collector changed; lines before them become empty, so that numbers stay. */
static void read_data(results_set *set, const results_input *input, const results_lines *lines,
                      size_t first)
{
    for (size_t i = 0; i < lines->count; i++)
        lines->list[i].text =
            i < first ? "" : lines->list[i].text + strspn(lines->list[i].text, " ");
    char *text = results_lines_join(set, lines);
    results_input data = {input->path, text, strlen(text)};
    const char *start = lines->list[first].text;
    if (begins(start, "schema,"))
        results_read_csv(set, &data);
    else if (begins(start, "numCycle,"))
        results_read_rccl_csv(set, &data);
    else
        results_read_json(set, &data, 1);
}

void results_read_log(results_set *set, results_input *input, int named)
{
    results_lines lines;
    const int is_binary = memchr(input->text, 0, input->length) != NULL;
    const char *nature = nature_of(input);
    if (nature) {
        if (named)
            results_lose(set, input->path, 0, "%s", nature);
        return;
    }
    const int is_json = results_is_json_object(input->text);
    results_input whole = {input->path,
                           is_json ? results_keep_text(set, input->text, input->length) : NULL,
                           input->length};
    results_lines_make(set, input, &lines);
    const size_t data = find_data(&lines);
    if (is_json && !lines.changed)
        results_read_json(set, &whole, named);
    else if (data < lines.count)
        read_data(set, input, &lines, data);
    else if (!results_read_text(set, input->path, &lines) && named)
        explain(set, input, &lines, is_binary);
}
