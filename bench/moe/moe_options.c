/* The option table of bench_moe, its parser, and the rules between its options. */
#include "bench/moe/moe_options.h"

#include "bench/gpu/gpu.h"
#include "bench/options/option_values.h"
#include "bench/options/rows.h"
#include "programs/moe_models.h"
#include "programs/numbers.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

static bench_moe_options *settings_of(void *settings)
{
    return settings;
}

static const bench_moe_options *settings_at(const void *settings)
{
    return settings;
}

/* ----------------------------------------------------------- tokens, models */

static int tokens_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    bench_moe_options *o = settings_of(settings);
    char copy[256], *rest = copy, *word;
    long long number = 0;
    (void)option;
    o->ntokens = 0;
    int is_list = strlen(text) < sizeof copy;
    snprintf(copy, sizeof copy, "%s", text);
    while (is_list && (word = strsep(&rest, ","))) { /* empty members, too, are no numbers */
        is_list =
            o->ntokens < BENCH_MOE_TOKENS_MAX && weiri_whole_read(word, 1, 1 << 24, &number) == 0;
        if (is_list)
            o->tokens[o->ntokens++] = (int)number;
    }
    if (!is_list)
        snprintf(expected, WEIRI_EXPECTED_BYTES,
                 "up to 32 numbers from 1 to 16777216, separated by commas, such as 1,16,128");
    return is_list ? 0 : -1;
}

static void tokens_write(const weiri_option *option, const void *settings, FILE *to)
{
    const bench_moe_options *o = settings_at(settings);
    (void)option;
    for (int i = 0; i < o->ntokens; i++)
        fprintf(to, "%s%d", i ? "," : "", o->tokens[i]);
}

static int model_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    bench_moe_options *o = settings_of(settings);
    const moe_model *model = moe_model_find(text);
    (void)option;
    if (!model)
        return weiri_expect(expected, "%s", MOE_MODEL_NAMES);
    o->model = text;
    o->hidden = model->hidden;
    o->experts = model->experts;
    o->topk = model->topk;
    return 0;
}

/* ------------------------------------------------------------ routing, types */

/* A number after the word and a colon. */
static int routing_value(const char *text, size_t word, double least, double most, double *value)
{
    if (text[word] != ':')
        return text[word] == '\0';
    return weiri_decimal_read(text + word + 1, value) == 0 && *value >= least && *value <= most;
}

static int routing_read(const weiri_option *option, const char *text, void *settings,
                        char *expected)
{
    static const struct {
        const char *word;
        weirv_moe_spread spread;
        double value, least, most;
    } words[] = {{"uniform", WEIRV_MOE_UNIFORM, 0, 1, 0},  {"zipf", WEIRV_MOE_ZIPF, 1, 0, 10},
                 {"hot", WEIRV_MOE_HOT, 0, 1, 0},          {"empty", WEIRV_MOE_EMPTY, 0, 1, 0},
                 {"masked", WEIRV_MOE_MASKED, 0.25, 0, 1}, {"ragged", WEIRV_MOE_RAGGED, 0, 1, 0}};
    bench_moe_options *o = settings_of(settings);
    (void)option;
    o->routing_text = text;
    o->trace = NULL;
    if (!strncmp(text, "trace:", 6) && text[6]) {
        o->spread = WEIRV_MOE_TRACE;
        o->trace = text + 6;
        return 0;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i].word);
        o->spread = (int)words[i].spread;
        o->parameter = words[i].value;
        if (!strncmp(text, words[i].word, length) &&
            routing_value(text, length, words[i].least, words[i].most, &o->parameter))
            return 0;
    }
    return weiri_expect(expected,
                        "uniform, zipf:A, hot, empty, masked:P (0 to 1), ragged or trace:FILE");
}

/* The path of a trace may differ between nodes. */
static void routing_write(const weiri_option *option, const void *settings, FILE *to)
{
    const bench_moe_options *o = settings_at(settings);
    (void)option;
    fputs(o->trace ? "trace" : o->routing_text, to);
}

static int dtype_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    static const weir_dtype types[] = {WEIR_BFLOAT16, WEIR_HALF, WEIR_FLOAT};
    (void)option;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(text, weir_dtype_name(types[i]))) {
            settings_of(settings)->common.dtype = (int)types[i];
            return 0;
        }
    return weiri_expect(expected, "bfloat16, half or float");
}

