/* Types of options that only benchmarks have: see option_values.h. */
#include "bench/options/option_values.h"

#include "bench/options/faults.h"
#include "bench/options/peers.h"
#include "programs/numbers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int *int_of(const weiri_option *option, void *settings)
{
    return (int *)(void *)((char *)settings + option->offset);
}

static int int_at(const weiri_option *option, const void *settings)
{
    return *(const int *)(const void *)((const char *)settings + option->offset);
}

/* ------------------------------------------------- types, operations, roots */

/* Stores what a name stands for, if it could be parsed, or BENCH_ALL. */
static int name_read(const weiri_option *option, const char *text, weir_status parsed, int value,
                     const char *what, void *settings, char *expected)
{
    const int is_all = strcmp(text, "all") == 0;
    if (!is_all && parsed != WEIR_OK)
        return weiri_expect(expected, "all or %s (%s)", what, weir_last_error());
    *int_of(option, settings) = is_all ? BENCH_ALL : value;
    return 0;
}

static int dtype_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    weir_dtype dtype = WEIR_FLOAT;
    const weir_status parsed = weir_dtype_parse(text, &dtype);
    return name_read(option, text, parsed, (int)dtype, "a type", settings, expected);
}

static void dtype_write(const weiri_option *option, const void *settings, FILE *to)
{
    const int dtype = int_at(option, settings);
    fputs(dtype == BENCH_ALL ? "all" : weir_dtype_name((weir_dtype)dtype), to);
}

static int op_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    weir_op op = WEIR_SUM;
    const weir_status parsed = weir_op_parse(text, &op);
    return name_read(option, text, parsed, (int)op, "an operation", settings, expected);
}

static void op_write(const weiri_option *option, const void *settings, FILE *to)
{
    const int op = int_at(option, settings);
    fputs(op == BENCH_ALL ? "all" : weir_op_name((weir_op)op), to);
}

static int root_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    if (strcmp(text, "all") != 0)
        return weiri_option_int.read(option, text, settings, expected);
    *int_of(option, settings) = BENCH_ALL;
    return 0;
}

const weiri_option_type bench_option_dtype = {dtype_read, dtype_write, NULL};
const weiri_option_type bench_option_op = {op_read, op_write, NULL};
const weiri_option_type bench_option_root = {root_read, weiri_int_write, weiri_int_put};

static int duration_read(const weiri_option *option, const char *text, void *settings,
                         char *expected)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
    char *end;
    const double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && number > 0 && number <= 1e6 && strcmp(end, units[i].unit) == 0) {
            *(double *)(void *)((char *)settings + option->offset) = number * units[i].seconds;
            return 0;
        }
    return weiri_expect(expected, "a time such as 90s, 10m or 8h");
}

static void duration_write(const weiri_option *option, const void *settings, FILE *to)
{
    const double s = *(const double *)(const void *)((const char *)settings + option->offset);
    if (s > 0)
        fprintf(to, "%gs", s);
}

const weiri_option_type bench_option_duration = {duration_read, duration_write, NULL};

int bench_buffers_find(const char *text)
{
    static const char *const words[][2] = {[BENCH_BUFFERS_WEIR] = {"registered", "weir"},
                                           [BENCH_BUFFERS_PLAIN] = {"unregistered", "plain"}};
    for (int kind = BENCH_BUFFERS_WEIR; kind <= BENCH_BUFFERS_PLAIN; kind++)
        for (int i = 0; i < 2; i++)
            if (strcmp(text, words[kind][i]) == 0)
                return kind;
    return -1;
}

/* --------------------------------------------------------------------- peers */

static bench_options *options_of(const weiri_option *option, void *settings)
{
    return (bench_options *)(void *)((char *)settings + option->offset);
}

static const bench_options *options_at(const weiri_option *option, const void *settings)
{
    return (const bench_options *)(const void *)((const char *)settings + option->offset);
}

static int peer_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    bench_options *options = options_of(option, settings);
    if (!*text || options->npeers == BENCH_PEERS_MAX)
        return weiri_expect(expected, "a peer's name, at most %d times", BENCH_PEERS_MAX);
    options->peers[options->npeers++] = bench_peer_of(text);
    return 0;
}

