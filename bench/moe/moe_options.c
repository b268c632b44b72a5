/* The option table of bench_moe, its parser, and the help text made from it. */
#include "bench/moe/moe_options.h"

#include "bench/gpu/gpu.h"
#include "bench/options/option_values.h"
#include "programs/moe_models.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Sets one option from its text. Returns what was expected, or NULL. */
typedef const char *moe_parse(bench_moe_options *options, const char *text);

typedef struct moe_option {
    char letter; /* 0: long only */
    const char *name, *argument;
    moe_parse *parse;
    const char *help;
} moe_option;

/* ------------------------------------------------------------------- values */

static int whole(const char *text, long least, long most, int *value)
{
    char *end;
    const long number = strtol(text, &end, 10);
    if (end == text || *end || number < least || number > most)
        return 0;
    *value = (int)number;
    return 1;
}

static const char *parse_tokens(bench_moe_options *o, const char *text)
{
    static const char expected[] =
        "up to 32 numbers from 1 to 16777216, separated by commas, such as 1,16,128";
    char copy[256], *rest = copy, *word;
    if (strlen(text) >= sizeof copy)
        return expected;
    snprintf(copy, sizeof copy, "%s", text);
    o->ntokens = 0;
    while ((word = strsep(&rest, ","))) /* empty members, too, are no numbers */
        if (o->ntokens == BENCH_MOE_TOKENS_MAX ||
            !whole(word, 1, 1 << 24, &o->tokens[o->ntokens++]))
            return expected;
    return NULL;
}

static const char *parse_hidden(bench_moe_options *o, const char *text)
{
    return whole(text, 1, 1 << 24, &o->hidden) ? NULL : "a whole number from 1";
}

static const char *parse_experts(bench_moe_options *o, const char *text)
{
    return whole(text, 1, 65536, &o->experts) ? NULL : "a whole number from 1 to 65536";
}

static const char *parse_topk(bench_moe_options *o, const char *text)
{
    return whole(text, 1, WEIR_MOE_TOPK_MAX, &o->topk) ? NULL : "a whole number from 1 to 16";
}

static const char *parse_model(bench_moe_options *o, const char *text)
{
    const moe_model *model = moe_model_find(text);
    if (!model)
        return MOE_MODEL_NAMES;
    o->model = text;
    o->hidden = model->hidden;
    o->experts = model->experts;
    o->topk = model->topk;
    return NULL;
}

static const char *parse_layout(bench_moe_options *o, const char *text)
{
    for (int i = 0; i < WEIR_MOE_LAYOUT_COUNT; i++)
        if (!strcmp(text, weir_moe_layout_name((weir_moe_layout)i))) {
            o->layout = i;
            return NULL;
        }
    return "expert, rank or flat";
}

static const char *parse_alignment(bench_moe_options *o, const char *text)
{
    return whole(text, 1, 65536, &o->alignment) ? NULL : "a whole number from 1 to 65536";
}

/* A number after the word and a colon. */
static int routing_value(const char *text, size_t word, double least, double most, double *value)
{
    char *end;
    if (text[word] != ':')
        return text[word] == '\0';
    *value = strtod(text + word + 1, &end);
    return end != text + word + 1 && !*end && *value >= least && *value <= most;
}

static const char *parse_routing(bench_moe_options *o, const char *text)
{
    static const struct {
        const char *word;
        weirv_moe_spread spread;
        double value, least, most;
    } words[] = {{"uniform", WEIRV_MOE_UNIFORM, 0, 1, 0},  {"zipf", WEIRV_MOE_ZIPF, 1, 0, 10},
                 {"hot", WEIRV_MOE_HOT, 0, 1, 0},          {"empty", WEIRV_MOE_EMPTY, 0, 1, 0},
                 {"masked", WEIRV_MOE_MASKED, 0.25, 0, 1}, {"ragged", WEIRV_MOE_RAGGED, 0, 1, 0}};
    static const char expected[] =
        "uniform, zipf:A, hot, empty, masked:P (0 to 1), ragged or trace:FILE";
    o->routing_text = text;
    o->trace = NULL;
    if (!strncmp(text, "trace:", 6) && text[6]) {
        o->spread = WEIRV_MOE_TRACE;
        o->trace = text + 6;
        return NULL;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i].word);
        if (strncmp(text, words[i].word, length) != 0)
            continue;
        o->spread = (int)words[i].spread;
        o->parameter = words[i].value;
        return routing_value(text, length, words[i].least, words[i].most, &o->parameter) ? NULL
                                                                                         : expected;
    }
    return expected;
}

