/* From sources (patterns, folders, stores) to files, and from files to the reader of their kind. */
#define _GNU_SOURCE /* memmem */
#include "results/read/load.h"
#include "results/read/lines.h"
#include "results/read/machine.h"
#include "results/store/history.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { DEPTH = 8, SNIFF_BYTES = 1 << 16 };

static int has(const results_input *input, const char *word)
{
    size_t length = strlen(word), most = input->length < SNIFF_BYTES ? input->length : SNIFF_BYTES;
    return memmem(input->text, most, word, length) != NULL;
}

/* Whether a JSON file consists of objects around the lines of a log. */
static int has_wrapped_lines(const results_input *input)
{
    static const char *const keys[] = {"\"log\":", "\"message\":", "\"MESSAGE\"",
                                       "\"msg\":", "\"line\":",    "\"textPayload\":"};
    if (has(input, "\"results\"") || has(input, "\"rows\""))
        return 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (has(input, keys[i]))
            return 1;
    return 0;
}

/* Whether the first line is a header of CSV, perhaps with renamed or moved columns. A header has
 * commas and no blank, or commas and the name of a column; prose has commas and blanks only. */
static int is_header(const char *text)
{
    char name[64];
    const size_t line = strcspn(text, "\r\n");
    if (!memchr(text, ',', line))
        return 0;
    if (strcspn(text, " \t") >= line)
        return 1;
    for (size_t at = 0; at < line; at++) {
        at += strspn(text + at, " \t\"");
        const size_t length = strcspn(text + at, ",\" \t\r\n");
        if (length < sizeof name) {
            memcpy(name, text + at, length);
            name[length] = '\0';
            if (results_column_find(name) >= 0)
                return 1;
        }
        at += strcspn(text + at, ",\r\n");
    }
    return 0;
}

results_kind results_kind_of(const results_input *input)
{
    static const char *const logs[] = {
        "# OSU ",      "# Benchmarking ", "# nThread ", "# minBytes ", "# Collective test starting",
        "(elements)",  "schema,run_id,",  "numCycle,",  "{\"name\":",  "{\"numCycle\":",
        "{\"#wrong\":"};
    const char *text = input->text;
    if (strncmp(text, "numCycle,", 9) == 0)
        return RESULTS_KIND_RCCL_CSV;
    if (strncmp(text, "schema,", 7) == 0)
        return RESULTS_KIND_OWN_CSV;
    if (results_is_json_object(text)) /* whatever words its texts contain */
        return has_wrapped_lines(input) ? RESULTS_KIND_LOG : RESULTS_KIND_JSON;
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++)
        if (has(input, logs[i]))
            return RESULTS_KIND_LOG;
    text += strspn(text, " \t\r\n");
    if (*text == '{' || *text == '[')
        return RESULTS_KIND_JSON;
    if (is_header(text))
        return RESULTS_KIND_OWN_CSV;
    return RESULTS_KIND_LOG;
}

static int ends_with(const char *name, const char *tail)
{
    size_t length = strlen(name), more = strlen(tail);
    return length > more && strcasecmp(name + length - more, tail) == 0;
}

static const char *fact_of(const results_manifest *manifest, const char *path)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (strcmp(manifest->facts[i].path, path) == 0)
            return manifest->facts[i].value;
    return "";
}

/* Reports a CSV whose manifest is cut off, or says that its run has not come to its end, except
 * that of -N 0, which is stopped. Rows from `first` on are the CSV's; a manifest of another run
 * says nothing. */
static void check_end(results_set *set, const results_input *input, size_t first)
{
    results_manifest manifest;
    const int has_one = results_manifest_read_file(set, input->path, &manifest) == 0;
    if (has_one && set->count > first && manifest.fault[0])
        results_lose(set, manifest.file, manifest.fault_line,
                     "invalid manifest, so whether the run has ended is unknown: %s",
                     manifest.fault);
    if (has_one && set->count > first &&
        strcmp(fact_of(&manifest, "run_id"), set->rows[first].text[RESULTS_RUN_ID]) == 0 &&
        strcmp(fact_of(&manifest, "complete"), "false") == 0 &&
        strcmp(fact_of(&manifest, "options.cycles"), "0") != 0)
        results_lose(set, manifest.file, 0,
                     "\"complete\" is false: the run still measures, has failed, or was killed");
    results_manifest_free(&manifest);
}

