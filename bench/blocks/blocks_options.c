/* The option table of bench_blocks, its parser, and the engines' layouts. */
#include "bench/blocks/blocks_options.h"

#include "bench/options/option_values.h"
#include "bench/options/rows.h"
#include "programs/numbers.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

/* Layouts as these versions allocate them, with the sizes of Llama 3 8B and DeepSeek V3. */
static const blocks_engine engines[] = {
    {"vllm", "0.11, FlashAttention", 16, 32, 8, 128, 2, 1, 0},
    {"vllm-flashinfer", "0.11, FlashInfer", 16, 32, 8, 128, 2, 0, 0},
    {"vllm-mla", "0.11, MLA", 64, 61, 1, 576, 1, 0, 0},
    {"sglang", "0.5", 1, 32, 8, 128, 2, 1, 1},
    {"sglang-mla", "0.5, MLA", 64, 61, 1, 576, 1, 0, 0},
};
enum { ENGINES = sizeof engines / sizeof *engines };
#define ENGINE_NAMES "vllm|vllm-flashinfer|vllm-mla|sglang|sglang-mla"

static const char *const peer_names[BLOCKS_KINDS] = {[BLOCKS_MEMCPY] = "memcpy",
                                                     [BLOCKS_READV] = "readv",
                                                     [BLOCKS_MPI] = "mpi",
                                                     [BLOCKS_SOCKET] = "socket"};

const char *blocks_fault_name(int fault)
{
    static const char *const names[BLOCKS_FAULTS] = {"", "lost-block", "swapped-pair", "extra-page",
                                                     "early-tag"};
    return names[fault];
}

static int pages_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    blocks_options *o = settings;
    char copy[256], *rest = copy, *word;
    long long number = 0;
    int is_list = strlen(text) < sizeof copy;
    (void)option;
    o->npages = 0;
    snprintf(copy, sizeof copy, "%s", text);
    while (is_list && (word = strsep(&rest, ","))) {
        is_list = o->npages < BLOCKS_POINTS_MAX && weiri_whole_read(word, 1, 1 << 24, &number) == 0;
        if (is_list)
            o->pages[o->npages++] = (int)number;
    }
    return is_list ? 0
                   : weiri_expect(expected, "up to 32 numbers from 1 to 16777216, separated by "
                                            "commas, such as 1,16,128");
}

static void pages_write(const weiri_option *option, const void *settings, FILE *to)
{
    const blocks_options *o = settings;
    (void)option;
    for (int i = 0; i < o->npages; i++)
        fprintf(to, "%s%d", i ? "," : "", o->pages[i]);
}

static int engine_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    (void)option;
    for (int i = 0; i < ENGINES; i++)
        if (!strcmp(text, engines[i].name)) {
            ((blocks_options *)settings)->engine = engines[i];
            return 0;
        }
    return weiri_expect(expected, ENGINE_NAMES);
}

static void engine_write(const weiri_option *option, const void *settings, FILE *to)
{
    (void)option;
    fputs(((const blocks_options *)settings)->engine.name, to);
}

static int peer_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    blocks_options *o = settings;
    (void)option;
    for (int i = BLOCKS_MEMCPY; i < BLOCKS_KINDS; i++)
        if (!strcmp(text, peer_names[i])) {
            o->has_peer[i] = 1;
            if (i == BLOCKS_MPI)
                o->common.peers[o->common.npeers++] =
                    (bench_peer){text, NULL, BENCH_PEER_MPI, BENCH_PEER_NEEDS_MPI, 0};
            o->common.npeers = o->has_peer[BLOCKS_MPI]; /* MPI may be named twice */
            return 0;
        }
    return weiri_expect(expected, "memcpy, readv, mpi or socket");
}

static void peer_write(const weiri_option *option, const void *settings, FILE *to)
{
    (void)option;
    for (int i = BLOCKS_MEMCPY; i < BLOCKS_KINDS; i++)
        if (((const blocks_options *)settings)->has_peer[i])
            fprintf(to, "%s ", peer_names[i]);
}

static int inject_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    blocks_options *o = settings;
    if (!strncmp(text, "slow", 4))
        return bench_option_inject.read(option, text, settings, expected);
    if (!strcmp(text, "list"))
        o->common.action = BENCH_ACTION_LIST_FAULTS;
    for (int i = 1; i < BLOCKS_FAULTS; i++)
        if (!strcmp(text, blocks_fault_name(i)))
            o->fault = i;
    if (o->common.action == BENCH_ACTION_LIST_FAULTS || o->fault)
        return 0;
    return weiri_expect(expected, "list, a fault of --inject list, slow:PERCENT or "
                                  "slow-rank:RANK:PERCENT");
}

static void inject_write(const weiri_option *option, const void *settings, FILE *to)
{
    const blocks_options *o = settings;
    bench_option_inject.write(option, settings, to);
    if (o->fault)
        fprintf(to, "%s%s", o->common.inject_slow ? " --inject " : "", blocks_fault_name(o->fault));
}

static const weiri_option_type type_pages = {pages_read, pages_write, NULL},
                               type_engine = {engine_read, engine_write, NULL},
                               type_peer = {peer_read, peer_write, NULL},
                               type_inject = {inject_read, inject_write, NULL};

enum { SAME = WEIRI_OPTION_SAME, EXPLAINED = WEIRI_OPTION_EXPLAINED };

#define AT(member) offsetof(blocks_options, member)
#define COMMON(member) AT(common.member)

