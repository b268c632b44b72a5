/*
 * Reads a kernel's source and the files that it includes. It is no preprocessor: an #include in a
 * disabled branch or in a comment is followed as well, so the hash may cover more files than
 * needed.
 */
#define _GNU_SOURCE
#include "algo/source.h"

#include "base/env.h"
#include "base/error.h"
#include "base/mac.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MAX = 128, FILE_BYTES_MAX = 16 << 20 };

_Static_assert((int)WEIRI_HASH_BYTES == (int)WEIRI_KEY_BYTES &&
                   (int)WEIRI_HASH_BYTES == (int)WEIRI_MAC_BYTES,
               "each hash keys the next one");

void weiri_hash_add(weiri_hash *hash, const void *data, size_t bytes)
{
    weiri_hash before = *hash;
    weiri_mac(before.bytes, data, bytes, hash->bytes);
}

weir_status weiri_file_read(const char *path, size_t most_bytes, char **text, size_t *bytes)
{
    struct stat about;
    FILE *file = fopen(path, "re");
    if (!file)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "cannot read %s", path);
    weir_status status = WEIR_OK;
    char *read = NULL;
    size_t length = 0;
    if (fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode))
        status = weiri_fail(WEIR_ERR_INVALID, "cannot read %s: it is not a regular file", path);
    else if ((uintmax_t)about.st_size > most_bytes)
        status = weiri_fail(WEIR_ERR_INVALID, "cannot read %s: it has more than %zu bytes", path,
                            most_bytes);
    else if (!(read = malloc((size_t)about.st_size + 1)))
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to read %s", path);
    else
        length = fread(read, 1, (size_t)about.st_size, file);
    if (status == WEIR_OK && ferror(file))
        status = weiri_fail(WEIR_ERR_INVALID, "cannot read %s", path);
    fclose(file);
    if (status != WEIR_OK) {
        free(read);
        return status;
    }
    read[length] = '\0';
    *text = read;
    *bytes = length;
    return WEIR_OK;
}

/* ------------------------------------------------------------------ headers */

static int has_headers(const char *folder, struct stat *about)
{
    char path[WEIRI_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/weir/kernel.h", folder);
    return stat(path, about) == 0 && S_ISREG(about->st_mode);
}

/* Finds the file that contains this code: the library, or the program that it is linked into. */
static int find_own_file(char *path, struct stat *about)
{
    static const char here; /* an object of the library */
    Dl_info own;
    int known = dladdr(&here, &own) && own.dli_fname && strchr(own.dli_fname, '/') &&
                realpath(own.dli_fname, path);
    return (known || realpath("/proc/self/exe", path)) && stat(path, about) == 0;
}

/* Searches the folders above the library, installed (include) or in a source tree (lib/include).
 * The headers must belong to the library's owner or to root. */
static int headers_search(char *folder)
{
    static const char *const folders[] = {"include", "lib/include"};
    enum { LEVELS = 5 };
    char at[PATH_MAX];
    struct stat own, about;
    if (!find_own_file(at, &own))
        return 0;
    for (int level = 0; level < LEVELS && strrchr(at, '/'); level++) {
        *strrchr(at, '/') = '\0';
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
            int length = snprintf(folder, WEIRI_PATH_BYTES, "%s/%s", at, folders[i]);
            if (length < WEIRI_PATH_BYTES && has_headers(folder, &about) &&
                (about.st_uid == own.st_uid || about.st_uid == 0))
                return 1;
        }
    }
    return 0;
}

weir_status weiri_headers_folder(char *folder)
{
    const char *name = weiri_env_name(WEIRI_ENV_INCLUDE), *given = weiri_env(WEIRI_ENV_INCLUDE);
    struct stat about;
    if (!given)
        return headers_search(folder) ? WEIR_OK
                                      : weiri_fail(WEIR_ERR_SYSTEM,
                                                   "weir/kernel.h was not found beside the "
                                                   "library; set %s to its folder",
                                                   name);
    if (strlen(given) >= WEIRI_PATH_BYTES || !has_headers(given, &about))
        return weiri_fail(WEIR_ERR_SYSTEM, "%s=%s: the folder has no weir/kernel.h", name, given);
    snprintf(folder, WEIRI_PATH_BYTES, "%s", given);
    return WEIR_OK;
}

/* ------------------------------------------------------------------ sources */

/* The files of one source, in the order in which they are found. */
typedef struct reading {
    weiri_source *source;
    const char *headers;
    char *paths[FILES_MAX]; /* absolute */
    char *texts[FILES_MAX];
    int count;
} reading;

