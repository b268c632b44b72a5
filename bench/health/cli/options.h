/* The options of weir-check as plain data. */
#ifndef BENCH_HEALTH_CLI_OPTIONS_H
#define BENCH_HEALTH_CLI_OPTIONS_H

#include <weir/weir.h>

typedef struct check_options {
    int help, version, fleet, bisect, quiet;
    const char *level, *ranks, *gpus, *nics, *baseline, *models, *tolerance, *peer, *timeout,
        *inject;
    const char *json, *junit, *ctrf, *prometheus, *markdown;
    const char *address, *hosts, *rank;  /* of a fleet */
    int nranks, ngpus, nnics, timeout_s; /* -1 or 0: not given */
    double share;                        /* of --tolerance, 0.2 by default */
} check_options;

/* Parses the command line. WEIR_ERR_INVALID with the option and what was expected. */
weir_status check_options_parse(int argc, char **argv, check_options *options);
void check_options_help(void);

#endif
