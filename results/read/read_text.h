/*
 * The reader of logs: sections of nccl-tests, rccl-tests, weir's benchmarks, mscclpp-test, OSU and
 * IMB, any number in one file. Each section is recognised by its own header and begins without what
 * the one before said. Local.
 */
#ifndef RESULTS_READ_READ_TEXT_H
#define RESULTS_READ_READ_TEXT_H

#include "results/read/lines.h"
#include "results/read/table.h"

enum { RESULTS_NAME_BYTES = 32, RESULTS_HOSTS = 256, RESULTS_GROUPS_MOST = 64 };

typedef enum results_tool {
    RESULTS_TOOL_NONE,
    RESULTS_TOOL_NCCL,
    RESULTS_TOOL_OSU,
    RESULTS_TOOL_IMB
} results_tool;

/* Of a line: it may name the cause of a failure, or reports one. */
typedef enum results_trouble { RESULTS_NO_TROUBLE, RESULTS_HINT, RESULTS_FAILURE } results_trouble;

/* What the lists of devices of a section say. */
typedef struct results_devices {
    int ranks, listed; /* the highest rank and 1; lines */
    int zeros;         /* lines of rank 0 */
    int groups;        /* the highest group and 1 */
    int in_group[RESULTS_GROUPS_MOST];
    char *hosts[RESULTS_HOSTS]; /* of the first group; all of them if there is one group */
    int nhosts;
} results_devices;

/* A row of which a part was printed, with other text behind it. */
typedef struct results_part {
    char *fields[RESULTS_TABLE_CELLS];
    int count, line;
    int time_end; /* of its first time: characters from the start of the line; -1: not known */
} results_part;

/* A section of nccl-tests or a tool like it. */
typedef struct results_nccl {
    int level;                 /* the last part of its header that was seen: results_nccl_comment */
    int runs, headings;        /* programs that began before any table; lines of headings */
    int rows, tried;           /* rows that were read, and with those that were left out */
    int is_mscclpp, is_unread; /* is_unread: a table whose columns are not known */
    int names_out;             /* a line above the headings names the half out-of-place */
    const char *contender, *run;
    const char *collective, *nranks, *nnodes; /* as text, since the first row; NULL before */
    results_origin origin;
    results_devices devices;
    results_table table;
    const char *placements[RESULTS_TABLE_HALVES];
    results_part part;
    int has_footer, failed_values; /* whether the table has ended; what its footer counts */
    size_t first_row;              /* of the section, in the set */
} results_nccl;

/* A section of OSU or IMB. */
typedef struct results_mpi {
    const char *collective; /* NULL: weir does not have it */
    const char *dtype, *contender, *backend;
    int ranks, groups;
    int is_old, has_version; /* IMB before 2019.1; whether the version is in the file */
    int is_folded; /* a row had more fields than there are headings: rests may look like rows */
    results_table table;
} results_mpi;

typedef struct results_text {
    results_set *set;
    const char *path;
    int line;
    int indent; /* blanks before the line */
    results_tool tool;
    int sections;
    char collective[RESULTS_NAME_BYTES]; /* that the section names; "": none */
    char command[RESULTS_NAME_BYTES];    /* of the last command since the last table */
    int command_ranks;             /* that the last command of OSU gives its launcher; 0: none */
    char file[RESULTS_NAME_BYTES]; /* in the file's name */
    results_trouble trouble_kind;
    const char *trouble; /* the first line of that kind */
    int trouble_line;
    int rewritten; /* whether a message says that rows are of a Markdown table or have commas */
    int seen;      /* rows, of which some have no time */
    int one_rank_tables; /* sections of one rank, each in another source */
    results_nccl nccl;
    results_mpi mpi;
} results_text;

/* Whether a line divides the headings of a Markdown table from its rows; before it, a collector's
 * prefix may have been removed. */
int results_is_markdown(const char *line);

/* Reads the lines of a log. Returns whether it has any section of a known tool. */
int results_read_text(results_set *set, const char *path, const results_lines *lines);

/* Parts of it: the two families of tools. A comment is a line that begins with '#'; they return
 * whether it was theirs. */
void results_nccl_begin(results_text *in);
void results_nccl_end(results_text *in);
int results_nccl_comment(results_text *in, char *line);
void results_nccl_other(results_text *in, char *line);
void results_nccl_row(results_text *in, char *line);
int results_mpi_comment(results_text *in, char *line);
void results_mpi_row(results_text *in, char *line);

/* The name of a run: the file's, with the number of the section. */
const char *results_text_run(results_text *in);
/* How much a printed time may differ from what it stands for: half of its last digit, as the limits
 * of the row's time. text: as it was printed, in units of `scale` microseconds. */
void results_text_resolution(results_set *set, results_row *row, const char *text, double scale);
/* A time or size in the unit of its column, as text. */
const char *results_text_scaled(results_set *set, const results_cell *cell, const char *text);

#endif
