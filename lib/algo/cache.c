/*
 * The cache of compiled kernels. An entry is the compiler's output followed by a seal: the length,
 * the key, and a hash of the content. Loaders ignore bytes after the end of an ELF file.
 */
#define _GNU_SOURCE
#include "algo/cache.h"

#include "base/env.h"
#include "base/error.h"
#include "base/file_signal.h"
#include "base/log.h"
#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRY_BYTES_MAX = 256 << 20 };

typedef struct seal {
    char mark[8];
    uint64_t bytes;
    weiri_hash key, content;
} seal;

static seal seal_of(const weiri_hash *key, const char *content, size_t bytes)
{
    seal made = {.mark = "weir-k1", .bytes = bytes, .key = *key};
    weiri_hash_add(&made.content, content, bytes);
    return made;
}

/* ------------------------------------------------------------------- folder */

static weir_status cache_make_temporary(weiri_cache *cache)
{
    if (weiri_temporary_folder(cache->folder, sizeof cache->folder, "weir") != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno,
                                "cannot create the folder %s for compiled "
                                "kernels",
                                cache->folder);
    cache->is_temporary = 1;
    return WEIR_OK;
}

/* Writes the path of the user's folder and of its parent. 0 if the environment names no home. */
static int cache_name_folders(char *parent, char *folder)
{
    const char *given = weiri_env(WEIRI_ENV_CACHE_HOME), *home = getenv("HOME");
    int length;
    if (given && *given == '/')
        length = snprintf(parent, WEIRI_PATH_BYTES, "%s", given);
    else if (home && *home == '/')
        length = snprintf(parent, WEIRI_PATH_BYTES, "%s/.cache", home);
    else
        return 0;
    if (length >= WEIRI_PATH_BYTES - 64)
        return 0;
    snprintf(folder, WEIRI_PATH_BYTES, "%.*s/weir", WEIRI_PATH_BYTES - 64, parent);
    return 1;
}

static weir_status cache_check_folder(const char *folder)
{
    struct stat about;
    if (lstat(folder, &about) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot use the folder %s", folder);
    if (!S_ISDIR(about.st_mode))
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "%s is not a folder: move it away, or set %s to another place", folder,
                          weiri_env_name(WEIRI_ENV_CACHE_HOME));
    if (about.st_uid != geteuid())
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "compiled kernels in %s are not used: the folder belongs to user %ld, "
                          "not to user %ld; set %s to another place",
                          folder, (long)about.st_uid, (long)geteuid(),
                          weiri_env_name(WEIRI_ENV_CACHE_HOME));
    if (about.st_mode & (S_IWGRP | S_IWOTH))
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "compiled kernels in %s are not used: others can write there (mode "
                          "%03o); chmod 700 it once you trust its contents, or remove it",
                          folder, (unsigned)about.st_mode & 0777);
    return WEIR_OK;
}

weir_status weiri_cache_open(int wanted, weiri_cache *cache)
{
    char parent[WEIRI_PATH_BYTES];
    memset(cache, 0, sizeof *cache);
    if (!wanted || !cache_name_folders(parent, cache->folder))
        return cache_make_temporary(cache);
    mkdir(parent, 0700);
    if (mkdir(cache->folder, 0700) != 0 && errno != EEXIST) {
        weiri_log(WEIRI_LOG_INFO, "compiled kernels are not cached: cannot create %s: %s",
                  cache->folder, strerror(errno));
        return cache_make_temporary(cache);
    }
    weir_status status = cache_check_folder(cache->folder);
    if (status == WEIR_OK && access(cache->folder, W_OK | X_OK) != 0)
        return cache_make_temporary(cache); /* a read-only file system */
    return status;
}

void weiri_cache_close(weiri_cache *cache)
{
    if (cache->is_temporary && *cache->entry)
        unlink(cache->entry);
    if (cache->is_temporary)
        rmdir(cache->folder);
    cache->is_temporary = 0;
}

/* ------------------------------------------------------------------ entries */

static void cache_name_entry(const weiri_cache *cache, const weiri_hash *key, const char *kind,
                             char *path)
{
    char hex[2 * WEIRI_HASH_BYTES + 1];
    for (int i = 0; i < WEIRI_HASH_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", key->bytes[i]);
    snprintf(path, WEIRI_PATH_BYTES, "%.*s/%s.%s", WEIRI_PATH_BYTES - 64, cache->folder, hex, kind);
}

/* Whether only this user can have written a file. */
static int is_private_file(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
           !(about.st_mode & (S_IWGRP | S_IWOTH));
}

int weiri_cache_find(const weiri_cache *cache, const weiri_hash *key, const char *kind, char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    seal found;
    cache_name_entry(cache, key, kind, path);
    if (access(path, F_OK) != 0)
        return 0;
    int intact = is_private_file(path) &&
                 weiri_file_read(path, ENTRY_BYTES_MAX, &text, &bytes) == WEIR_OK &&
                 bytes >= sizeof found;
    if (intact) {
        const seal good = seal_of(key, text, bytes - sizeof found);
        memcpy(&found, text + bytes - sizeof found, sizeof found);
        intact = memcmp(&found, &good, sizeof good) == 0;
    }
    free(text);
    if (!intact)
        weiri_log(WEIRI_LOG_WARN, "%s has been modified or truncated; the kernel is compiled again",
                  path);
    return intact;
}

weir_status weiri_cache_begin(const weiri_cache *cache, char *path)
{
    snprintf(path, WEIRI_PATH_BYTES, "%.*s/making-XXXXXX", WEIRI_PATH_BYTES - 64, cache->folder);
    int file = mkostemp(path, O_CLOEXEC);
    if (file < 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write to %s", cache->folder);
    close(file);
    return WEIR_OK;
}

static weir_status cache_append_seal(const char *path, const seal *made)
{
    weiri_file_signal held;
    FILE *file = fopen(path, "ae");
    weiri_file_signal_hold(&held);
    int written = file && fwrite(made, sizeof *made, 1, file) == 1;
    if (file && fclose(file) != 0)
        written = 0;
    weiri_file_signal_release(&held);
    return written ? WEIR_OK : weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write %s", path);
}

weir_status weiri_cache_end(weiri_cache *cache, const weiri_hash *key, const char *kind,
                            const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    weir_status status = weiri_file_read(path, ENTRY_BYTES_MAX, &text, &bytes);
    if (status != WEIR_OK)
        return status;
    const seal made = seal_of(key, text, bytes);
    free(text);
    cache_name_entry(cache, key, kind, cache->entry);
    /* The linker has replaced the file, with the permissions of the umask. */
    if (chmod(path, 0700) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write %s", path);
    status = cache_append_seal(path, &made);
    if (status == WEIR_OK && rename(path, cache->entry) != 0)
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write %s", cache->entry);
    return status;
}
