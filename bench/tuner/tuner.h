/*
 * NCCL's tuner: a plug-in (plugin.c, libnccl-tuner-weir.so) that NCCL asks which algorithm,
 * protocol and number of channels a collective should use. It follows a table (table.c), the file
 * that NCCL_TUNER_CONFIG_FILE names, in the format of the example plug-in of NCCL's sources:
 *
 *   collective,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks,operations,registered
 *
 * -1 is any, or NCCL's own choice of channels; the first row that fits counts. A benchmark that
 * opens the plug-in forces settings by its control instead.
 */
#ifndef BENCH_TUNER_TUNER_H
#define BENCH_TUNER_TUNER_H

#include <stddef.h>

/* In the order of NCCL's numbers, which its interface has had since version 3. */
enum { TUNER_COLLECTIVES = 5, TUNER_ALGORITHMS = 7, TUNER_PROTOCOLS = 3 };
extern const char *const bench_tuner_collectives[TUNER_COLLECTIVES];
extern const char *const bench_tuner_algorithms[TUNER_ALGORITHMS];
extern const char *const bench_tuner_protocols[TUNER_PROTOCOLS];

typedef struct tuner_setting {
    int algorithm, protocol, channels; /* channels -1: NCCL's choice */
} tuner_setting;

typedef struct tuner_row {
    int collective;
    unsigned long long min_bytes, max_bytes;
    tuner_setting setting;
    long nodes, ranks, operations, registered; /* -1: any */
} tuner_row;

typedef struct tuner_table {
    tuner_row *rows;
    int count;
} tuner_table;

/* What the benchmark wants of the next calls, and what became of it. One thread. */
typedef struct tuner_control {
    int is_in_control; /* 1: forces the setting, and no table counts */
    int forces;        /* 0: NCCL decides */
    tuner_setting setting;
    int asked, applied; /* since the benchmark cleared them: NCCL asked, and offered the setting */
} tuner_control;
#define TUNER_CONTROL "bench_tuner_control" /* the symbol, a tuner_control */

/* Reads a table, which the caller frees. Returns 0, or -1 with one line, "FILE:LINE: ...". */
int bench_tuner_read(const char *path, tuner_table *table, char *problem, size_t bytes);
/* Reads one line. Returns 1 for a row, 0 for an empty line or a comment, -1 with a problem. */
int bench_tuner_parse(char *line, tuner_row *row, const char **problem);
void bench_tuner_free(tuner_table *table);
/* The first row that fits a call; NULL: none. operations and registered -1: unknown, fits all. */
const tuner_row *bench_tuner_find(const tuner_table *table, int collective,
                                  unsigned long long bytes, long nodes, long ranks, long operations,
                                  long registered);

#endif
