/*
 * Selection: the tuning table, and the algorithm that each communicator uses for each size. The
 * built-in rows are in tuning.c. For every collective that the file named by WEIR_TUNING has
 * matching rows for, those replace the built-in ones. A file has one row per line, of five words
 * and on GPUs perhaps a grid; # begins a comment:
 *
 *   collective  max_ranks  cores  max_bytes  algorithm  [blocks x threads]
 *   allreduce   2          own    16K        packet
 *   allreduce   2          own    -          fused
 *   allreduce   4          cuda   512        packet     1x64
 *
 * cores is "own" if every rank has a core, "shared" if ranks outnumber the cores, "any" for both,
 * "cuda" for ranks on GPUs ("cuda:8" if their kernels have at most 8 thread blocks,
 * weir_comm_config.max_blocks), and "net" for ranks on several nodes, or "net-shared" if they
 * outnumber the cores of a machine, some of them share a node, and they use no GPUs. plain-own,
 * plain-shared and plain are the same as own, shared and any for calls on memory that peers cannot
 * map: where the other rows choose an algorithm that needs mapped memory, these rows replace it.
 * max_bytes is the size that a benchmark prints (the larger one of bytes sent and received); "-" is
 * no limit. Of the rows that match a communicator, those with the smallest max_ranks, and with the
 * cores of the first of them, are used, in order of size. A collective without rows is served by
 * its first row of the algorithm table. The built-in rows also have "own-traded", for two ranks
 * that trade their slots (coll.h), and "own-numa", for ranks on several NUMA nodes.
 *
 * Between nodes the built-in rows were measured on up to MEASURED_NODES nodes. For more, and
 * without rows in the file, a cost model selects (coll/internode/cost.h) in all collectives but
 * alltoallv and sendrecv, with the values of the transport or those of a line of the file: the word
 * cost, the latency of a message and the time for which it occupies a rank in microseconds, the
 * bandwidth of a rank in GB/s, and for a node the latency of a phase in microseconds and the
 * bandwidth of memory in GB/s:
 *
 *   cost  30  15  1.0  8  4.0
 *
 * An algorithm plan:FILE is a plan (planned.h); FILE is relative to the table's folder. Calls that
 * the plan cannot serve go to the next row for their size, and after the file's rows to the
 * built-in ones.
 */
#include "base/c_locale.h"
#include "base/contract.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/words.h"
#include "coll/algos.h"
#include "coll/coll.h"
#include "coll/internode/cost.h"
#include "coll/planned.h"
#include "coll/tuning.h"
#include "comm/internode/internode.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 256, LINE_BYTES = 256, MEASURED_NODES = 4 };

static const weiri_algo *find_algo(weir_algo_backend backend, int collective, const char *name)
{
    for (size_t i = 0; i < weiri_algo_table_rows; i++)
        if ((int)weiri_algo_table[i]->info.collective == collective &&
            weiri_algo_table[i]->info.backend == backend &&
            strcmp(weiri_algo_table[i]->info.name, name) == 0)
            return weiri_algo_table[i];
    return NULL;
}

static const weiri_algo *first_algo(weir_algo_backend backend, int collective)
{
    for (size_t i = 0; i < weiri_algo_table_rows; i++)
        if ((int)weiri_algo_table[i]->info.collective == collective &&
            weiri_algo_table[i]->info.backend == backend)
            return weiri_algo_table[i];
    return NULL;
}

static int is_known(const weiri_algo *row, weir_algo_backend backend, int collective)
{
    return row->info.backend == backend &&
           (collective < 0 || (int)row->info.collective == collective);
}

/* The names of a collective's algorithms (-1: of all collectives), each once, for messages. */
static const char *known_algos(weir_algo_backend backend, int collective, char *text, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < weiri_algo_table_rows && used < bytes; i++) {
        int is_new = is_known(weiri_algo_table[i], backend, collective);
        for (size_t j = 0; j < i && is_new; j++)
            is_new = !is_known(weiri_algo_table[j], backend, collective) ||
                     strcmp(weiri_algo_table[j]->info.name, weiri_algo_table[i]->info.name) != 0;
        if (is_new)
            used +=
                (size_t)snprintf(text + used, bytes - used, ", %s", weiri_algo_table[i]->info.name);
    }
    return text;
}

