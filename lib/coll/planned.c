/* The list of the tuning table's rows with plans: see planned.h. */
#include "coll/planned.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int weiri_planned_is(const char *algo)
{
    return strncmp(algo, WEIRI_PLANNED_PREFIX, strlen(WEIRI_PLANNED_PREFIX)) == 0;
}

/* The path of a file that is named relative to the folder of the table. */
static char *planned_path(const char *table, const char *file)
{
    const char *slash = strrchr(table, '/');
    size_t folder = *file == '/' || !slash ? 0 : (size_t)(slash - table) + 1;
    size_t bytes = strlen(file) + 1;
    char *path = malloc(folder + bytes);
    if (path) {
        memcpy(path, table, folder);
        memcpy(path + folder, file, bytes);
    }
    return path;
}

weir_status weiri_planned_add(weiri_coll *coll, weir_collective collective, const char *table,
                              int line, const char *algo, weiri_planned **row)
{
    weiri_planned *made = calloc(1, sizeof *made);
    char where[512];
    snprintf(where, sizeof where, "%s:%d", table, line);
    if (made) {
        made->path = planned_path(table, algo + strlen(WEIRI_PLANNED_PREFIX));
        made->where = strdup(where);
        made->next = coll->planned;
        coll->planned = made; /* weiri_planned_close frees it */
    }
    if (!made || !made->path || !made->where)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the tuning table");
    made->collective = collective;
    *row = made;
    return WEIR_OK;
}
