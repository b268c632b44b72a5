/*
 * The option table of the benchmarks of collectives. nccl-tests' options keep their letters, long
 * names and meaning; options that nccl-tests does not have are long only.
 */
#include "bench/options/parse.h"

#include "bench/options/option_values.h"
#include "bench/options/peers.h"
#include "bench/options/rows.h"

#include <limits.h>
#include <stddef.h>

enum {
    SAME = WEIRI_OPTION_SAME,
    SAME_USE = WEIRI_OPTION_SAME_USE,
    EXPLAINED = WEIRI_OPTION_EXPLAINED
};

#define AT(member) offsetof(bench_options, member)

static const weiri_option rows[] = {
    {'b', "minbytes", "SIZE", &weiri_option_bytes, AT(min_bytes), .given = AT(min_given),
     .flags = SAME, .manifest = "min_bytes",
     .help = "smallest size; suffixes K, M, G, T (default: the smaller of 32M and -e. If neither "
             "-b nor -e is given: 8, with -e 16M and -f 4)"},
    {'e', "maxbytes", "SIZE", &weiri_option_bytes, AT(max_bytes), .given = AT(max_given),
     .flags = SAME, .manifest = "max_bytes",
     .help =
         "largest size (default: the larger of 32M and -b; if neither -b nor -e is given: 16M)"},
    {'i', "stepbytes", "SIZE", &weiri_option_bytes, AT(step_bytes), .low = 1, .initial = "1M",
     .given = AT(step_given), .flags = SAME, .manifest = "step_bytes",
     .help = "step between sizes; a -f above 1 takes precedence"},
    {'f', "stepfactor", "N", &weiri_option_whole, AT(step_factor), .low = 1, .high = LONG_MAX,
     .initial = "1", .given = AT(step_given), .flags = SAME | EXPLAINED, .manifest = "step_factor",
     .help = "factor between sizes, a whole number (default: 4 if neither -b nor -e is given, else "
             "-i)"},
    {'n', "iters", "N", &weiri_option_int, AT(iterations), .high = INT_MAX, .initial = "0",
     .flags = SAME | EXPLAINED, .manifest = "iterations",
     .help =
         "number of timed iterations; on a GPU, of operations in each timed batch (default: 0, as "
         "many as fit a time budget: from 20 to 2000 iterations)"},
    {0, "visits", "N", &weiri_option_int, AT(rounds), .low = 1, .high = 64, .initial = "6",
     .given = AT(rounds_given), .flags = SAME | EXPLAINED,
     .help = "divide the iterations of a size into N rounds, each on different pages, with other "
             "sizes in between (default: 6, with --tune-nccl 16; if -n is below 12: 1)"},
    {0, "until", "PERCENT", &weiri_option_percent, AT(until), .high = 100, .flags = SAME,
     .manifest = "until",
     .help = "add iterations until the 95% interval of every candidate's median is within "
             "PERCENT of the median (such as 2%), for at most -T seconds per size, or 10 "
             "without -T"},
    {0, "for", "TIME", &bench_option_duration, AT(for_s), .flags = SAME, .manifest = "for",
     .help = "measure one size: after its rounds, repeat it out of place for TIME (90s, "
             "10m, 8h), and print a line for each window: times, outliers, and the causes "
             "of outliers; SIGTERM ends the run early"},
    {0, "window", "TIME", &bench_option_duration, AT(window_s), .initial = "60s",
     .given = AT(window_given), .flags = SAME | EXPLAINED, .manifest = "window",
     .help = "length of the windows of --for (default: 60s)"},
    {0, "min-bw", "GB/S", &weiri_option_decimal, AT(floor_gbs), .given = AT(floor_given),
     .help = "end with PASS, or with FAIL and exit code 1, if the average bus bandwidth of the "
             "footer is below this floor (default: 90% of NCCL_TESTS_MIN_BW, if it is set)"},
    {'w', "warmup_iters", "N", &weiri_option_int, AT(warmups), .high = INT_MAX, .initial = "-1",
     .flags = SAME | EXPLAINED, .manifest = "warmups",
     .help = "number of untimed iterations before each timed block (default: until times no longer "
             "fall, 6 to 61)"},
    {'m', "agg_iters", "N", &weiri_option_int, AT(aggregate), .low = 1, .high = INT_MAX,
     .initial = "1", .flags = SAME, .manifest = "aggregate",
     .help = "time N operations together as one iteration; only the last operation is checked, and "
             "in place none is checked"},
    {'N', "run_cycles", "N", &weiri_option_int, AT(cycles), .high = INT_MAX, .initial = "1",
     .flags = SAME | EXPLAINED, .manifest = "cycles",
     .help = "run the sweep N times; weir-compare uses the first (default: 1; 0: until stopped)"},
    {'c', "check", "N", &weiri_option_int, AT(checks), .high = INT_MAX, .initial = "1",
     .flags = SAME | EXPLAINED, .manifest = "checks",
     .help = "check each size N times, each time with different data (default: 1; 0: no checks)"},
    {'o', "op", "OP|all", &bench_option_op, AT(op), .initial = "sum", .flags = SAME,
     .manifest = "op", .help = "sum, prod, max, min or avg"},
    {'d', "datatype", "TYPE|all", &bench_option_dtype, AT(dtype), .initial = "float", .flags = SAME,
     .manifest = "dtype",
     .help = "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3 or "
             "f8e5m2"},
    {'r', "root", "RANK|all", &bench_option_root, AT(root), .low = -1, .high = INT_MAX,
     .initial = "0", .flags = SAME | EXPLAINED, .manifest = "root",
     .help = "root of broadcast, reduce, gather and scatter (default: 0; -1 is all)"},
    {'z', "blocking", "0-3", &weiri_option_int, AT(blocking), .high = 3, .initial = "0",
     .flags = SAME, .manifest = "blocking",
     .help = "0, 2: operations follow each other without a barrier; 1: a barrier after each "
             "operation; 3: a barrier after each iteration. Barriers are never timed."},
    {'G', "cudagraph", "N", &weiri_option_int, AT(graph), .high = INT_MAX, .initial = "0",
     .flags = SAME, .help = "number of graph launches; on the host, N times as many iterations"},
    {'C', "report_cputime", "0|1", &weiri_option_int, AT(cpu_time), .high = 1,
     .help = "1: the time column shows the processor time of the calling thread"},
    {'a', "average", "0-3", &weiri_option_int, AT(rank_time), .high = 3, .initial = "3",
     .flags = EXPLAINED, .manifest = "rank_time",
     .help = "which time of an iteration the table shows. 0: rank 0's time; 1, 2, 3: mean, "
             "minimum, maximum over ranks (default: 3; the CSV always has the maximum)"},
    {'I', "per_iter_timing", "0|1", &weiri_option_int, AT(per_iteration), .high = 1,
     .help = "1: add i_min, i_max, i_p99 and i_cv% to the table; on GPUs, these describe batches"},
    {'K', "per_iter_skip", "N", &weiri_option_int, AT(skip), .high = INT_MAX,
     .help = "leave the first N iterations out of the columns of -I"},
    {'T', "timeout", "SECONDS", &weiri_option_int, AT(timeout_s), .high = 86400, .initial = "0",
     .flags = EXPLAINED, .manifest = "timeout_s",
     .help =
         "deadline of set-up, of every wait and of tear-down. After it, the state of every rank is "
         "reported, and the exit code is 4 (default: 0, which means WEIR_TIMEOUT_MS, else 30 s)"},
    {'J', "output_file", "FILE", &weiri_option_text, AT(json_path),
     .help = "also write nccl-tests' JSON (schema 3)"},
    {'S', "report_timestamps", "0|1", &weiri_option_int, AT(timestamps), .high = 1,
     .help = "1: end each row with a time stamp"},
    {'M', "memory", "0|1", &weiri_option_int, AT(memory_report), .high = 1,
     .help = "1: report memory use at the end"},
    {'R', "local_register", "0-2", &weiri_option_int, AT(registration), .high = 2, .initial = "0",
     .flags = SAME, .manifest = "registration",
     .help = "0: the library finds buffers by their addresses; 1: each rank registers its buffers; "
             "2: ranks also exchange handles before the first call"},
    {'u', "unalign", "N", &weiri_option_int, AT(unalign_elements), .high = 1 << 20, .initial = "0",
     .flags = SAME, .manifest = "unalign_elements", .help = "shift both buffers by N elements"},
    {'t', "nthreads", "1", &weiri_option_int, AT(nthreads), .high = INT_MAX, .initial = "1",
     .flags = EXPLAINED, .help = "only 1; start more ranks instead"},
    {'g', "ngpus", "N", &weiri_option_int, AT(ngpus), .low = 1, .high = WEIR_RANKS_MAX,
     .initial = "1", .flags = EXPLAINED,
     .help = "start N ranks on this node, without a launcher, one for each device (default: 1; "
             "only 1 under a launcher)"},
    {'p', "parallel_init", "0|1", &weiri_option_int, AT(ignored), .high = 1,
     .help = "accepted for nccl-tests' command lines; no effect"},
    {'y', "stream_null", "0|1", &weiri_option_int, AT(ignored), .high = 1,
     .help = "accepted for nccl-tests' command lines; no effect"},
    {0, "csv", "FILE", &weiri_option_text, AT(csv_path),
     .help = "also write CSV, each row as soon as it is known, and a manifest (a.json for a.csv)"},
    {0, "ceiling", "FILE", &weiri_option_text, AT(ceiling_path),
     .help = "print results as percentages of what the links allow. weir-topo --measure FILE "
             "writes FILE"},
    {0, "backend", "auto|host|cuda", &weiri_option_words, AT(backend), .initial = "auto",
     .flags = SAME, .manifest = "backend", .help = "memory of the buffers"},
    {0, "transport", "auto|shm|cuda_ipc|ib|tcp", &weiri_option_words, AT(transport),
     .initial = "auto", .manifest = "transport",
     .help = "transport; ib and tcp connect nodes, ranks of one node share memory"},
    {0, "algo", "auto|all|NAME|FILE:NAME[,...]", &weiri_option_text, AT(algo), .flags = SAME,
     .manifest = "algo",
     .help =
         "algorithms to measure: auto is weir's selection, all is every algorithm of --list-algos. "
         "On GPUs, a name may have a number of blocks and threads, such as packet:16x64. "
         "FILE.cu:NAME compiles a kernel, see docs/user/custom-algorithms.md (default: auto)"},
    {0, "tune", "FILE", &weiri_option_text, AT(tune_path), .flags = SAME_USE,
     .help = "measure every algorithm, and write the fastest algorithm for each size into a tuning "
             "table for WEIR_TUNING. On GPUs, also measure many numbers of blocks and threads"},
    {0, "tune-nccl", "TABLE", &weiri_option_text, AT(tune_nccl_path), .flags = SAME_USE,
     .help = "with --peer nccl: measure NCCL's algorithms, protocols and numbers of channels, and "
             "write a table for NCCL's tuner, in the format of NCCL's example plug-in and as "
             "ncclx's JSON. The table has a row for each size at which a setting is certainly "
             "faster than NCCL's choice"},
    {0, "verify-nccl", "TABLE", &weiri_option_text, AT(verify_nccl_path), .flags = SAME_USE,
     .help = "with --peer nccl: measure NCCL with and without a table of --tune-nccl, and print at "
             "which sizes NCCL becomes faster or slower"},
    {0, "peer", BENCH_PEERS_ARGUMENT, &bench_option_peer, 0, .flags = SAME, .manifest = "peers",
     .help = "also measure this peer in the same run; repeatable. nccl, or the path of a "
             "library like NCCL: in every mode that it has; nccl:default, nccl:symmetric, "
             "nccl:zero-cta: in one mode; copies: in bench_sendrecv and bench_p2p, one copy "
             "per message, on GPUs by copy engines; PATH.so may also be a peer that "
             "implements weir/peer.h, and py:PATH is one in Python"},
    {0, "with", "CALL", &bench_option_with, 0, .flags = SAME, .manifest = "with",
     .help = "also measure weir while CALL runs, and how much longer both calls take; repeatable. "
             "CALL is a collective, a size, and optionally group=RULE (as for --split), such as "
             "\"alltoall 16M group=mod:2\""},
    {0, "beside", "COMPUTATION", &bench_option_beside, 0, .flags = SAME, .manifest = "beside",
     .help = "also measure weir and NCCL while a computation runs on another stream, or on "
             "the host in a thread: gemm:MxNxK[:TYPE] (on GPUs by cuBLAS), stream:GB "
             "(memory) or flops (arithmetic); prints by how much each slows the other, and "
             "the exposed communication"},
    {0, "mode", "throughput|latency", &weiri_option_words, AT(mode), .initial = "throughput",
     .flags = SAME, .manifest = "mode",
     .help = "throughput: operations follow each other directly; latency: all ranks start "
             "each operation together, and the output shows by how much the starts differ"},
    {0, "cold", NULL, &weiri_option_flags, AT(cold), .flags = SAME, .manifest = "cold",
     .help = "each operation uses the next of several copies of its buffers, which together "
             "are twice as large as the last-level cache; timed iterations are then not "
             "checked (default: the same buffers, warm)"},
    {0, "asleep", NULL, &weiri_option_flags, AT(asleep), .flags = SAME, .manifest = "asleep",
     .help = "measure the first operation after a pause of 100 ms, in which NVLink's links "
             "go to sleep, for weir and peers (with --mode latency, and by default -n 20)"},
    {0, "verify", "mpi|exact|both|off", &weiri_option_words, AT(verify), .initial = "both",
     .flags = SAME | EXPLAINED, .manifest = "verify",
     .help = "what results are compared with: mpi: the same call of MPI; exact: a result "
             "that is known bit for bit (default: both, or exact if MPI did not start the "
             "ranks; above 4 MiB, mpi compares only some blocks)"},
    {0, "determinism", NULL, &weiri_option_flags, AT(determinism), .flags = SAME,
     .manifest = "determinism",
     .help = "repeat each call 10 times on the same data, and report whether the bits are equal in "
             "every repeat, on every rank and, for reductions, at every size"},
    {0, "sms", "N", &weiri_option_int, AT(max_blocks), .high = 1 << 16, .initial = "0",
     .flags = SAME | EXPLAINED, .manifest = "sms",
     .help = "GPUs: largest number of thread blocks in a collective's kernel, for weir "
             "(WEIR_MAX_BLOCKS) and NCCL (NCCL_MAX_CTAS). Other kernels can use the remaining "
             "multiprocessors (default: 0, as many as each library chooses)"},
    {0, "invariant", NULL, &weiri_option_flags, AT(invariant), .flags = SAME,
     .manifest = "invariant",
     .help = "the bits of weir's reductions do not depend on the size, the algorithm or the "
             "memory, as with WEIR_INVARIANT=1"},
    {0, "fuse", "off|norm|norm:fp8", &weiri_option_words, AT(fuse), .initial = "off", .flags = SAME,
     .manifest = "fuse",
     .help = "bench_allreduce: measure weir_allreduce_norm, which also adds a residual and "
             "normalises rows (RMSNorm), and compare it with an allreduce of weir and of each "
             "peer, followed by this norm. norm:fp8: the output is fp8, with a scale for each row"},
    {0, "hidden", "N", &weiri_option_int, AT(hidden), .low = 8, .high = 16384, .initial = "8192",
     .flags = SAME, .manifest = "hidden", .help = "elements of a row of --fuse, a multiple of 8"},
    {0, "wire", "off|fp8|int8", &weiri_option_words, AT(wire), .initial = "off", .flags = SAME,
     .manifest = "wire",
     .help = "bench_allreduce: measure weir_allreduce_quantized, whose data travel as fp8 or int8, "
             "and next to it the allreduce of weir and of each peer; instead of exact results, "
             "every element is checked against the stated bound, and columns have the errors"},
    {0, "buffers", "registered|unregistered", &weiri_option_words, AT(buffers),
     .initial = "registered", .recorded = "weir|plain", .flags = SAME | EXPLAINED,
     .manifest = "buffers",
     .help = "registered: memory of the library, which other ranks map; unregistered: "
             "malloc'd or cudaMalloc'd memory, which other ranks cannot map (default: "
             "registered; aliases: weir, plain)"},
    {0, "pattern", "KIND,...", &weiri_option_text, AT(pattern), .flags = SAME,
     .manifest = "pattern",
     .help = "who sends to whom in bench_sendrecv and bench_p2p. ring: rank r to r + 1; one "
             "pair at a time: pingpong, oneway, bothways; all ranks at once: shift (r to r "
             "+ K, for each K), bisection (default: ring; bench_p2p: "
             "pingpong,oneway,bothways,shift,bisection)"},
    BENCH_ROW_SPLIT(AT),
    {0, "dist", "WORD[:VALUE]", &weiri_option_text, AT(dist), .initial = "spread:1", .flags = SAME,
     .manifest = "dist",
     .help =
         "traffic pattern of alltoallv. uniform; spread:X, from 0 (uniform) to 1 (in proportion to "
         "the distance); zipf:A, a few receivers get most data; hot:K, K receivers get 90%; "
         "matrix:FILE, a row of weights for each rank; trace:FILE, several matrices"},
    {0, "counts", "host|device", &weiri_option_words, AT(counts), .initial = "host", .flags = SAME,
     .manifest = "counts",
     .help = "where weir's alltoallv finds its counts: in its arguments (host), or in "
             "device memory when the call runs (device)"},
    {0, "plan", "FILE", &weiri_option_text, AT(plan), .flags = SAME_USE,
     .help = "measure a plan instead of weir's selection (docs/user/plans.md); --algo auto,... "
             "adds algorithms"},
    {0, "unproved", NULL, &weiri_option_flags, AT(unproved), .flags = SAME, .manifest = "unproved",
     .help = "measure the plan of --plan even if weir-plan check rejects it; a race may "
             "show in some runs only"},
    {0, "plan-dir", "DIR", &weiri_option_text, AT(plan_dir), .flags = SAME_USE,
     .help = "with --tune: also measure the plans in this folder (*.json) that are for this "
             "collective and number of ranks"},
    {0, "seed", "N", &weiri_option_whole, AT(seed), .high = LONG_MAX, .initial = "1", .flags = SAME,
     .manifest = "seed", .help = "seed of the data"},
    {0, "inject", "list|FAULT[@timed]|slow:PERCENT|slow-rank:RANK:PERCENT", &bench_option_inject, 0,
     .flags = SAME, .manifest = "inject_slow_percent",
     .help = "inject a fault into the first checked run of each size, or into the second timed "
             "iteration (@timed), to show that it is found. list: print the faults; slow: timed "
             "operations of weir take PERCENT longer, on all ranks or on one rank"},
    {0, "quiet", NULL, &weiri_option_flags, AT(quiet),
     .help = "no progress on standard error (without this option, it appears after 3 s)"},
    {0, "list-algos", NULL, &weiri_option_flags, AT(action), .high = BENCH_ACTION_LIST_ALGOS,
     .help = "list the algorithms and exit"},
    {0, "help-env", NULL, &weiri_option_flags, AT(action), .high = BENCH_ACTION_HELP_ENV,
     .help = "list the environment variables and exit"},
    BENCH_ROW_VERSION(AT),
    BENCH_ROW_HELP(AT),
};

const weiri_options bench_options_table = {rows, sizeof rows / sizeof rows[0]};
