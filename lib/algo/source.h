/*
 * The source of a kernel: its text, and a hash of it and of all files that it includes, which is
 * part of the name of its cache entry. All functions are local.
 */
#ifndef WEIR_ALGO_SOURCE_H
#define WEIR_ALGO_SOURCE_H

#include <weir/weir.h>

enum { WEIRI_HASH_BYTES = 16, WEIRI_PATH_BYTES = 4096 };

typedef struct weiri_hash {
    uint8_t bytes[WEIRI_HASH_BYTES];
} weiri_hash;

/* Extends a hash, which is zero at first, by more bytes. It does not resist deliberate collisions;
 * anyone who could construct them can also write the source. */
void weiri_hash_add(weiri_hash *hash, const void *data, size_t bytes);

typedef struct weiri_source {
    char *text; /* owned; terminated */
    size_t bytes;
    weiri_hash hash;
    int opaque; /* an #include has a computed name, so the hash does not cover the file */
} weiri_source;

/* Writes the folder of weir's headers (WEIRI_PATH_BYTES): WEIR_INCLUDE, else a folder beside the
 * library, where it is installed or in its source tree. WEIR_ERR_SYSTEM if there is none. */
weir_status weiri_headers_folder(char *folder);

/* Reads a file and follows its #includes, in the including file's folder and in `headers`; system
 * headers are covered by the hash of the compiler. Release with weiri_source_free.
 * WEIR_ERR_INVALID if a file cannot be read. */
weir_status weiri_source_read(const char *path, const char *headers, weiri_source *source);
void weiri_source_free(weiri_source *source);

/* Reads a file into memory, with a terminating NUL; the caller frees *text. WEIR_ERR_INVALID if it
 * cannot be read or is longer than most_bytes. */
weir_status weiri_file_read(const char *path, size_t most_bytes, char **text, size_t *bytes);

/* Writes the names of the kernels in a source ("a, b"), or "none". */
void weiri_source_kernels(const weiri_source *source, char *names, size_t bytes);

#endif
