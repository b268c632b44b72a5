/* Rules between options, and defaults that depend on other options: see parse.h. */
#include "bench/options/parse.h"

#include "bench/candidate/nccl_tuner.h"
#include "bench/gpu/gpu.h"
#include "bench/options/algo_words.h"
#include "bench/options/faults.h"
#include "bench/options/paths.h"
#include "bench/options/peers.h"
#include "bench/sizes/dist.h"
#include "bench/sizes/pattern.h"
#include "bench/sizes/shape.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int bench_refuse(char *problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, BENCH_PROBLEM_BYTES, format, arguments);
    va_end(arguments);
    return -1;
}

static void default_sizes(bench_options *options)
{
    const size_t usual = (size_t)32 << 20;
    if (!options->min_given && !options->max_given) {
        options->min_bytes = 8;
        options->max_bytes = (size_t)16 << 20;
        if (!options->step_given)
            options->step_factor = 4;
        return;
    }
    if (!options->min_given)
        options->min_bytes = options->max_bytes < usual ? options->max_bytes : usual;
    if (!options->max_given)
        options->max_bytes = options->min_bytes > usual ? options->min_bytes : usual;
}

static int check_sizes(const bench_options *options, char *problem)
{
    if (options->min_bytes > options->max_bytes)
        return bench_refuse(problem, "-b %zu is above -e %zu (bytes): give -b no larger than -e",
                            options->min_bytes, options->max_bytes);
    if (options->dtype == BENCH_ALL)
        return 0;
    size_t element_bytes = weir_dtype_bytes((weir_dtype)options->dtype);
    if (options->min_bytes && options->min_bytes < element_bytes)
        return bench_refuse(problem,
                            "-b %zu is below one element: %s has %zu bytes, give -b %zu or more",
                            options->min_bytes, weir_dtype_name((weir_dtype)options->dtype),
                            element_bytes, element_bytes);
    return 0;
}

/* --inject and --determinism need some of the checks. */
static int check_verification(const bench_options *options, char *problem)
{
    if (options->determinism && !bench_options_verifies(options))
        return bench_refuse(problem,
                            "--determinism needs the checks that -c 0 and --verify off leave out");
    if (options->inject && !bench_options_verifies(options))
        return bench_refuse(problem,
                            "--inject needs the checks that -c 0 and --verify off leave out");
    bench_fault_run run = bench_fault_planted_in((bench_fault)options->inject);
    if (run == BENCH_RUN_REPEATED && !options->determinism)
        return bench_refuse(problem, "--inject %s needs --determinism, which repeats calls",
                            bench_fault_name((bench_fault)options->inject));
    if (run == BENCH_RUN_SPECIAL && !(bench_options_oracles(options) & BENCH_ORACLE_EXACT))
        return bench_refuse(problem,
                            "--inject %s needs --verify exact or both, which try special values",
                            bench_fault_name((bench_fault)options->inject));
    if (options->inject_timed && !(bench_options_oracles(options) & BENCH_ORACLE_EXACT))
        return bench_refuse(problem, "--inject with @timed needs --verify exact or both");
    return 0;
}

static int check_iterations(const bench_options *options, char *problem)
{
    if (options->nthreads != 1)
        return bench_refuse(problem,
                            "-t %d: a process has one thread; start %d times as "
                            "many ranks with -g or mpirun -np instead",
                            options->nthreads, options->nthreads);
    if (options->until > 0 && options->iterations)
        return bench_refuse(problem,
                            "-n %d and --until: one fixes the number of iterations, the other "
                            "finds it; give one of them",
                            options->iterations);
    if (options->blocking % 2 && options->mode == BENCH_MODE_LATENCY)
        return bench_refuse(problem,
                            "-z %d and --mode latency: both set where ranks synchronise; give one",
                            options->blocking);
    if (options->for_s > 0 &&
        (options->min_bytes != options->max_bytes || options->cycles != 1 ||
         options->dtype == BENCH_ALL || options->op == BENCH_ALL || options->root == BENCH_ALL))
        return bench_refuse(problem, "--for repeats one row: give equal -b and -e, one type, "
                                     "operation and root, and no -N");
    if (options->window_given && !options->for_s)
        return bench_refuse(problem, "--window needs --for, which it divides");
    if (options->skip && !options->per_iteration)
        return bench_refuse(problem, "-K %d needs -I 1, whose columns it shortens", options->skip);
    if (options->skip && options->iterations && options->skip >= options->iterations)
        return bench_refuse(problem, "-K %d leaves none of -n %d iterations: give -K below -n",
                            options->skip, options->iterations);
    return 0;
}

static int check_algo(const bench_options *options, weir_collective collective, char *problem)
{
    char bad[BENCH_PROBLEM_BYTES - 16];
    if (options->tune_path && !options->plan && strcmp(options->algo, "auto") != 0)
        return bench_refuse(problem, "--tune tries every algorithm: leave --algo %s out",
                            options->algo);
    if (options->tune_path && (options->dtype == BENCH_ALL || options->op == BENCH_ALL))
        return bench_refuse(problem,
                            "--tune: a tuning table applies to all types and operations; give "
                            "one type and one operation");
    if (bench_options_plan_only(options))
        return 0;
    if (bench_algos_check(options, bench_collective_call(collective), bad, sizeof bad) == 0)
        return 0;
    return bench_refuse(problem, "--algo %s", bad);
}

