/* The option table of bench_replay, and its parser: see replay_options.h. */
#include "bench/replay/replay_options.h"

#include "base/error.h"
#include "bench/gpu/gpu.h"
#include "bench/options/option_values.h"
#include "bench/options/peers.h"
#include "bench/options/rows.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SAME = WEIRI_OPTION_SAME, EXPLAINED = WEIRI_OPTION_EXPLAINED };

#define AT(member) offsetof(replay_options, member)
#define COMMON(member) AT(common.member)

static const weiri_option rows[] = {
    {0, "convert", "FILE", &weiri_option_text, AT(convert),
     .help =
         "write the recording to FILE (-: standard output) as text, one line for each call, and "
         "exit"},
    {0, "ranks", "N", &weiri_option_int, AT(nranks), 0, WEIR_RANKS_MAX, "0",
     .flags = SAME | EXPLAINED, .manifest = "ranks",
     .help = "run on N ranks instead of those of the recording (default: 0, as recorded). Only for "
             "recordings in which all ranks make the same calls on communicators of all ranks: "
             "allreduce, broadcast and reduce keep their size; in other calls the larger buffer "
             "keeps its size"},
    {0, "gaps", NULL, &weiri_option_flags, AT(gaps), .flags = SAME, .manifest = "gaps",
     .help = "between calls, compute for as long as the recorded rank did, by a loop on the "
             "host or a kernel on the GPU; without it, calls follow each other directly"},
    {0, "sms", "PERCENT", &weiri_option_int, AT(sms), 1, 100, "100", .flags = SAME,
     .manifest = "sms_percent",
     .help = "the share of a GPU's multiprocessors that computation of --gaps keeps busy"},
    {0, "peer", "mpi|nccl|PATH", &bench_option_peer, AT(common), .flags = SAME, .manifest = "peers",
     .help = "also run the recording over MPI (host memory), NCCL, or a library with NCCL's "
             "interface; may be repeated"},
    {'n', "iters", "N", &weiri_option_int, AT(common.iterations), 0, 1000000, "0",
     .flags = SAME | EXPLAINED, .manifest = "iters",
     .help = "timed repetitions of the recording with each candidate (default: 0, as many as fit "
             "two seconds, from 8 to 200)"},
    {0, "visits", "N", &weiri_option_int, AT(common.rounds), 1, 256, "8", .flags = SAME,
     .manifest = "visits",
     .help = "rounds into which repetitions are divided; in each round, candidates alternate"},
    {'c', "check", "0|1", &weiri_option_int, AT(common.checks), 0, 1, "1", .flags = SAME,
     .manifest = "checks",
     .help = "check every element of every call, in a repetition before the timed ones and in one "
             "after them"},
    {0, "buffers", "recorded|registered|unregistered", &weiri_option_words, AT(buffers),
     .initial = "recorded", .recorded = "recorded|weir|plain", .flags = SAME | EXPLAINED,
     .manifest = "buffers",
     .help =
         "registered: memory of each communicator, which its ranks read; unregistered: malloc'd "
         "memory, or CUDA's; recorded: of each call as it was recorded, registered if that is "
         "unknown (default: recorded)"},
    {0, "span", "SIZE", &weiri_option_bytes, AT(span_bytes), .low = 0, .initial = "256M",
     .flags = SAME, .manifest = "span_bytes",
     .help = "bytes of one buffer, of which each call uses the next part; a small SIZE stays in "
             "caches, like buffers that a job uses repeatedly; 0: the smallest size that works"},
    {'g', "ngpus", "N", &weiri_option_int, AT(common.ngpus), 1, WEIR_RANKS_MAX, "1",
     .given = AT(ngpus_given), .flags = EXPLAINED,
     .help = "start N ranks on this node, without a launcher (default: as many as the recording "
             "has)"},
    BENCH_ROW_TIMEOUT(COMMON),
    {0, "csv", "FILE", &weiri_option_text, AT(common.csv_path), .help = "also write CSV"},
    {0, "timeline", "FILE", &weiri_option_text, AT(timeline), .flags = WEIRI_OPTION_SAME_USE,
     .help = "also draw one step as SVG, ranks by time: as recorded, and as replayed over weir (on "
             "the host)"},
    {0, "seed", "N", &weiri_option_whole, AT(common.seed), 0, LONG_MAX, "1", .flags = SAME,
     .manifest = "seed", .help = "seed of the data"},
    {0, "inject", "none|flip-bit", &weiri_option_words, AT(inject), .initial = "none",
     .flags = SAME | EXPLAINED,
     .help = "flip a bit of the last checked call's output on the last rank, to show that it is "
             "found"},
    {0, "backend", "auto|host|cuda", &weiri_option_words, AT(common.backend), .initial = "auto",
     .flags = SAME | EXPLAINED, .manifest = "backend",
     .help = "memory of the buffers; auto: GPUs if all ranks have one (default: auto)"},
    {0, "split", "RULE", &weiri_option_text, AT(common.split_text), .flags = SAME,
     .help = "refused, as NCCL_TESTS_SPLIT is: the communicators of the recording are the groups"},
    BENCH_ROW_VERSION(COMMON),
    BENCH_ROW_HELP(COMMON),
};

