/* A result of one rank becomes the result of the job: see verify.h. */
#include "verify/verify.h"

#include "base/error.h"

#include <stdlib.h>

weir_status weirv_reduce_result(weir_boot *boot, weirv_result *result)
{
    int nranks = weir_boot_nranks(boot), rank = weir_boot_rank(boot), first = nranks;
    weirv_result *all = calloc((size_t)nranks, sizeof *all);
    if (!all)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the results of %d ranks",
                          nranks); /* the other ranks wait until their deadline */
    all[rank] = *result;
    weir_status status = weir_boot_allgather(boot, all, sizeof *all);
    if (status != WEIR_OK) {
        free(all);
        return status;
    }
    *result = (weirv_result){.wrong = 0};
    for (int r = nranks - 1; r >= 0; r--) {
        result->wrong += all[r].wrong;
        result->overruns += all[r].overruns;
        result->inputs_changed += all[r].inputs_changed;
        if (all[r].worst_error > result->worst_error)
            result->worst_error = all[r].worst_error;
        first = all[r].has_first ? r : first;
    }
    result->has_first = first < nranks;
    if (first < nranks)
        result->first = all[first].first;
    free(all);
    return WEIR_OK;
}