static int find_collective(const char *name)
{
    for (int i = 0; i < WEIR_COLL_COUNT; i++)
        if (strcmp(weir_collective_name((weir_collective)i), name) == 0)
            return i;
    return -1;
}

/* "16K" -> 16384, "-" -> no limit. Returns -1 for other texts. */
static int parse_bytes(const char *text, uint64_t *bytes)
{
    if (strcmp(text, "-") == 0) {
        *bytes = UINT64_MAX;
        return 0;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    static const char suffixes[] = "KMG";
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    const int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    /* strtoull accepts "-5". */
    if (*text < '0' || *text > '9' || errno || (*end && (!suffix || end[1])) ||
        number > UINT64_MAX >> shift)
        return -1;
    *bytes = (uint64_t)number << shift;
    return 0;
}

static weir_algo_backend tuning_backend(const weiri_tuning_row *row)
{
    if (strncmp(row->cores, "net", 3) == 0)
        return WEIR_ALGO_INTERNODE;
    return strncmp(row->cores, "cuda", 4) == 0 ? WEIR_ALGO_CUDA : WEIR_ALGO_HOST;
}

/* The thread blocks up to which a row is for GPUs: of "cuda:8" 8, of other rows INT_MAX; 0 for a
 * number that is none. */
static int row_blocks(const weiri_tuning_row *row)
{
    int blocks;
    char extra;
    if (strncmp(row->cores, "cuda:", 5) != 0)
        return INT_MAX;
    return sscanf(row->cores, "cuda:%d%c", &blocks, &extra) == 1 && blocks > 0 ? blocks : 0;
}

/* "16x64", or an empty text for the default grid. Returns -1 for other texts. */
static int parse_grid(const char *text, int *blocks, int *threads)
{
    char extra;
    *blocks = *threads = 0;
    if (!*text)
        return 0;
    return sscanf(text, "%dx%d%c", blocks, threads, &extra) == 2 && *blocks > 0 && *threads > 0 &&
                   *threads <= 1024 && *threads % 32 == 0
               ? 0
               : -1;
}

static int is_cores_word(const char *word)
{
    static const char *const words[] = {"any",          "own",  "shared", "plain",     "plain-own",
                                        "plain-shared", "cuda", "net",    "net-shared"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], word) == 0)
            return 1;
    return 0;
}

/* Whether a row is for calls on memory that peers cannot map. */
static int is_plain(const weiri_tuning_row *row)
{
    return strncmp(row->cores, "plain", 5) == 0;
}

static int needs_mapped(const weiri_tuning_row *row, weir_collective collective)
{
    const weir_algo_info *info = weir_algo_info_find(WEIR_ALGO_HOST, collective, row->algo);
    return weiri_planned_is(row->algo) || (info && info->needs_mapped);
}