static int check_peers(const bench_options *options, char *problem)
{
    for (int i = 0; i < options->npeers; i++)
        for (int j = 0; j < i; j++)
            if (bench_peer_is_same(&options->peers[i], &options->peers[j]))
                return bench_refuse(problem,
                                    "--peer %s and --peer %s have rows of the same name; leave "
                                    "one out",
                                    options->peers[j].text, options->peers[i].text);
    return 0;
}

static int check_build(const bench_options *options, char *problem)
{
    if (options->backend == BENCH_BACKEND_CUDA && !bench_gpu_built())
        return bench_refuse(problem,
                            "--backend cuda: this build has no CUDA backend; use --backend host");
    if (options->transport == WEIR_TRANSPORT_CUDA_IPC && !bench_gpu_built())
        return bench_refuse(problem,
                            "--transport cuda_ipc: this build has no CUDA (make CUDA=1); use "
                            "--transport shm");
    for (int i = 0; i < options->npeers; i++) {
        const bench_peer *peer = &options->peers[i];
        char words[BENCH_PROBLEM_BYTES];
        bench_peer_list(words, sizeof words);
        if (peer->kind == BENCH_PEER_UNKNOWN)
            return bench_refuse(problem, "--peer %s: expected %s", peer->text, words);
        if (peer->needs & BENCH_PEER_NEEDS_GPU && !bench_gpu_built())
            return bench_refuse(
                problem,
                "--peer %s: %sthis build has no CUDA; build with make CUDA=1, or under "
                "mpirun use --peer mpi",
                peer->text,
                peer->path ? "there is no peer of weir/peer.h, and for a vendor's library " : "");
    }
    return 0;
}

/* Rules of --tune-nccl and --verify-nccl. */
static int check_nccl(bench_options *options, weir_collective collective, char *problem)
{
    enum { TUNE_ROUNDS = 16 };
    const char *name = options->tune_nccl_path ? "--tune-nccl" : "--verify-nccl";
    int has_nccl = 0;
    if (!options->tune_nccl_path && !options->verify_nccl_path)
        return 0;
    for (int i = 0; i < options->npeers; i++)
        has_nccl += options->peers[i].kind == BENCH_PEER_VENDOR &&
                    options->peers[i].modes & 1u << BENCH_NCCL_DEFAULT;
    if (options->tune_nccl_path && options->verify_nccl_path)
        return bench_refuse(problem, "--tune-nccl and --verify-nccl: give one, then the other");
    if (options->tune_path)
        return bench_refuse(problem, "%s and --tune: give one of them", name);
    if (has_nccl != 1)
        return bench_refuse(problem, "%s: give --peer nccl or nccl:default, once", name);
    if (options->dtype == BENCH_ALL || options->op == BENCH_ALL || options->cycles != 1)
        return bench_refuse(problem,
                            "%s: a table serves all types and operations; give one, and "
                            "leave out -N",
                            name);
    if (bench_nccl_tuner_collective(collective) < 0)
        return bench_refuse(problem,
                            "%s: NCCL does not ask its tuner about %s, which consists of sends and "
                            "receives",
                            name, weir_collective_name(collective));
    if (options->tune_nccl_path && !options->rounds_given)
        options->rounds = TUNE_ROUNDS;
    return 0;
}

/* Tables and ceilings are of all ranks; algorithms that serve one group may not serve another. */
static int check_split(const bench_options *options, char *problem)
{
    const char *other = options->tune_path                  ? "--tune"
                        : options->tune_nccl_path           ? "--tune-nccl"
                        : options->verify_nccl_path         ? "--verify-nccl"
                        : options->ceiling_path             ? "--ceiling"
                        : strcmp(options->algo, "all") == 0 ? "--algo all"
                                                            : NULL;
    if (options->split_text && other)
        return bench_refuse(problem, "%s %s and %s: give one of them", options->split_from,
                            options->split_text, other);
    return 0;
}

static int check_with(const bench_options *options, char *problem)
{
    if (options->nrivals && (options->tune_path || options->plan || options->cold))
        return bench_refuse(problem, "--with: leave --tune, --plan and --cold out");
    return 0;
}