const weiri_options replay_options_table = {rows, sizeof rows / sizeof rows[0]};

/* Options and files in any order; after "--" come files only. */
static weir_status take_words(int argc, char **argv, replay_options *o)
{
    weir_status status = WEIR_OK;
    int is_files_only = 0;
    o->files = malloc((size_t)argc * sizeof *o->files);
    if (!o->files)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the names of files");
    for (int i = 1; i < argc && status == WEIR_OK; i++) {
        if (!is_files_only && !strcmp(argv[i], "--"))
            is_files_only = 1;
        else if (is_files_only || argv[i][0] != '-')
            o->files[o->nfiles++] = argv[i];
        else
            status = weiri_option_take(&replay_options_table, NULL, argc, argv, &i, o);
    }
    return status;
}

static int check_together(replay_options *o, char *problem)
{
    if (bench_split_of_options(&o->common, problem) != 0)
        return -1;
    if (!o->nfiles)
        return bench_refuse(problem, "no recording: name its file, files or folder; WEIR_RECORD="
                                     "FILE makes one (docs/user/replay.md)");
    if (o->common.backend == BENCH_BACKEND_CUDA && !bench_gpu_built())
        return bench_refuse(problem, "--backend cuda: this build has no CUDA backend; use "
                                     "--backend host");
    if (o->common.split_text)
        return bench_refuse(problem,
                            "%s %s: the communicators of the recording are the groups of "
                            "bench_replay; leave it out",
                            o->common.split_from, o->common.split_text);
    for (int i = 0; i < o->common.npeers; i++)
        if (o->common.peers[i].kind != BENCH_PEER_MPI &&
            o->common.peers[i].kind != BENCH_PEER_VENDOR)
            return bench_refuse(
                problem,
                "--peer %s: expected mpi, nccl, or a vendor's library by its path (with "
                "a /)",
                o->common.peers[i].text);
    return 0;
}

weir_status replay_options_parse(int argc, char **argv, replay_options *o, char *problem)
{
    *o = (replay_options){.common = {.nthreads = 1,
                                     .aggregate = 1,
                                     .cycles = 1,
                                     .verify = BENCH_VERIFY_EXACT,
                                     .dist = "",
                                     .algo = "auto"}};
    weiri_options_set_defaults(&replay_options_table, o);
    weir_status status = take_words(argc, argv, o);
    if (status != WEIR_OK)
        snprintf(problem, BENCH_PROBLEM_BYTES, "%s", weir_last_error());
    if (status != WEIR_OK || o->common.action != BENCH_ACTION_RUN)
        return status;
    return check_together(o, problem) ? WEIR_ERR_INVALID : WEIR_OK;
}

void replay_options_help(FILE *to)
{
    fprintf(to, "usage: [mpirun -np RANKS] bench_replay FILE... [options]\n\n"
                "Runs the communication of a recorded job again, checks and times it. FILE is a\n"
                "recording of any known format, one of its files for each rank, or a folder of\n"
                "them. Its ranks are started by a launcher (mpirun, srun, torchrun, PMIx) or by\n"
                "the program itself.\n\n");
    weiri_options_print(&replay_options_table, to);
    fprintf(to, "\nExit codes: 0 all passed, 1 wrong data, 2 usage or a recording that cannot be\n"
                "run, 3 system or environment, 4 a deadline passed.\n");
}
