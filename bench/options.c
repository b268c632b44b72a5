/*
 * The option table, the parser that reads the command line by it, and the
 * help text made from it. nccl-tests' options keep their letters, long names
 * and meaning; ours beyond them have long names only.
 */
#include "bench/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct option_row option_row;

/* Stores a value; returns 0, or writes what was expected and returns -1. */
typedef int (*option_parser)(const option_row *row, const char *text, bench_options *options,
                             char *expected);

struct option_row {
    char letter; /* 0: none */
    const char *name;
    const char *argument; /* NULL: none */
    option_parser parse;
    size_t offset;  /* of the value in bench_options */
    long low, high; /* int values; for a flag, high is what it stores */
    const char *help;
};

enum { EXPECTED_BYTES = 256, LONG_ONLY = 256 };

static int parse_int(const option_row *row, const char *text, bench_options *options,
                     char *expected)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < row->low || value > row->high) {
        if (row->high == INT_MAX)
            snprintf(expected, EXPECTED_BYTES, "a whole number of %ld or more", row->low);
        else
            snprintf(expected, EXPECTED_BYTES, "a whole number from %ld to %ld", row->low,
                     row->high);
        return -1;
    }
    *(int *)((char *)options + row->offset) = (int)value;
    return 0;
}

weir_status bench_parse_bytes(const char *text, size_t *bytes)
{
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    if (!isdigit((unsigned char)*text) && *text != '.')
        return WEIR_ERR_INVALID;
    double value = strtod(text, &end);
    double unit = 1;
    if (*end) {
        const char *suffix = strchr(suffixes, toupper((unsigned char)*end));
        if (!suffix || end[1])
            return WEIR_ERR_INVALID;
        unit = ldexp(1, 10 * (int)(suffix - suffixes + 1));
    }
    if (!(value >= 0) || value * unit > ldexp(1, 62))
        return WEIR_ERR_INVALID;
    *bytes = (size_t)(value * unit);
    return WEIR_OK;
}

static int parse_size(const option_row *row, const char *text, bench_options *options,
                      char *expected)
{
    size_t bytes = 0;
    if (bench_parse_bytes(text, &bytes) != WEIR_OK || bytes < (size_t)row->low) {
        snprintf(expected, EXPECTED_BYTES, "a size of %ld or more such as 8, 64K, 16M or 1G",
                 row->low);
        return -1;
    }
    *(size_t *)((char *)options + row->offset) = bytes;
    return 0;
}

static int parse_min(const option_row *row, const char *text, bench_options *options,
                     char *expected)
{
    options->min_given = 1;
    return parse_size(row, text, options, expected);
}

static int parse_max(const option_row *row, const char *text, bench_options *options,
                     char *expected)
{
    options->max_given = 1;
    return parse_size(row, text, options, expected);
}

static int parse_step(const option_row *row, const char *text, bench_options *options,
                      char *expected)
{
    options->step_given = 1;
    return parse_size(row, text, options, expected);
}

static int parse_text(const option_row *row, const char *text, bench_options *options,
                      char *expected)
{
    if (!*text) {
        snprintf(expected, EXPECTED_BYTES, "%s, not an empty word", row->argument);
        return -1;
    }
    *(const char **)((char *)options + row->offset) = text;
    return 0;
}

/* The words allowed are row->argument itself: "a|b|c". */
static int parse_word(const option_row *row, const char *text, bench_options *options,
                      char *expected)
{
    size_t length = strlen(text);
    for (const char *word = row->argument; *word; word += strcspn(word, "|")) {
        word += *word == '|';
        if (length && strcspn(word, "|") == length && strncmp(word, text, length) == 0) {
            *(const char **)((char *)options + row->offset) = text;
            return 0;
        }
    }
    snprintf(expected, EXPECTED_BYTES, "one of %s", row->argument);
    return -1;
}

static int parse_dtype(const option_row *row, const char *text, bench_options *options,
                       char *expected)
{
    weir_dtype dtype = WEIR_FLOAT;
    (void)row;
    if (strcmp(text, "all") == 0) {
        options->dtype = BENCH_ALL;
        return 0;
    }
    if (weir_dtype_parse(text, &dtype) != WEIR_OK) {
        snprintf(expected, EXPECTED_BYTES, "all or a type (%s)", weir_last_error());
        return -1;
    }
    options->dtype = (int)dtype;
    return 0;
}