static weir_status tuning_check_row(const weiri_tuning_row *row, const char *file, int line)
{
    uint64_t bytes;
    int blocks, threads;
    char known[256] = "";
    int collective = find_collective(row->collective);
    if (collective < 0)
        return weiri_fail(WEIR_ERR_INVALID, "%s:%d: unknown collective '%s'", file, line,
                          row->collective);
    if (weiri_planned_is(row->algo) &&
        (weiri_contract_of((int)collective)->is_uneven || *row->grid))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s:%d: %s of %s: plans have no grid, and serve collectives with equal "
                          "blocks",
                          file, line, row->algo, row->collective);
    /* Rows for GPUs are correct also in a build without them. */
    if (!weiri_planned_is(row->algo) && first_algo(tuning_backend(row), collective) &&
        !find_algo(tuning_backend(row), collective, row->algo))
        return weiri_fail(WEIR_ERR_INVALID, "%s:%d: %s has no algorithm '%s'; known are auto%s",
                          file, line, row->collective, row->algo,
                          known_algos(tuning_backend(row), collective, known, sizeof known));
    if (!is_cores_word(row->cores) && (row_blocks(row) == INT_MAX || !row_blocks(row)))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s:%d: cores is '%s'; expected own, shared, any, plain-own, "
                          "plain-shared, plain, cuda, cuda:BLOCKS, net or net-shared",
                          file, line, row->cores);
    if (is_plain(row) && needs_mapped(row, (weir_collective)collective))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s:%d: %s needs memory that peers can map; give %s rows another "
                          "algorithm",
                          file, line, row->algo, row->cores);
    if (parse_grid(row->grid, &blocks, &threads))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s:%d: grid is '%s'; expected blocks x threads such as 16x64, threads a "
                          "multiple of 32",
                          file, line, row->grid);
    if (row->max_ranks < 1 || parse_bytes(row->max_bytes, &bytes))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s:%d: expected max_ranks >= 1 and a size such as 16K or -", file, line);
    return WEIR_OK;
}

/* Reads the next line without its comment, which may have any length. Returns 1; 0 at the end of
 * the file or after an error; -1 if the line is too long or not text. */
static int next_line(FILE *file, char text[LINE_BYTES])
{
    if (!fgets(text, LINE_BYTES, file))
        return 0;
    size_t length = strcspn(text, "#\n");
    /* Neither a comment nor the end of the line: the end of the file, or more than fits. */
    if (!text[length] && !feof(file) && (length + 1 < LINE_BYTES || getc(file) != EOF))
        return -1;
    int is_open = text[length] == '#' && !strchr(text + length, '\n');
    for (int next = 0; is_open && next != '\n' && next != EOF;)
        next = getc(file);
    text[length] = '\0';
    return 1;
}

/* A tuning file: its rows, and the line of each. */
typedef struct tuning_file {
    const char *path;
    int has_cost;
    weir_net_cost cost;
    size_t count;
    weiri_tuning_row rows[ROWS_MAX];
    int lines[ROWS_MAX];
} tuning_file;

/* Reads a line that is not empty into a row. */
static weir_status tuning_read_row(const char *text, weiri_tuning_row *row, const char *path,
                                   int line)
{
    char extra[2];
    int words = sscanf(text, "%23s %d %15s %23s %255s %15s %1s", row->collective, &row->max_ranks,
                       row->cores, row->max_bytes, row->algo, row->grid, extra);
    if (words != 5 && words != 6)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s:%d: expected 'collective max_ranks cores max_bytes algorithm "
                          "[blocks x threads]'",
                          path, line);
    return tuning_check_row(row, path, line);
}

/* Reads a line "cost". */
static weir_status tuning_read_cost(const char *text, tuning_file *read, int line)
{
    weir_net_cost *cost = &read->cost;
    char extra[2];
    const locale_t before = weiri_c_locale_begin();
    const int words =
        sscanf(text, " cost %lf %lf %lf %lf %lf %1s", &cost->latency_us, &cost->message_us,
               &cost->network_gbs, &cost->phase_us, &cost->memory_gbs, extra);
    weiri_c_locale_end(before);
    read->has_cost = words == 5 && cost->latency_us > 0 && cost->message_us >= 0 &&
                     cost->network_gbs > 0 && cost->phase_us >= 0 && cost->memory_gbs > 0;
    return read->has_cost ? WEIR_OK
                          : weiri_fail(WEIR_ERR_INVALID,
                                       "%s:%d: expected 'cost latency_us message_us network_gbs "
                                       "phase_us memory_gbs', five positive numbers",
                                       read->path, line);
}

static int is_cost_line(const char *text)
{
    char word[6];
    return sscanf(text, "%5s", word) == 1 && strcmp(word, "cost") == 0;
}

