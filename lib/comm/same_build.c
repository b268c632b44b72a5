/*
 * Ranks exchange what build of the library they run, before anything whose layout may differ from
 * build to build. Ranks of several builds would otherwise form a communicator, and read each
 * other's memory wrongly.
 */
#include "comm/same_build.h"

#include "base/build_id.h"
#include "base/error.h"
#include "boot/ranks.h"

#include <stdlib.h>
#include <string.h>

/* The first rank with the same build as this one's. */
static int builds_first_like(const weiri_build_id *all, int rank)
{
    int first = 0;
    while (memcmp(&all[first], &all[rank], sizeof *all) != 0)
        first++;
    return first;
}

/* Appends "VERSION (sources HASH) on ranks ..." for the build of the rank first. */
static void builds_describe(const weiri_build_id *all, int nranks, int first, char *text,
                            size_t bytes)
{
    weiri_ranks ranks = {0};
    for (int rank = first; rank < nranks; rank++)
        if (builds_first_like(all, rank) == first)
            weiri_ranks_add(&ranks, rank);
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%.*s (sources %.*s) on %s %s", used ? "; " : "",
             (int)sizeof all->version, all[first].version, (int)sizeof all->sources,
             all[first].sources, weiri_ranks_noun(&ranks), ranks.list);
}

static weir_status builds_compare(const weiri_build_id *all, int nranks)
{
    char text[512] = "";
    int differ = 0;
    for (int rank = 0; rank < nranks; rank++) {
        const int first = builds_first_like(all, rank);
        differ |= first != 0;
        if (first == rank)
            builds_describe(all, nranks, rank, text, sizeof text);
    }
    if (!differ)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_MISMATCH,
                      "the ranks run different builds of weir: %s; start all ranks with the same "
                      "library",
                      text);
}

weir_status weiri_comm_check_builds(weir_boot *boot)
{
    const int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    weiri_build_id *all = calloc((size_t)nranks, sizeof *all);
    if (!all) /* the others' deadline passes, as this rank cannot take part */
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to compare builds with %d ranks",
                          rank, nranks);
    all[rank] = *weiri_build_id_own();
    weir_status status = weir_boot_allgather(boot, all, sizeof *all);
    if (status == WEIR_OK)
        status = builds_compare(all, nranks);
    else
        status = weiri_fail_context(status, "rank %d could not compare builds", rank);
    free(all);
    return status;
}
