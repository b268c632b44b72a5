/*
 * Writes rows as weir's JSON, in documents like those of -J. What a document contained in addition
 * to its rows (manifest, configuration, times of each iteration, unknown members) is kept as text
 * when it is read, if the set keeps documents, and is written again around the rows. Rows of other
 * files are written as a separate document with one result each.
 */
#include "results/output/print.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

struct results_document {
    const char *path;           /* the same pointer as in its rows */
    int first;                  /* number of its first result */
    size_t count;               /* number of its results */
    const char *before, *after; /* members before and after the results, each followed by a
                                 * comma; or "" */
    const char **results;       /* each result without its rows */
    results_document *next;
};

/* ------------------------------------------------------------------- keeping */

static const char *keep_dumped(results_set *set, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    const char *kept = results_keep_text(set, text ? text : "null", text ? strlen(text) : 4);
    free(text);
    return kept;
}

/* "key": value */
static const char *keep_member(results_set *set, const char *key, const json_t *value)
{
    json_t *name = json_string(key);
    const char *first = keep_dumped(set, name), *second = keep_dumped(set, value);
    size_t length = strlen(first), more = strlen(second);
    char *member = results_keep(set, length + 2 + more + 1);
    memcpy(member, first, length);
    memcpy(member + length, ": ", 2);
    memcpy(member + length + 2, second, more + 1);
    json_decref(name);
    return member;
}

/* Joins texts, each followed by a comma and a line feed. */
static const char *keep_joined(results_set *set, const char **texts, size_t count)
{
    size_t length = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        length += strlen(texts[i]) + 2;
    char *joined = results_keep(set, length + 1);
    for (size_t i = 0; i < count; i++) {
        size_t one = strlen(texts[i]);
        memcpy(joined + at, texts[i], one);
        memcpy(joined + at + one, ",\n", 2);
        at += one + 2;
    }
    joined[at] = '\0';
    return joined;
}

static const char *keep_result(results_set *set, json_t *result)
{
    json_t *rest = json_is_object(result) ? json_copy(result) : NULL;
    if (rest)
        json_object_del(rest, "rows");
    const char *kept = keep_dumped(set, rest ? rest : result);
    json_decref(rest);
    return kept;
}

static void keep_members(results_set *set, results_document *made, json_t *top)
{
    const char **texts = results_keep(set, (json_object_size(top) + 1) * sizeof *texts), *key;
    size_t count = 0;
    json_t *value;
    json_object_foreach(top, key, value)
    {
        if (strcmp(key, "results") == 0) {
            made->before = keep_joined(set, texts, count);
            count = 0;
        } else {
            texts[count++] = keep_member(set, key, value);
        }
    }
    made->after = keep_joined(set, texts, count);
}

void results_document_keep(results_set *set, const char *path, int first, json_t *top)
{
    json_t *list = json_object_get(top, "results");
    if (!set->keeps_documents)
        return;
    results_document *made = results_keep(set, sizeof *made);
    *made = (results_document){
        .path = path, .first = first, .count = json_array_size(list), .before = "", .after = ""};
    made->results = results_keep(set, (made->count + 1) * sizeof *made->results);
    for (size_t i = 0; i < made->count; i++)
        made->results[i] = keep_result(set, json_array_get(list, i));
    keep_members(set, made, top);
    *(set->documents ? set->last_document : &set->documents) = made;
    set->last_document = &made->next;
}

/* ------------------------------------------------------------------- writing */

static void put_row(FILE *file, const results_row *row)
{
    weiri_json_writer json = {.file = file, .layout = WEIRI_JSON_INLINE};
    weiri_json_open_object(&json);
    for (int i = 0; i < RESULTS_COLUMNS; i++) {
        results_column column = (results_column)i;
        const char *text = row->text[i];
        weiri_json_key(&json, results_column_name(column));
        if (results_is_number_column(column) && !text[0])
            weiri_json_add_null(&json);
        else if (results_is_number_text(column, text))
            weiri_json_add_number(&json, text);
        else
            weiri_json_add_text(&json, text);
    }
    weiri_json_close_object(&json);
}

static int is_of(const results_row *row, const results_document *document)
{
    return row->path == document->path && row->line >= document->first &&
           (size_t)(row->line - document->first) < document->count;
}

/* Writes a result's text, and as its last member the rows of result `line` from *at on. */
static void put_result(FILE *file, const results_set *set, const char *text, const char *path,
                       int line, size_t *at)
{
    size_t length = strlen(text), begun = 0;
    if (text[0] != '{') {
        fputs(text, file);
        return;
    }
    fwrite(text, 1, length - 1, file);
    fputs(length > 2 ? ", \"rows\": [" : "\"rows\": [", file);
    for (; *at < set->count && set->rows[*at].path == path && set->rows[*at].line == line; ++*at) {
        fputs(begun++ ? ",\n" : "\n", file);
        put_row(file, &set->rows[*at]);
    }
    fputs("]}", file);
}

static void put_document(FILE *file, const results_set *set, const results_document *document)
{
    size_t at = 0;
    while (at < set->count && !is_of(&set->rows[at], document))
        at++;
    fprintf(file, "{\n%s\"results\": [", document->before);
    for (size_t i = 0; i < document->count; i++) {
        fputs(i ? ",\n" : "\n", file);
        put_result(file, set, document->results[i], document->path, document->first + (int)i, &at);
    }
    /* The comma after each member is written before it instead. */
    size_t length = strlen(document->after);
    fputc(']', file);
    if (length > 2)
        fprintf(file, ",\n%.*s", (int)(length - 2), document->after);
    fputc('}', file);
}

static int is_loose(const results_set *set, const results_row *row)
{
    for (const results_document *one = set->documents; one; one = one->next)
        if (is_of(row, one))
            return 0;
    return 1;
}

/* Returns the number of rows that belong to no document; writes them if file is not NULL. */
static size_t put_loose(FILE *file, const results_set *set)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const results_row *row = &set->rows[i];
        size_t next = i;
        if (!is_loose(set, row))
            continue;
        if (file) {
            fputs(count ? ",\n" : "\n", file);
            put_result(file, set, "{}", row->path, row->line, &next);
            i = next - 1;
        }
        count++;
    }
    return count;
}

void results_print_rows_json(FILE *file, const results_set *set)
{
    int loose = put_loose(NULL, set) > 0 || !set->documents;
    int several = set->documents && (loose || set->documents->next);
    if (several)
        fputs("[\n", file);
    for (const results_document *one = set->documents; one; one = one->next) {
        put_document(file, set, one);
        fputs(one->next || loose ? ",\n" : "", file);
    }
    if (loose) {
        fputs("{\n\"results\": [", file);
        put_loose(file, set);
        fputs("]}", file);
    }
    fputs(several ? "]\n" : "\n", file);
}