static weir_status read_rows(const char *path, tuning_file *read)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "cannot read the tuning file %s", path);
    char text[LINE_BYTES];
    int found = 1;
    weir_status status = WEIR_OK;
    read->path = path;
    for (int line = 1; status == WEIR_OK && (found = next_line(file, text)) != 0; line++) {
        if (found < 0)
            status = weiri_fail(WEIR_ERR_INVALID,
                                "%s:%d: expected text of at most %d characters before a comment",
                                path, line, LINE_BYTES - 1);
        else if (text[strspn(text, " \t\r")] == '\0')
            continue;
        else if (is_cost_line(text))
            status = tuning_read_cost(text, read, line);
        else if (read->count == ROWS_MAX)
            status = weiri_fail(WEIR_ERR_INVALID, "%s: more than %d rows", path, ROWS_MAX);
        else {
            read->lines[read->count] = line;
            status = tuning_read_row(text, &read->rows[read->count++], path, line);
        }
    }
    if (status == WEIR_OK && ferror(file))
        status = weiri_fail_errno(WEIR_ERR_INVALID, errno, "cannot read the tuning file %s", path);
    fclose(file);
    return status;
}

weir_algo_backend weir_comm_algo_backend(const weir_comm *comm)
{
    if (comm->internode)
        return WEIR_ALGO_INTERNODE;
    return comm->gpu ? WEIR_ALGO_CUDA : WEIR_ALGO_HOST;
}

/* The word for cores of the rows for this communicator. */
static const char *cores_of(const weir_comm *comm)
{
    if (comm->internode)
        return comm->crowding > 1 && comm->internode->most > 1 && !comm->gpu ? "net-shared" : "net";
    return comm->gpu ? "cuda" : comm->oversubscribed ? "shared" : "own";
}

static int row_matches(const weiri_coll *coll, const weiri_tuning_row *row, int plain)
{
    const char *cores = cores_of(coll->comm);
    if (plain != is_plain(row) || coll->nranks > row->max_ranks)
        return 0;
    if (coll->comm->internode && strcmp(row->cores, "net") == 0)
        return 1;
    if (weir_comm_algo_backend(coll->comm) == WEIR_ALGO_CUDA && row_blocks(row) != INT_MAX)
        return coll->comm->budget.most && coll->comm->budget.most <= row_blocks(row);
    if (weir_comm_algo_backend(coll->comm) != WEIR_ALGO_HOST)
        return strcmp(row->cores, cores) == 0;
    const char *word = row->cores + (plain ? strlen("plain") : 0) + (plain && row->cores[5] == '-');
    return strcmp(word, plain ? "" : "any") == 0 || strcmp(word, cores) == 0 ||
           (coll->trades && strcmp(word, "own-traded") == 0) ||
           (!coll->comm->oversubscribed && coll->comm->ndomains > 1 &&
            strcmp(word, "own-numa") == 0);
}

/* Says how many of the file's rows of a collective are used. */
static void log_used_rows(const weiri_coll *coll, int collective, const tuning_file *file, int used)
{
    weiri_log(WEIRI_LOG_INFO, "%s: %d row%s of %s serve%s these %d ranks ('%s')", file->path, used,
              weiri_s((unsigned)used), weir_collective_name((weir_collective)collective),
              used == 1 ? "s" : "", coll->nranks, cores_of(coll->comm));
}

/* Logs that none of the file's rows of a collective is for these ranks. */
static void log_unused_rows(const weiri_coll *coll, int collective, const tuning_file *file)
{
    const char *name = weir_collective_name((weir_collective)collective);
    for (size_t i = 0; i < file->count; i++) {
        const weiri_tuning_row *row = &file->rows[i];
        if (is_plain(row) || strcmp(row->collective, name) != 0)
            continue;
        weiri_log(WEIRI_LOG_INFO,
                  "%s:%d: the rows of %s are not used: they are for up to %d ranks and '%s', these "
                  "are %d ranks and '%s'",
                  file->path, file->lines[i], name, row->max_ranks, row->cores, coll->nranks,
                  cores_of(coll->comm));
        return;
    }
}

