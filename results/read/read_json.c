/*
 * Reads JSON with jansson: the output of -J of nccl-tests and of weir (the same with a manifest and
 * rows), a list of such documents, rccl-tests' list, and MSCCL++'s lines with one object each. In
 * messages, "line" is the number of the result, from 1.
 */
#include "results/output/print.h"
#include "results/read/load.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct reader {
    results_set *set;
    const results_input *input;
    results_row common; /* what all rows of the file have in common */
    int results;        /* results read so far */
    int documents;      /* without a manifest, which names the run */
    int groups;         /* of ranks, that ran at the same time */
} reader;

enum { KNOWN_VERSION = 3 };

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

static const char *const halves[] = {"out_of_place", "in_place"};

static void add_half(reader *in, const json_t *result, int number, int in_place)
{
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
    const int is_cpu_time = !json_object_get(half, "time") && json_object_get(half, "cpu_time");
    row.text[RESULTS_MEDIAN_US] = member(in->set, half, is_cpu_time ? "cpu_time" : "time");
    row.text[RESULTS_CONTENDER] =
        results_contender_detail(in->set, row.text[RESULTS_CONTENDER], is_cpu_time, in->groups);
    row.text[RESULTS_ALGBW_GBS] = member(in->set, half, "alg_bw");
    row.text[RESULTS_BUSBW_GBS] = member(in->set, half, "bus_bw");
    row.text[RESULTS_CEILING_PCT] = member(in->set, half, "ceiling_pct");
    row.text[RESULTS_WRONG] = text_of(in->set, wrong);
    row.text[RESULTS_SPECIAL] = member(in->set, half, "special");
    row.text[RESULTS_DETERMINISM] = member(in->set, half, "determinism");
    row.text[RESULTS_VERIFY] = !json_is_number(wrong)         ? "off"
                               : json_number_value(wrong) > 0 ? "fail"
                                                              : "pass";
    if (strcmp(row.text[RESULTS_MEDIAN_US], "N/A") == 0)
        return;
    read_iterations(in, &row, json_object_get(result, details[in_place]));
    results_add(in->set, &row);
}

/* The processes and GPUs of a list of devices. */
typedef struct devices {
    size_t listed, nodes, first_group, groups;
    long long last_rank;
    int is_per_process; /* a line for each process, which may have several GPUs */
} devices;

