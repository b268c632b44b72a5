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
} foreign[] = {{"allgatherv", 1}, {"gather", 1}, {"scatter", 1}, {"hypercube", 0}};
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
    for (int i = 0; i < WEIR_COLL_COUNT; i++) {
        const weiri_contract *contract = weiri_contract_of(i);
        if (is_spelled(letters, contract->name) ||
            is_spelled(letters, contract->mpi_function + strlen("MPI_")))
            return contract->name;
    }
    for (int i = 0; i < FOREIGN; i++)
        if (strcmp(letters, foreign[i].name) == 0)
            return foreign[i].name;
    return NULL;
}

const char *results_dtype(const char *text)
{
    static const char *const words[][2] = {
        {"fp8_e4m3", "f8e4m3"}, {"fp8_e5m2", "f8e5m2"}, {"float8_e4m3", "f8e4m3"},
        {"float8_e5m2", "f8e5m2"}, {"f32", "float"}, {"f64", "double"}, {"f16", "half"},
        {"bf16", "bfloat16"}, {"MPI_CHAR", "int8"}, {"MPI_BYTE", "uint8"}, {"MPI_INT", "int32"},
        {"MPI_FLOAT", "float"}, {"MPI_DOUBLE", "double"}, {"char", "int8"}, {"int", "int32"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i][0]) == 0)
            return words[i][1];
    return text;
}

double results_bus_factor(const char *collective, int nranks)
{
    for (int i = 0; i < WEIR_COLL_COUNT; i++)
        if (strcmp(collective, weiri_contract_of(i)->name) == 0)
            return weiri_contract_bus_factor(weiri_contract_of(i), nranks);
    for (int i = 0; i < FOREIGN; i++)
        if (strcmp(collective, foreign[i].name) == 0 && foreign[i].counts_others)
            return (double)(nranks - 1) / nranks;
    return 1;
}
