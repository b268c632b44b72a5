/*
 * Reads JSON with jansson: the output of -J of nccl-tests and of weir (the same with a manifest and
 * rows), a list of such documents, rccl-tests' list, and MSCCL++'s lines with one object each. In
 * messages, "line" is the number of the result, from 1.
 */
#include "results/output/print.h"
#include "results/read/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    results_set *set;
    const results_input *input;
    results_row common; /* what all rows of the file have in common */
    int results;        /* results read so far */
} reader;

static int by_value(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* A string without surrounding blanks, or a number or flag as text; "" if absent. */
static const char *text_of(results_set *set, const json_t *value)
{
    if (json_is_integer(value))
        return results_keep_printed(set, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value))
        return results_keep_printed(set, "%.10g", json_real_value(value));
    if (json_is_boolean(value))
        return json_is_true(value) ? "1" : "0";
    if (!json_is_string(value))
        return "";
    const char *text = json_string_value(value);
    text += strspn(text, " ");
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ')
        length--;
    return results_keep_text(set, text, length);
}

static const char *member(results_set *set, const json_t *object, const char *key)
{
    return text_of(set, json_object_get(object, key));
}

static void put_number(reader *in, results_row *row, results_column column, double value)
{
    row->text[column] = results_keep_printed(in->set, "%.10g", value);
}

/* Computes the median of the iterations that -I wrote, and the interval of its order statistics. */
static void read_iterations(reader *in, results_row *row, const json_t *details)
{
    const json_t *times = json_object_get(details, "times_us");
    size_t skipped = (size_t)json_integer_value(json_object_get(details, "skipped_iterations"));
    size_t all = json_array_size(times), count = 0;
    double *sorted = all > skipped && skipped < all ? malloc(all * sizeof *sorted) : NULL;
    for (size_t i = skipped; sorted && i < all; i++)
        if (json_is_number(json_array_get(times, i)))
            sorted[count++] = json_number_value(json_array_get(times, i));
    if (count > 0) {
        qsort(sorted, count, sizeof *sorted, by_value);
        double middle = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
        double below = floor(((double)count - 1.96 * sqrt((double)count)) / 2);
        size_t rank = below > 0 ? (size_t)below : 0;
        put_number(in, row, RESULTS_MEDIAN_US, middle);
        put_number(in, row, RESULTS_MIN_US, sorted[0]);
        put_number(in, row, RESULTS_MAX_US, sorted[count - 1]);
        put_number(in, row, RESULTS_P99_US, sorted[(size_t)ceil(0.99 * (double)count) - 1]);
        put_number(in, row, RESULTS_CI_LOW_US, sorted[rank]);
        put_number(in, row, RESULTS_CI_HIGH_US, sorted[count - 1 - rank]);
        row->text[RESULTS_ITERS] = results_keep_printed(in->set, "%zu", count);
    }
    free(sorted);
}

static void add_half(reader *in, const json_t *result, int number, int in_place)
{
    static const char *const halves[] = {"out_of_place", "in_place"};
    static const char *const details[] = {"out_of_place_per_iter", "in_place_per_iter"};
    const json_t *half = json_object_get(result, halves[in_place]);
    const json_t *wrong = json_object_get(half, "nwrong");
    if (!json_is_object(half))
        return;
    results_row row = in->common;
    row.line = number;
    row.text[RESULTS_BYTES] = member(in->set, result, "size");
    row.text[RESULTS_COUNT] = member(in->set, result, "count");
    row.text[RESULTS_DTYPE] = results_dtype(member(in->set, result, "type"));
    row.text[RESULTS_REDOP] = member(in->set, result, "redop");
    row.text[RESULTS_ROOT] = member(in->set, result, "root");
    row.text[RESULTS_PLACEMENT] = in_place ? "in" : "out";
    row.text[RESULTS_ITERS] = member(in->set, result, "actual_iterations");
    row.text[RESULTS_MEDIAN_US] = member(in->set, half, json_object_get(half, "time") ? "time"
                                                                                     : "cpu_time");
    row.text[RESULTS_ALGBW_GBS] = member(in->set, half, "alg_bw");
    row.text[RESULTS_BUSBW_GBS] = member(in->set, half, "bus_bw");
    row.text[RESULTS_CEILING_PCT] = member(in->set, half, "ceiling_pct");
    row.text[RESULTS_WRONG] = text_of(in->set, wrong);
    row.text[RESULTS_SPECIAL] = member(in->set, half, "special");
    row.text[RESULTS_DETERMINISM] = member(in->set, half, "determinism");
    row.text[RESULTS_VERIFY] = !json_is_number(wrong)           ? "off"
                               : json_number_value(wrong) > 0 ? "fail" : "pass";
    if (strcmp(row.text[RESULTS_MEDIAN_US], "N/A") == 0)
        return;
    read_iterations(in, &row, json_object_get(result, details[in_place]));
    results_add(in->set, &row);
}