static int same_member(const json_t *a, const json_t *b, const char *key)
{
    return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* Whether an earlier device is on the same host, or of the same process. */
static void count_device(const json_t *list, size_t at, devices *made)
{
    const json_t *device = json_array_get(list, at);
    int same_host = 0, same_process = 0;
    const long long group = json_integer_value(json_object_get(device, "group"));
    for (size_t i = 0; i < at; i++) {
        const json_t *other = json_array_get(list, i);
        const int is_there = same_member(device, other, "hostname");
        same_host |= is_there && json_integer_value(json_object_get(other, "group")) == 0;
        same_process |= is_there && same_member(device, other, "pid");
    }
    if (json_object_get(device, "pid"))
        made->is_per_process &= !same_process;
    else if (at > 0)
        made->is_per_process &=
            json_integer_value(json_object_get(device, "rank")) != made->last_rank + 1;
    made->last_rank = json_integer_value(json_object_get(device, "rank"));
    made->nodes += group == 0 && !same_host;
    made->first_group += group == 0;
    if (group >= 0 && (size_t)group + 1 > made->groups)
        made->groups = (size_t)group + 1;
}

/* nccl-tests lists a device of each process; weir, and older versions, each device. Returns the
 * number of groups of ranks. */
static int read_devices(reader *in, const json_t *config)
{
    const json_t *list = json_object_get(config, "devices");
    const long long threads = json_integer_value(json_object_get(config, "nthreads"));
    const long long gpus = json_integer_value(json_object_get(config, "ngpus"));
    devices made = {.listed = json_array_size(list), .is_per_process = 1, .groups = 1};
    size_t ranks;
    for (size_t i = 0; i < made.listed && made.listed <= 4096; i++)
        count_device(list, i, &made);
    ranks = made.groups > 1 ? made.first_group : made.listed;
    if (made.is_per_process && threads > 0 && gpus > 0 && threads * gpus < 4096)
        ranks *= (size_t)(threads * gpus);
    if (made.listed > 0)
        in->common.text[RESULTS_HOST] = member(in->set, json_array_get(list, 0), "hostname");
    if (ranks > 0)
        in->common.text[RESULTS_NRANKS] = results_keep_printed(in->set, "%zu", ranks);
    if (made.nodes > 0)
        in->common.text[RESULTS_NNODES] = results_keep_printed(in->set, "%zu", made.nodes);
    return (int)made.groups;
}

static const char *file_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The library and its version. rccl-tests writes the same document: only its path, its version's
 * name, or the GPUs show it. */
static const char *vendor_of(reader *in, const json_t *top, const char *program)
{
    const char *key = json_object_get(top, "rccl_version") ? "rccl_version" : "nccl_version";
    const int code = atoi(member(in->set, top, key));
    const json_t *list = json_object_get(json_object_get(top, "config"), "devices");
    const char *gpu = json_string_value(json_object_get(json_array_get(list, 0), "device_info"));
    const char *vendor =
        key[0] == 'r' || strstr(program, "rccl") || (gpu && results_is_amd(gpu)) ? "rccl" : "nccl";
    if (code < 10000)
        return vendor;
    return results_keep_printed(in->set, "%s:%d.%d.%d", vendor, code / 10000, code / 100 % 100,
                                code % 100);
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
    row->text[RESULTS_RUN_ID] =
        results_keep_printed(set, "%.200s#%d", in->input->path, ++in->documents);
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
        row->text[RESULTS_CONTENDER] = vendor_of(in, top, program);
        if (json_integer_value(json_object_get(top, "version")) > KNOWN_VERSION)
            results_note(set, in->input->path, 0,
                         "version %s of nccl-tests' JSON is not known (1 to %d): "
                         "members may mean something else",
                         member(set, top, "version"), KNOWN_VERSION);
    }
    const char *collective = results_collective_in(file_part(program));
    if (!collective)
        collective = results_collective_in(file_part(in->input->path));
    row->text[RESULTS_COLLECTIVE] = collective ? collective : "";
    if (!collective || strcmp(collective, "alltoallv") != 0)
        row->text[RESULTS_DIST] = row->text[RESULTS_COUNTS] = "";
    else if (!row->text[RESULTS_DIST][0])
        row->text[RESULTS_DIST] = "spread:1";
    in->groups = read_devices(in, json_object_get(top, "config"));
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
    json_object_foreach(object, key, value)
    {
        int column = results_column_find(key);
        if (json_is_array(value) || json_is_object(value))
            results_lose(in->set, row.path, number, "'%.60s' is not one value; left out", key);
        else if (column >= 0)
            row.text[column] = field_of(in, (results_column)column, value);
        else
            results_note(in->set, row.path, number, "unknown column '%.60s'; left out", key);
    }
    results_add(in->set, &row);
}

/* Rows from `first` on: whether one has failed; making all of them wrong. */
static int has_failed(const results_set *set, size_t first)
{
    for (size_t i = first; i < set->count; i++)
        if (set->rows[i].failed)
            return 1;
    return 0;
}

static void fail_from(results_set *set, size_t first)
{
    for (size_t i = first; i < set->count; i++)
        results_row_fail(&set->rows[i]);
}

static int is_wrong(const json_t *half)
{
    const char *special = json_string_value(json_object_get(half, "special"));
    return json_number_value(json_object_get(half, "nwrong")) != 0 ||
           (special && strcmp(special, "fail") == 0);
}

/* A result's `rows` contain all that its out-of-place and in-place members do, and more. */
static void read_result(reader *in, const json_t *result, int number)
{
    const json_t *rows = json_object_get(result, "rows");
    const size_t first = in->set->count;
    if (!json_is_object(result)) {
        results_lose(in->set, in->input->path, number, "a result is not an object; left out");
        return;
    }
    if (!json_is_array(rows)) {
        add_half(in, result, number, 0);
        add_half(in, result, number, 1);
        return;
    }
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_is_object(json_array_get(rows, i)))
            add_row(in, number, json_array_get(rows, i));
        else
            results_lose(in->set, in->input->path, number, "a row is not an object; left out");
    for (int i = 0; i < 2; i++)
        if (is_wrong(json_object_get(result, halves[i])) && !has_failed(in->set, first)) {
            results_lose(
                in->set, in->input->path, number,
                "%s has wrong values, and no row of the result: all of them count as wrong",
                halves[i]);
            fail_from(in->set, first);
        }
}

