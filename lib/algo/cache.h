/*
 * The folder of compiled kernels: one file an entry, named by its key, written under a
 * temporary name and renamed, so that a reader finds a whole file or none. It belongs to
 * the user alone, and what is in it is checked before it is used, for it will run.
 */
#ifndef WEIR_ALGO_CACHE_H
#define WEIR_ALGO_CACHE_H

#include "algo/source.h"

typedef struct weiri_cache {
    char folder[WEIRI_PATH_BYTES];
    int is_temporary; /* of this object alone: removed with its entry when it is closed */
    char entry[WEIRI_PATH_BYTES]; /* the one that was made; "": none */
} weiri_cache;

/* Opens the user's, making it where it is not; where that cannot be, and where it is not
 * wanted, a temporary one. Local. WEIR_ERR_SYSTEM: it is another user's, or others can write
 * into it. */
weir_status weiri_cache_open(int wanted, weiri_cache *cache);
void weiri_cache_close(weiri_cache *cache);

/* An entry's path (paths have WEIRI_PATH_BYTES); kind is the end of its name ("so"). 1 if it is
 * there and whole. Local. */
int weiri_cache_find(const weiri_cache *cache, const weiri_hash *key, const char *kind,
                     char *path);
/* A file to write the content of an entry into. Local. */
weir_status weiri_cache_begin(const weiri_cache *cache, char *path);
/* Makes it the entry, whatever there was. */
weir_status weiri_cache_end(weiri_cache *cache, const weiri_hash *key, const char *kind,
                            const char *path);

#endif