static weiri_choice choice_of(const weiri_algo *algo, uint64_t max_bytes, int blocks, int threads)
{
    weiri_choice choice = {max_bytes, algo, NULL, blocks, threads, ""};
    if (algo && blocks)
        snprintf(choice.name, sizeof choice.name, "%s:%dx%d", algo->info.name, blocks, threads);
    else if (algo)
        snprintf(choice.name, sizeof choice.name, "%s", algo->info.name);
    return choice;
}

/* The first row of the group that this communicator uses. */
static const weiri_tuning_row *find_group(const weiri_coll *coll, int collective, int plain,
                                          const weiri_tuning_row *rows, size_t count)
{
    const weiri_tuning_row *group = NULL;
    const char *name = weir_collective_name((weir_collective)collective);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].collective, name) == 0 && row_matches(coll, &rows[i], plain) &&
            (!group || rows[i].max_ranks < group->max_ranks ||
             (rows[i].max_ranks == group->max_ranks && row_blocks(&rows[i]) < row_blocks(group))))
            group = &rows[i];
    return group;
}

/* Whether this communicator uses a row because it uses the group. */
static int is_in_group(const weiri_coll *coll, const weiri_tuning_row *row,
                       const weiri_tuning_row *group, int plain)
{
    return strcmp(row->collective, group->collective) == 0 && row_matches(coll, row, plain) &&
           row->max_ranks == group->max_ranks && strcmp(row->cores, group->cores) == 0;
}

/* Fails if a file's rows fill all choices but the last one, and row i is one more. */
static weir_status check_room(const weiri_coll *coll, const tuning_file *file, size_t i, int used)
{
    if (!file || used < WEIRI_CHOICES_MAX - 1)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s:%d: more than %d rows of %s for communicators like this one of %d ranks; "
                      "join rows of the same algorithm",
                      file->path, file->lines[i], WEIRI_CHOICES_MAX - 1, file->rows[i].collective,
                      coll->nranks);
}

/* Appends the choices of one collective from the rows of a group to the first *used ones. file:
 * the file of the rows; NULL: built-in ones. */
static weir_status add_rows(weiri_coll *coll, int collective, const weiri_tuning_row *rows,
                            size_t count, const tuning_file *file, int *used)
{
    const weiri_tuning_row *group = find_group(coll, collective, 0, rows, count);
    weir_status status = WEIR_OK;
    const int before = *used;
    if (file && !group && coll->rank == 0)
        log_unused_rows(coll, collective, file);
    for (size_t i = 0; group && i < count; i++) {
        const weiri_tuning_row *row = &rows[i];
        if (!is_in_group(coll, row, group, 0))
            continue;
        if (weiri_planned_is(row->algo) && coll->comm->parent)
            continue; /* phases across nodes promise the rounding of built-in algorithms */
        status = check_room(coll, file, i, *used);
        if (status != WEIR_OK || *used == WEIRI_CHOICES_MAX - 1)
            return status;
        uint64_t max_bytes;
        int blocks, threads;
        parse_bytes(row->max_bytes, &max_bytes);
        parse_grid(row->grid, &blocks, &threads);
        weiri_choice *choice = &coll->tuned[collective][(*used)++];
        *choice = choice_of(find_algo(weir_comm_algo_backend(coll->comm), collective, row->algo),
                            max_bytes, blocks, threads);
        if (file && weiri_planned_is(row->algo)) /* built-in rows have no plans */
            status = weiri_planned_add(coll, (weir_collective)collective, file->path,
                                       file->lines[i], row->algo, &choice->planned);
        if (status != WEIR_OK)
            return status;
    }
    if (file && *used > before && coll->rank == 0)
        log_used_rows(coll, collective, file, *used - before);
    return WEIR_OK;
}

/* Whether the cost model selects a collective's algorithms, which it does by the size of calls, on
 * which all ranks must agree. */
static int is_modelled(const weiri_coll *coll, int collective)
{
    const weiri_internode *internode = coll->comm->internode;
    return internode && internode->nnodes > MEASURED_NODES &&
           !weiri_contract_of((int)collective)->is_uneven;
}

