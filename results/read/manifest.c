/* Manifests: from JSON to sorted pairs of path and value, and the difference of two manifests. */
#include "results/read/machine.h"

#include "results/read/load.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 256, DEPTH = 12, FACTS = 20000 };

typedef struct collector {
    results_set *set;
    results_manifest *made;
} collector;

static void add_fact(collector *c, const char *path, const char *value)
{
    results_manifest *made = c->made;
    if (made->count >= FACTS)
        return;
    if ((made->count & (made->count - 1)) == 0) {
        size_t room = made->count ? 2 * made->count : 1;
        results_fact *facts = realloc(made->facts, room * sizeof *facts);
        if (!facts)
            return;
        made->facts = facts;
    }
    made->facts[made->count++] =
        (results_fact){results_keep_text(c->set, path, strlen(path)),
                       results_keep_text(c->set, value, strlen(value) > 400 ? 400 : strlen(value))};
}

static void flatten(collector *c, const json_t *value, const char *path, int depth)
{
    char longer[PATH_BYTES];
    if (json_is_object(value) && depth < DEPTH) {
        const char *key;
        json_t *member;
        json_object_foreach((json_t *)value, key, member)
        {
            snprintf(longer, sizeof longer, "%s%s%.80s", path, path[0] ? "." : "", key);
            flatten(c, member, longer, depth + 1);
        }
    } else if (json_is_array(value) && depth < DEPTH) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            snprintf(longer, sizeof longer, "%.200s[%zu]", path, i);
            flatten(c, json_array_get(value, i), longer, depth + 1);
        }
    } else if (json_is_string(value)) {
        add_fact(c, path, json_string_value(value));
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
        add_fact(c, path, text ? text : "");
        free(text);
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const results_fact *)a)->path, ((const results_fact *)b)->path);
}

/* The manifest of a.csv is a.json. */
static int manifest_path(const char *csv, char *path, size_t bytes)
{
    size_t length = strlen(csv);
    return length > 4 && strcmp(csv + length - 4, ".csv") == 0 &&
                   snprintf(path, bytes, "%.*s.json", (int)length - 4, csv) < (int)bytes
               ? 0
               : -1;
}

static int read_one(results_set *set, const char *path, results_manifest *made)
{
    json_error_t error;
    FILE *file = results_open(path, RESULTS_FILE_BYTES);
    if (!file)
        return -1;
    json_t *value = json_loadf(file, 0, &error);
    fclose(file);
    made->file = results_keep_text(set, path, strlen(path));
    if (value)
        flatten(&(collector){set, made}, value, "", 0);
    else
        snprintf(made->fault, sizeof made->fault, "%.120s", error.text);
    made->fault_line = value ? 0 : error.line;
    json_decref(value);
    if (made->count > 0)
        qsort(made->facts, made->count, sizeof *made->facts, by_path);
    return 0;
}

int results_manifest_read_file(results_set *set, const char *csv, results_manifest *made)
{
    char path[PATH_MAX];
    *made = (results_manifest){.count = 0};
    return manifest_path(csv, path, sizeof path) == 0 ? read_one(set, path, made) : -1;
}

void results_manifest_read(results_set *set, results_manifest *made)
{
    const char *tried = "";
    *made = (results_manifest){.count = 0};
    for (size_t i = 0; i < set->count; i++) {
        const char *csv = set->rows[i].path;
        if (strcmp(csv, tried) == 0)
            continue;
        tried = csv;
        if (results_manifest_read_file(set, csv, made) == 0)
            return;
    }
}

void results_manifest_free(results_manifest *made)
{
    free(made->facts);
    *made = (results_manifest){.count = 0};
}

static int always_differs(const char *path)
{
    static const char *const paths[] = {"run_id", "utc", "arguments", "options.seed", "warnings"};
    const char *last = strrchr(path, '.');
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strncmp(path, paths[i], strlen(paths[i])) == 0)
            return 1;
    return last && (strcmp(last, ".pid") == 0 || strcmp(last, ".free_bytes") == 0 ||
                    strcmp(last, ".power_w") == 0 || strcmp(last, ".temperature_c") == 0);
}

void results_manifest_diff(const results_manifest *a, const results_manifest *b,
                           results_difference *different, void *context)
{
    for (size_t i = 0, j = 0; i < a->count || j < b->count;) {
        int order = i >= a->count   ? 1
                    : j >= b->count ? -1
                                    : strcmp(a->facts[i].path, b->facts[j].path);
        const char *path = order <= 0 ? a->facts[i].path : b->facts[j].path;
        const char *first = order <= 0 ? a->facts[i].value : NULL;
        const char *second = order >= 0 ? b->facts[j].value : NULL;
        i += order <= 0;
        j += order >= 0;
        if (!always_differs(path) && (!first || !second || strcmp(first, second) != 0))
            different(context, path, first, second);
    }
}
