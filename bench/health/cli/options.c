/* The command line of weir-check. One table both parses it and makes --help. */
#include "bench/health/cli/options.h"

#include "base/error.h"
#include "programs/options.h"

#include <stddef.h>
#include <stdio.h>

#define OPTION(name, value, type, member)                                                          \
    0, name, value, &weiri_option_##type, offsetof(check_options, member)

static const weiri_option rows[] = {
    {OPTION("level", "quick|standard|long", words, level), .initial = "quick",
     .help = "quick (15 s at most), standard (60 s) or long"},
    {OPTION("ranks", "N", int, nranks), .low = 2, .high = 256,
     .help = "ranks of the collectives (default: one per GPU, else per core, 2 to 8)"},
    {OPTION("gpus", "N", int, ngpus), .high = 256, .initial = "-1", .flags = WEIRI_OPTION_EXPLAINED,
     .help = "fail if there are fewer GPUs"},
    {OPTION("nics", "N", int, nnics), .high = 256, .initial = "-1", .flags = WEIRI_OPTION_EXPLAINED,
     .help = "fail if fewer NICs have a link"},
    {OPTION("baseline", "FILE", text, baseline),
     .help = "expect what --json FILE recorded on a good node"},
    {OPTION("tolerance", "PERCENT", percent, share), .high = 99, .initial = "20%",
     .help = "by how much bandwidths may be below the baseline's"},
    {OPTION("expect-topology", "FILE", text, topology),
     .help = "fail if the hardware differs from a recorded machine (weir-topo --save, or NCCL's "
             "file)"},
    {OPTION("models", "FILE", text, models),
     .help = "rules by hardware model, instead of the built-in ones"},
    {OPTION("peer", "PATH", text, peer),
     .help = "also check the vendor's library (libnccl.so.2) on GPUs"},
    {OPTION("timeout", "SECONDS", int, timeout_s), .low = 1, .high = 3600, .initial = "20",
     .help = "deadline of each program and round"},
    {OPTION("fleet", NULL, flags, fleet),
     .help = "check the nodes of this job: start one process on each"},
    {OPTION("bisect", NULL, flags, bisect),
     .help = "with --fleet: search for the fault by halves, not by all pairs"},
    {OPTION("address", "[INTERFACE:]IP:PORT", text, address),
     .help = "with --fleet: where the first process listens"},
    {OPTION("rank", "I", int, rank), .high = WEIR_RANKS_MAX - 1, .initial = "-1",
     .flags = WEIRI_OPTION_EXPLAINED, .help = "with --address: the number of this process, from 0"},
    {OPTION("nodes", "N", int, hosts), .low = 1, .high = WEIR_RANKS_MAX,
     .help = "with --address: the number of processes"},
    {OPTION("json", "FILE", text, json), .help = "also write JSON; a baseline for later"},
    {OPTION("junit", "FILE", text, junit), .help = "also write JUnit XML"},
    {OPTION("ctrf", "FILE", text, ctrf), .help = "also write the Common Test Report Format"},
    {OPTION("prometheus", "FILE", text, prometheus),
     .help = "also write metrics for node_exporter's textfile collector"},
    {OPTION("markdown", "FILE", text, markdown), .help = "also write Markdown"},
    {OPTION("inject", "FAULT", text, inject),
     .help = "plant a fault to show that it is found (docs/user/checking.md)"},
    {OPTION("quiet", NULL, flags, quiet), .help = "no progress on standard error"},
    {OPTION("version", NULL, flags, version), .help = "print the version"},
    {OPTION("help", NULL, flags, help), .help = "print this help"},
};
static const weiri_options options_table = {rows, sizeof rows / sizeof *rows};

void check_options_help(void)
{
    printf(
        "usage: weir-check [options]\n"
        "       [srun | mpirun ...] weir-check --fleet [options]\n"
        "Checks whether this node, or every node and link of a job, is healthy and as fast as it\n"
        "should be. The last line is PASS or FAIL.\n\n");
    weiri_options_print(&options_table, stdout);
    printf(
        "\nExit codes: 0 passed, 1 wrong data, 2 usage, 3 system or environment, 4 hung, 5 slow,\n"
        "6 missing hardware; of several failures the first of 1, 4, 6, 3, 5.\n");
}

static weir_status options_check(const check_options *options)
{
    const int has_rank = options->rank >= 0, has_hosts = options->hosts > 0;
    if (!options->fleet && (options->bisect || options->address || has_rank || has_hosts))
        return weiri_fail(WEIR_ERR_INVALID, "--bisect, --address, --rank and --nodes need --fleet");
    if (options->fleet && options->topology)
        return weiri_fail(WEIR_ERR_INVALID,
                          "--expect-topology: it is for one node; run weir-check without --fleet "
                          "on each");
    if ((has_rank || has_hosts) && !(options->address && has_rank && has_hosts))
        return weiri_fail(WEIR_ERR_INVALID, "--address, --rank and --nodes go together");
    return WEIR_OK;
}

weir_status check_options_parse(int argc, char **argv, check_options *options)
{
    *options = (check_options){.level = 0};
    weiri_options_set_defaults(&options_table, options);
    weir_status status = weiri_options_take_all(&options_table, argc, argv, options);
    return status ? status : options_check(options);
}