static void dtype_write(const weiri_option *option, const void *settings, FILE *to)
{
    (void)option;
    fputs(weir_dtype_name((weir_dtype)settings_at(settings)->common.dtype), to);
}

/* -------------------------------------------------------------- other values */

static int graph_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    if (weiri_option_int.read(option, text, settings, expected) == 0)
        return 0;
    return weiri_expect(
        expected, "0 or 1: each timed call is one replay of a graph, and -n sets their number");
}

/* A word, or with a library WORD:PATH. */
static int peer_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    static const struct {
        const char *word;
        bench_peer_kind kind;
        unsigned needs;
        int is_library;
    } peers[] = {{"mpi", BENCH_PEER_MPI, BENCH_PEER_NEEDS_MPI, 0},
                 {"nccl-ep", BENCH_PEER_NCCL_EP, 0, 1}};
    bench_options *o = &settings_of(settings)->common;
    (void)option;
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        const size_t length = strlen(peers[i].word);
        if (strncmp(text, peers[i].word, length))
            continue;
        const char *path = text[length] == ':' && text[length + 1] ? text + length + 1 : NULL;
        if (text[length] && !(peers[i].is_library && path))
            continue;
        o->peers[0] = (bench_peer){text, path, peers[i].kind, peers[i].needs, 0};
        o->npeers = 1;
        return 0;
    }
    return weiri_expect(expected, "mpi or nccl-ep[:PATH]");
}

/* The path of a peer's library may differ between nodes. */
static void peer_write(const weiri_option *option, const void *settings, FILE *to)
{
    const bench_options *o = &settings_at(settings)->common;
    (void)option;
    if (o->npeers)
        fprintf(to, "%.*s", (int)strcspn(o->peers[0].text, ":"), o->peers[0].text);
}

static int inject_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    bench_moe_options *o = settings_of(settings);
    (void)option;
    const size_t word = strcspn(text, ":");
    long long rank = -1;
    if (!strncmp(text, "slow", 4))
        return bench_option_inject.read(option, text, settings, expected);
    o->fault = BENCH_MOE_NO_FAULT;
    if (!strcmp(text, "list"))
        o->common.action = BENCH_ACTION_LIST_FAULTS;
    for (int i = 1; i < BENCH_MOE_FAULTS; i++) {
        const char *name = bench_moe_fault_name((bench_moe_fault)i);
        if (strlen(name) == word && !strncmp(text, name, word))
            o->fault = i;
    }
    const int is_read =
        !text[word] || weiri_whole_read(text + word + 1, 0, WEIR_RANKS_MAX - 1, &rank) == 0;
    o->fault_rank = (int)rank;
    if (o->common.action == BENCH_ACTION_LIST_FAULTS || (o->fault && is_read))
        return 0;
    return weiri_expect(expected, "list, or a fault of --inject list, such as flip-bit, and if "
                                  "wanted its rank, as in flip-bit:3; slow:PERCENT or "
                                  "slow-rank:RANK:PERCENT");
}

static void inject_write(const weiri_option *option, const void *settings, FILE *to)
{
    const bench_moe_options *o = settings_at(settings);
    bench_option_inject.write(option, settings, to);
    if (o->fault && o->common.inject_slow)
        fputs(" --inject ", to);
    fputs(o->fault ? bench_moe_fault_name((bench_moe_fault)o->fault) : "", to);
    if (o->fault && o->fault_rank >= 0)
        fprintf(to, ":%d", o->fault_rank);
}

static int tune_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    (void)option, (void)text, (void)settings;
    return weiri_expect(
        expected,
        "another option: dispatch and combine have one algorithm each, so there is nothing to "
        "tune");
}

static const weiri_option_type type_tokens = {tokens_read, tokens_write, NULL},
                               type_model = {model_read, NULL, NULL},
                               type_routing = {routing_read, routing_write, NULL},
                               type_dtype = {dtype_read, dtype_write, NULL},
                               type_graph = {graph_read, weiri_int_write, NULL},
                               type_peer = {peer_read, peer_write, NULL},
                               type_inject = {inject_read, inject_write, NULL},
                               type_tune = {tune_read, NULL, NULL};