static const char *parse_dtype(bench_moe_options *o, const char *text)
{
    static const weir_dtype types[] = {WEIR_BFLOAT16, WEIR_HALF, WEIR_FLOAT};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(text, weir_dtype_name(types[i]))) {
            o->dtype = (int)types[i];
            return NULL;
        }
    return "bfloat16, half or float";
}

static const char *parse_dispatch_dtype(bench_moe_options *o, const char *text)
{
    o->fp8 = !strcmp(text, "fp8");
    return o->fp8 || !strcmp(text, "same") ? NULL : "same or fp8";
}

static const char *parse_chain(bench_moe_options *o, const char *text)
{
    return whole(text, 0, 10000, &o->chain) ? NULL : "a whole number from 0 to 10000";
}

static const char *parse_iterations(bench_moe_options *o, const char *text)
{
    return whole(text, 0, INT_MAX, &o->common.iterations) ? NULL : "a whole number from 0";
}

static const char *parse_warmups(bench_moe_options *o, const char *text)
{
    return whole(text, 0, INT_MAX, &o->common.warmups) ? NULL : "a whole number from 0";
}

static const char *parse_ngpus(bench_moe_options *o, const char *text)
{
    return whole(text, 1, WEIR_RANKS_MAX, &o->common.ngpus) ? NULL : "a number of ranks from 1";
}

static const char *parse_timeout(bench_moe_options *o, const char *text)
{
    return whole(text, 0, 86400, &o->common.timeout_s) ? NULL : "seconds from 0 to 86400";
}

static const char *parse_floor(bench_moe_options *o, const char *text)
{
    static char expected[WEIRI_EXPECTED_BYTES];
    return bench_floor_read(text, &o->common, expected) == 0 ? NULL : expected;
}

static const char *parse_seed(bench_moe_options *o, const char *text)
{
    int seed = 0;
    const int is_right = whole(text, 0, INT_MAX, &seed);
    o->common.seed = (size_t)seed;
    return is_right ? NULL : "a whole number from 0";
}

static const char *parse_csv(bench_moe_options *o, const char *text)
{
    o->common.csv_path = text;
    return *text ? NULL : "the path of a file";
}

static const char *parse_ceiling(bench_moe_options *o, const char *text)
{
    o->common.ceiling_path = text;
    return *text ? NULL : "the path of a file";
}

static const char *parse_graph(bench_moe_options *o, const char *text)
{
    return whole(text, 0, 1, &o->common.graph)
               ? NULL
               : "0 or 1: each timed call is one replay of a graph, and -n sets their number";
}

/* A word, or with a library WORD:PATH. */
static const char *parse_peer(bench_moe_options *o, const char *text)
{
    static const struct {
        const char *word;
        bench_peer_kind kind;
        unsigned needs;
        int is_library;
    } peers[] = {{"mpi", BENCH_PEER_MPI, BENCH_PEER_NEEDS_MPI, 0},
                 {"nccl-ep", BENCH_PEER_NCCL_EP, 0, 1}};
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        const size_t length = strlen(peers[i].word);
        const char *path = text[length] == ':' && text[length + 1] ? text + length + 1 : NULL;
        if (strncmp(text, peers[i].word, length) ||
            (text[length] && !(peers[i].is_library && path)))
            continue;
        o->common.peers[0] = (bench_peer){text, path, peers[i].kind, peers[i].needs, 0};
        o->common.npeers = 1;
        return NULL;
    }
    return "mpi or nccl-ep[:PATH]";
}

