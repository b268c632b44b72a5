/*
 * Test double: libpmix of a job of one rank, with the structures of PMIx's own header. Its fence
 * demands that values are collected (PMIX_COLLECT_DATA), and fails otherwise.
 */
#include <pmix_common.h>
#include <stdbool.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int PMIx_Init(pmix_proc_t *self, pmix_info_t *info, size_t ninfo);
EXPORT int PMIx_Finalize(const pmix_info_t *info, size_t ninfo);
EXPORT int PMIx_Put(pmix_scope_t scope, const char *key, pmix_value_t *value);
EXPORT int PMIx_Commit(void);
EXPORT int PMIx_Fence_nb(const pmix_proc_t *procs, size_t nprocs, const pmix_info_t *info,
                         size_t ninfo, pmix_op_cbfunc_t done, void *data);
EXPORT int PMIx_Get_nb(const pmix_proc_t *proc, const char *key, const pmix_info_t *info,
                       size_t ninfo, pmix_value_cbfunc_t done, void *data);
EXPORT const char *PMIx_Error_string(int status);

int PMIx_Init(pmix_proc_t *self, pmix_info_t *info, size_t ninfo)
{
    (void)info, (void)ninfo;
    memset(self, 0, sizeof *self);
    strcpy(self->nspace, "standin");
    return PMIX_SUCCESS;
}

int PMIx_Finalize(const pmix_info_t *info, size_t ninfo)
{
    (void)info, (void)ninfo;
    return PMIX_SUCCESS;
}

int PMIx_Put(pmix_scope_t scope, const char *key, pmix_value_t *value)
{
    return scope == PMIX_GLOBAL && *key && value->type == PMIX_STRING ? PMIX_SUCCESS
                                                                      : PMIX_ERR_BAD_PARAM;
}

int PMIx_Commit(void)
{
    return PMIX_SUCCESS;
}

int PMIx_Fence_nb(const pmix_proc_t *procs, size_t nprocs, const pmix_info_t *info, size_t ninfo,
                  pmix_op_cbfunc_t done, void *data)
{
    const bool collects = !procs && nprocs == 0 && ninfo == 1 &&
                          strcmp(info->key, PMIX_COLLECT_DATA) == 0 && info->flags == 0 &&
                          info->value.type == PMIX_BOOL && info->value.data.flag;
    if (!collects)
        return PMIX_ERR_BAD_PARAM;
    done(PMIX_SUCCESS, data);
    return PMIX_SUCCESS;
}

int PMIx_Get_nb(const pmix_proc_t *proc, const char *key, const pmix_info_t *info, size_t ninfo,
                pmix_value_cbfunc_t done, void *data)
{
    pmix_value_t size = {.type = PMIX_UINT32, .data.uint32 = 1};
    (void)info, (void)ninfo;
    if (strcmp(key, PMIX_JOB_SIZE) != 0 || proc->rank != PMIX_RANK_WILDCARD)
        return PMIX_ERR_NOT_FOUND;
    done(PMIX_SUCCESS, &size, data);
    return PMIX_SUCCESS;
}

const char *PMIx_Error_string(int status)
{
    return status == PMIX_ERR_BAD_PARAM ? "BAD-PARAM" : "another error";
}