/* --------------------------------------------------------------- the table */

enum { SAME = WEIRI_OPTION_SAME, EXPLAINED = WEIRI_OPTION_EXPLAINED };

#define AT(member) offsetof(bench_moe_options, member)
#define COMMON(member) AT(common.member)

static const weiri_option rows[] = {
    {0, "tokens", "N[,...]", &type_tokens, 0, .initial = "1,4,16,64,256,1024", .flags = SAME,
     .help = "tokens per rank; the table has rows for each number"},
    {0, "model", "NAME", &type_model, 0,
     .help = "--hidden, --experts and --topk of deepseek-v3 (7168, 256, 8), mixtral (4096, 8, 2) "
             "or qwen3 (4096, 128, 8)"},
    {0, "hidden", "N", &weiri_option_int, AT(hidden), 1, 1 << 24, "1024", .flags = SAME,
     .help = "elements of a row, a multiple of 16 bytes"},
    {0, "experts", "N", &weiri_option_int, AT(experts), 1, 65536, "0", .flags = SAME | EXPLAINED,
     .help =
         "experts on all ranks of a group together, a multiple of its number of ranks (default: "
         "4 for each rank)"},
    {0, "topk", "N", &weiri_option_int, AT(topk), 1, WEIR_MOE_TOPK_MAX, "2", .flags = SAME,
     .help = "choices of each token, 1 to 16"},
    {0, "routing", "WORD[:VALUE]", &type_routing, 0, .initial = "uniform",
     .flags = SAME | EXPLAINED,
     .help = "which experts tokens choose. uniform; zipf:A, expert e with a probability in "
             "proportion to 1/(e+1)^A; hot, the first choice is expert 0; empty, every second rank "
             "has no tokens; masked:P, each choice is masked with probability P; ragged, ranks "
             "have different numbers of tokens; trace:FILE, the experts of a token in each line "
             "(default: uniform). Three routings alternate"},
    {0, "layout", "expert|rank|flat", &weiri_option_words, AT(layout), .initial = "expert",
     .flags = SAME, .help = "layout of received rows"},
    {0, "alignment", "N", &weiri_option_int, AT(alignment), 1, 65536, "1", .flags = SAME,
     .help = "layout expert: each expert's rows begin at a multiple of N rows"},
    {'d', "datatype", "TYPE", &type_dtype, 0, .initial = "bfloat16", .flags = SAME,
     .help = "bfloat16, half or float"},
    {0, "dispatch-dtype", "same|fp8", &weiri_option_words, AT(fp8), .initial = "same",
     .flags = SAME,
     .help = "type of received rows; fp8: f8e4m3 with a scale for each 128 elements"},
    {0, "chain", "N", &weiri_option_int, AT(chain), 0, 10000, "8", .flags = SAME | EXPLAINED,
     .help = "also time chains of N dispatches and combines back to back, without a barrier in "
             "between (default: 8; 0: none)"},
    {'G', "cudagraph", "0|1", &type_graph, AT(common.graph), 0, 1, "0", .flags = SAME,
     .help = "GPUs: 1: each timed call or chain is a replay of a captured CUDA graph, with "
             "different routing and data. -n is the number of replays"},
    {0, "buffers", "registered|unregistered", &weiri_option_words, AT(common.buffers),
     .initial = "registered", .recorded = "weir|plain", .flags = SAME | EXPLAINED,
     .help = "registered: memory of the library, which peers read; unregistered: malloc'd "
             "memory (default: registered; aliases: weir, plain)"},
    {0, "peer", "mpi|nccl-ep[:PATH]", &type_peer, 0, .flags = SAME,
     .help = "also measure MPI_Alltoallv with rows packed and unpacked by hand, on the host; or, "
             "on GPUs, NCCL EP in its low-latency mode, from the library PATH, else libnccl_ep.so"},
    BENCH_ROW_ITERS(COMMON),
    {'w', "warmup_iters", "N", &weiri_option_int, AT(common.warmups), 0, INT_MAX, "3",
     .flags = SAME, .help = "untimed iterations before the timed ones"},
    BENCH_ROW_NGPUS(COMMON),
    BENCH_ROW_TIMEOUT(COMMON),
    {0, "min-bw", "GB/S", &weiri_option_decimal, AT(common.floor_gbs),
     .given = AT(common.floor_given),
     .help = "end with PASS, or with FAIL and exit code 1, if the average bus bandwidth is "
             "below this floor (default: 90% of NCCL_TESTS_MIN_BW, if it is set)"},
    BENCH_ROW_CSV(COMMON),
    BENCH_ROW_SPLIT(COMMON),
    {0, "ceiling", "FILE", &weiri_option_text, AT(common.ceiling_path),
     .help = "compare results with the links that weir-topo --measure FILE recorded"},
    {0, "seed", "N", &weiri_option_whole, AT(common.seed), 0, LONG_MAX, "1", .flags = SAME,
     .help = "seed of data and routings"},
    {0, "inject", "list|FAULT[:RANK]|slow:PERCENT|slow-rank:RANK:PERCENT", &type_inject, 0,
     .flags = SAME,
     .help =
         "inject a fault into the second timed dispatch and combine of each number of tokens, on "
         "RANK, else on the lowest rank that has a place for it; exit code 2 if it changed "
         "nothing; "
         "list: print the faults; slow: on the host, make weir slower, on all ranks or on one"},
    {0, "backend", "auto|host|cuda", &weiri_option_words, AT(common.backend), .initial = "auto",
     .flags = SAME | EXPLAINED,
     .help = "memory of the buffers; auto: GPUs if all ranks have one (default: auto)"},
    {0, "sms", "N", &weiri_option_int, AT(max_blocks), 0, 1 << 16, "0", .flags = SAME | EXPLAINED,
     .help = "GPUs: largest number of thread blocks in a kernel (default: 0, two for each "
             "multiprocessor)"},
    {0, "tune", "FILE", &type_tune, 0,
     .help = "refused: dispatch and combine have one algorithm each"},
    {0, "quiet", NULL, &weiri_option_flags, AT(common.quiet),
     .help = "accepted for other benchmarks' command lines; no effect"},
    BENCH_ROW_VERSION(COMMON),
    BENCH_ROW_HELP(COMMON),
};