static void peer_write(const weiri_option *option, const void *settings, FILE *to)
{
    const bench_options *options = options_at(option, settings);
    for (int i = 0; i < options->npeers; i++)
        fprintf(to, "%s%s", i ? " --peer " : "", options->peers[i].text);
}

static void peer_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    const bench_options *options = options_at(option, settings);
    weiri_json_put_list(json, option->manifest);
    for (int i = 0; i < options->npeers; i++)
        weiri_json_add_text(json, options->peers[i].text);
    weiri_json_close_list(json);
}

const weiri_option_type bench_option_peer = {peer_read, peer_write, peer_put};

/* ---------------------------------------------------------------------- --with */

/* Collectives that every rank calls with one count. */
static int with_find(const char *word, size_t length, weir_collective *collective)
{
    for (int i = 0; i < WEIR_COLL_ALLTOALLV; i++) {
        const char *name = weir_collective_name((weir_collective)i);
        if (strlen(name) == length && strncmp(name, word, length) == 0) {
            *collective = (weir_collective)i;
            return 0;
        }
    }
    return -1;
}

/* "alltoall 16M group=mod:2" */
static int with_take(const char *text, bench_with *with)
{
    static const char group[] = "group=";
    char size[24] = "";
    const size_t length = strcspn(text, " ");
    const char *at = text + length + strspn(text + length, " ");
    const size_t digits = strcspn(at, " ");
    *with = (bench_with){.text = text};
    if (with_find(text, length, &with->collective) != 0 || digits >= sizeof size)
        return -1;
    memcpy(size, at, digits);
    at += digits + strspn(at + digits, " ");
    if (weiri_bytes_read(size, &with->bytes) != 0 || with->bytes == 0)
        return -1;
    if (strncmp(at, group, sizeof group - 1) == 0)
        return bench_split_read(at + sizeof group - 1, &with->split);
    return *at ? -1 : 0;
}

static int with_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    bench_options *options = options_of(option, settings);
    if (options->nrivals == BENCH_WITH_MAX ||
        (options->nrivals && options->rivals[0].computes != BENCH_COMPUTE_NONE) ||
        with_take(text, &options->rivals[options->nrivals]) != 0)
        return weiri_expect(expected,
                            "at most %d times a collective (allreduce, allgather, reduce_scatter, "
                            "broadcast, reduce or alltoall), a size, and group=RULE if wanted (see "
                            "--split), such as \"alltoall 16M group=mod:2\"",
                            BENCH_WITH_MAX);
    options->nrivals++;
    return 0;
}

/* The options --with (computes is 0) and --beside share a list. */
static void rivals_write(const bench_options *options, int computes, const char *name, FILE *to)
{
    const char *before = "";
    for (int i = 0; i < options->nrivals; i++)
        if ((options->rivals[i].computes != BENCH_COMPUTE_NONE) == computes) {
            fprintf(to, "%s%s", before, options->rivals[i].text);
            before = name;
        }
}

static void rivals_put(const weiri_option *option, const bench_options *options, int computes,
                       weiri_json_writer *json)
{
    weiri_json_put_list(json, option->manifest);
    for (int i = 0; i < options->nrivals; i++)
        if ((options->rivals[i].computes != BENCH_COMPUTE_NONE) == computes)
            weiri_json_add_text(json, options->rivals[i].text);
    weiri_json_close_list(json);
}

static void with_write(const weiri_option *option, const void *settings, FILE *to)
{
    rivals_write(options_at(option, settings), 0, " --with ", to);
}

static void with_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    rivals_put(option, options_at(option, settings), 0, json);
}

const weiri_option_type bench_option_with = {with_read, with_write, with_put};

/* -------------------------------------------------------------------- --beside */

