/* Names of columns, names that other tools give collectives and data types, and the bus factor of
 * each collective. */
#include "results/read/rows.h"

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

/* Longer names come before those that are their prefixes. */
static const struct collective {
    const char *letters, *name;
} collectives[] = {
    {"allreduce", "allreduce"},   {"allgather", "allgather"}, {"reducescatter", "reduce_scatter"},
    {"alltoallv", "alltoallv"},   {"alltoall", "alltoall"},   {"broadcast", "broadcast"},
    {"bcast", "broadcast"},       {"reduce", "reduce"},       {"sendrecv", "sendrecv"},
    {"allgatherv", "allgatherv"}, {"hypercube", "hypercube"}, {"gather", "gather"},
    {"scatter", "scatter"},
};

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

const char *results_collective(const char *name)
{
    char letters[64];
    plain_letters(name, letters, sizeof letters);
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(letters, collectives[i].letters) == 0)
            return collectives[i].name;
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

/* The factors of nccl-tests' PERFORMANCE.md. */
double results_bus_factor(const char *collective, int nranks)
{
    double n = nranks;
    if (strcmp(collective, "allreduce") == 0)
        return 2 * (n - 1) / n;
    if (strncmp(collective, "all", 3) == 0 || strcmp(collective, "reduce_scatter") == 0 ||
        strcmp(collective, "gather") == 0 || strcmp(collective, "scatter") == 0)
        return (n - 1) / n;
    return 1;
}