/* Appends the choices of the cost model: for each power of two the cheapest algorithm, up to half
 * way to the next one. */
static void add_modelled(weiri_coll *coll, int collective, const tuning_file *file, int *used)
{
    const weiri_internode *internode = coll->comm->internode;
    const weir_net_cost *cost =
        file && file->has_cost ? &file->cost : weiri_net_cost_of(internode->net->ops->transport);
    const weiri_net_shape shape = weiri_net_shape_of(coll->comm);
    weiri_choice *choices = coll->tuned[collective];
    const int first = *used;
    for (size_t bytes = 8; bytes <= (size_t)1 << 30 && *used < WEIRI_CHOICES_MAX - 1; bytes *= 2) {
        const weiri_algo *algo =
            weiri_internode_cheapest(cost, shape, (weir_collective)collective, bytes);
        if (*used > first && choices[*used - 1].algo == algo)
            choices[*used - 1].max_bytes = bytes + bytes / 2;
        else if (algo)
            choices[(*used)++] = choice_of(algo, bytes + bytes / 2, 0, 0);
    }
}

/* Appends the choices for unregistered memory from the rows of a group. */
static weir_status add_plain_rows(weiri_coll *coll, int collective, const weiri_tuning_row *rows,
                                  size_t count, const tuning_file *file, int *used)
{
    const weiri_tuning_row *group = find_group(coll, collective, 1, rows, count);
    for (size_t i = 0; group && i < count; i++) {
        const weiri_tuning_row *row = &rows[i];
        uint64_t max_bytes;
        if (!is_in_group(coll, row, group, 1))
            continue;
        weir_status status = check_room(coll, file, i, *used);
        if (status != WEIR_OK || *used == WEIRI_CHOICES_MAX - 1)
            return status;
        parse_bytes(row->max_bytes, &max_bytes);
        coll->plain[collective][(*used)++] =
            choice_of(find_algo(WEIR_ALGO_HOST, collective, row->algo), max_bytes, 0, 0);
    }
    return WEIR_OK;
}

/* Fills the choices of one collective for unregistered memory, and cma_from_bytes. */
static weir_status fill_plain(weiri_coll *coll, int collective, const tuning_file *file)
{
    weiri_choice *choices = coll->plain[collective];
    int used = 0;
    coll->cma_from_bytes[collective] = UINT64_MAX;
    weir_status status = WEIR_OK;
    if (weir_comm_algo_backend(coll->comm) != WEIR_ALGO_HOST)
        return WEIR_OK;
    if (file)
        status = add_plain_rows(coll, collective, file->rows, file->count, file, &used);
    coll->cma_tuned[collective] = used > 0;
    if (!used)
        status = add_plain_rows(coll, collective, weiri_tuning_rows, weiri_tuning_row_count, NULL,
                                &used);
    const weiri_algo *last = used ? choices[used - 1].algo : first_algo(WEIR_ALGO_HOST, collective);
    choices[used] = choice_of(last, UINT64_MAX, 0, 0);
    for (int i = used; i >= 0 && strcmp(choices[i].name, "cma") == 0; i--)
        coll->cma_from_bytes[collective] = i ? choices[i - 1].max_bytes + 1 : 0;
    return status;
}

weir_status weiri_algo_fall_back_plain(weiri_coll *coll, const weiri_task *task)
{
    const weiri_choice *choice = coll->plain[task->call->collective];
    while (task->size_bytes > choice->max_bytes)
        choice++;
    const weiri_algo *algo = strcmp(choice->name, "cma") == 0
                                 ? first_algo(WEIR_ALGO_HOST, (int)task->call->collective)
                                 : choice->algo;
    coll->epoch--; /* the algorithm begins it again */
    return weiri_algo_fall_back(coll, task, algo);
}

/* Fills the choices of one collective: the rows of the file; the built-in ones if there are none,
 * or plans, which may not serve every call; and one without a limit. */