static const weiri_option rows[] = {
    {0, "pages", "N[,...]", &type_pages, 0, .initial = "1,16", .flags = SAME,
     .help = "pages that each decode rank receives; the table has rows for each number"},
    {0, "engine", ENGINE_NAMES, &type_engine, 0, .initial = "vllm", .flags = SAME,
     .help = "the engine that defines the cache's layout: vLLM 0.11 with FlashAttention (keys and "
             "values in different blocks), FlashInfer (in one block) or MLA; SGLang 0.5, pages of "
             "one token, or MLA"},
    {0, "page-tokens", "N", &weiri_option_int, AT(page_tokens), 1, 1 << 16,
     .flags = SAME | EXPLAINED, .help = "tokens of a page (default: the engine's)"},
    {0, "layers", "N", &weiri_option_int, AT(layers), 1, 1 << 16, .flags = SAME | EXPLAINED,
     .help = "layers (default: 32; MLA: 61)"},
    {0, "heads", "N", &weiri_option_int, AT(heads), 1, 1 << 16, .flags = SAME | EXPLAINED,
     .help = "heads of keys and values (default: 8; MLA: 1)"},
    {0, "head-size", "N", &weiri_option_int, AT(head_size), 4, 1 << 16, .flags = SAME | EXPLAINED,
     .help = "elements (2 bytes each) of a head, a multiple of 4 (default: 128; MLA: 576)"},
    {0, "order", "random|sorted", &weiri_option_words, AT(is_sorted), .initial = "random",
     .flags = SAME, .help = "which pages a request has, on both sides"},
    {0, "direction", "one|both", &weiri_option_words, AT(is_both), .initial = "one", .flags = SAME,
     .help = "both: decode ranks also send as many pages to each prefill rank"},
    {0, "prefill", "N", &weiri_option_int, AT(prefill), 1, WEIR_RANKS_MAX, "1", .flags = SAME,
     .help = "ranks 0 to N-1 of a group are prefill ranks, the others decode ranks; a request's "
             "pages come from all prefill ranks in turn"},
    {0, "buffers", "registered|unregistered", &weiri_option_words, AT(common.buffers),
     .initial = "registered", .recorded = "weir|plain", .flags = SAME | EXPLAINED,
     .help = "registered: memory of the library, which peers map; unregistered: malloc'd memory "
             "(default: registered; aliases: weir, plain)"},
    {0, "peer", "memcpy|readv|mpi|socket", &type_peer, 0, .flags = SAME,
     .help = "also measure memcpy of each block within a rank, process_vm_readv, MPI's derived "
             "types, or a socket over loopback that moves as many bytes but no pages; may be given "
             "several times"},
    BENCH_ROW_ITERS(COMMON),
    {'w', "warmup_iters", "N", &weiri_option_int, AT(common.warmups), 1, INT_MAX, "2",
     .flags = SAME, .help = "untimed iterations before the timed ones"},
    BENCH_ROW_NGPUS(COMMON),
    BENCH_ROW_TIMEOUT(COMMON),
    BENCH_ROW_CSV(COMMON),
    BENCH_ROW_SPLIT(COMMON),
    {0, "seed", "N", &weiri_option_whole, AT(common.seed), 0, LONG_MAX, "1", .flags = SAME,
     .help = "seed of random pages"},
    {0, "inject", "list|FAULT|slow:PERCENT|slow-rank:RANK:PERCENT", &type_inject, 0, .flags = SAME,
     .help =
         "inject a fault into weir's second timed iteration; exit code 2 if it changed nothing; "
         "early-tag affects only put; list: print the faults; slow: make weir slower, on all ranks "
         "or on one"},
    BENCH_ROW_VERSION(COMMON),
    BENCH_ROW_HELP(COMMON),
};

const weiri_options blocks_options_table = {rows, sizeof rows / sizeof rows[0]};

weir_status blocks_options_parse(int argc, char **argv, blocks_options *o, char *problem)
{
    *o = (blocks_options){.common = {.nthreads = 1,
                                     .aggregate = 1,
                                     .cycles = 1,
                                     .checks = 1,
                                     .verify = BENCH_VERIFY_EXACT,
                                     .backend = BENCH_BACKEND_HOST,
                                     .dist = "",
                                     .algo = "auto"}};
    weiri_options_set_defaults(&blocks_options_table, o);
    weir_status status = weiri_options_take_all(&blocks_options_table, argc, argv, o);
    if (status != WEIR_OK) {
        snprintf(problem, BENCH_PROBLEM_BYTES, "%s", weir_last_error());
        return status;
    }
    o->engine.page_tokens = o->page_tokens ? o->page_tokens : o->engine.page_tokens;
    o->engine.layers = o->layers ? o->layers : o->engine.layers;
    o->engine.heads = o->heads ? o->heads : o->engine.heads;
    o->engine.head_size = o->head_size ? o->head_size : o->engine.head_size;
    if (o->common.action == BENCH_ACTION_RUN && bench_split_of_options(&o->common, problem) != 0)
        return WEIR_ERR_INVALID;
    if (o->engine.head_size % 4 == 0)
        return WEIR_OK;
    snprintf(problem, BENCH_PROBLEM_BYTES, "--head-size %d: use a multiple of 4",
             o->engine.head_size);
    return WEIR_ERR_INVALID;
}

void blocks_options_help(FILE *to)
{
    fprintf(to, "usage: [mpirun -np RANKS] bench_blocks [options]\n\n"
                "Measures and verifies transfers of the pages of KV caches, in host memory.\n"
                "Its ranks are started by a launcher (mpirun, srun, torchrun, PMIx) or by\n"
                "the program itself (-g).\n\n");
    weiri_options_print(&blocks_options_table, to);
    fprintf(to, "\nExit codes: 0 all passed, 1 wrong data, 2 usage, 3 system or environment, 4 a\n"
                "deadline passed.\n");
}
