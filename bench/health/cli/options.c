/* The command line of weir-check. One table both parses it and makes --help. */
#include "bench/health/cli/options.h"

#include "base/error.h"
#include "programs/options.h"

#include <stdio.h>
#include <string.h>

#define OPTION(name, value, member, help) WEIRI_OPTION(name, value, check_options, member, help)
static const weiri_option options_table[] = {
    OPTION("--level", "WORD", level, "quick (15 s at most, the default), standard (60 s) or long"),
    OPTION("--ranks", "N", ranks,
           "ranks of the collectives (default: one per GPU, else per core, 2 to 8)"),
    OPTION("--gpus", "N", gpus, "fail if there are fewer GPUs"),
    OPTION("--nics", "N", nics, "fail if fewer NICs have a link"),
    OPTION("--baseline", "FILE", baseline, "expect what --json FILE recorded on a good node"),
    OPTION("--tolerance", "PERCENT", tolerance, "below the baseline's bandwidths (default: 20)"),
    OPTION("--models", "FILE", models, "rules by hardware model, instead of the built-in ones"),
    OPTION("--peer", "PATH", peer, "also check the vendor's library (libnccl.so.2) on GPUs"),
    OPTION("--timeout", "SECONDS", timeout, "deadline of each program and round (default: 20)"),
    OPTION("--fleet", NULL, fleet, "check the nodes of this job: start one process on each"),
    OPTION("--bisect", NULL, bisect, "with --fleet: search the fault by halves, not by all pairs"),
    OPTION("--address", "[INTERFACE:]IP:PORT", address,
           "with --fleet: where the first process listens"),
    OPTION("--rank", "I", rank, "with --address: the number of this process, from 0"),
    OPTION("--nodes", "N", hosts, "with --address: the number of processes"),
    OPTION("--json", "FILE", json, "also write JSON; a baseline for later"),
    OPTION("--junit", "FILE", junit, "also write JUnit XML"),
    OPTION("--ctrf", "FILE", ctrf, "also write the Common Test Report Format"),
    OPTION("--prometheus", "FILE", prometheus,
           "also write metrics for node_exporter's textfile collector"),
    OPTION("--markdown", "FILE", markdown, "also write Markdown"),
    OPTION("--inject", "FAULT", inject,
           "plant a fault to show that it is found (docs/user/checking.md)"),
    OPTION("--quiet", NULL, quiet, "no progress on standard error"),
    OPTION("--version", NULL, version, "print the version"),
    OPTION("--help", NULL, help, "print this help"),
};
enum { OPTIONS = sizeof options_table / sizeof *options_table };

void check_options_help(void)
{
    printf(
        "usage: weir-check [options]\n"
        "       [srun | mpirun ...] weir-check --fleet [options]\n"
        "Checks whether this node, or every node and link of a job, is healthy and as fast as it\n"
        "should be. The last line is PASS or FAIL.\n\n");
    weiri_options_print(options_table, OPTIONS, stdout);
    printf(
        "\nExit codes: 0 passed, 1 wrong data, 2 usage, 3 system or environment, 4 hung, 5 slow,\n"
        "6 missing hardware; of several failures the first of 1, 4, 6, 3, 5.\n");
}

static weir_status options_read_numbers(check_options *options)
{
    weir_status status = weiri_option_number("--ranks", options->ranks, 2, 256, &options->nranks);
    if (!status)
        status = weiri_option_number("--gpus", options->gpus, 0, 256, &options->ngpus);
    if (!status)
        status = weiri_option_number("--nics", options->nics, 0, 256, &options->nnics);
    if (!status)
        status = weiri_option_number("--timeout", options->timeout, 1, 3600, &options->timeout_s);
    if (!status)
        status = weiri_option_percent("--tolerance", options->tolerance, WEIRI_PERCENT, 0.99,
                                      &options->share);
    return status;
}

static weir_status options_check(const check_options *options)
{
    if (!options->fleet && (options->bisect || options->address || options->rank || options->hosts))
        return weiri_fail(WEIR_ERR_INVALID, "--bisect, --address, --rank and --nodes need --fleet");
    if ((options->rank || options->hosts) && !(options->address && options->rank && options->hosts))
        return weiri_fail(WEIR_ERR_INVALID, "--address, --rank and --nodes go together");
    if (options->level && strcmp(options->level, "quick") != 0 &&
        strcmp(options->level, "standard") != 0 && strcmp(options->level, "long") != 0)
        return weiri_fail(WEIR_ERR_INVALID, "--level %s: expected quick, standard or long",
                          options->level);
    return WEIR_OK;
}

weir_status check_options_parse(int argc, char **argv, check_options *options)
{
    *options = (check_options){.ngpus = -1, .nnics = -1, .timeout_s = 20, .share = 0.2};
    weir_status status = weiri_options_take_all(options_table, OPTIONS, argc, argv, options);
    if (!status)
        status = options_read_numbers(options);
    return status ? status : options_check(options);
}
