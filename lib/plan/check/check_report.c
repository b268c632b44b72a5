/* What the parts of the checker report: violations, failures, and the places in their texts. */
#include "plan/check/check.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

void *weiri_check_append(weiri_check *check, void *list, uint32_t *count, size_t bytes)
{
    void *made = *count < UINT32_MAX / 4 ? weiri_plan_append(list, count, bytes) : NULL;
    if (!made)
        weiri_check_fail(check, WEIR_ERR_NO_MEMORY, "no memory to check the plan");
    return made;
}

void weiri_check_fail(weiri_check *check, weir_status status, const char *format, ...)
{
    char text[256];
    va_list arguments;
    if (check->status != WEIR_OK)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    check->status = weiri_fail(status, "%s: %s", check->plan->file, text);
}

void weiri_check_report_violation(weiri_check *check, weir_plan_fault fault, int rank,
                                  uint32_t block, uint32_t op, const char *format, ...)
{
    weir_plan_report *report = check->report;
    va_list arguments;
    uint32_t id = WEIR_PLAN_NOWHERE;
    if (block != WEIRI_CHECK_NONE)
        id = check->plan->gpus[rank].blocks[check->blocks[block].index].id;
    for (unsigned i = 0; i < report->nviolations; i++) {
        const weir_plan_violation *old = &report->violations[i];
        if (old->fault == fault && old->rank == rank && old->block == id && old->op == op)
            return;
    }
    if (report->nviolations == WEIR_PLAN_VIOLATIONS_MAX)
        return;
    if (check->fixes)
        check->fixes[report->nviolations].kind = WEIRI_CHECK_FIX_NONE;
    weir_plan_violation *made = &report->violations[report->nviolations++];
    *made = (weir_plan_violation){.fault = fault, .rank = rank, .block = id, .op = op};
    va_start(arguments, format);
    vsnprintf(made->text, sizeof made->text, format, arguments);
    va_end(arguments);
}

const char *weiri_check_where(const weiri_check *check, uint32_t block, uint32_t op, char *text)
{
    const weiri_check_block *at = &check->blocks[block];
    snprintf(text, WEIRI_CHECK_TEXT, "rank %d, thread block %u, op %u (%s)", at->rank,
             weiri_check_gpu(check, at)->blocks[at->index].id, op,
             weiri_plan_kind_name(weiri_check_op(check, at, op)->kind));
    return text;
}

const char *weiri_check_place_name(const weiri_check *check, uint32_t place, char *text)
{
    static const char *const words[] = {"input", "output", "scratch"};
    int rank = 0, buffer = 0;
    for (int r = 0; r < check->plan->nranks; r++)
        for (int b = 0; b < WEIR_PLAN_BUFFERS; b++)
            if (check->first_place[r][b] <= place) {
                rank = r;
                buffer = b;
            }
    uint32_t index = place - check->first_place[rank][buffer];
    if (buffer == WEIR_PLAN_SCRATCH)
        index %= check->half[rank];
    snprintf(text, WEIRI_CHECK_TEXT, "%s chunk %u of rank %d", words[buffer], index, rank);
    return text;
}
