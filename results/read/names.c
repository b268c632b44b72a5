/* Names of columns, names that other tools give collectives and data types, and the bus factor of
 * each collective. */
#include "results/read/rows.h"

#include "base/contract.h"

#include <ctype.h>
#include <string.h>

#define COLUMN(enumerator, name, form) #name,
static const char *const columns[RESULTS_COLUMNS] = {WEIRI_COLUMNS(COLUMN)};
#undef COLUMN

const char *results_column_name(results_column column)
{
    return columns[column];
}

int results_column_find(const char *name)
{
    for (int i = 0; i < RESULTS_COLUMNS; i++)
        if (strcmp(columns[i], name) == 0)
            return i;
    return -1;
}

/* Collectives of other programs, which weir has not, with the bus factor that nccl-tests gives
 * them: (n-1)/n, or 1. */
static const struct foreign {
    const char *name;
    int counts_others;
} foreign[] = {{"allgatherv", 1}, {"hypercube", 0}};
enum { FOREIGN = sizeof foreign / sizeof *foreign };

/* A name in lower case, without the prefixes and suffixes that programs add. */
static void plain_letters(const char *name, char *letters, size_t bytes)
{
    static const char *const behind[] = {"perf", "test", "personalizedexchange"};
    size_t length = 0;
    for (; *name && length + 1 < bytes; name++)
        if (isalpha((unsigned char)*name))
            letters[length++] = (char)tolower((unsigned char)*name);
    letters[length] = '\0';
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        size_t tail = strlen(behind[i]);
        if (length > tail && strcmp(letters + length - tail, behind[i]) == 0)
            letters[length -= tail] = '\0';
    }
    if (strncmp(letters, "bench", 5) == 0)
        memmove(letters, letters + 5, strlen(letters + 5) + 1);
}

/* Whether letters are those of a name, which may have underscores and capitals. */
static int is_spelled(const char *letters, const char *name)
{
    for (; *name; name++)
        if (*name != '_' && *letters++ != tolower((unsigned char)*name))
            return 0;
    return !*letters;
}

const char *results_collective(const char *name)
{
    char letters[64];
    plain_letters(name, letters, sizeof letters);
    for (int i = 0; i < WEIRI_COLL_ROWS; i++) {
        const weiri_contract *contract = weiri_contract_of(i);
        if (i != WEIR_COLL_COUNT && (is_spelled(letters, contract->name) ||
                                     is_spelled(letters, contract->mpi_function + strlen("MPI_"))))
            return contract->name;
    }
    for (int i = 0; i < FOREIGN; i++)
        if (strcmp(letters, foreign[i].name) == 0)
            return foreign[i].name;
    return NULL;
}

int results_is_amd(const char *device)
{
    static const char *const words[] = {"AMD",   "Instinct", "Radeon", "gfx9",
                                        "gfx10", "gfx11",    "gfx12"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(device, words[i]))
            return 1;
    return 0;
}

const char *results_contender_detail(results_set *set, const char *contender, int is_cpu_time,
                                     int groups)
{
    char number[32] = "";
    if (!is_cpu_time && groups <= 1)
        return contender;
    if (groups > 1)
        snprintf(number, sizeof number, "%s%d-groups", is_cpu_time ? "-" : "", groups);
    return results_keep_printed(set, "%s%s%s%s", contender,
                                strchr(contender, ':') ? ":" : "::", is_cpu_time ? "cputime" : "",
                                number);
}

/* Spellings inside other text; * stands for one of "_-. " or nothing. Longer names come before
 * those that are their parts. */
static const struct {
    const char *spelling, *name;
} spellings[] = {
    {"all*reduce", "allreduce"},
    {"all*gather*v", "allgatherv"},
    {"all*gather", "allgather"},
    {"reduce*scatter*block", "reduce_scatter"},
    {"reduce*scatter", "reduce_scatter"},
    {"all*to*all*v", "alltoallv"},
    {"all*to*all", "alltoall"},
    {"broadcast", "broadcast"},
    {"bcast", "broadcast"},
    {"send*recv", "sendrecv"},
    {"hypercube", "hypercube"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"reduce", "reduce"},
};

/* The length of a spelling at the start of a text, 0 if it is another word. */
static size_t spelled(const char *text, const char *spelling)
{
    const char *at = text;
    for (; *spelling; spelling++) {
        if (*spelling == '*')
            at += *at && strchr("_-. ", *at) ? 1 : 0;
        else if (tolower((unsigned char)*at++) != *spelling)
            return 0;
    }
    return isalpha((unsigned char)*at) && strncmp(at, "perf", 4) != 0 ? 0 : (size_t)(at - text);
}

const char *results_collective_in(const char *text)
{
    const char *found = NULL;
    for (const char *at = text; *at;) {
        size_t length = 0, i = 0;
        const int is_start = at == text || !isalpha((unsigned char)at[-1]);
        while (is_start && i < sizeof spellings / sizeof *spellings &&
               (length = spelled(at, spellings[i].spelling)) == 0)
            i++;
        if (length > 0 && found && strcmp(found, spellings[i].name) != 0)
            return NULL;
        if (length > 0)
            found = spellings[i].name;
        at += length ? length : 1;
    }
    return found;
}

const char *results_dtype(const char *text)
{
    static const char *const words[][2] = {
        {"fp8_e4m3", "f8e4m3"},    {"fp8_e5m2", "f8e5m2"}, {"float8_e4m3", "f8e4m3"},
        {"float8_e5m2", "f8e5m2"}, {"f32", "float"},       {"f64", "double"},
        {"f16", "half"},           {"bf16", "bfloat16"},   {"MPI_CHAR", "int8"},
        {"MPI_BYTE", "uint8"},     {"MPI_INT", "int32"},   {"MPI_FLOAT", "float"},
        {"MPI_DOUBLE", "double"},  {"char", "int8"},       {"int", "int32"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i][0]) == 0)
            return words[i][1];
    return text;
}

/* The calls of bench_replay have their collective's factor. */
double results_bus_factor(const char *collective, int nranks)
{
    static const char replayed[] = "replay_";
    if (strncmp(collective, replayed, sizeof replayed - 1) == 0)
        collective += sizeof replayed - 1;
    for (int i = 0; i < WEIRI_COLL_ROWS; i++)
        if (i != WEIR_COLL_COUNT && strcmp(collective, weiri_contract_of(i)->name) == 0)
            return weiri_contract_bus_factor(weiri_contract_of(i), nranks);
    for (int i = 0; i < FOREIGN; i++)
        if (strcmp(collective, foreign[i].name) == 0 && foreign[i].counts_others)
            return (double)(nranks - 1) / nranks;
    return 1;
}