/* A flag as nccl-tests writes it, the text "false", or as others do. */
static int is_false(const json_t *value)
{
    const char *text = json_string_value(value);
    return json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0) ||
           (text && strcasecmp(text, "false") == 0);
}

/* Whether the run was one of -N 0, which is stopped. */
static int is_endless(const json_t *top)
{
    const json_t *options = json_object_get(json_object_get(top, "manifest"), "options");
    const json_t *cycles = json_object_get(options, "cycles");
    return json_is_integer(cycles) && json_integer_value(cycles) == 0;
}

/* Errors: a list, or one of any type. */
static void read_errors(reader *in, const json_t *errors)
{
    const size_t count = json_is_array(errors) ? json_array_size(errors) : errors != NULL;
    for (size_t i = 0; i < count && !json_is_null(errors); i++) {
        const json_t *one = json_is_array(errors) ? json_array_get(errors, i) : errors;
        char *text = json_dumps(one, JSON_COMPACT | JSON_ENCODE_ANY);
        results_lose(in->set, in->input->path, 0, "the tool reports an error: %.200s",
                     text ? text : "");
        free(text);
    }
}

/* What the tool says of the whole run: errors, a bandwidth below what was demanded, and wrong
 * values that no result has. */
static void read_outcome(reader *in, const json_t *top, size_t first)
{
    results_set *set = in->set;
    const char *path = in->input->path;
    const json_t *bounds = json_object_get(top, "out_of_bounds");
    read_errors(in, json_object_get(top, "errors"));
    if (json_object_get(top, "start_time") && !json_object_get(top, "end_time") && !is_endless(top))
        results_lose(set, path, 0,
                     "the document has a start_time and no end_time: the run was broken off");
    if (is_false(json_object_get(json_object_get(top, "average_bus_bandwidth"), "okay")))
        results_lose(set, path, 0,
                     "the tool reports that its bandwidth is below what was demanded");
    if ((!is_false(json_object_get(bounds, "okay")) &&
         json_number_value(json_object_get(bounds, "count")) == 0) ||
        has_failed(set, first))
        return;
    if (set->count > first)
        results_note(set, path, 0,
                     "the tool reports wrong values, but not in which row: all "
                     "rows of its document count as wrong");
    fail_from(set, first);
}

static void read_results(reader *in, json_t *top)
{
    const json_t *results = json_object_get(top, "results");
    const size_t first = in->set->count;
    in->common = results_row_make(in->input->path, 1, RESULTS_NCCL_TESTS);
    read_head(in, top);
    results_document_keep(in->set, in->input->path, in->results + 1, top);
    for (size_t i = 0; i < json_array_size(results); i++)
        read_result(in, json_array_get(results, i), ++in->results);
    read_outcome(in, top, first);
}