static void read_devices(reader *in, const json_t *config)
{
    const json_t *devices = json_object_get(config, "devices");
    size_t ranks = json_array_size(devices), nodes = 0;
    for (size_t i = 0; i < ranks && ranks <= 4096; i++) {
        const char *host = member(in->set, json_array_get(devices, i), "hostname");
        int seen = 0;
        for (size_t j = 0; j < i && !seen; j++)
            seen = strcmp(host, member(in->set, json_array_get(devices, j), "hostname")) == 0;
        nodes += !seen;
        if (i == 0)
            in->common.text[RESULTS_HOST] = host;
    }
    if (ranks > 0)
        in->common.text[RESULTS_NRANKS] = results_keep_printed(in->set, "%zu", ranks);
    if (nodes > 0)
        in->common.text[RESULTS_NNODES] = results_keep_printed(in->set, "%zu", nodes);
}

static const char *file_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Reads the program and the candidate: from weir's manifest, else from the arguments and NCCL's
 * version. */
static void read_head(reader *in, const json_t *top)
{
    results_set *set = in->set;
    const json_t *manifest = json_object_get(top, "manifest");
    const char *program;
    results_row *row = &in->common;
    program = text_of(set, json_array_get(json_object_get(top, "args"), 0));
    row->text[RESULTS_RUN_ID] = results_keep_printed(set, "%.200s#1", in->input->path);
    row->text[RESULTS_CONTENDER] = "nccl";
    row->text[RESULTS_BACKEND] = "cuda";
    if (json_is_object(manifest)) {
        const json_t *options = json_object_get(manifest, "options");
        row->origin = RESULTS_OWN_OUTPUT;
        row->text[RESULTS_RUN_ID] = member(set, manifest, "run_id");
        row->text[RESULTS_UTC] = member(set, manifest, "utc");
        row->text[RESULTS_CONTENDER] = "weir";
        row->text[RESULTS_BACKEND] = "";
        row->text[RESULTS_DIST] = member(set, options, "dist");
        row->text[RESULTS_COUNTS] = member(set, options, "counts");
        program = member(set, manifest, "program");
    } else {
        int code = atoi(member(set, top, "nccl_version"));
        if (code >= 10000)
            row->text[RESULTS_CONTENDER] = results_keep_printed(
                set, "nccl:%d.%d.%d", code / 10000, code / 100 % 100, code % 100);
    }
    const char *collective = results_collective(file_part(program));
    if (!collective)
        collective = results_collective(file_part(in->input->path));
    row->text[RESULTS_COLLECTIVE] = collective ? collective : "";
    if (!collective || strcmp(collective, "alltoallv") != 0)
        row->text[RESULTS_DIST] = row->text[RESULTS_COUNTS] = "";
    else if (!row->text[RESULTS_DIST][0])
        row->text[RESULTS_DIST] = "spread:1";
    read_devices(in, json_object_get(top, "config"));
}

/* A field as weir's CSV has it: strings unchanged, numbers in the format of the column. */
static const char *field_of(reader *in, results_column column, const json_t *value)
{
    if (json_is_string(value))
        return results_keep_text(in->set, json_string_value(value), json_string_length(value));
    if (json_is_real(value) || (json_is_integer(value) && results_is_decimal_column(column)))
        return results_number_text(in->set, column, json_number_value(value));
    return text_of(in->set, value);
}

static void add_row(reader *in, int number, json_t *object)
{
    results_row row = results_row_make(in->input->path, number, RESULTS_OWN_ROWS);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        int column = results_column_find(key);
        if (column >= 0)
            row.text[column] = field_of(in, (results_column)column, value);
        else
            results_note(in->set, row.path, number, "unknown column '%.60s'; left out", key);
    }
    results_add(in->set, &row);
}

/* A result's `rows` contain all that its out-of-place and in-place members do, and more. */
static void read_result(reader *in, const json_t *result, int number)
{
    const json_t *rows = json_object_get(result, "rows");
    if (!json_is_array(rows)) {
        add_half(in, result, number, 0);
        add_half(in, result, number, 1);
        return;
    }
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_is_object(json_array_get(rows, i)))
            add_row(in, number, json_array_get(rows, i));
        else
            results_note(in->set, in->input->path, number, "a row is not an object; left out");
}

static void read_results(reader *in, json_t *top)
{
    const json_t *results = json_object_get(top, "results");
    in->common = results_row_make(in->input->path, 1, RESULTS_NCCL_TESTS);
    read_head(in, top);
    results_document_keep(in->set, in->input->path, in->results + 1, top);
    for (size_t i = 0; i < json_array_size(results); i++)
        read_result(in, json_array_get(results, i), ++in->results);
}

