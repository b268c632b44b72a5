/* Which candidate a row is of. */
#include "results/judge/compare.h"

#include <stdio.h>
#include <string.h>

/* A candidate without its version: word:version:detail becomes word:detail. */
void results_contender_key(const char *contender, char *key, size_t bytes)
{
    size_t word = strcspn(contender, ":");
    const char *detail = contender[word] ? strchr(contender + word + 1, ':') : NULL;
    snprintf(key, bytes, "%.*s%s", (int)word, contender, detail ? detail : "");
}

int results_is_contender(const char *wanted, const results_row *row)
{
    char key[300];
    if (!wanted[0])
        return 1;
    results_contender_key(row->text[RESULTS_CONTENDER], key, sizeof key);
    return strcmp(wanted, key) == 0 || strcmp(wanted, row->text[RESULTS_CONTENDER]) == 0;
}