static int parse_op(const option_row *row, const char *text, bench_options *options,
                    char *expected)
{
    weir_op op = WEIR_SUM;
    (void)row;
    if (strcmp(text, "all") == 0) {
        options->op = BENCH_ALL;
        return 0;
    }
    if (weir_op_parse(text, &op) != WEIR_OK) {
        snprintf(expected, EXPECTED_BYTES, "all or an operation (%s)", weir_last_error());
        return -1;
    }
    options->op = (int)op;
    return 0;
}

static int parse_root(const option_row *row, const char *text, bench_options *options,
                      char *expected)
{
    if (strcmp(text, "all") != 0)
        return parse_int(row, text, options, expected);
    options->root = BENCH_ALL;
    return 0;
}

static int parse_peer(const option_row *row, const char *text, bench_options *options,
                      char *expected)
{
    (void)row;
    if (!*text || options->npeers == BENCH_PEERS_MAX) {
        snprintf(expected, EXPECTED_BYTES, "a peer's name, at most %d times", BENCH_PEERS_MAX);
        return -1;
    }
    options->peers[options->npeers++] = text;
    return 0;
}

static int parse_flag(const option_row *row, const char *text, bench_options *options,
                      char *expected)
{
    (void)text;
    (void)expected;
    *(int *)((char *)options + row->offset) = (int)row->high;
    return 0;
}

#define AT(member) offsetof(bench_options, member)

