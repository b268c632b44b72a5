/* Warnings of manifests, one per kind: see warnings.h. */
#include "results/read/warnings.h"

#include "results/read/machine.h"

#include <string.h>

static const char *keep_printable(results_set *set, const char *text)
{
    return results_plain(results_keep_text(set, text, strlen(text)));
}

static void count_warning(results_set *set, results_warnings *made, const char *kind,
                          const char *text)
{
    int i = 0;
    while (i < made->count && strcmp(made->list[i].kind, kind) != 0)
        i++;
    if (i == RESULTS_WARNINGS_MOST)
        return;
    if (i == made->count)
        made->list[made->count++] = (results_warning){kind, keep_printable(set, text), 0};
    made->list[i].files++;
}

/* Facts are sorted: warnings[0].kind is followed by warnings[0].text. */
static void count_warnings(results_set *set, results_warnings *made,
                           const results_manifest *manifest)
{
    for (size_t i = 0; i + 1 < manifest->count; i++) {
        const results_fact *kind = &manifest->facts[i], *text = kind + 1;
        const char *end = strstr(kind->path, "].kind");
        if (strncmp(kind->path, "warnings[", 9) == 0 && end && strcmp(end, "].kind") == 0 &&
            strncmp(kind->path, text->path, (size_t)(end - kind->path)) == 0 &&
            strcmp(text->path + (end - kind->path), "].text") == 0)
            count_warning(set, made, kind->value, text->value);
    }
}

void results_warnings_read(results_set *set, results_warnings *made)
{
    const char *read = "";
    *made = (results_warnings){.count = 0};
    for (size_t i = 0; i < set->count; i++) {
        const char *csv = set->rows[i].path;
        results_manifest manifest;
        if (strcmp(csv, read) == 0)
            continue;
        read = csv;
        if (results_manifest_read_file(set, csv, &manifest) == 0) {
            made->manifests++;
            count_warnings(set, made, &manifest);
        }
        results_manifest_free(&manifest);
    }
}