static const char *parse_buffers(bench_moe_options *o, const char *text)
{
    const int kind = bench_buffers_find(text);
    o->plain = kind == BENCH_BUFFERS_PLAIN;
    return kind >= 0 ? NULL : "registered or unregistered";
}

static const char *parse_inject(bench_moe_options *o, const char *text)
{
    static const char expected[] = "list, or a fault of --inject list";
    o->list_faults = !strcmp(text, "list");
    for (int i = 1; i < BENCH_MOE_FAULTS; i++)
        if (!strcmp(text, bench_moe_fault_name((bench_moe_fault)i)))
            o->fault = i;
    return o->list_faults || o->fault ? NULL : expected;
}

static const char *parse_backend(bench_moe_options *o, const char *text)
{
    static const struct {
        const char *word;
        bench_backend_word backend;
    } words[] = {
        {"auto", BENCH_BACKEND_AUTO}, {"host", BENCH_BACKEND_HOST}, {"cuda", BENCH_BACKEND_CUDA}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i].word)) {
            o->common.backend = (int)words[i].backend;
            return NULL;
        }
    return "auto, host or cuda";
}

static const char *parse_blocks(bench_moe_options *o, const char *text)
{
    return whole(text, 0, 1 << 16, &o->max_blocks) ? NULL : "a whole number from 0 to 65536";
}

static const char *parse_tune(bench_moe_options *o, const char *text)
{
    (void)o, (void)text;
    return "another option: dispatch and combine have one algorithm each, so there is "
           "nothing to tune";
}

static const char *parse_quiet(bench_moe_options *o, const char *text)
{
    (void)text;
    o->common.quiet = 1;
    return NULL;
}

static const char *parse_version(bench_moe_options *o, const char *text)
{
    (void)text;
    o->common.action = BENCH_ACTION_VERSION;
    return NULL;
}

static const char *parse_help(bench_moe_options *o, const char *text)
{
    (void)text;
    o->common.action = BENCH_ACTION_HELP;
    return NULL;
}

/* --------------------------------------------------------------- the table */

