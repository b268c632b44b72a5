/*
 * The frame of a test that takes arbitrary bytes: fuzz/test_NAME_input.c defines fuzz_input(). In
 * an ordinary build main() passes the files of fuzz/corpus/NAME to it, and changed copies of them,
 * the same ones in each run; arguments name other files. FUZZ_COPIES is the number of copies of
 * each file, FUZZ_START a seed. With BUILD=fuzz (`make fuzz`) libFuzzer calls it. An input that
 * once was a finding stays in the corpus.
 */
#ifndef VERIFY_TESTS_SUPPORT_FUZZ_INPUT_H
#define VERIFY_TESTS_SUPPORT_FUZZ_INPUT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Uses the bytes; calls FUZZ_DEMAND for what must hold. */
void fuzz_input(const uint8_t *data, size_t bytes);

#define FUZZ_DEMAND(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#ifdef WEIR_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fuzz_input(data, bytes);
    return 0;
}

#else

#include <dirent.h>

enum { FUZZ_BYTES_MAX = 1 << 16, FUZZ_CHANGED = 100 /* copies of each file */ };

/* Passes a copy of its exact size, so that a sanitizer sees reads beyond its end. */
static inline void fuzz_pass(const uint8_t *data, size_t bytes)
{
    uint8_t *exact = malloc(bytes + !bytes);
    if (!exact)
        abort();
    memcpy(exact, data, bytes);
    fuzz_input(exact, bytes);
    free(exact);
}

/* Changes, repeats or cuts a few bytes; returns the new length. */
static inline size_t fuzz_change(uint8_t *data, size_t bytes, uint32_t *state)
{
    uint32_t draws[4];
    for (int i = 0; i < 4; i++)
        draws[i] = (*state = *state * 1664525u + 1013904223u) >> 8;
    if (bytes < 2)
        return bytes;
    size_t at = draws[0] % bytes, piece = draws[1] % 16;
    if (draws[2] % 8 == 0)
        return at;
    if (draws[2] % 8 == 1 && at + piece < bytes && bytes + piece < FUZZ_BYTES_MAX) {
        memmove(data + at + piece, data + at, bytes - at);
        return bytes + piece;
    }
    data[at] = draws[2] % 2 ? (uint8_t)draws[3] : (uint8_t)(data[at] ^ 1u << draws[3] % 8);
    return bytes;
}

/* Passes a file and changed copies; returns 0 if the file cannot be read. */
static inline int fuzz_file(const char *path, int copies)
{
    static uint8_t original[FUZZ_BYTES_MAX], changed[FUZZ_BYTES_MAX];
    const char *start = getenv("FUZZ_START");
    uint32_t state = start ? (uint32_t)strtoul(start, NULL, 10) : 4711;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(original, 1, sizeof original, file);
    fclose(file);
    fuzz_pass(original, length);
    for (int i = 0; i < copies; i++) {
        size_t bytes = length;
        memcpy(changed, original, length);
        for (int changes = 1 + i % 4; changes; changes--)
            bytes = fuzz_change(changed, bytes, &state);
        fuzz_pass(changed, bytes);
    }
    return 1;
}

/* Passes the files of a corpus; returns their number, or -1 if there is no such folder. */
static inline int fuzz_folder(const char *folder)
{
    struct dirent **names;
    const char *copies = getenv("FUZZ_COPIES");
    int files = 0, count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            files += fuzz_file(path, copies ? atoi(copies) : FUZZ_CHANGED);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return count < 0 ? -1 : files;
}

int main(int argc, char **argv)
{
    const char *program = strrchr(argv[0], '/');
    char name[64] = "", folder[128];
    int files = 0;
    sscanf(program ? program + 1 : argv[0], "test_%63[^_]", name);
    snprintf(folder, sizeof folder, "verify/tests/fuzz/corpus/%s", name);
    setenv("WEIR_LOG", "error", 0);
    printf("1..1\n");
    for (int i = 1; i < argc; i++)
        files += fuzz_file(argv[i], 0);
    if (argc < 2)
        files = fuzz_folder(folder);
    printf("%sok 1 - %d inputs of %s%s\n", files > 0 ? "" : "not ", files,
           argc > 1 ? "the command line" : folder, argc > 1 ? "" : ", and changed copies of them");
    return files > 0 ? 0 : 1;
}

#endif
#endif