static weir_status fill_choices(weiri_coll *coll, int collective, const tuning_file *file)
{
    weiri_choice *choices = coll->tuned[collective];
    const weiri_algo *fallback = first_algo(weir_comm_algo_backend(coll->comm), collective);
    int used = 0, has_plans = 0;
    weir_status status = WEIR_OK;
    if (file)
        status = add_rows(coll, collective, file->rows, file->count, file, &used);
    for (int i = 0; i < used; i++)
        has_plans |= choices[i].planned != NULL;
    if (status == WEIR_OK && (used == 0 || has_plans) && is_modelled(coll, collective))
        add_modelled(coll, collective, file, &used);
    else if (status == WEIR_OK && (used == 0 || has_plans))
        status = add_rows(coll, collective, weiri_tuning_rows, weiri_tuning_row_count, NULL, &used);
    if (used && choices[used - 1].algo)
        fallback = choices[used - 1].algo;
    if (used == 0 || choices[used - 1].max_bytes != UINT64_MAX || choices[used - 1].planned)
        choices[used] = choice_of(fallback, UINT64_MAX, 0, 0);
    return status;
}

/* Whether an invariant communicator may not use an algorithm. Two ranks of one node have the same
 * bits in either order. */
static int is_out_of_order(const weiri_coll *coll, const weiri_algo *algo)
{
    return coll->comm->invariant && algo->info.in_order &&
           (coll->nranks > 2 || coll->comm->internode);
}

static weir_status check_order(const weiri_coll *coll, int collective, const weiri_algo *algo)
{
    return !is_out_of_order(coll, algo)
               ? WEIR_OK
               : weiri_fail(WEIR_ERR_INVALID,
                            "%s '%s' does not combine contributions in rank order, as an invariant "
                            "communicator must; '%s' does",
                            weir_collective_name((weir_collective)collective), algo->info.name,
                            algo->info.in_order);
}

static void force_algo(weiri_coll *coll, int collective, const weiri_algo *algo, int blocks,
                       int threads)
{
    coll->choices[collective][0] = choice_of(algo, UINT64_MAX, blocks, threads);
}

/* WEIR_ALGO names an algorithm of any collective; collectives that lack it are not changed. */
static weir_status apply_environment(weiri_coll *coll)
{
    const char *name = weiri_env(WEIRI_ENV_ALGO);
    if (!name || strcmp(name, "auto") == 0)
        return WEIR_OK;
    int found = 0;
    for (int collective = 0; collective < WEIR_COLL_COUNT; collective++) {
        const weiri_algo *algo = find_algo(weir_comm_algo_backend(coll->comm), collective, name);
        const weir_status status = algo ? check_order(coll, collective, algo) : WEIR_OK;
        if (status != WEIR_OK)
            return status;
        if (algo)
            force_algo(coll, collective, algo, 0, 0);
        found |= algo != NULL;
    }
    char known[512] = "";
    return found ? WEIR_OK
                 : weiri_fail(
                       WEIR_ERR_INVALID, "%s=%s: no collective has it; known are auto%s",
                       weiri_env_name(WEIRI_ENV_ALGO), name,
                       known_algos(weir_comm_algo_backend(coll->comm), -1, known, sizeof known));
}

/* Replaces what an invariant communicator may not use: algorithms by those that combine in rank
 * order, and plans, whose order nobody knows, by the next choice. */
static void keep_order(const weiri_coll *coll, int collective, weiri_choice *choices)
{
    int kept = 0;
    if (!coll->comm->invariant || !weiri_contract_of(collective)->reduces || !choices[0].max_bytes)
        return;
    for (int i = 0, is_last = 0; !is_last; i++) {
        weiri_choice choice = choices[i];
        is_last = choice.max_bytes == UINT64_MAX && !choice.planned;
        if (choice.planned)
            continue;
        if (is_out_of_order(coll, choice.algo))
            choice = choice_of(find_algo(weir_comm_algo_backend(coll->comm), collective,
                                         choice.algo->info.in_order),
                               choice.max_bytes, 0, 0);
        choices[kept++] = choice;
    }
}