static const moe_option rows[] = {
    {0, "tokens", "N[,...]", parse_tokens,
     "tokens per rank, one row of the table each (default: 1,4,16,64,\n256,1024)"},
    {0, "model", "NAME", parse_model,
     "--hidden, --experts and --topk of deepseek-v3 (7168, 256, 8),\n"
     "mixtral (4096, 8, 2) or qwen3 (4096, 128, 8)"},
    {0, "hidden", "N", parse_hidden, "elements of a row, a multiple of 16 bytes (default: 1024)"},
    {0, "experts", "N", parse_experts,
     "experts on all ranks together, a multiple of the ranks (default:\n4 for each rank)"},
    {0, "topk", "N", parse_topk, "choices of each token, 1 to 16 (default: 2)"},
    {0, "routing", "WORD[:VALUE]", parse_routing,
     "uniform; zipf:A, expert e in proportion to 1/(e+1)^A; hot, the first\n"
     "choice is expert 0; empty, every second rank has no tokens; masked:P,\n"
     "each choice is masked with probability P; ragged, ranks have\n"
     "different numbers of tokens; trace:FILE, topk experts per line\n"
     "(default: uniform). Three routings take turns"},
    {0, "layout", "expert|rank|flat", parse_layout, "layout of received rows (default: expert)"},
    {0, "alignment", "N", parse_alignment,
     "layout expert: each expert's rows begin at a multiple of N rows\n(default: 1)"},
    {'d', "datatype", "TYPE", parse_dtype, "bfloat16, half or float (default: bfloat16)"},
    {0, "dispatch-dtype", "same|fp8", parse_dispatch_dtype,
     "type of received rows; fp8: f8e4m3 with a scale for each 128\nelements (default: same)"},
    {0, "chain", "N", parse_chain,
     "also time chains of N dispatches and combines back to back, without\n"
     "a barrier or checks in between (default: 8; 0: none)"},
    {'G', "cudagraph", "0|1", parse_graph,
     "GPUs: 1: each timed call or chain is one replay of a CUDA graph, which\n"
     "is captured once for each number of tokens; before each replay another\n"
     "routing and other data are copied to the places that it reads; -n is\n"
     "the number of replays (default: 0)"},
    {0, "buffers", "registered|unregistered", parse_buffers,
     "registered: memory of the library, which peers read; unregistered:\n"
     "memory of malloc, whose rows pass through shared memory (default:\n"
     "registered; aliases: weir, plain)"},
    {0, "peer", "mpi|nccl-ep[:PATH]", parse_peer,
     "also measure MPI_Alltoallv with rows packed and unpacked by hand, on\n"
     "the host; or on GPUs NCCL EP in its low-latency mode, from the library\n"
     "PATH (default: libnccl_ep.so)"},
    {'n', "iters", "N", parse_iterations,
     "timed iterations (default: 0, as many as fit a time budget, from 10\nto 400)"},
    {'w', "warmup_iters", "N", parse_warmups, "untimed iterations before (default: 3)"},
    {'g', "ngpus", "N", parse_ngpus, "start N ranks on this node, without a launcher (default: 1)"},
    {'T', "timeout", "SECONDS", parse_timeout,
     "deadline of set-up and every wait (default: 0, which means\nWEIR_TIMEOUT_MS, else 30 s)"},
    {0, "min-bw", "GB/S", parse_floor,
     "end with PASS or FAIL, and fail with exit code 1, if the average bus\n"
     "bandwidth is below this floor (default: 90% of NCCL_TESTS_MIN_BW, if\n"
     "it is set)"},
    {0, "csv", "FILE", parse_csv, "also write CSV, each row as soon as it is known"},
    {0, "ceiling", "FILE", parse_ceiling,
     "compare results with the links that weir-topo --measure FILE recorded"},
    {0, "seed", "N", parse_seed, "seed of data and routings (default: 1)"},
    {0, "inject", "list|FAULT", parse_inject,
     "inject a fault into the second timed dispatch and combine of each\n"
     "number of tokens, or the next where it changes something, to show that\n"
     "it is found; not into chains. Exit code 2 if it changed nothing; list:\n"
     "print the faults and exit"},
    {0, "backend", "auto|host|cuda", parse_backend,
     "memory of the buffers; auto: GPUs if all ranks have one (default: auto)"},
    {0, "sms", "N", parse_blocks,
     "GPUs: most thread blocks of a kernel (default: 0, two for each\nmultiprocessor)"},
    {0, "tune", "FILE", parse_tune, "refused: dispatch and combine have one algorithm each"},
    {0, "quiet", NULL, parse_quiet, "accepted for other benchmarks' command lines; no effect"},
    {0, "version", NULL, parse_version, "print the version and exit"},
    {'h', "help", NULL, parse_help, "print this help and exit"},
};
enum { ROWS = sizeof rows / sizeof rows[0], LONG_ONLY = 256 };

static void set_defaults(bench_moe_options *o)
{
    *o = (bench_moe_options){.hidden = 1024,
                             .topk = 2,
                             .dtype = WEIR_BFLOAT16,
                             .chain = 8,
                             .alignment = 1,
                             .routing_text = "uniform"};
    const int tokens[] = {1, 4, 16, 64, 256, 1024};
    memcpy(o->tokens, tokens, sizeof tokens);
    o->ntokens = sizeof tokens / sizeof *tokens;
    o->common.warmups = 3;
    o->common.ngpus = o->common.nthreads = 1;
    o->common.backend = BENCH_BACKEND_AUTO;
    o->common.verify = BENCH_VERIFY_EXACT;
    o->common.seed = 1;
    o->common.aggregate = o->common.cycles = o->common.checks = 1;
    o->common.dist = "";
    o->common.algo = "auto";
}

