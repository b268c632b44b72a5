/*
 * The option table, the parser that works from it, and the help text made from it. nccl-tests'
 * options keep their letters, long names and meaning; options that nccl-tests does not have are
 * long only.
 */
#include "bench/options/parse.h"

#include "bench/options/option_values.h"
#include "bench/options/peers.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

enum { LONG_ONLY = 256 };

#define AT(member) offsetof(bench_options, member)

static const bench_option rows[] = {
    {'b', "minbytes", "SIZE", bench_parse_min, AT(min_bytes), 0, 0,
     "smallest size; suffixes K, M, G, T (default: 8, with -e 16M -f 4,\n"
     "so up to 8M, if neither -b nor -e is given; else the smaller of 32M\n"
     "and -e)"},
    {'e', "maxbytes", "SIZE", bench_parse_max, AT(max_bytes), 0, 0,
     "largest size (default: as for -b; else the larger of 32M and -b)"},
    {'i', "stepbytes", "SIZE", bench_parse_step, AT(step_bytes), 1, 0,
     "step between sizes (default: 1M); a -f above 1 takes precedence"},
    {'f', "stepfactor", "N", bench_parse_factor, AT(step_factor), 1, LONG_MAX,
     "factor between sizes, a whole number"},
    {'n', "iters", "N", bench_parse_int, AT(iterations), 0, INT_MAX,
     "number of timed iterations (default: 0, as many as fit a time\n"
     "budget, from 20 to 2000)"},
    {0, "visits", "N", bench_parse_int, AT(rounds), 1, 64,
     "divide the iterations of a size into N rounds, each on other pages,\n"
     "with other sizes in between (default: 6; 1 if -n is below 12)"},
    {0, "until", "PERCENT", bench_parse_percent, AT(until), 0, 0,
     "add iterations until the 95% interval of every candidate's median\n"
     "is the median +- PERCENT (such as 2%); gives up on a size after -T\n"
     "seconds, else 10, and then reports how wide the interval is"},
    {0, "min-bw", "GB/S", bench_parse_floor, AT(floor_gbs), 0, 0,
     "end with PASS or FAIL, and fail with exit code 1, if the average bus\n"
     "bandwidth of the footer is below this floor (default: 90% of\n"
     "NCCL_TESTS_MIN_BW, as in nccl-tests, if it is set)"},
    {'w', "warmup_iters", "N", bench_parse_int, AT(warmups), 0, INT_MAX,
     "number of untimed iterations before each timed block (default:\n"
     "until times no longer fall, 6 to 61)"},
    {'m', "agg_iters", "N", bench_parse_int, AT(aggregate), 1, INT_MAX,
     "operations timed together as one iteration (default: 1)"},
    {'N', "run_cycles", "N", bench_parse_int, AT(cycles), 0, INT_MAX,
     "run the sweep N times (default: 1; 0: until stopped)"},
    {'c', "check", "N", bench_parse_int, AT(checks), 0, INT_MAX,
     "check each size N times, each time with other data (default: 1;\n"
     "0: no checks)"},
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
     "number of graph launches; on the host N times as many iterations\n"
     "(default: 0)"},
    {'C', "report_cputime", "0|1", bench_parse_int, AT(cpu_time), 0, 1,
     "1: the time column is processor time of the calling thread"},
    {'a', "average", "0-3", bench_parse_int, AT(rank_time), 0, 3,
     "the table's time of one iteration: 0 rank 0's, 1 mean, 2 minimum,\n"
     "3 maximum over ranks (default: 3; the CSV always has the maximum)"},
    {'I', "per_iter_timing", "0|1", bench_parse_int, AT(per_iteration), 0, 1,
     "1: add i_min, i_max, i_p99 and i_cv% to the table"},
    {'K', "per_iter_skip", "N", bench_parse_int, AT(skip), 0, INT_MAX,
     "leave the first N iterations out of the columns of -I; they show\n"
     "nan if no iteration is left"},
    {'T', "timeout", "SECONDS", bench_parse_int, AT(timeout_s), 0, 86400,
     "deadline of set-up, every wait and tear-down; when it passes, the\n"
     "state of every rank is reported and the exit code is 4 (default:\n"
     "0, which means WEIR_TIMEOUT_MS, else 30 s)"},
    {'J', "output_file", "FILE", bench_parse_text, AT(json_path), 0, 0,
     "also write nccl-tests' JSON (schema 3)"},
    {'S', "report_timestamps", "0|1", bench_parse_int, AT(timestamps), 0, 1,
     "1: end each row with a time stamp"},
    {'M', "memory", "0|1", bench_parse_int, AT(memory_report), 0, 1,
     "1: report memory use at the end"},
    {'R', "local_register", "0-2", bench_parse_int, AT(registration), 0, 2,
     "0: the library finds buffers by address; 1: each rank registers its\n"
     "buffers; 2: ranks also exchange handles before (default: 0)"},
    {'u', "unalign", "N", bench_parse_int, AT(unalign_elements), 0, 1 << 20,
     "shift both buffers by N elements (default: 0)"},
    {'t', "nthreads", "1", bench_parse_int, AT(nthreads), 0, INT_MAX,
     "only 1; start more ranks instead"},
    {'g', "ngpus", "N", bench_parse_int, AT(ngpus), 1, WEIR_RANKS_MAX,
     "start N ranks on this node, without a launcher, one for each device\n"
     "(default: 1; only 1 under a launcher)"},
    {'p', "parallel_init", "0|1", bench_parse_int, AT(ignored), 0, 1,
     "accepted for nccl-tests' command lines; no effect"},
    {'y', "stream_null", "0|1", bench_parse_int, AT(ignored), 0, 1,
     "accepted for nccl-tests' command lines; no effect"},
    {0, "csv", "FILE", bench_parse_text, AT(csv_path), 0, 0,
     "also write CSV, each row as soon as it is known, and a manifest\n"
     "beside it (a.json for a.csv)"},
    {0, "ceiling", "FILE", bench_parse_text, AT(ceiling_path), 0, 0,
     "compare results with the links that weir-topo --measure FILE\n"
     "recorded, for as many cores or GPUs as ranks: percent of what the\n"
     "links allow, in CSV and JSON, and a line at the end"},
    {0, "backend", "auto|host|cuda", bench_parse_word, AT(backend), AT(words.backend), 0,
     "memory of the buffers (default: auto)"},
    {0, "transport", "auto|shm|cuda_ipc|ib|tcp", bench_parse_word, AT(transport),
     AT(words.transport), 0,
     "transport; ib and tcp connect nodes, ranks of one node share memory\n"
     "(default: auto)"},
    {0, "algo", "auto|all|NAME|FILE:NAME[,...]", bench_parse_text, AT(algo), 0, 0,
     "algorithms to measure: weir's selection (auto), each of\n"
     "--list-algos (all), or a list; on GPUs with a grid of blocks x\n"
     "threads if wanted, such as packet:16x64; FILE.cu:NAME compiles a\n"
     "kernel, see lib/algo/README.md (default: auto)"},
    {0, "tune", "FILE", bench_parse_text, AT(tune_path), 0, 0,
     "measure every algorithm, on GPUs with many grids, and write the\n"
     "fastest for each size into a tuning table for WEIR_TUNING; rows of\n"
     "other collectives and numbers of ranks in the file are kept"},
    {0, "peer", BENCH_PEERS_ARGUMENT, bench_parse_peer, AT(peers), 0, 0,
     "also measure this peer, interleaved in the same run; repeatable.\n"
     "nccl, or a vendor's library by its path, in every mode that it has;\n"
     "nccl:default, nccl:symmetric or nccl:zero-cta in one mode"},
    {0, "mode", "throughput|latency", bench_parse_word, AT(mode), AT(words.mode), 0,
     "throughput: operations back to back; latency: ranks start each\n"
     "operation together, and the start skew is reported\n"
     "(default: throughput)"},
    {0, "cold", NULL, bench_parse_flag, AT(cold), 0, 1,
     "operations cycle through copies of their buffers, together twice\n"
     "the last-level cache (default: the same buffers, warm)"},
    {0, "verify", "mpi|exact|both|off", bench_parse_word, AT(verify), AT(words.verify), 0,
     "the reference: mpi repeats the call with MPI; exact uses data whose\n"
     "result is known bit for bit (default: both, exact if MPI did not\n"
     "start the ranks; above 4 MiB per rank exact compares everything,\n"
     "mpi compares windows)"},
    {0, "determinism", NULL, bench_parse_flag, AT(determinism), 0, 1,
     "repeat each call 10 times on the same data and report whether the\n"
     "bits are equal in every repeat and on every rank; if weir promises\n"
     "equal bits (all but ring and plans), others count as wrong data"},
    {0, "buffers", "registered|unregistered", bench_parse_buffers, 0, 0, 0,
     "registered: memory of the library, which peers map; unregistered:\n"
     "memory of malloc or cudaMalloc, which peers cannot map: data pass\n"
     "through shared memory, or the kernel copies them (default:\n"
     "registered; aliases: weir, plain)"},
    {0, "dist", "WORD[:VALUE]", bench_parse_text, AT(dist), 0, 0,
     "traffic pattern of alltoallv: uniform; spread:X, from 0 (uniform) to\n"
     "1 (in proportion to the distance); zipf:A, weights 1/place^A of\n"
     "receivers in an order drawn from the seed; hot:K, K receivers get\n"
     "90%; matrix:FILE, a row of weights per rank; trace:FILE, matrices\n"
     "separated by empty lines, which calls cycle through. The rank that\n"
     "sends or receives most moves the size (default: spread:1)"},
    {0, "counts", "host|device", bench_parse_word, AT(counts), AT(words.counts), 0,
     "alltoallv of weir: counts are arguments, or are read from device\n"
     "memory when the call runs (default: host)"},
    {0, "plan", "FILE", bench_parse_text, AT(plan), 0, 0,
     "measure a plan, in the JSON of MSCCL++'s DSL (docs/user/plans.md),\n"
     "instead of weir's selection; --algo auto,... adds algorithms"},
    {0, "plan-dir", "DIR", bench_parse_text, AT(plan_dir), 0, 0,
     "with --tune: also measure the plans in this folder (*.json) that are\n"
     "for this collective and number of ranks; the table may choose them"},
    {0, "seed", "N", bench_parse_whole, AT(seed), 0, LONG_MAX, "seed of the data (default: 1)"},
    {0, "inject", "list|FAULT[@timed]|slow:PERCENT", bench_parse_inject, AT(inject), 0, 0,
     "inject a fault into the first checked run of each size, or into the\n"
     "second timed iteration, to show that it is found; list: print the\n"
     "faults and exit; slow: timed operations of weir take so much longer"},
    {0, "quiet", NULL, bench_parse_flag, AT(quiet), 0, 1,
     "no progress on standard error, which else appears after 3 s: on a\n"
     "terminal one line, elsewhere a line every 10 s"},
    {0, "list-algos", NULL, bench_parse_flag, AT(action), 0, BENCH_ACTION_LIST_ALGOS,
     "list the algorithms and exit"},
    {0, "help-env", NULL, bench_parse_flag, AT(action), 0, BENCH_ACTION_HELP_ENV,
     "list the environment variables and exit"},
    {0, "version", NULL, bench_parse_flag, AT(action), 0, BENCH_ACTION_VERSION,
     "print the version and exit"},
    {'h', "help", NULL, bench_parse_flag, AT(action), 0, BENCH_ACTION_HELP,
     "print this help and exit"},
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
    optind = 0; /* an earlier call may have ended in the middle of an argument */
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
    if (bench_floor_of_environment(options, problem) != 0)
        return WEIR_ERR_INVALID;
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
            "usage: [mpirun -np RANKS] %s [options]\n\n"
            "Measures and verifies a collective, and prints nccl-tests' table. Its ranks are\n"
            "started by a launcher (mpirun, srun, torchrun, PMIx) or by the program itself (-g).\n"
            "Options with a letter are nccl-tests' options, with the same meaning.\n\n",
            program);
    for (int i = 0; i < ROW_COUNT; i++)
        print_row(to, &rows[i]);
    fprintf(to, "\nExit codes: 0 all passed, 1 wrong data or a missed floor, 2 usage, 3 system or\n"
                "environment, 4 a deadline passed.\n");
}