const weiri_options bench_moe_options_table = {rows, sizeof rows / sizeof rows[0]};

/* ------------------------------------------------------------------- parsing */

static int check_together(const bench_moe_options *o, char *problem)
{
    const weir_dtype dtype = (weir_dtype)o->common.dtype;
    const size_t bytes = (size_t)o->hidden * weir_dtype_bytes(dtype);
    if (bytes % 16)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--hidden %d: %zu bytes of %s; a row must be a multiple of 16 bytes", o->hidden,
                 bytes, weir_dtype_name(dtype));
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

weir_status bench_moe_options_parse(int argc, char **argv, bench_moe_options *o, char *problem)
{
    *o = (bench_moe_options){.common = {.nthreads = 1,
                                        .aggregate = 1,
                                        .cycles = 1,
                                        .checks = 1,
                                        .verify = BENCH_VERIFY_EXACT,
                                        .dist = "",
                                        .algo = "auto"}};
    weiri_options_set_defaults(&bench_moe_options_table, o);
    weir_status status = weiri_options_take_all(&bench_moe_options_table, argc, argv, o);
    if (status != WEIR_OK) {
        snprintf(problem, BENCH_PROBLEM_BYTES, "%s", weir_last_error());
        return status;
    }
    if (o->common.action != BENCH_ACTION_RUN)
        return WEIR_OK;
    const int failed = bench_split_of_options(&o->common, problem) != 0 ||
                       bench_floor_of_environment(&o->common, problem) != 0 ||
                       check_together(o, problem) != 0;
    return failed ? WEIR_ERR_INVALID : WEIR_OK;
}

void bench_moe_options_help(FILE *to)
{
    fprintf(to,
            "usage: [mpirun -np RANKS] bench_moe [options]\n\n"
            "Measures and verifies dispatch and combine of mixture-of-experts layers. Its ranks\n"
            "are started by a launcher (mpirun, srun, torchrun, PMIx) or by the program itself\n"
            "(-g).\n\n");
    weiri_options_print(&bench_moe_options_table, to);
    fprintf(to, "\nExit codes: 0 all passed, 1 wrong data or a missed floor, 2 usage, 3 system or\n"
                "environment, 4 a deadline passed.\n");
}