static const moe_option *find_row(int value)
{
    for (int i = 0; i < ROWS; i++)
        if (value == LONG_ONLY + i || (rows[i].letter && value == rows[i].letter))
            return &rows[i];
    return NULL;
}

static int check_together(const bench_moe_options *o, char *problem)
{
    const size_t bytes = (size_t)o->hidden * weir_dtype_bytes((weir_dtype)o->dtype);
    if (bytes % 16)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--hidden %d: %zu bytes of %s; a row must be a multiple of 16 bytes", o->hidden,
                 bytes, weir_dtype_name((weir_dtype)o->dtype));
    else if (o->alignment > 1 && o->layout != WEIR_MOE_EXPERT_MAJOR)
        snprintf(problem, BENCH_PROBLEM_BYTES, "--alignment %d: only --layout expert has it",
                 o->alignment);
    else if (o->common.backend == BENCH_BACKEND_CUDA && !bench_gpu_built())
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--backend cuda: this build has no CUDA backend; use --backend host");
    else if (o->fp8 && o->common.npeers)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--peer %.60s does not convert to fp8; leave out --peer or --dispatch-dtype",
                 o->common.peers[0].text);
    else if (o->common.graph && o->common.npeers)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--cudagraph 1: calls of --peer %.60s are not captured; leave out one of them",
                 o->common.peers[0].text);
    return *problem ? -1 : 0;
}

int bench_moe_options_parse(int argc, char **argv, bench_moe_options *o, char *problem)
{
    char letters[2 * ROWS + 2], *letter = letters;
    struct option longs[ROWS + 1];
    int value;
    set_defaults(o);
    *letter++ = ':';
    for (int i = 0; i < ROWS; i++) {
        longs[i] = (struct option){rows[i].name, rows[i].argument != NULL, NULL, LONG_ONLY + i};
        if (rows[i].letter)
            *letter++ = rows[i].letter;
        if (rows[i].letter && rows[i].argument)
            *letter++ = ':';
    }
    *letter = '\0';
    longs[ROWS] = (struct option){0};
    opterr = 0;
    while ((value = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const moe_option *row = find_row(value);
        const char *expected = row ? row->parse(o, optarg ? optarg : "") : NULL;
        if (!row)
            snprintf(problem, BENCH_PROBLEM_BYTES, "%s: %s; --help lists the options",
                     argv[optind - 1],
                     value == ':' ? "needs a value" : "unknown option, or one that takes no value");
        else if (expected)
            snprintf(problem, BENCH_PROBLEM_BYTES, "--%s %s: expected %s", row->name,
                     optarg ? optarg : "", expected);
        if (*problem)
            return -1;
    }
    if (optind < argc)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "unexpected word %s: options start with -, --help lists them", argv[optind]);
    o->common.dtype = o->dtype;
    if (*problem)
        return -1;
    return bench_floor_of_environment(&o->common, problem) || check_together(o, problem) ? -1 : 0;
}

static void print_row(FILE *to, const moe_option *row)
{
    enum { INDENT = 32 };
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", row->letter ? '-' : ' ',
             row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
             row->argument ? " " : "", row->argument ? row->argument : "");
    fprintf(to, "  %-*s", INDENT - 2, left);
    for (const char *at = row->help; *at; at++) {
        fputc(*at, to);
        if (*at == '\n')
            fprintf(to, "%*s", INDENT, "");
    }
    fputc('\n', to);
}

void bench_moe_options_help(FILE *to)
{
    fprintf(to,
            "usage: [mpirun -np RANKS] bench_moe [options]\n\n"
            "Measures and verifies dispatch and combine of mixture-of-experts layers. Its ranks\n"
            "are started by a launcher (mpirun, srun, torchrun, PMIx) or by the program itself\n"
            "(-g).\n\n");
    for (int i = 0; i < ROWS; i++)
        print_row(to, &rows[i]);
    fprintf(to, "\nExit codes: 0 all passed, 1 wrong data or a missed floor, 2 usage, 3 system or\n"
                "environment, 4 a deadline passed.\n");
}