void results_read_input(results_set *set, results_input *input, int named)
{
    set->files++;
    int must_have_results = named || ends_with(input->path, ".csv");
    if (input->length == 0) {
        if (must_have_results)
            results_lose(set, input->path, 0, "empty file");
        return;
    }
    const size_t first = set->count;
    results_narrow(input);
    switch (results_kind_of(input)) {
    case RESULTS_KIND_OWN_CSV: /* prose has commas too, such as a verdict in the compared folder */
        if (must_have_results || strncmp(input->text, "schema,", 7) == 0)
            results_read_csv(set, input);
        check_end(set, input, first);
        return;
    case RESULTS_KIND_RCCL_CSV:
        results_read_rccl_csv(set, input);
        return;
    case RESULTS_KIND_JSON:
        results_read_json(set, input, named);
        return;
    case RESULTS_KIND_LOG:
        break;
    }
    results_read_log(set, input, must_have_results);
}

static int read_text(results_set *set, const char *path, FILE *file, results_input *input)
{
    struct stat about;
    if (fstat(fileno(file), &about) != 0) {
        results_note(set, path, 0, "%s", strerror(errno));
        return -1;
    }
    size_t room = (size_t)about.st_size;
    char *text = results_keep(set, room + 1);
    size_t length = fread(text, 1, room, file);
    text[length] = '\0';
    *input = (results_input){results_keep_text(set, path, strlen(path)), text, length};
    if (ferror(file))
        results_lose(set, path, 0, "%s; the rest is not read", strerror(errno));
    return 0;
}

static int read_file(results_set *set, const char *path, int named)
{
    results_input input;
    FILE *file = results_open(path, RESULTS_FILE_BYTES);
    if (!file) {
        if (errno == EFBIG)
            results_lose(set, path, 0, "files of more than %d bytes are not read",
                         RESULTS_FILE_BYTES);
        else
            results_lose(set, path, 0, "%s",
                         errno == ENOTSUP ? "not a regular file" : strerror(errno));
        return -1;
    }
    int status = read_text(set, path, file, &input);
    fclose(file);
    if (status == 0)
        results_read_input(set, &input, named);
    return status;
}

static int may_hold_results(const char *name)
{
    return ends_with(name, ".csv") || ends_with(name, ".json") || ends_with(name, ".txt") ||
           ends_with(name, ".log") || ends_with(name, ".out");
}

/* a.csv.gz; prose is compressed too, but rotated logs hold no results. */
static int is_compressed_result(const char *name)
{
    static const char *const csv[] = {".csv.gz", ".csv.xz", ".csv.zst", ".csv.bz2"};
    for (size_t i = 0; i < sizeof csv / sizeof *csv; i++)
        if (ends_with(name, csv[i]))
            return 1;
    return 0;
}

/* CSV files before other files of the same run. */
static int by_kind_and_name(const struct dirent **a, const struct dirent **b)
{
    int first = ends_with((*a)->d_name, ".csv"), second = ends_with((*b)->d_name, ".csv");
    return first != second ? second - first : strcmp((*a)->d_name, (*b)->d_name);
}

static int read_folder(results_set *set, const char *folder, int depth);

/* Reads a folder's entry if its name is that of a result file. */
static void read_entry(results_set *set, const char *folder, const char *name, int depth)
{
    char path[PATH_MAX];
    struct stat about = {.st_mode = S_IFREG};
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        results_lose(set, folder, 0, "a path of more than %d bytes is not read", PATH_MAX);
    else if (stat(path, &about) == 0 && S_ISDIR(about.st_mode) && depth < DEPTH)
        read_folder(set, path, depth + 1);
    else if (S_ISDIR(about.st_mode))
        results_lose(set, path, 0, "more than %d folders deep; not read", DEPTH);
    else if (is_compressed_result(name))
        results_lose(set, path, 0, "compressed: decompress it first");
    else if (may_hold_results(name))
        read_file(set, path, 0);
}

static int read_folder(results_set *set, const char *folder, int depth)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, by_kind_and_name);
    if (count < 0) {
        results_note(set, folder, 0, "%s", strerror(errno));
        return -1;
    }
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            read_entry(set, folder, entries[i]->d_name, depth);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

static int read_path(results_set *set, const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return read_folder(set, path, 0);
    return results_sqlite_is(path) ? results_sqlite_read(set, path, NULL) : read_file(set, path, 1);
}