static const option_row rows[] = {
    {'b', "minbytes", "SIZE", parse_min, AT(min_bytes), 0, 0,
     "smallest size; K, M, G, T suffixes (default: 8, with -e 16M -f 4, if neither -b\n"
     "nor -e is given; else 32M or -e, whichever is smaller)"},
    {'e', "maxbytes", "SIZE", parse_max, AT(max_bytes), 0, 0,
     "largest size (default: as for -b; else 32M or -b, whichever is larger)"},
    {'i', "stepbytes", "SIZE", parse_step, AT(step_bytes), 1, 0,
     "step between sizes (default: 1M); -f above 1 goes before"},
    {'f', "stepfactor", "N", parse_step, AT(step_factor), 1, 0, "factor between sizes"},
    {'n', "iters", "N", parse_int, AT(iterations), 0, INT_MAX,
     "timed iterations, exactly (default: 0, as many as fit a time budget, 20 to 2000)"},
    {'w', "warmup_iters", "N", parse_int, AT(warmups), 0, INT_MAX,
     "untimed iterations before each timed block (default: 5)"},
    {'m', "agg_iters", "N", parse_int, AT(aggregate), 1, INT_MAX,
     "operations timed together as one iteration (default: 1)"},
    {'N', "run_cycles", "N", parse_int, AT(cycles), 0, INT_MAX,
     "run the sweep N times (default: 1; 0: until stopped)"},
    {'c', "check", "N", parse_int, AT(checks), 0, INT_MAX,
     "check each size N times, each with other data (default: 1; 0: not at all)"},
    {'o', "op", "OP|all", parse_op, AT(op), 0, 0, "sum, prod, max, min, avg (default: sum)"},
    {'d', "datatype", "TYPE|all", parse_dtype, AT(dtype), 0, 0,
     "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2\n"
     "(default: float)"},
    {'r', "root", "RANK|all", parse_root, AT(root), -1, INT_MAX,
     "root of broadcast and reduce (default: 0; -1 is all)"},
    {'z', "blocking", "0-3", parse_int, AT(barrier_mode), 0, 3,
     "0, 2: back to back; 1: barrier after each operation; 3: barrier after each\n"
     "iteration. Barriers are never in the time. (default: 0)"},
    {'G', "cudagraph", "N", parse_int, AT(graph), 0, INT_MAX,
     "graph launches; on the host, N times the iterations (default: 0, off)"},
    {'C', "report_cputime", "0|1", parse_int, AT(cpu_time), 0, 1,
     "1: the time column is processor time of the calling thread"},
    {'a', "average", "0-3", parse_int, AT(rank_time), 0, 3,
     "the table's time of one iteration: 0 rank 0's, 1 mean, 2 min, 3 max over ranks\n"
     "(default: 3; CSV is always the maximum)"},
    {'I', "per_iter_timing", "0|1", parse_int, AT(per_iteration), 0, 1,
     "1: adds i_min, i_max, i_p99 and i_cv% to the table"},
    {'K', "per_iter_skip", "N", parse_int, AT(skip), 0, INT_MAX,
     "leave the first N iterations out of the columns of -I"},
    {'T', "timeout", "SECONDS", parse_int, AT(timeout_s), 0, 86400,
     "deadline of every wait, exit code 4 (default: WEIR_TIMEOUT_MS, else 30 s)"},
    {'J', "output_file", "FILE", parse_text, AT(json_path), 0, 0,
     "also write nccl-tests' JSON (schema 3)"},
    {'S', "report_timestamps", "0|1", parse_int, AT(timestamps), 0, 1,
     "1: a time stamp ends each row"},
    {'M', "memory", "0|1", parse_int, AT(memory_report), 0, 1, "1: report memory use at the end"},
    {'R', "local_register", "0-2", parse_int, AT(registration), 0, 2,
     "0: buffers are found by address; 1: each rank registers them; 2: handles are\n"
     "exchanged up front (default: 0)"},
    {'u', "unalign", "N", parse_int, AT(unalign_elements), 0, 1 << 20,
     "shift both buffers by N elements (default: 0)"},
    {'t', "nthreads", "1", parse_int, AT(nthreads), 0, INT_MAX, "only 1: start more ranks instead"},
    {'g', "ngpus", "1", parse_int, AT(ngpus), 0, INT_MAX, "only 1: one rank drives one device"},
    {'p', "parallel_init", "0|1", parse_int, AT(ignored), 0, 1,
     "taken from nccl-tests' command lines; no effect"},
    {'y', "stream_null", "0|1", parse_int, AT(ignored), 0, 1,
     "taken from nccl-tests' command lines; no effect"},
    {0, "csv", "FILE", parse_text, AT(csv_path), 0, 0, "also write CSV, a row as soon as it is known"},
    {0, "backend", "auto|host|cuda", parse_word, AT(backend), 0, 0, "where buffers live"},
    {0, "transport", "auto|shm|cuda_ipc|ib|tcp", parse_word, AT(transport), 0, 0,
     "how bytes move"},
    {0, "algo", "auto|all|NAME", parse_text, AT(algo), 0, 0,
     "one algorithm, or each of --list-algos as a contender (default: auto)"},
    {0, "peer", "mpi|nccl|PATH", parse_peer, AT(peers), 0, 0,
     "measure this too, in the same run, interleaved; repeatable"},
    {0, "verify", "mpi|exact|both|off", parse_word, AT(verify), 0, 0,
     "the reference (default: mpi, which exact and both stand for in this build)"},
    {0, "buffers", "weir|plain", parse_word, AT(buffers), 0, 0,
     "weir: memory that peers map; plain: malloc, which is staged (default: weir)"},
    {0, "dist", "uniform|spread:X", parse_text, AT(dist), 0, 0,
     "alltoallv: X from 0 (uniform) to 1 (the further, the more) (default: spread:1)"},
    {0, "plan", "FILE", parse_text, AT(plan), 0, 0, "run a plan (not in this build)"},
    {0, "seed", "N", parse_size, AT(seed), 0, 0, "seed of the data (default: 1)"},
    {0, "list-algos", NULL, parse_flag, AT(action), 0, BENCH_ACTION_LIST_ALGOS,
     "list the algorithms and end"},
    {0, "help-env", NULL, parse_flag, AT(action), 0, BENCH_ACTION_HELP_ENV,
     "list the environment variables and end"},
    {0, "version", NULL, parse_flag, AT(action), 0, BENCH_ACTION_VERSION, "print the version and end"},
    {'h', "help", NULL, parse_flag, AT(action), 0, BENCH_ACTION_HELP, "print this and end"},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static void set_defaults(bench_options *options)
{
    memset(options, 0, sizeof *options);
    options->step_bytes = (size_t)1 << 20;
    options->step_factor = 1;
    options->warmups = 5;
    options->aggregate = options->cycles = options->checks = 1;
    options->dtype = WEIR_FLOAT;
    options->op = WEIR_SUM;
    options->rank_time = BENCH_RANK_MAX;
    options->nthreads = options->ngpus = 1;
    options->backend = options->transport = options->algo = "auto";
    options->verify = "mpi";
    options->buffers = "weir";
    options->dist = "spread:1";
    options->seed = 1;
}

static void make_getopt(char *letters, struct option *longs)
{
    *letters++ = ':';
    for (int i = 0; i < ROW_COUNT; i++) {
        longs[i] = (struct option){.name = rows[i].name,
                                   .has_arg = rows[i].argument ? required_argument : no_argument,
                                   .val = LONG_ONLY + i};
        if (!rows[i].letter)
            continue;
        *letters++ = rows[i].letter;
        if (rows[i].argument)
            *letters++ = ':';
    }
    *letters = '\0';
    longs[ROW_COUNT] = (struct option){0};
}

static const option_row *find_row(int value)
{
    if (value >= LONG_ONLY)
        return &rows[value - LONG_ONLY];
    for (int i = 0; i < ROW_COUNT; i++)
        if (rows[i].letter && rows[i].letter == value)
            return &rows[i];
    return NULL;
}

/* The option as the user would write it. */
static void write_name(char *text, size_t bytes, const option_row *row)
{
    if (row->letter)
        snprintf(text, bytes, "-%c (--%s)", row->letter, row->name);
    else
        snprintf(text, bytes, "--%s", row->name);
}

static weir_status take(const option_row *row, const char *text, bench_options *options,
                        char *problem)
{
    char expected[EXPECTED_BYTES] = "", name[64];
    if (row->parse(row, text, options, expected) == 0)
        return WEIR_OK;
    write_name(name, sizeof name, row);
    snprintf(problem, BENCH_PROBLEM_BYTES, "%s %s: expected %s", name, text, expected);
    return WEIR_ERR_INVALID;
}

static weir_status reject(int value, char **argv, char *problem)
{
    const option_row *row = find_row(optopt);
    char name[64];
    if (value == ':' && row) {
        write_name(name, sizeof name, row);
        snprintf(problem, BENCH_PROBLEM_BYTES, "%s needs a value: %s", name, row->argument);
    } else if (optopt >= LONG_ONLY) {
        snprintf(problem, BENCH_PROBLEM_BYTES, "--%s takes no value", rows[optopt - LONG_ONLY].name);
    } else if (optopt) {
        snprintf(problem, BENCH_PROBLEM_BYTES, "unknown option -%c; --help lists the options",
                 optopt);
    } else {
        snprintf(problem, BENCH_PROBLEM_BYTES, "unknown option %s; --help lists the options",
                 argv[optind - 1]);
    }
    return WEIR_ERR_INVALID;
}

weir_status bench_options_parse(int argc, char **argv, weir_collective collective,
                                bench_options *options, char *problem)
{
    char letters[2 * ROW_COUNT + 2];
    struct option longs[ROW_COUNT + 1];
    int value;
    set_defaults(options);
    make_getopt(letters, longs);
    opterr = 0;
    while ((value = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (value == '?' || value == ':')
            return reject(value, argv, problem);
        weir_status status = take(find_row(value), optarg ? optarg : "", options, problem);
        if (status != WEIR_OK)
            return status;
    }
    if (optind < argc) {
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "unexpected word %s: options start with -, --help lists them", argv[optind]);
        return WEIR_ERR_INVALID;
    }
    if (options->action != BENCH_ACTION_RUN)
        return WEIR_OK;
    return bench_options_check(options, collective, problem);
}

static void print_row(FILE *to, const option_row *row)
{
    enum { INDENT = 34 };
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", row->letter ? '-' : ' ',
             row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
             row->argument ? " " : "", row->argument ? row->argument : "");
    int longer = strlen(left) > INDENT - 4;
    fprintf(to, "  %-*s%s", INDENT - 2, left, longer ? "\n" : "");
    for (const char *line = row->help; line;) {
        const char *end = strchr(line, '\n');
        int indent = longer || line != row->help ? INDENT : 0;
        fprintf(to, "%*s%.*s\n", indent, "", end ? (int)(end - line) : (int)strlen(line), line);
        line = end ? end + 1 : NULL;
    }
}

void bench_options_help(FILE *to, const char *program)
{
    fprintf(to,
            "usage: mpirun -np RANKS %s [options]\n\n"
            "Measures and checks a collective over MPI's ranks; prints nccl-tests' table.\n"
            "Options with a letter are nccl-tests' and keep its meaning.\n\n",
            program);
    for (int i = 0; i < ROW_COUNT; i++)
        print_row(to, &rows[i]);
    fprintf(to, "\nExit codes: 0 all passed, 1 wrong data, 2 usage, 3 system, 4 a deadline passed.\n");
}

int bench_options_verifies(const bench_options *options)
{
    return options->checks > 0 && strcmp(options->verify, "off") != 0;
}
