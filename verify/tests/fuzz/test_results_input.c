/*
 * The readers of results get arbitrary bytes; the first one selects the name of the file. They
 * accept rows or report a reason, and rows survive being printed as CSV and as JSON and read again.
 */
#include "verify/tests/support/fuzz_input.h"

#include "results/output/print.h"
#include "results/read/load.h"

static const char *const names[] = {"a.csv", "a.json", "a.txt", "alltoall.a"};

typedef void printer(FILE *to, const results_set *set);

static void read_bytes(results_set *set, const char *name, const char *text, size_t bytes, FILE *to)
{
    results_set_init(set, 0, to);
    set->keeps_documents = 1;
    results_input input = {name, results_keep_text(set, text, bytes), bytes};
    results_read_input(set, &input, 1);
}

static char *print_rows(const results_set *set, printer *print, size_t *bytes)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);
    FUZZ_DEMAND(file);
    print(file, set);
    fclose(file);
    return text;
}

/* Rows that are printed and read have the same CSV as before. */
static void expect_same(const results_set *set, printer *print, FILE *nowhere)
{
    size_t bytes, before_bytes, after_bytes;
    results_set again;
    char *text = print_rows(set, print, &bytes);
    char *before = print_rows(set, results_print_csv, &before_bytes);
    read_bytes(&again, "again", text, bytes, nowhere);
    char *after = print_rows(&again, results_print_csv, &after_bytes);
    FUZZ_DEMAND(before_bytes == after_bytes && memcmp(before, after, before_bytes) == 0);
    results_set_free(&again);
    free(text);
    free(before);
    free(after);
}

void fuzz_input(const uint8_t *data, size_t bytes)
{
    static FILE *nowhere;
    results_set set;
    if (bytes == 0)
        return;
    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    read_bytes(&set, names[data[0] % 4], (const char *)data + 1, bytes - 1, nowhere);
    if (set.count > 0) {
        expect_same(&set, results_print_csv, nowhere);
        expect_same(&set, results_print_rows_json, nowhere);
    }
    results_set_free(&set);
}
