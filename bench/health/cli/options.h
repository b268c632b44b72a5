/* The options of weir-check as plain data. */
#ifndef BENCH_HEALTH_CLI_OPTIONS_H
#define BENCH_HEALTH_CLI_OPTIONS_H

#include <weir/weir.h>

typedef struct check_options {
    int help, version, fleet, bisect, quiet;
    int level; /* health_level */
    const char *baseline, *topology, *models, *peer, *inject;
    const char *json, *junit, *ctrf, *prometheus, *markdown;
    const char *address;                 /* of a fleet */
    int hosts, rank;                     /* of a fleet; 0 and -1: not given */
    int nranks, ngpus, nnics, timeout_s; /* ranks 0, GPUs and NICs -1: not given */
    double share;                        /* of --tolerance */
} check_options;

/* Parses the command line. WEIR_ERR_INVALID with the option and what was expected. */
weir_status check_options_parse(int argc, char **argv, check_options *options);
void check_options_help(void);

#endif