/* Reads an object that is one row: rccl-tests', MSCCL++'s. */
static void read_flat(reader *in, const json_t *object, int number)
{
    results_set *set = in->set;
    results_row row = in->common;
    int is_rccl = json_object_get(object, "type") != NULL;
    const char *name = results_collective(member(set, object, "name"));
    const char *wrong = member(set, object, "wrong");
    int ranks = atoi(member(set, object, "ranks"));
    int per_node = atoi(member(set, object, "ranksPerNode"));
    row.line = number;
    row.origin = is_rccl ? RESULTS_NCCL_TESTS : RESULTS_MSCCLPP;
    row.text[RESULTS_RUN_ID] = results_keep_printed(set, "%.200s#%.20s", in->input->path,
                                                    member(set, object, "numCycle"));
    row.text[RESULTS_COLLECTIVE] = name ? name : "";
    row.text[RESULTS_BACKEND] = "cuda";
    row.text[RESULTS_CONTENDER] = is_rccl ? "rccl" : "mscclpp";
    row.text[RESULTS_ALGO] = member(set, object, "kernel");
    row.text[RESULTS_NRANKS] = member(set, object, ranks ? "ranks" : "gpus");
    if (ranks > 0 && per_node > 0 && ranks >= per_node)
        row.text[RESULTS_NNODES] = results_keep_printed(set, "%d", ranks / per_node);
    /* MSCCL++ reduces 32-bit integers, in place unless a test says otherwise. */
    row.text[RESULTS_DTYPE] = is_rccl ? results_dtype(member(set, object, "type")) : "int32";
    row.text[RESULTS_REDOP] = is_rccl ? member(set, object, "redop")
                              : name && strstr(name, "reduce") ? "sum" : "none";
    row.text[RESULTS_ROOT] = "-1";
    row.text[RESULTS_PLACEMENT] =
        is_rccl && strcmp(member(set, object, "inPlace"), "0") == 0 ? "out" : "in";
    row.text[RESULTS_BYTES] = member(set, object, "size");
    row.text[RESULTS_MEDIAN_US] = member(set, object, "time");
    row.text[RESULTS_ALGBW_GBS] = member(set, object, "algBw");
    row.text[RESULTS_BUSBW_GBS] = member(set, object, "busBw");
    row.text[RESULTS_WRONG] = wrong;
    row.text[RESULTS_VERIFY] = !wrong[0] || strcmp(wrong, "N/A") == 0 ? "off"
                               : strcmp(wrong, "0") == 0              ? "pass" : "fail";
    results_add(set, &row);
}

static int is_document(const json_t *value)
{
    return json_is_array(json_object_get(value, "results"));
}

static int is_flat(const json_t *value)
{
    return json_object_get(value, "size") && json_object_get(value, "time") &&
           json_object_get(value, "name");
}

/* Reads one JSON value. Returns whether it contained results. */
static int read_value(reader *in, json_t *value)
{
    if (is_document(value)) {
        read_results(in, value);
        return 1;
    }
    if (is_flat(value)) {
        read_flat(in, value, 1);
        return 1;
    }
    int found = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *one = json_array_get(value, i);
        if (is_document(one))
            read_results(in, one);
        else if (is_flat(one))
            read_flat(in, one, ++in->results);
        else
            continue;
        found = 1;
    }
    return found;
}

/* Reads lines with one object each. Returns how many contained a result; reports problems if any
 * did. */
static int read_lines(reader *in)
{
    const results_input *input = in->input;
    char *at = input->text, *end = input->text + input->length, *line;
    int found = 0;
    for (int number = 1; (line = results_next_line(&at, end)); number++) {
        json_error_t error;
        json_t *value = line[0] == '{' ? json_loads(line, 0, &error) : NULL;
        if (value && is_flat(value)) {
            read_flat(in, value, number);
            found++;
        } else if (found && line[0] && !value) {
            results_note(in->set, input->path, number, "not a JSON object; line left out");
        }
        json_decref(value);
    }
    return found;
}

void results_read_json(results_set *set, results_input *input, int named)
{
    json_error_t error;
    reader in = {set, input, results_row_make(input->path, 1, RESULTS_NCCL_TESTS), 0};
    json_t *value = json_loadb(input->text, input->length, 0, &error);
    if (value) {
        if (!read_value(&in, value) && named)
            results_note(set, input->path, 0, "JSON without known results");
        json_decref(value);
    } else if (!read_lines(&in)) {
        results_note(set, input->path, error.line, "invalid JSON: %.120s", error.text);
    }
}
