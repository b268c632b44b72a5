/* The options of bench_replay. */
#ifndef BENCH_REPLAY_OPTIONS_H
#define BENCH_REPLAY_OPTIONS_H

#include "bench/options/options.h"
#include "programs/options.h"

typedef enum replay_buffers {
    REPLAY_BUFFERS_RECORDED, /* of each call as it was recorded */
    REPLAY_BUFFERS_REGISTERED,
    REPLAY_BUFFERS_UNREGISTERED
} replay_buffers;

typedef struct replay_options {
    bench_options common; /* what other benchmarks have as well */
    const char *convert;  /* --convert FILE; NULL: run the recording */
    int nranks;           /* --ranks; 0: those of the recording */
    const char *timeline; /* --timeline FILE */
    int gaps;             /* --gaps */
    int sms;              /* --sms: percent */
    size_t span_bytes;    /* --span */
    int ngpus_given;
    int buffers; /* --buffers: replay_buffers */
    int inject;  /* --inject: a bit of the last checked call's output is flipped */
    char **files;
    int nfiles;
} replay_options;

/* The options; the settings are replay_options. */
extern const weiri_options replay_options_table;

/* Parses the command line. Local. WEIR_ERR_INVALID: problem (BENCH_PROBLEM_BYTES) is one line that
 * names the option and the remedy. options points into argv. */
weir_status replay_options_parse(int argc, char **argv, replay_options *options, char *problem);
/* Prints --help. Local. */
void replay_options_help(FILE *to);

#endif