static int read_pattern(results_set *set, const char *pattern)
{
    glob_t found = {0};
    int status = glob(pattern, 0, NULL, &found);
    if (status == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            read_path(set, found.gl_pathv[i]);
    else
        results_note(set, pattern, 0, "no file matches this pattern");
    globfree(&found);
    return status == 0 ? 0 : -1;
}

/* Reads a run of a store in one file: `latest`, `baseline`, or a run's name. */
static int read_run(results_set *set, const char *store, const char *source)
{
    char run[512];
    size_t before = set->count;
    int is_word = strcmp(source, "latest") == 0 || strcmp(source, "baseline") == 0;
    if (is_word && results_sqlite_find(store, source, run, sizeof run) != 0) {
        results_note(set, source, 0, "%s", run);
        return -1;
    }
    if (results_sqlite_read(set, store, is_word ? run : source) != 0)
        return -1;
    if (set->count > before)
        return 0;
    results_note(set, source, 0, "neither a file nor a run of the store '%.200s'", store);
    return -1;
}

/* How completely a file of that origin states weir's rows; 0: another tool's. */
static int completeness(const results_row *row)
{
    return row->origin == RESULTS_OWN_CSV      ? 3
           : row->origin == RESULTS_OWN_ROWS   ? 2
           : row->origin == RESULTS_OWN_OUTPUT ? 1
                                               : 0;
}

/* Orders rows by run and by what a printed table states of a measurement. */
static int by_measurement(const results_row *a, const results_row *b)
{
    static const results_column columns[] = {RESULTS_RUN_ID, RESULTS_COLLECTIVE, RESULTS_CONTENDER,
                                             RESULTS_DTYPE,  RESULTS_REDOP,      RESULTS_PLACEMENT};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        int order = strcmp(a->text[columns[i]], b->text[columns[i]]);
        if (order)
            return order;
    }
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->nranks != b->nranks ? a->nranks - b->nranks : a->root - b->root;
}

/* The same, then the most complete row first. */
static int by_completeness(const void *first, const void *second)
{
    const results_row *a = *(results_row *const *)first, *b = *(results_row *const *)second;
    int order = by_measurement(a, b);
    return order ? order : completeness(b) - completeness(a);
}

/* Whether files of several forms have weir's rows. */
static int has_forms(const results_set *set, size_t first)
{
    int seen = 0;
    for (size_t i = first; i < set->count; i++)
        if (completeness(&set->rows[i]) > 0)
            seen |= 1 << completeness(&set->rows[i]);
    return (seen & (seen - 1)) != 0;
}

/* Weir's rows can be in a CSV, a JSON file and a printed table of one run: keeps those of the most
 * complete file, so that they count once. */
static void drop_copies(results_set *set, size_t first)
{
    size_t count = set->count - first, kept = first;
    if (!has_forms(set, first))
        return;
    results_row **order = malloc((count + 1) * sizeof *order);
    if (!order || set->keeps_documents) { /* documents number their rows */
        free(order);
        return;
    }
    for (size_t i = 0; i < count; i++)
        order[i] = &set->rows[first + i];
    qsort(order, count, sizeof *order, by_completeness);
    const results_row *best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!best || by_measurement(best, order[i]) != 0)
            best = order[i];
        order[i]->is_copy = completeness(order[i]) > 0 &&
                            completeness(order[i]) < completeness(best) &&
                            order[i]->failed <= best->failed;
    }
    for (size_t i = first; i < set->count; i++)
        if (!set->rows[i].is_copy)
            set->rows[kept++] = set->rows[i];
    set->count = kept;
    free(order);
}

static int load_source(results_set *set, const char *source, const char *store)
{
    char path[PATH_MAX];
    struct stat about;
    int exists = stat(source, &about) == 0;
    if (!exists && store && results_sqlite_is(store))
        return read_run(set, store, source);
    if (!exists && (strcmp(source, "latest") == 0 || strcmp(source, "baseline") == 0)) {
        if (results_store_find(store, source, path, sizeof path) == 0)
            return read_path(set, path);
        results_note(set, source, 0, "%s", path);
        return -1;
    }
    if (!exists && strpbrk(source, "*?["))
        return read_pattern(set, source);
    return read_path(set, source);
}

int results_load(results_set *set, const char *source, const char *store)
{
    size_t first = set->count;
    int status = load_source(set, source, store);
    drop_copies(set, first);
    return status;
}