/* Adds a file that exists, unless it has been added before. */
static weir_status source_add_file(reading *of, const char *path, size_t *bytes)
{
    char *absolute = realpath(path, NULL);
    if (!absolute)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "cannot read %s", path);
    for (int i = 0; i < of->count; i++)
        if (strcmp(of->paths[i], absolute) == 0) {
            free(absolute);
            return WEIR_OK;
        }
    weir_status status = WEIR_OK;
    if (of->count == FILES_MAX)
        status = weiri_fail(WEIR_ERR_INVALID, "%s: more than %d files are included", of->paths[0],
                            FILES_MAX);
    if (status == WEIR_OK)
        status = weiri_file_read(path, FILE_BYTES_MAX, &of->texts[of->count], bytes);
    if (status != WEIR_OK) {
        free(absolute);
        return status;
    }
    weiri_hash_add(&of->source->hash, of->texts[of->count], *bytes);
    of->paths[of->count++] = absolute;
    return WEIR_OK;
}

static int is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Adds the file that file number `from` includes as `name`; ignores system headers. */
static weir_status source_add_included(reading *of, int from, const char *name, int length,
                                       int quoted)
{
    char path[WEIRI_PATH_BYTES];
    size_t bytes;
    int folder = (int)(strrchr(of->paths[from], '/') - of->paths[from]);
    int used = -1;
    if (quoted && name[0] == '/')
        used = snprintf(path, sizeof path, "%.*s", length, name);
    else if (quoted)
        used = snprintf(path, sizeof path, "%.*s/%.*s", folder, of->paths[from], length, name);
    if (used < 0 || used >= WEIRI_PATH_BYTES || !is_file(path))
        used = snprintf(path, sizeof path, "%s/%.*s", of->headers, length, name);
    if (used < 0 || used >= WEIRI_PATH_BYTES || !is_file(path))
        return WEIR_OK;
    return source_add_file(of, path, &bytes);
}

/* Returns the name that a line includes, after its quote or bracket, and its end; NULL if none.
 * Sets *computed if the name is a macro. */
static const char *included_by(const char *line, const char **end, int *computed)
{
    static const char word[] = "include";
    line += strspn(line, " \t");
    if (*line != '#')
        return NULL;
    line++;
    line += strspn(line, " \t");
    if (strncmp(line, word, sizeof word - 1) != 0)
        return NULL;
    line += sizeof word - 1;
    line += strspn(line, " \t");
    *end = *line == '"' || *line == '<' ? strpbrk(line + 1, *line == '"' ? "\"\n" : ">\n") : NULL;
    if (*end && **end != '\n')
        return line + 1;
    *computed = 1;
    return NULL;
}

static weir_status source_follow_includes(reading *of, int file)
{
    weir_status status = WEIR_OK;
    for (const char *line = of->texts[file]; line && status == WEIR_OK;) {
        const char *end = NULL, *name = included_by(line, &end, &of->source->opaque);
        if (name)
            status = source_add_included(of, file, name, (int)(end - name), name[-1] == '"');
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return status;
}

weir_status weiri_source_read(const char *path, const char *headers, weiri_source *source)
{
    reading of = {.source = source, .headers = headers};
    memset(source, 0, sizeof *source);
    weir_status status = source_add_file(&of, path, &source->bytes);
    for (int i = 0; i < of.count && status == WEIR_OK; i++)
        status = source_follow_includes(&of, i);
    if (of.count)
        source->text = of.texts[0];
    for (int i = 0; i < of.count; i++) {
        free(of.paths[i]);
        if (i)
            free(of.texts[i]);
    }
    if (status != WEIR_OK)
        weiri_source_free(source);
    return status;
}

void weiri_source_free(weiri_source *source)
{
    free(source->text);
    memset(source, 0, sizeof *source);
}

void weiri_source_kernels(const weiri_source *source, char *names, size_t bytes)
{
    static const char word[] = "WEIR_KERNEL(";
    size_t used = 0;
    snprintf(names, bytes, "none");
    for (const char *at = source->text; (at = strstr(at, word)) && used < bytes;) {
        at += sizeof word - 1;
        at += strspn(at, " \t\n");
        size_t length = 0;
        while (isalnum((unsigned char)at[length]) || at[length] == '_')
            length++;
        if (length)
            used += (size_t)snprintf(names + used, bytes - used, "%s%.*s", used ? ", " : "",
                                     (int)length, at);
    }
}