/* "8192x3584x8192:bfloat16" */
static int beside_take_gemm(const char *text, bench_with *with)
{
    char type[16] = "float";
    const size_t most = (size_t)1 << 20;
    int length = 0;
    if (sscanf(text, "%zux%zux%zu%n", &with->m, &with->n, &with->k, &length) != 3 ||
        (text[length] && sscanf(text + length, ":%15s", type) != 1) ||
        weir_dtype_parse(type, &with->dtype) != WEIR_OK)
        return -1;
    const int is_known =
        with->dtype == WEIR_FLOAT || with->dtype == WEIR_HALF || with->dtype == WEIR_BFLOAT16;
    return is_known && with->m && with->n && with->k && with->m <= most && with->n <= most &&
                   with->k <= most
               ? 0
               : -1;
}

static int beside_take(const char *text, bench_with *with)
{
    double gb = 0;
    *with = (bench_with){.text = text, .dtype = WEIR_FLOAT};
    if (strcmp(text, "flops") == 0) {
        with->computes = BENCH_COMPUTE_FLOPS;
        return 0;
    }
    if (strncmp(text, "gemm:", 5) == 0) {
        with->computes = BENCH_COMPUTE_GEMM;
        return beside_take_gemm(text + 5, with);
    }
    with->computes = BENCH_COMPUTE_STREAM;
    if (strncmp(text, "stream:", 7) != 0 || weiri_decimal_read(text + 7, &gb) != 0 ||
        !(gb >= 1e-6 && gb <= 64))
        return -1;
    with->bytes = (size_t)(gb * 1e9);
    return 0;
}

static int beside_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    bench_options *options = options_of(option, settings);
    if (options->nrivals || beside_take(text, &options->rivals[0]) != 0)
        return weiri_expect(expected,
                            "once, without --with, gemm:MxNxK with :float, :half or :bfloat16 if "
                            "wanted, stream:GB (up to 64), or flops");
    options->nrivals = 1;
    return 0;
}

static void beside_write(const weiri_option *option, const void *settings, FILE *to)
{
    rivals_write(options_at(option, settings), 1, " --beside ", to);
}

static void beside_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    rivals_put(option, options_at(option, settings), 1, json);
}

const weiri_option_type bench_option_beside = {beside_read, beside_write, beside_put};

/* --------------------------------------------------------------------- floor */

int bench_floor_read(const char *text, bench_options *options, char *expected)
{
    if (weiri_decimal_read(text, &options->floor_gbs) != 0)
        return weiri_expect(expected, "a bandwidth in GB/s such as 350 or 12.5");
    options->floor_given = 1;
    return 0;
}

int bench_floor_of_environment(bench_options *options, char *problem)
{
    static const double share = 0.9; /* nccl-tests tolerates 10% */
    const char *text = getenv("NCCL_TESTS_MIN_BW");
    if (options->floor_given)
        options->floor_name = "--min-bw";
    if (options->floor_name || !text || !*text || *text == '-') /* negative: no floor */
        return 0;
    if (weiri_decimal_read(text, &options->floor_gbs) != 0)
        return bench_refuse(
            problem, "NCCL_TESTS_MIN_BW=%.100s: expected a bandwidth in GB/s such as 350", text);
    options->floor_gbs *= share;
    options->floor_name = "90% of NCCL_TESTS_MIN_BW";
    return 0;
}

/* -------------------------------------------------------------------- groups */

/* nccl-tests prefers the mask, and takes what it cannot read for no rule. */
int bench_split_of_options(bench_options *options, char *problem)
{
    static const char *const names[] = {"NCCL_TESTS_SPLIT_MASK", "NCCL_TESTS_SPLIT"};
    options->split_from = "--split";
    if (options->split_text && bench_split_read(options->split_text, &options->split) != 0)
        return bench_refuse(problem, "--split %s: expected %s", options->split_text,
                            BENCH_SPLIT_WORDS);
    for (int i = 0; i < 2 && !options->split_text; i++) {
        const char *text = getenv(names[i]);
        if (!text || !*text)
            continue;
        if ((i == 0 ? bench_split_read_mask : bench_split_read)(text, &options->split) != 0)
            return bench_refuse(problem, "%s=%.100s: expected %s", names[i], text,
                                i == 0 ? "a hexadecimal number such as 0x7" : BENCH_SPLIT_WORDS);
        options->split_text = text;
        options->split_from = names[i];
    }
    bench_split_name(&options->split, options->split_name, sizeof options->split_name);
    options->split_text = *options->split_name ? options->split_name : NULL;
    return 0;
}

