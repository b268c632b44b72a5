/*
 * The cache of compiled kernels: a folder with one file per entry, named by its key. An entry is
 * written under a temporary name and then renamed, so a reader finds a complete file or none. Only
 * the user may be able to write the folder, and the content of an entry is verified before use,
 * because it is code that will run. All functions are local.
 */
#ifndef WEIR_ALGO_CACHE_H
#define WEIR_ALGO_CACHE_H

#include "algo/source.h"

typedef struct weiri_cache {
    char folder[WEIRI_PATH_BYTES];
    int is_temporary; /* the folder belongs to this object; closing removes it with its entry */
    char entry[WEIRI_PATH_BYTES]; /* the entry that was written; "" if none */
} weiri_cache;

/* Opens the user's folder, and creates it if necessary; opens a temporary folder if `wanted` is 0
 * or that is impossible. Close with weiri_cache_close. WEIR_ERR_SYSTEM if the folder belongs to
 * another user, or if others can write it. */
weir_status weiri_cache_open(int wanted, weiri_cache *cache);
void weiri_cache_close(weiri_cache *cache);

/* Writes the path of an entry (WEIRI_PATH_BYTES) and returns 1 if the entry exists and is intact.
 * kind is the suffix of its name ("so"). */
int weiri_cache_find(const weiri_cache *cache, const weiri_hash *key, const char *kind, char *path);
/* Creates a temporary file for the content of an entry, and writes its path. */
weir_status weiri_cache_begin(const weiri_cache *cache, char *path);
/* Seals that file and makes it the entry, in place of an existing one. */
weir_status weiri_cache_end(weiri_cache *cache, const weiri_hash *key, const char *kind,
                            const char *path);

#endif