/* --fuse and --wire have checks of their own, for one call of each candidate on two buffers. */
static int check_fuse(bench_options *options, weir_collective collective, char *problem)
{
    const char *which = options->fuse ? "--fuse" : "--wire";
    if (!options->fuse && !options->wire)
        return 0;
    if (collective != WEIR_COLL_ALLREDUCE)
        return bench_refuse(problem, "%s: it is for bench_allreduce", which);
    if (options->fuse && options->wire)
        return bench_refuse(problem, "--fuse and --wire: give one of them");
    if (options->hidden % 8)
        return bench_refuse(problem, "--hidden %d: give a multiple of 8", options->hidden);
    if (options->determinism || options->cold || options->plan || options->plan_dir ||
        options->tune_path || options->tune_nccl_path || options->verify_nccl_path ||
        options->nrivals || (options->fuse && options->inject_timed) || options->for_s > 0)
        return bench_refuse(
            problem, "%s: leave --determinism, --cold, --plan, --tune, --with and --for%s out",
            which, options->fuse ? ", and faults @timed," : "");
    if (options->verify != BENCH_VERIFY_OFF)
        options->verify = BENCH_VERIFY_EXACT;
    return 0;
}

/* No two output files may have the same name. */
static int check_outputs(const bench_options *options, char *problem)
{
    char manifest[PATH_MAX];
    if (!options->csv_path || !options->json_path)
        return 0;
    if (bench_paths_same_file(options->csv_path, options->json_path))
        return bench_refuse(problem, "--csv %s and -J %s are one file: give each its own",
                            options->csv_path, options->json_path);
    if (bench_paths_manifest(options->csv_path, manifest, sizeof manifest) == 0 &&
        bench_paths_same_file(manifest, options->json_path))
        return bench_refuse(problem,
                            "-J %s: the manifest of --csv %s has that name; give -J another",
                            options->json_path, options->csv_path);
    return 0;
}

static int check_files(const bench_options *options, weir_collective collective, char *problem)
{
    bench_dist dist;
    if (options->plan && access(options->plan, R_OK) != 0)
        return bench_refuse(problem, "--plan %s: %s; give a readable file", options->plan,
                            strerror(errno));
    if (options->unproved && !options->plan)
        return bench_refuse(problem, "--unproved: it is for --plan FILE");
    if (options->unproved && !bench_options_verifies(options))
        return bench_refuse(problem,
                            "--unproved needs verification: leave out --verify off and -c 0");
    if ((options->plan || options->tune_path) && bench_collective_call(collective) != collective)
        return bench_refuse(problem,
                            "%s: %s is performed by alltoallv; plans and tuning tables do not "
                            "serve it",
                            options->plan ? "--plan" : "--tune", weir_collective_name(collective));
    if (options->plan && options->tune_path)
        return bench_refuse(problem, "--plan %s: --tune tries weir's own algorithms; leave one out",
                            options->plan);
    if (options->plan_dir && !options->tune_path)
        return bench_refuse(problem,
                            "--plan-dir %s: it is for --tune FILE; --plan FILE measures one plan",
                            options->plan_dir);
    if (options->plan_dir && (collective == WEIR_COLL_ALLTOALLV || options->op == WEIR_AVG))
        return bench_refuse(
            problem, "--plan-dir %s: plans serve neither alltoallv nor averages; leave it out",
            options->plan_dir);
    if (options->plan && options->root == BENCH_ALL && bench_collective_has_root(collective))
        return bench_refuse(problem, "--plan %s: a plan has one root; give it by -r",
                            options->plan);
    if (bench_dist_parse(options->dist, &dist) != WEIR_OK)
        return bench_refuse(problem, "--dist %s: expected " BENCH_DIST_WORDS, options->dist);
    if (options->pattern && collective != WEIR_COLL_SENDRECV)
        return bench_refuse(problem,
                            "--pattern %s: only bench_sendrecv and bench_p2p have patterns",
                            options->pattern);
    for (int i = 0; i < options->npeers; i++)
        if (options->peers[i].kind == BENCH_PEER_COPIES && collective != WEIR_COLL_SENDRECV)
            return bench_refuse(problem,
                                "--peer copies: only bench_sendrecv and bench_p2p have it");
    if (options->pattern && !bench_patterns_are_known(options->pattern))
        return bench_refuse(problem, "--pattern %s: expected a list of " BENCH_PATTERN_WORDS,
                            options->pattern);
    if (strcmp(options->dist, "spread:1") != 0 && collective != WEIR_COLL_ALLTOALLV)
        return bench_refuse(problem, "--dist %s: only bench_alltoallv has a distribution",
                            options->dist);
    if (options->counts != BENCH_COUNTS_HOST && collective != WEIR_COLL_ALLTOALLV)
        return bench_refuse(problem, "--counts device: only bench_alltoallv has counts");
    return 0;
}

weir_status bench_options_check(bench_options *options, weir_collective collective, char *problem)
{
    default_sizes(options);
    if (!options->checks)
        options->verify = BENCH_VERIFY_OFF;
    if (check_sizes(options, problem) || check_iterations(options, problem) ||
        check_verification(options, problem) || check_algo(options, collective, problem) ||
        check_build(options, problem) || check_peers(options, problem) ||
        check_nccl(options, collective, problem) || check_files(options, collective, problem) ||
        check_outputs(options, problem) || check_split(options, problem) ||
        check_with(options, problem) || check_fuse(options, collective, problem))
        return WEIR_ERR_INVALID;
    return WEIR_OK;
}
