/*
 * The option table, the parser that works from it, and the help text made from it. nccl-tests'
 * options keep their letters, long names and meaning; options that nccl-tests does not have are
 * long only.
 */
#include "bench/options/parse.h"

#include "bench/options/option_values.h"
#include "bench/options/options_check.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

enum { LONG_ONLY = 256 };

#define AT(member) offsetof(bench_options, member)

static const bench_option rows[] = {
    {'b', "minbytes", "SIZE", bench_parse_min, AT(min_bytes), 0, 0,
     "smallest size; K, M, G, T suffixes (default: 8, with -e 16M -f 4,\n"
     "if neither -b nor -e is given; else the smaller of 32M and -e)"},
    {'e', "maxbytes", "SIZE", bench_parse_max, AT(max_bytes), 0, 0,
     "largest size (default: as for -b; else the larger of 32M and -b)"},
    {'i', "stepbytes", "SIZE", bench_parse_step, AT(step_bytes), 1, 0,
     "step between sizes (default: 1M); a -f above 1 goes before it"},
    {'f', "stepfactor", "N", bench_parse_factor, AT(step_factor), 1, LONG_MAX,
     "factor between sizes, a whole number"},
    {'n', "iters", "N", bench_parse_int, AT(iterations), 0, INT_MAX,
     "timed iterations, exactly (default: 0, as many as fit a time\n"
     "budget, from 20 to 2000)"},
    {0, "visits", "N", bench_parse_int, AT(rounds), 1, 64,
     "divide the iterations of a size into N visits, each on other pages,\n"
     "other sizes between them (default: 6; 1 where -n is below 12)"},
    {0, "until", "PERCENT", bench_parse_percent, AT(until), 0, 0,
     "go on until the median's 95% interval is the median +- PERCENT\n"
     "(2%), for all candidates; ends after -T, else 10 s a size, at the\n"
     "latest, and then says how wide it still is"},
    {'w', "warmup_iters", "N", bench_parse_int, AT(warmups), 0, INT_MAX,
     "untimed iterations before each timed block, exactly (default:\n"
     "until times no longer fall, 6 to 61)"},
    {'m', "agg_iters", "N", bench_parse_int, AT(aggregate), 1, INT_MAX,
     "operations timed together as one iteration (default: 1)"},
    {'N', "run_cycles", "N", bench_parse_int, AT(cycles), 0, INT_MAX,
     "run the sweep N times (default: 1; 0: until stopped)"},
    {'c', "check", "N", bench_parse_int, AT(checks), 0, INT_MAX,
     "check each size N times, each with other data (default: 1;\n"
     "0: not at all)"},
    {'o', "op", "OP|all", bench_parse_op, AT(op), 0, 0,
     "sum, prod, max, min or avg (default: sum)"},
    {'d', "datatype", "TYPE|all", bench_parse_dtype, AT(dtype), 0, 0,
     "int8, uint8, int32, uint32, int64, uint64, half, float, double,\n"
     "bfloat16, f8e4m3 or f8e5m2 (default: float)"},
    {'r', "root", "RANK|all", bench_parse_root, AT(root), -1, INT_MAX,
     "root of broadcast and reduce (default: 0; -1 is all)"},
    {'z', "blocking", "0-3", bench_parse_int, AT(blocking), 0, 3,
     "0, 2: back to back; 1: barrier after each operation; 3: barrier\n"
     "after each iteration. Barriers are never timed. (default: 0)"},
    {'G', "cudagraph", "N", bench_parse_int, AT(graph), 0, INT_MAX,
     "graph launches; on the host N times the iterations (default: 0)"},
    {'C', "report_cputime", "0|1", bench_parse_int, AT(cpu_time), 0, 1,
     "1: the time column is processor time of the calling thread"},
    {'a', "average", "0-3", bench_parse_int, AT(rank_time), 0, 3,
     "the table's time of one iteration: 0 rank 0's, 1 mean, 2 minimum,\n"
     "3 maximum over ranks (default: 3, which CSV always has)"},
    {'I', "per_iter_timing", "0|1", bench_parse_int, AT(per_iteration), 0, 1,
     "1: adds i_min, i_max, i_p99 and i_cv% to the table"},
    {'K', "per_iter_skip", "N", bench_parse_int, AT(skip), 0, INT_MAX,
     "leave the first N iterations out of the columns of -I, which show\n"
     "nan where that leaves none"},
    {'T', "timeout", "SECONDS", bench_parse_int, AT(timeout_s), 0, 86400,
     "deadline of set-up, every wait and tear-down: a report, and\n"
     "exit code 4 (default: 0, which is WEIR_TIMEOUT_MS, else 30 s)"},
    {'J', "output_file", "FILE", bench_parse_text, AT(json_path), 0, 0,
     "also write nccl-tests' JSON (schema 3)"},
    {'S', "report_timestamps", "0|1", bench_parse_int, AT(timestamps), 0, 1,
     "1: a time stamp ends each row"},
    {'M', "memory", "0|1", bench_parse_int, AT(memory_report), 0, 1,
     "1: report memory use at the end"},
    {'R', "local_register", "0-2", bench_parse_int, AT(registration), 0, 2,
     "0: buffers are found by address; 1: each rank registers them;\n"
     "2: handles are exchanged up front (default: 0)"},
    {'u', "unalign", "N", bench_parse_int, AT(unalign_elements), 0, 1 << 20,
     "shift both buffers by N elements (default: 0)"},
    {'t', "nthreads", "1", bench_parse_int, AT(nthreads), 0, INT_MAX,
     "only 1: start more ranks instead"},
    {'g', "ngpus", "1", bench_parse_int, AT(ngpus), 0, INT_MAX,
     "only 1: one rank drives one device"},
    {'p', "parallel_init", "0|1", bench_parse_int, AT(ignored), 0, 1,
     "for nccl-tests' command lines; no effect"},
    {'y', "stream_null", "0|1", bench_parse_int, AT(ignored), 0, 1,
     "for nccl-tests' command lines; no effect"},
    {0, "csv", "FILE", bench_parse_text, AT(csv_path), 0, 0,
     "also write CSV, a row as soon as it is known, and its manifest\n"
     "beside it (a.csv has a.json)"},
    {0, "ceiling", "FILE", bench_parse_text, AT(ceiling_path), 0, 0,
     "hold results against links that weir-topo --measure FILE recorded,\n"
     "of as many cores or GPUs as ranks: percent of what they allow, in\n"
     "CSV and JSON, and a line at the end"},
    {0, "backend", "auto|host|cuda", bench_parse_word, AT(backend), AT(words.backend), 0,
     "where buffers live (default: auto)"},
    {0, "transport", "auto|shm|cuda_ipc|ib|tcp", bench_parse_word, AT(transport),
     AT(words.transport), 0,
     "how bytes move; ib and tcp join machines, inside which ranks share\n"
     "memory (default: auto)"},
    {0, "algo", "auto|all|NAME|FILE:NAME[,...]", bench_parse_text, AT(algo), 0, 0,
     "one algorithm, or each of --list-algos as a candidate, or those of\n"
     "a list, on GPUs perhaps with a grid of blocks x threads, such as\n"
     "packet:16x64; FILE.cu:NAME compiles a kernel and takes it, see\n"
     "lib/algo/README.md (default: auto)"},
    {0, "tune", "FILE", bench_parse_text, AT(tune_path), 0, 0,
     "try every algorithm, on GPUs with many grids, and write what is\n"
     "fastest at each size into a tuning table for WEIR_TUNING; other\n"
     "collectives and numbers of ranks in the file stay"},
    {0, "peer", "mpi|nccl|PATH", bench_parse_peer, AT(peers), 0, 0,
     "measure this too, in the same run, interleaved; repeatable. nccl,\n"
     "or a vendor's library by its path, in each mode that it has;\n"
     "nccl:default, nccl:symmetric or nccl:zero-cta in one"},
    {0, "mode", "throughput|latency", bench_parse_word, AT(mode), AT(words.mode), 0,
     "throughput: operations back to back; latency: ranks start each\n"
     "operation together, and how far apart they did is told\n"
     "(default: throughput)"},
    {0, "cold", NULL, bench_parse_flag, AT(cold), 0, 1,
     "operations take turns on copies of their buffers, twice the\n"
     "last-level cache together (default: the same buffers, warm)"},
    {0, "verify", "mpi|exact|both|off", bench_parse_word, AT(verify), AT(words.verify), 0,
     "the reference: mpi repeats the call, exact has data whose result\n"
     "is known bit for bit (default: both; above 4 MiB a rank the data's\n"
     "result is compared everywhere and MPI's in windows)"},
    {0, "determinism", NULL, bench_parse_flag, AT(determinism), 0, 1,
     "repeat each call 10 times on the same data and tell whether the\n"
     "bits are the same in each repeat and on every rank; where weir\n"
     "promises it (all but ring and plans), other bits are wrong data"},
    {0, "buffers", "weir|plain", bench_parse_word, AT(buffers), AT(words.buffers), 0,
     "weir: memory that peers map; plain: malloc's, which is staged\n"
     "(default: weir)"},
    {0, "dist", "WORD[:VALUE]", bench_parse_text, AT(dist), 0, 0,
     "alltoallv, who sends how much to whom: uniform; spread:X, from 0,\n"
     "uniform, to 1, the further the more; zipf:A, receivers in an order\n"
     "drawn from the seed, 1/place^A; hot:K, K receivers get 90%;\n"
     "matrix:FILE, a row of weights for each rank; trace:FILE, several\n"
     "matrices between empty lines, calls take them in turn. The rank\n"
     "with most to send or receive has the size (default: spread:1)"},
    {0, "counts", "host|device", bench_parse_word, AT(counts), AT(words.counts), 0,
     "alltoallv of weir: counts are arguments, or read from memory of the\n"
     "device when the call runs (default: host)"},
    {0, "plan", "FILE", bench_parse_text, AT(plan), 0, 0,
     "run a plan, the JSON of MSCCL++'s DSL (lib/plan/README.md), and not\n"
     "weir's choice; --algo auto,... measures algorithms beside it"},
    {0, "seed", "N", bench_parse_whole, AT(seed), 0, LONG_MAX, "seed of the data (default: 1)"},
    {0, "inject", "list|FAULT[@timed]", bench_parse_inject, AT(inject), 0, 0,
     "plant a fault in the first checked run of each size, or in the\n"
     "second timed iteration, to see it caught; list: print the faults\n"
     "and end"},
    {0, "list-algos", NULL, bench_parse_flag, AT(action), 0, BENCH_ACTION_LIST_ALGOS,
     "list the algorithms and end"},
    {0, "help-env", NULL, bench_parse_flag, AT(action), 0, BENCH_ACTION_HELP_ENV,
     "list the environment variables and end"},
    {0, "version", NULL, bench_parse_flag, AT(action), 0, BENCH_ACTION_VERSION,
     "print the version and end"},
    {'h', "help", NULL, bench_parse_flag, AT(action), 0, BENCH_ACTION_HELP, "print this and end"},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static void set_defaults(bench_options *options)
{
    memset(options, 0, sizeof *options);
    options->step_bytes = (size_t)1 << 20;
    options->step_factor = 1;
    options->warmups = -1;
    options->aggregate = options->cycles = options->checks = 1;
    options->dtype = WEIR_FLOAT;
    options->op = WEIR_SUM;
    options->rank_time = BENCH_RANK_MAX;
    options->nthreads = options->ngpus = 1;
    options->verify = BENCH_VERIFY_BOTH;
    options->words = (struct bench_option_texts){.backend = "auto", .transport = "auto",
                                                 .mode = "throughput", .verify = "both",
                                                 .buffers = "weir", .counts = "host"};
    options->dist = "spread:1";
    options->seed = 1;
    options->rounds = 6;
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

static const bench_option *find_row(int value)
{
    if (value >= LONG_ONLY)
        return &rows[value - LONG_ONLY];
    for (int i = 0; i < ROW_COUNT; i++)
        if (rows[i].letter && rows[i].letter == value)
            return &rows[i];
    return NULL;
}

/* Writes the option as the user would. */
static void write_name(char *text, size_t bytes, const bench_option *row)
{
    if (row->letter)
        snprintf(text, bytes, "-%c (--%s)", row->letter, row->name);
    else
        snprintf(text, bytes, "--%s", row->name);
}

static weir_status parse_value(const bench_option *row, const char *text, bench_options *options,
                        char *problem)
{
    char expected[BENCH_EXPECTED_BYTES] = "", name[64];
    if (row->parse(row, text, options, expected) == 0)
        return WEIR_OK;
    write_name(name, sizeof name, row);
    snprintf(problem, BENCH_PROBLEM_BYTES, "%s %s: expected %s", name, text, expected);
    return WEIR_ERR_INVALID;
}

static weir_status reject_option(int value, char **argv, char *problem)
{
    const bench_option *row = find_row(optopt);
    char name[64];
    if (value == ':' && row) {
        write_name(name, sizeof name, row);
        snprintf(problem, BENCH_PROBLEM_BYTES, "%s needs a value: %s", name, row->argument);
    } else if (optopt >= LONG_ONLY) {
        snprintf(problem, BENCH_PROBLEM_BYTES, "--%s takes no value",
                 rows[optopt - LONG_ONLY].name);
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
            return reject_option(value, argv, problem);
        weir_status status = parse_value(find_row(value), optarg ? optarg : "", options, problem);
        if (status != WEIR_OK)
            return status;
    }
    if (optind < argc) {
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "unexpected word %s: options start with -, --help lists them", argv[optind]);
        return WEIR_ERR_INVALID;
    }
    if (!options->algo)
        options->algo = options->plan ? "plan" : "auto";
    if (options->action != BENCH_ACTION_RUN)
        return WEIR_OK;
    return bench_options_check(options, collective, problem);
}

static void print_row(FILE *to, const bench_option *row)
{
    enum { INDENT = 32 };
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", row->letter ? '-' : ' ',
             row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
             row->argument ? " " : "", row->argument ? row->argument : "");
    int longer = strlen(left) > INDENT - 4;
    fprintf(to, "  %-*s%s", longer ? 0 : INDENT - 2, left, longer ? "\n" : "");
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
    fprintf(to, "\nExit codes: 0 all passed, 1 wrong data, 2 usage, 3 system or environment, "
                "4 a deadline\npassed.\n");
}
