/* The store: a folder of run folders, whose names begin with the time of the run, and a file
 * `baseline` that names one of them; or a single SQLite file (history.h). */
#include "base/write_file.h"
#include "results/read/load.h"
#include "results/store/history.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether name is the name of a run folder, not a path that leads out of the store. */
static int is_name(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

static int is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static int find_latest(const char *store, char *path, size_t bytes)
{
    struct dirent **entries = NULL;
    int found = -1, count = scandir(store, &entries, NULL, alphasort);
    for (int i = count - 1; i >= 0; i--) {
        char one[PATH_MAX];
        const char *name = entries[i]->d_name;
        if (found != 0 && is_name(name) &&
            snprintf(one, sizeof one, "%s/%s", store, name) < (int)sizeof one && is_folder(one) &&
            snprintf(path, bytes, "%s", one) < (int)bytes)
            found = 0;
        free(entries[i]);
    }
    free(entries);
    if (found != 0)
        snprintf(path, bytes, "no run folder in the store '%.200s'", store);
    return found;
}

static int find_baseline(const char *store, char *path, size_t bytes)
{
    char file_path[PATH_MAX], name[NAME_MAX + 2] = "";
    if (snprintf(file_path, sizeof file_path, "%s/baseline", store) >= (int)sizeof file_path)
        file_path[0] = '\0';
    FILE *file = results_open(file_path, RESULTS_FILE_BYTES);
    if (file && !fgets(name, sizeof name, file))
        name[0] = '\0';
    if (file)
        fclose(file);
    name[strcspn(name, "\r\n")] = '\0';
    if (!is_name(name)) {
        snprintf(path, bytes,
                 "the store '%.200s' has no baseline; weir-compare --store DIR "
                 "--accept NAME makes a run folder one",
                 store);
        return -1;
    }
    if (snprintf(path, bytes, "%s/%s", store, name) >= (int)bytes || !is_folder(path)) {
        snprintf(path, bytes, "the store's baseline '%.100s' is no run folder", name);
        return -1;
    }
    return 0;
}

int results_store_find(const char *store, const char *word, char *path, size_t bytes)
{
    if (!store) {
        snprintf(path, bytes, "needs --store DIR, the folder of run folders");
        return -1;
    }
    int status = strcmp(word, "latest") == 0 ? find_latest(store, path, bytes)
                                             : find_baseline(store, path, bytes);
    if (status == 0)
        results_store_candidate(path, bytes);
    return status;
}

void results_store_candidate(char *path, size_t bytes)
{
    char inside[PATH_MAX];
    if (snprintf(inside, sizeof inside, "%s/screen/b", path) < (int)sizeof inside &&
        is_folder(inside) && strlen(inside) < bytes)
        memcpy(path, inside, strlen(inside) + 1);
}

int results_sqlite_is(const char *path)
{
    char magic[16] = "";
    FILE *file = results_open(path, LLONG_MAX);
    if (!file)
        return 0;
    size_t length = fread(magic, 1, sizeof magic, file);
    fclose(file);
    return length == sizeof magic && memcmp(magic, "SQLite format 3", sizeof magic) == 0;
}

static void store_write_name(const void *name, FILE *to)
{
    fprintf(to, "%s\n", (const char *)name);
}

int results_store_accept(const char *store, const char *name, char *reason, size_t bytes)
{
    if (results_sqlite_is(store))
        return results_sqlite_accept(store, name, reason, bytes);
    char path[PATH_MAX];
    int fits = snprintf(path, sizeof path, "%s/%s", store, name) < (int)sizeof path;
    if (!is_name(name) || !fits || !is_folder(path)) {
        snprintf(reason, bytes, "'%.100s' is no run folder of the store", name);
        return -1;
    }
    /* Replaced in one step: nobody reads a part, and two processes cannot mix their names. */
    snprintf(path, sizeof path, "%s/baseline", store);
    const int failed = weiri_write_file(path, store_write_name, name) != 0;
    if (failed)
        snprintf(reason, bytes, "%.200s: %s", path, strerror(errno));
    return failed ? -1 : 0;
}