/* Reads an object that is one row: rccl-tests', MSCCL++'s. */
static void read_flat(reader *in, const json_t *object, int number)
{
    results_set *set = in->set;
    results_row row = in->common;
    int is_rccl = json_object_get(object, "type") != NULL;
    const char *name = results_collective(member(set, object, "name"));
    const char *wrong = member(set, object, json_object_get(object, "wrong") ? "wrong" : "#wrong");
    int ranks = atoi(member(set, object, "ranks")), gpus = atoi(member(set, object, "gpusPerRank"));
    int per_node = atoi(member(set, object, "ranksPerNode"));
    row.line = number;
    row.origin = is_rccl ? RESULTS_NCCL_TESTS : RESULTS_MSCCLPP;
    row.text[RESULTS_RUN_ID] =
        results_keep_printed(set, "%.200s#%.20s", in->input->path, member(set, object, "numCycle"));
    row.text[RESULTS_COLLECTIVE] = name ? name : "";
    row.text[RESULTS_BACKEND] = "cuda";
    row.text[RESULTS_CONTENDER] = is_rccl ? "rccl" : "mscclpp";
    row.text[RESULTS_ALGO] = member(set, object, "kernel");
    row.text[RESULTS_NRANKS] = member(set, object, ranks ? "ranks" : "gpus");
    if (ranks > 0 && ranks < 1000000 && gpus > 1 && gpus < 1000)
        row.text[RESULTS_NRANKS] = results_keep_printed(set, "%d", ranks * gpus);
    if (ranks > 0 && per_node > 0 && ranks >= per_node)
        row.text[RESULTS_NNODES] = results_keep_printed(set, "%d", ranks / per_node);
    /* MSCCL++ reduces 32-bit integers, in place unless a test says otherwise. */
    row.text[RESULTS_DTYPE] = is_rccl ? results_dtype(member(set, object, "type")) : "int32";
    row.text[RESULTS_REDOP] = is_rccl                          ? member(set, object, "redop")
                              : name && strstr(name, "reduce") ? "sum"
                                                               : "none";
    row.text[RESULTS_ROOT] = "-1";
    row.text[RESULTS_PLACEMENT] =
        is_rccl && strcmp(member(set, object, "inPlace"), "0") == 0 ? "out" : "in";
    row.text[RESULTS_BYTES] = member(set, object, "size");
    row.text[RESULTS_MEDIAN_US] = member(set, object, "time");
    row.text[RESULTS_ALGBW_GBS] = member(set, object, "algBw");
    row.text[RESULTS_BUSBW_GBS] = member(set, object, "busBw");
    row.text[RESULTS_WRONG] = wrong;
    row.text[RESULTS_VERIFY] = !wrong[0] || strcmp(wrong, "N/A") == 0 ? "off"
                               : strcmp(wrong, "0") == 0              ? "pass"
                                                                      : "fail";
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

/* Where the whole number begins that ends at `end`; NULL if it is part of a real one. */
static char *whole_number_begin(char *text, char *end)
{
    char *begin = end;
    while (begin > text && isdigit((unsigned char)begin[-1]))
        begin--;
    const char before = begin > text ? begin[-1] : ' ';
    const char two_before = begin > text + 1 ? begin[-2] : ' ';
    if (strchr(".+eE", before) || (before == '-' && strchr("eE", two_before)))
        return NULL;
    return begin;
}

/* Parses JSON. jansson refuses a document for a whole number beyond 64 bits with a sign, such as a
 * hash, although no such number is read here. Its last four digits become an exponent, so that the
 * text keeps its length. */
static json_t *parse(char *text, size_t length, size_t flags, json_error_t *error)
{
    enum { DIGITS = 4 };
    for (;;) {
        json_t *value = json_loadb(text, length, flags, error);
        if (value || json_error_code(error) != json_error_numeric_overflow)
            return value;
        char *end = text + error->position, *begin = whole_number_begin(text, end);
        if (!begin || end - begin <= DIGITS)
            return NULL;
        memcpy(end - DIGITS, "e004", DIGITS);
    }
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
        json_t *value = line[0] == '{' ? parse(line, strlen(line), 0, &error) : NULL;
        if (value && is_flat(value)) {
            read_flat(in, value, number);
            found++;
        } else if (found && line[0] && !value) {
            results_lose(in->set, input->path, number, "not a JSON object; line left out");
        }
        json_decref(value);
    }
    return found;
}

/* Reads documents one after another, as a program that appends writes them. Returns how many;
 * reports what follows the last one. */
static int read_appended(reader *in)
{
    const results_input *input = in->input;
    size_t at = 0;
    int count = 0;
    for (;;) {
        json_error_t error;
        at += strspn(input->text + at, " \t\r\n");
        if (at >= input->length)
            break;
        json_t *value = parse(input->text + at, input->length - at, JSON_DISABLE_EOF_CHECK, &error);
        if (!value && count > 0)
            results_lose(in->set, input->path, 0,
                         "the document after the %d. is not valid JSON (cut "
                         "off?): %.120s",
                         count, error.text);
        if (!value || !(is_document(value) || count > 0)) {
            json_decref(value);
            break;
        }
        read_value(in, value);
        json_decref(value);
        count++;
        at += (size_t)error.position;
    }
    return count;
}

void results_read_json(results_set *set, results_input *input, int named)
{
    json_error_t error;
    reader in = {
        .set = set, .input = input, .common = results_row_make(input->path, 1, RESULTS_NCCL_TESTS)};
    json_t *value = parse(input->text, input->length, 0, &error);
    if (value) {
        if (!read_value(&in, value) && named)
            results_note(set, input->path, 0, "JSON without known results");
        json_decref(value);
    } else if (!read_appended(&in) && !read_lines(&in)) {
        results_lose(set, input->path, error.line, "invalid JSON: %.120s%s", error.text,
                     error.position >= (int)input->length - 1 ? " (cut off? the run was broken off)"
                                                              : "");
    }
}
