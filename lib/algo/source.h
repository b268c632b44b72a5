/*
 * The source of a kernel: its text, and one hash of it and of all that it includes, which
 * names what is compiled from it.
 */
#ifndef WEIR_ALGO_SOURCE_H
#define WEIR_ALGO_SOURCE_H

#include <weir/weir.h>

enum { WEIRI_HASH_BYTES = 16, WEIRI_PATH_BYTES = 4096 };

typedef struct weiri_hash {
    uint8_t bytes[WEIRI_HASH_BYTES];
} weiri_hash;

/* Goes on with a hash over more bytes; starts zeroed. Not against those who look for
 * collisions: they could as well write the source. Pure. */
void weiri_hash_add(weiri_hash *hash, const void *data, size_t bytes);

typedef struct weiri_source {
    char *text; /* owned; terminated */
    size_t bytes;
    weiri_hash hash;
    int opaque; /* an #include whose name is computed: the hash does not cover it */
} weiri_source;

/* Where weir's own headers are: WEIR_INCLUDE, or beside the library, installed or in the
 * tree that it was built in. folder has WEIRI_PATH_BYTES. Local. WEIR_ERR_SYSTEM. */
weir_status weiri_headers_folder(char *folder);

/* Reads a file, and follows its #includes, beside the including file and in the folder of
 * headers. Headers of the system are the compiler's. Local. WEIR_ERR_INVALID. */
weir_status weiri_source_read(const char *path, const char *headers, weiri_source *source);
void weiri_source_free(weiri_source *source);

/* Reads a whole file into memory, terminated; the caller frees it. WEIR_ERR_INVALID. */
weir_status weiri_file_read(const char *path, size_t most_bytes, char **text, size_t *bytes);

/* The names of the kernels in a source: "a, b"; "none". */
void weiri_source_kernels(const weiri_source *source, char *names, size_t bytes);

#endif
