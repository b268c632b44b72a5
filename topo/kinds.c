/*
 * The nodes of a job as kinds: a folder has the record of each node (weir-topo --save, or NCCL's
 * description), and nodes whose records have equal digests are of one kind.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/words.h"
#include "topo/topo.h"

enum { PATH_BYTES = 4096, SUMMARY_BYTES = 256, NAMES_SHOWN = 4 };

typedef struct kind {
    char digest[WEIRI_TOPO_DIGEST_BYTES], summary[SUMMARY_BYTES];
    int count;
    char names[NAMES_SHOWN][64]; /* of the first nodes */
} kind;

static int kinds_is_record(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".xml") == 0;
}

/* Adds a node to its kind; kinds has room for one more. */
static void kinds_add(kind *kinds, int *nkinds, const weiri_topo *topo, const char *name)
{
    char digest[WEIRI_TOPO_DIGEST_BYTES];
    int at = 0;
    weiri_topo_digest(topo, digest);
    while (at < *nkinds && strcmp(kinds[at].digest, digest) != 0)
        at++;
    kind *of = &kinds[at];
    if (at == *nkinds) {
        ++*nkinds;
        memcpy(of->digest, digest, sizeof digest);
        weiri_topo_summary(topo, of->summary, sizeof of->summary);
    }
    if (of->count < NAMES_SHOWN)
        snprintf(of->names[of->count], sizeof of->names[0], "%.*s", (int)(strlen(name) - 4), name);
    of->count++;
}

static int kinds_compare(const void *a, const void *b)
{
    return ((const kind *)b)->count - ((const kind *)a)->count;
}

static void kinds_print(const kind *kinds, int nkinds, int nodes, FILE *out)
{
    fprintf(out, "%d node%s of %d kind%s\n", nodes, weiri_s(nodes), nkinds, weiri_s(nkinds));
    for (int i = 0; i < nkinds; i++) {
        const kind *of = &kinds[i];
        fprintf(out, "  %d x %s (topology %s):", of->count, of->summary, of->digest);
        for (int k = 0; k < of->count && k < NAMES_SHOWN; k++)
            fprintf(out, "%s %s", k ? "," : "", of->names[k]);
        fprintf(out, "%s\n", of->count > NAMES_SHOWN ? ", ..." : "");
    }
}

weir_status weiri_topo_print_kinds(const char *folder, FILE *out)
{
    struct dirent **names = NULL;
    int count = scandir(folder, &names, kinds_is_record, alphasort), nkinds = 0;
    if (count < 0)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "--nodes %s", folder);
    kind *kinds = calloc((size_t)count + 1, sizeof *kinds);
    weir_status status =
        !kinds ? weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %d nodes", count)
        : count
            ? WEIR_OK
            : weiri_fail(WEIR_ERR_INVALID,
                         "--nodes %s: no .xml file; write one on each node with --save", folder);
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        weiri_topo *topo = NULL;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (status == WEIR_OK)
            status = weiri_topo_load_any(path, &topo);
        if (topo)
            kinds_add(kinds, &nkinds, topo, names[i]->d_name);
        weiri_topo_destroy(topo);
        free(names[i]);
    }
    free(names);
    if (status == WEIR_OK) {
        qsort(kinds, (size_t)nkinds, sizeof *kinds, kinds_compare);
        kinds_print(kinds, nkinds, count, out);
    }
    free(kinds);
    return status;
}