/* -------------------------------------------------------------------- faults */

/* A share in percent, with or without the sign. */
static int inject_read_share(const char *text, bench_options *options, char *expected)
{
    enum { LEAST = 1, MOST = 1000 };
    char number[8] = "";
    long long share;
    const size_t length = strcspn(text, "%");
    if (length < sizeof number && (!text[length] || !text[length + 1]))
        memcpy(number, text, length);
    if (weiri_whole_read(number, LEAST, MOST, &share) != 0)
        return weiri_expect(expected,
                            "slow: and a share from %d to %d percent, such as slow:20; for one "
                            "rank such as rank 3, slow-rank:3:20",
                            LEAST, MOST);
    options->inject_slow = (int)share;
    return 0;
}

/* --inject slow:PERCENT and slow-rank:RANK:PERCENT, which change times and no data. Returns 1 if
 * the text is another fault. */
static int inject_read_slow(const char *text, bench_options *options, char *expected)
{
    static const char of_all[] = "slow:", of_one[] = "slow-rank:";
    char number[12] = "";
    long long rank = -1;
    if (strncmp(text, of_all, sizeof of_all - 1) == 0)
        return inject_read_share(text + sizeof of_all - 1, options, expected);
    if (strncmp(text, of_one, sizeof of_one - 1) != 0)
        return 1;
    text += sizeof of_one - 1;
    const size_t length = strcspn(text, ":");
    if (length < sizeof number && text[length])
        memcpy(number, text, length);
    if (weiri_whole_read(number, 0, INT_MAX - 1, &rank) != 0)
        return weiri_expect(expected, "slow-rank:RANK:PERCENT, such as slow-rank:3:20");
    options->inject_slow_rank = (int)rank + 1;
    return inject_read_share(text + length + 1, options, expected);
}

static int inject_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    bench_options *options = options_of(option, settings);
    char name[32] = "";
    const size_t length = strcspn(text, "@");
    const int slow = inject_read_slow(text, options, expected);
    if (slow != 1)
        return slow;
    const int has_time = strcmp(text + length, "@timed") == 0;
    if (length < sizeof name && (has_time || !text[length]))
        memcpy(name, text, length);
    options->inject = bench_fault_parse(name);
    options->inject_timed = has_time;
    if (has_time && !bench_fault_has_time((bench_fault)options->inject))
        options->inject = BENCH_FAULT_NONE;
    if (strcmp(text, "list") == 0)
        options->action = BENCH_ACTION_LIST_FAULTS;
    else if (options->inject == BENCH_FAULT_NONE)
        return weiri_expect(expected, "slow:PERCENT, slow-rank:RANK:PERCENT, or a fault that "
                                      "--inject list prints; with @timed one of the "
                                      "output that exact data show");
    return 0;
}

static void inject_write(const weiri_option *option, const void *settings, FILE *to)
{
    const bench_options *options = options_at(option, settings);
    if (options->inject)
        fprintf(to, "%s%s", bench_fault_name((bench_fault)options->inject),
                options->inject_timed ? "@timed" : "");
    if (!options->inject_slow)
        return;
    fprintf(to, "%s", options->inject ? " --inject " : "");
    if (options->inject_slow_rank)
        fprintf(to, "slow-rank:%d:", options->inject_slow_rank - 1);
    else
        fprintf(to, "slow:");
    fprintf(to, "%d", options->inject_slow);
}

static void inject_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    const bench_options *options = options_at(option, settings);
    if (options->inject_slow)
        weiri_json_put_whole(json, option->manifest, options->inject_slow);
    if (options->inject_slow_rank)
        weiri_json_put_whole(json, "inject_slow_rank", options->inject_slow_rank - 1);
}

const weiri_option_type bench_option_inject = {inject_read, inject_write, inject_put};
