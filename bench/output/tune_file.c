/* The file of a tuning table: see tune_file.h. */
#include "bench/output/tune_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_collective(const char *word)
{
    for (int i = 0; i < WEIR_COLL_COUNT; i++)
        if (strcmp(word, weir_collective_name((weir_collective)i)) == 0)
            return 1;
    return 0;
}

static int is_cores_word(const char *word)
{
    static const char *const words[] = {"own",   "shared", "any", "plain-own", "plain-shared",
                                        "plain", "cuda",   "net", "net-shared"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            return 1;
    return 0;
}

/* 1 if the line is a row of a tuning table, a comment, or empty. */
static int is_table_line(char *line)
{
    char collective[24], cores[16], limit[24], algo[256], grid[16], extra[2];
    int ranks = 0;
    line[strcspn(line, "#\n")] = '\0';
    if (line[strspn(line, " \t\r")] == '\0')
        return 1;
    if (sscanf(line, "%23s", collective) == 1 && strcmp(collective, "cost") == 0)
        return 1;
    int words = sscanf(line, "%23s %d %15s %23s %255s %15s %1s", collective, &ranks, cores, limit,
                       algo, grid, extra);
    return (words == 5 || words == 6) && is_collective(collective) && ranks > 0 &&
           is_cores_word(cores);
}

/* The number of the first line that does not belong in a tuning table; 0: none. */
static int find_foreign_line(FILE *file)
{
    char *line = NULL;
    size_t bytes = 0;
    int foreign = 0;
    for (int number = 1; !foreign && getline(&line, &bytes, file) >= 0; number++)
        foreign = is_table_line(line) ? 0 : number;
    free(line);
    return foreign;
}

FILE *bench_tune_open_new(const char *path, char *temporary, char *reason)
{
    if (snprintf(temporary, BENCH_TUNE_PATH_BYTES, "%s.new", path) < BENCH_TUNE_PATH_BYTES)
        return bench_output_open(temporary, reason);
    snprintf(reason, BENCH_OUTPUT_REASON_BYTES, "its name is too long");
    return NULL;
}

/* Copies the lines that stay. -1: the table cannot be read. */
static int copy_others(const char *path, const bench_tune_rows *rows, const void *tune, FILE *to)
{
    FILE *old = fopen(path, "re");
    char *line = NULL;
    size_t bytes = 0;
    if (!old) {
        fputs(rows->header, to);
        return errno == ENOENT ? 0 : -1;
    }
    while (getline(&line, &bytes, old) >= 0)
        if (!rows->is_replaced(tune, line))
            fputs(line, to);
    const int failed = ferror(old) ? -1 : 0;
    free(line);
    fclose(old);
    return failed;
}

weir_status bench_tune_rewrite(bench_job *job, const char *path, const bench_tune_rows *rows,
                               const void *tune)
{
    char temporary[BENCH_TUNE_PATH_BYTES], reason[BENCH_OUTPUT_REASON_BYTES];
    FILE *file = bench_tune_open_new(path, temporary, reason);
    if (!file)
        return bench_job_note(job, WEIR_ERR_SYSTEM, "cannot write %s.new: %s", path, reason);
    int failed = copy_others(path, rows, tune, file);
    rows->add(tune, file);
    failed |= ferror(file) | fflush(file);
    failed = failed || rename(temporary, path) != 0; /* before another run can open temporary */
    failed |= fclose(file);
    return failed
               ? bench_job_note(job, WEIR_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno))
               : WEIR_OK;
}

/* Most rows of the file are kept, so it must be a tuning table. */
static weir_status check_old(bench_job *job, const char *path)
{
    struct stat kind;
    int is_there = stat(path, &kind) == 0;
    if (!is_there && errno == ENOENT)
        return WEIR_OK;
    if (is_there && !S_ISREG(kind.st_mode))
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--tune %s: it is no regular file; give a "
                              "tuning table, or a file that is not there yet",
                              path);
    FILE *file = fopen(path, "re");
    if (!file)
        return bench_job_note(job, WEIR_ERR_INVALID, "--tune %s: %s; give a file that can be read",
                              path, strerror(errno));
    int foreign = find_foreign_line(file);
    fclose(file);
    if (foreign)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--tune %s: line %d is no row of a tuning "
                              "table; give such a table, or a file that is not there yet",
                              path, foreign);
    return WEIR_OK;
}

weir_status bench_tune_check_path(bench_job *job, const char *path)
{
    char temporary[BENCH_TUNE_PATH_BYTES];
    weir_status status = check_old(job, path);
    if (status != WEIR_OK)
        return status;
    char reason[BENCH_OUTPUT_REASON_BYTES];
    FILE *file = bench_tune_open_new(path, temporary, reason);
    if (!file)
        return bench_job_note(job, WEIR_ERR_INVALID, "--tune %s: its folder, file %s: %s", path,
                              temporary, reason);
    remove(temporary);
    fclose(file);
    return WEIR_OK;
}
