/* A store in one SQLite file. Names and values are bound parameters, never part of a statement. */
#include "results/store/history.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>

enum { BUSY_MS = 5000, STATEMENT_BYTES = 4096 };

static sqlite3 *open_file(const char *path, int flags, char *reason, size_t bytes)
{
    sqlite3 *made = NULL;
    if (sqlite3_open_v2(path, &made, flags, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(made, BUSY_MS);
        return made;
    }
    snprintf(reason, bytes, "%s", made ? sqlite3_errmsg(made) : "no memory");
    sqlite3_close(made);
    return NULL;
}

/* Why a file cannot be used. A program that was killed while it added a run leaves a journal, which
 * the next reader undoes: it must be able to write. */
static const char *problem_of(sqlite3 *file)
{
    return sqlite3_errcode(file) == SQLITE_READONLY
               ? "a program was killed while it added a run, which must be undone: run "
                 "weir-compare "
                 "once as a user who can write the file and its folder"
               : sqlite3_errmsg(file);
}

/* Prepares a statement and binds its first texts. Returns NULL on failure; the file's error has the
 * reason. */
static sqlite3_stmt *prepare(sqlite3 *file, const char *statement, int count, ...)
{
    sqlite3_stmt *made = NULL;
    va_list texts;
    if (sqlite3_prepare_v2(file, statement, -1, &made, NULL) != SQLITE_OK)
        return NULL;
    va_start(texts, count);
    for (int i = 1; i <= count; i++)
        sqlite3_bind_text(made, i, va_arg(texts, const char *), -1, SQLITE_TRANSIENT);
    va_end(texts);
    return made;
}

static int step_once(sqlite3_stmt *statement)
{
    int status = statement ? sqlite3_step(statement) : SQLITE_ERROR;
    sqlite3_finalize(statement);
    return status;
}

/* ", "schema", "run_id", ..." */
static void list_columns(char *text, size_t bytes)
{
    size_t at = 0;
    for (int i = 0; i < RESULTS_COLUMNS; i++)
        at += (size_t)snprintf(text + at, bytes - at, ", \"%s\"",
                               results_column_name((results_column)i));
}

/* Whether a file has a column: files of an earlier schema lack the later ones, and SQLite would
 * read a quoted name that is not a column as a string. */
static int has_column(sqlite3 *file, int column)
{
    return step_once(prepare(file, "SELECT 1 FROM pragma_table_info('rows') WHERE name = ?", 1,
                             results_column_name((results_column)column))) == SQLITE_ROW;
}

/* ------------------------------------------------------------------- reading */

static void add_row(results_set *set, const char *path, sqlite3_stmt *from)
{
    const char *run = (const char *)sqlite3_column_text(from, 0);
    const char *was = (const char *)sqlite3_column_text(from, 1);
    int origin = sqlite3_column_int(from, 3);
    if (origin < 0 || origin >= RESULTS_ORIGINS)
        origin = RESULTS_OWN_CSV;
    results_row row = results_row_make(
        results_keep_printed(set, "%s/%s/%s", path, run ? run : "", was ? was : ""),
        sqlite3_column_int(from, 2), (results_origin)origin);
    for (int i = 0; i < RESULTS_COLUMNS; i++) {
        const char *text = (const char *)sqlite3_column_text(from, 4 + i);
        if (text)
            row.text[i] = results_keep_text(set, text, strlen(text));
    }
    results_add(set, &row);
}

/* Selects the rows of one run or of all, in all current columns; columns that the file lacks are
 * empty. */
static sqlite3_stmt *select_rows(sqlite3 *file, const char *run)
{
    char statement[STATEMENT_BYTES];
    size_t at = (size_t)snprintf(statement, sizeof statement, "SELECT run, path, line, origin");
    for (int i = 0; i < RESULTS_COLUMNS; i++) {
        const char *quote = has_column(file, i) ? "\"" : "";
        at += (size_t)snprintf(statement + at, sizeof statement - at, ", %s%s%s", quote,
                               *quote ? results_column_name((results_column)i) : "''", quote);
    }
    snprintf(statement + at, sizeof statement - at, " FROM rows %s ORDER BY run, rowid",
             run ? "WHERE run = ?" : "");
    return prepare(file, statement, run ? 1 : 0, run);
}

int results_sqlite_read(results_set *set, const char *path, const char *run)
{
    char reason[256] = "";
    sqlite3 *file = open_file(path, SQLITE_OPEN_READWRITE, reason, sizeof reason);
    int status = SQLITE_ERROR;
    sqlite3_stmt *from = file ? select_rows(file, run) : NULL;
    while (from && (status = sqlite3_step(from)) == SQLITE_ROW)
        add_row(set, path, from);
    if (status != SQLITE_DONE)
        results_note(set, path, 0, "%s; the rest is not read", file ? problem_of(file) : reason);
    set->files++;
    sqlite3_finalize(from);
    sqlite3_close(file);
    return status == SQLITE_DONE ? 0 : -1;
}

int results_sqlite_runs(results_set *set, const char *path, const char ***names, size_t *count)
{
    char reason[256] = "";
    sqlite3 *file = open_file(path, SQLITE_OPEN_READWRITE, reason, sizeof reason);
    sqlite3_stmt *from =
        file ? prepare(file, "SELECT DISTINCT run FROM rows ORDER BY run", 0) : NULL;
    size_t room = 0;
    int status = SQLITE_ERROR;
    const char **found = NULL;
    *count = 0;
    while (from && (status = sqlite3_step(from)) == SQLITE_ROW) {
        const char *run = (const char *)sqlite3_column_text(from, 0);
        if (*count == room) {
            const char **wider = results_keep(set, (room = room ? 2 * room : 64) * sizeof *wider);
            if (*count > 0)
                memcpy(wider, found, *count * sizeof *wider);
            found = wider;
        }
        found[(*count)++] = results_keep_text(set, run ? run : "", run ? strlen(run) : 0);
    }
    if (status != SQLITE_DONE)
        results_note(set, path, 0, "%s", file ? problem_of(file) : reason);
    sqlite3_finalize(from);
    sqlite3_close(file);
    *names = found;
    return status == SQLITE_DONE ? 0 : -1;
}

int results_sqlite_find(const char *path, const char *word, char *run, size_t bytes)
{
    static const char latest[] = "SELECT max(run) FROM rows";
    static const char baseline[] = "SELECT value FROM settings WHERE key = 'baseline'";
    int is_latest = strcmp(word, "latest") == 0, found = 0;
    sqlite3 *file = open_file(path, SQLITE_OPEN_READWRITE, run, bytes);
    if (!file)
        return -1;
    sqlite3_stmt *from = prepare(file, is_latest ? latest : baseline, 0);
    const int status = from ? sqlite3_step(from) : SQLITE_ERROR;
    const char *text = status == SQLITE_ROW ? (const char *)sqlite3_column_text(from, 0) : NULL;
    if (text && snprintf(run, bytes, "%s", text) < (int)bytes)
        found = 1;
    else if (status != SQLITE_ROW && status != SQLITE_DONE)
        snprintf(run, bytes, "the store '%.200s': %s", path, problem_of(file));
    else if (is_latest)
        snprintf(run, bytes, "no run in the store '%.200s'", path);
    else
        snprintf(run, bytes,
                 "the store '%.200s' has no baseline; weir-compare --store FILE "
                 "--accept NAME makes a run one",
                 path);
    sqlite3_finalize(from);
    sqlite3_close(file);
    return found ? 0 : -1;
}

/* ------------------------------------------------------------------- writing */

/* Looks for a run. Returns SQLITE_ROW if it exists, SQLITE_DONE if not, or an error. */
static int look_for(sqlite3 *file, const char *run)
{
    return step_once(prepare(file, "SELECT 1 FROM rows WHERE run = ? LIMIT 1", 1, run));
}

/* Begins the transaction that adds a run, and creates the tables and missing columns. */
static int make_tables(sqlite3 *file)
{
    char names[STATEMENT_BYTES], statement[STATEMENT_BYTES + 256];
    list_columns(names, sizeof names);
    snprintf(statement, sizeof statement,
             "BEGIN IMMEDIATE;"
             "CREATE TABLE IF NOT EXISTS settings(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
             "CREATE TABLE IF NOT EXISTS rows(run TEXT NOT NULL, path TEXT, line INTEGER, "
             "origin INTEGER%s);"
             "CREATE INDEX IF NOT EXISTS rows_by_run ON rows(run);",
             names);
    int status = sqlite3_exec(file, statement, NULL, NULL, NULL);
    for (int i = 0; i < RESULTS_COLUMNS && status == SQLITE_OK; i++) {
        if (has_column(file, i))
            continue;
        snprintf(statement, sizeof statement, "ALTER TABLE rows ADD COLUMN \"%s\"",
                 results_column_name((results_column)i));
        status = sqlite3_exec(file, statement, NULL, NULL, NULL);
    }
    return status;
}

static int add_rows(sqlite3 *file, const results_set *set, const char *run)
{
    char names[STATEMENT_BYTES], statement[2 * STATEMENT_BYTES], *end;
    list_columns(names, sizeof names);
    end = statement + snprintf(statement, sizeof statement,
                               "INSERT INTO rows(run, path, line, origin%s) VALUES(?, ?, ?, ?",
                               names);
    for (int i = 0; i < RESULTS_COLUMNS; i++)
        end += sprintf(end, ", ?");
    memcpy(end, ")", 2);
    sqlite3_stmt *to = prepare(file, statement, 0);
    int status = to ? SQLITE_DONE : SQLITE_ERROR;
    for (size_t r = 0; r < set->count && status == SQLITE_DONE; r++) {
        const results_row *row = &set->rows[r];
        sqlite3_bind_text(to, 1, run, -1, SQLITE_STATIC);
        sqlite3_bind_text(to, 2, row->path, -1, SQLITE_STATIC);
        sqlite3_bind_int(to, 3, row->line);
        sqlite3_bind_int(to, 4, (int)row->origin);
        for (int i = 0; i < RESULTS_COLUMNS; i++)
            sqlite3_bind_text(to, 5 + i, row->text[i], -1, SQLITE_STATIC);
        status = sqlite3_step(to);
        sqlite3_reset(to);
    }
    sqlite3_finalize(to);
    return status == SQLITE_DONE ? SQLITE_OK : status;
}

int results_sqlite_add(const results_set *set, const char *path, const char *run, char *reason,
                       size_t bytes)
{
    sqlite3 *file = open_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, reason, bytes);
    if (!file)
        return -1;
    int status = make_tables(file), there = SQLITE_ERROR;
    if (status == SQLITE_OK)
        there = look_for(file, run);
    if (there == SQLITE_DONE)
        status = add_rows(file, set, run);
    if (there == SQLITE_DONE && status == SQLITE_OK)
        status = sqlite3_exec(file, "COMMIT", NULL, NULL, NULL);
    const int is_added = there == SQLITE_DONE && status == SQLITE_OK;
    if (there == SQLITE_ROW)
        snprintf(reason, bytes, "it has a run '%.100s' already; names are used once", run);
    else if (!is_added)
        snprintf(reason, bytes, "%s", problem_of(file));
    sqlite3_close(file); /* undoes what was not committed */
    return is_added ? 0 : -1;
}

int results_sqlite_accept(const char *path, const char *run, char *reason, size_t bytes)
{
    sqlite3 *file = open_file(path, SQLITE_OPEN_READWRITE, reason, bytes);
    if (!file)
        return -1;
    int there = look_for(file, run), status = SQLITE_ERROR;
    if (there == SQLITE_ROW)
        status = step_once(prepare(
            file, "INSERT OR REPLACE INTO settings(key, value) VALUES('baseline', ?)", 1, run));
    if (there == SQLITE_DONE)
        snprintf(reason, bytes, "'%.100s' is no run of the store", run);
    else if (status != SQLITE_DONE)
        snprintf(reason, bytes, "%s", problem_of(file));
    sqlite3_close(file);
    return status == SQLITE_DONE ? 0 : -1;
}
