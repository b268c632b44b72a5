/*
 * Reads the output of the OSU microbenchmarks and the Intel MPI benchmarks. Both print the size
 * that one rank contributes; weir's size is the larger of what a rank sends and receives.
 */
#include "results/read/load.h"

#include <string.h>

enum { TOKENS = 12 };

/* Whether every rank has a block for every rank. */
static int has_blocks(const char *collective)
{
    return strcmp(collective, "allgather") == 0 || strncmp(collective, "alltoall", 8) == 0;
}

typedef struct section {
    results_set *set;
    const results_input *input;
    results_origin origin;
    int line, number;
    const char *collective; /* NULL: weir does not have it */
    const char *dtype;
    int ranks;
} section;

static void add(section *in, const char *size, const char *time, const char *least,
                const char *most, const char *iterations)
{
    results_row row = results_row_make(in->input->path, in->line, in->origin);
    unsigned long long bytes = 0;
    int reduces = strstr(in->collective, "reduce") != NULL;
    int rooted = strcmp(in->collective, "broadcast") == 0 || strcmp(in->collective, "reduce") == 0;
    row.text[RESULTS_BYTES] = size;
    if (results_whole(size, &bytes) == 0 && has_blocks(in->collective) && in->ranks > 0)
        row.text[RESULTS_BYTES] =
            results_keep_printed(in->set, "%llu", bytes * (unsigned long long)in->ranks);
    if (in->ranks > 0)
        row.text[RESULTS_NRANKS] = results_keep_printed(in->set, "%d", in->ranks);
    row.text[RESULTS_RUN_ID] = results_keep_printed(in->set, "%.200s#%d", in->input->path,
                                                    in->number);
    row.text[RESULTS_COLLECTIVE] = in->collective;
    row.text[RESULTS_CONTENDER] = "mpi";
    row.text[RESULTS_DTYPE] = in->dtype ? in->dtype : reduces ? "float" : "uint8";
    row.text[RESULTS_REDOP] = reduces ? "sum" : "none";
    row.text[RESULTS_ROOT] = rooted ? "0" : "-1";
    row.text[RESULTS_PLACEMENT] = "out";
    row.text[RESULTS_ITERS] = iterations;
    row.text[RESULTS_MEDIAN_US] = time;
    row.text[RESULTS_MIN_US] = least;
    row.text[RESULTS_MAX_US] = most;
    row.text[RESULTS_VERIFY] = "off";
    results_add(in->set, &row);
}

/* # OSU MPI-CUDA Allreduce Latency Test v7.4 */
static void read_osu_title(section *in, const char *line)
{
    char name[96] = "";
    const char *from = strchr(line + strlen("# OSU "), ' ');
    const char *to = strstr(line, " Latency Test");
    if (from && to && to > from && (size_t)(to - from) < sizeof name)
        memcpy(name, from, (size_t)(to - from));
    in->collective = results_collective(name);
    in->dtype = NULL;
    in->ranks = in->set->ranks;
    in->number++;
    if (!in->collective)
        results_note(in->set, in->input->path, in->line, "unknown collective '%s'", line + 2);
}

void results_read_osu(results_set *set, results_input *input)
{
    char *at = input->text, *end = input->text + input->length, *line;
    section in = {.set = set, .input = input, .origin = RESULTS_OSU};
    while ((line = results_next_line(&at, end))) {
        char *tokens[TOKENS], type[32];
        unsigned long long bytes;
        in.line++;
        if (strncmp(line, "# OSU ", 6) == 0)
            read_osu_title(&in, line);
        else if (sscanf(line, "# Datatype: %31[A-Z_]", type) == 1)
            in.dtype = results_dtype(results_keep_text(set, type, strlen(type)));
        if (line[0] == '#' || !in.collective)
            continue;
        int count = results_split(line, tokens, TOKENS);
        if (count < 2 || results_whole(tokens[0], &bytes) != 0)
            continue;
        add(&in, tokens[0], tokens[1], count >= 4 ? tokens[2] : "", count >= 4 ? tokens[3] : "",
            count >= 5 ? tokens[4] : "");
    }
}

/* # Benchmarking Allreduce */
static void read_imb_title(section *in, const char *line)
{
    char name[96] = "";
    sscanf(line, "# Benchmarking %95s", name);
    in->collective = results_collective(name);
    in->ranks = 0;
    in->number++;
    if (!in->collective)
        results_note(in->set, in->input->path, in->line, "unknown collective '%s'", name);
}

void results_read_imb(results_set *set, results_input *input)
{
    char *at = input->text, *end = input->text + input->length, *line;
    section in = {.set = set, .input = input, .origin = RESULTS_IMB};
    while ((line = results_next_line(&at, end))) {
        char *tokens[TOKENS];
        unsigned long long bytes;
        in.line++;
        if (strncmp(line, "# Benchmarking ", 15) == 0)
            read_imb_title(&in, line);
        else if (sscanf(line, "# #processes = %d", &in.ranks) == 1 && in.ranks < 1)
            in.ranks = 0;
        if (line[0] == '#' || !in.collective)
            continue;
        int count = results_split(line, tokens, TOKENS);
        if (count < 2 || results_whole(tokens[0], &bytes) != 0)
            continue;
        if (count < 5)
            results_note(set, input->path, in.line, "a row of %d fields (cut off?); left out",
                         count);
        else if (bytes > 0)
            add(&in, tokens[0], tokens[3], tokens[2], tokens[3], tokens[1]);
    }
}