weir_status weiri_coll_tune(weiri_coll *coll)
{
    tuning_file *read = NULL;
    weir_status status = WEIR_OK;
    const char *path = weiri_env(WEIRI_ENV_TUNING);
    if (path) {
        read = calloc(1, sizeof *read);
        status = read ? read_rows(path, read)
                      : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the tuning table");
    }
    for (int collective = 0; status == WEIR_OK && collective < WEIR_COLL_COUNT; collective++)
        status = fill_choices(coll, collective, read);
    for (int collective = 0; status == WEIR_OK && collective < WEIR_COLL_COUNT; collective++)
        status = fill_plain(coll, collective, read);
    free(read);
    for (int collective = 0; status == WEIR_OK && collective < WEIR_COLL_COUNT; collective++) {
        keep_order(coll, collective, coll->tuned[collective]);
        keep_order(coll, collective, coll->plain[collective]);
    }
    memcpy(coll->choices, coll->tuned, sizeof coll->choices);
    return status == WEIR_OK ? apply_environment(coll) : status;
}

/* The row and the grid (0 and 0: its default) that a name such as "packet:16x64" denotes. */
static weir_status parse_algo_name(const weiri_coll *coll, weir_collective collective,
                                   const char *name, const weiri_algo **algo, int *blocks,
                                   int *threads)
{
    weir_algo_backend backend = weir_comm_algo_backend(coll->comm);
    char word[24] = "", known[256] = "";
    size_t length = strcspn(name, ":");
    *blocks = *threads = 0;
    if (name[length] && (backend != WEIR_ALGO_CUDA || !name[length + 1] ||
                         parse_grid(name + length + 1, blocks, threads)))
        return weiri_fail(WEIR_ERR_INVALID,
                          "algorithm '%s': a grid is blocks x threads, on GPUs only: packet:16x64",
                          name);
    if (length < sizeof word)
        memcpy(word, name, length);
    *algo = find_algo(backend, (int)collective, word);
    if (!*algo)
        return weiri_fail(WEIR_ERR_INVALID, "%s has no algorithm '%s'; known are auto%s",
                          weir_collective_name(collective), name,
                          known_algos(backend, (int)collective, known, sizeof known));
    return check_order(coll, (int)collective, *algo);
}

weir_status weiri_coll_set_algo(weiri_coll *coll, weir_collective collective, const char *name)
{
    if (strcmp(name, "auto") == 0) {
        memcpy(coll->choices[collective], coll->tuned[collective], sizeof coll->tuned[collective]);
        return WEIR_OK;
    }
    const weiri_algo *algo = NULL;
    int blocks = 0, threads = 0;
    const weir_status status = parse_algo_name(coll, collective, name, &algo, &blocks, &threads);
    if (status == WEIR_OK)
        force_algo(coll, (int)collective, algo, blocks, threads);
    return status;
}

weir_status weiri_coll_force_name(weiri_coll *coll, weir_collective collective, const char *name,
                                  const weiri_choice **choices)
{
    const weiri_algo *row = NULL;
    int blocks = 0, threads = 0;
    if (strcmp(name, "auto") == 0) {
        *choices = coll->tuned[collective];
        return WEIR_OK;
    }
    if (coll->forced.algo && coll->forced_collective == collective &&
        strcmp(coll->forced.name, name) == 0) { /* as in the previous call */
        *choices = &coll->forced;
        return WEIR_OK;
    }
    weir_status status = parse_algo_name(coll, collective, name, &row, &blocks, &threads);
    if (status != WEIR_OK)
        return status;
    coll->forced = choice_of(row, UINT64_MAX, blocks, threads);
    coll->forced_collective = collective;
    *choices = &coll->forced;
    return WEIR_OK;
}

int weir_comm_last_blocks(const weir_comm *comm)
{
    const weir_comm *gpus = comm->gpu_comm ? comm->gpu_comm : comm;
    return gpus->gpu ? gpus->last_blocks : 0;
}

const char *weir_comm_last_algo(const weir_comm *comm)
{
    const weiri_coll *coll = comm->coll;
    return coll ? coll->last_algo : "none";
}
