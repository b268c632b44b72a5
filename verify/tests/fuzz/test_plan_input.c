/*
 * The plan reader gets arbitrary bytes: it reads them or reports a reason. A plan that was read can
 * be checked, laid out, printed, and is read back unchanged.
 */
#include "verify/tests/support/fuzz_input.h"

#include "plan/format/layout.h"

#include <weir/plan.h>

static void plan_use(const weir_plan *plan)
{
    weir_plan_report *report = calloc(1, sizeof *report);
    weiri_plan_layout layout;
    char *text = NULL, *again = NULL;
    size_t bytes, more;
    weir_plan *read = NULL;
    FUZZ_DEMAND(report);
    weir_status status = weir_plan_check(plan, report);
    FUZZ_DEMAND((status == WEIR_ERR_INVALID) == (report->nviolations != 0));
    free(report);
    for (uint64_t length = 0; length < 1000; length += 333)
        weiri_plan_lay_out(plan, length, length, 1, &layout);
    if (weir_plan_print(plan, &text, &bytes) != WEIR_OK)
        return;
    FUZZ_DEMAND(weir_plan_parse(text, bytes, "again", &read) == WEIR_OK);
    FUZZ_DEMAND(weir_plan_print(read, &again, &more) == WEIR_OK);
    FUZZ_DEMAND(bytes == more && memcmp(text, again, bytes) == 0);
    weir_plan_free(read);
    free(text);
    free(again);
}

void fuzz_input(const uint8_t *data, size_t bytes)
{
    weir_plan *plan = NULL;
    if (weir_plan_parse((const char *)data, bytes, "fuzzed", &plan) == WEIR_OK)
        plan_use(plan);
    else
        FUZZ_DEMAND(!plan && *weir_last_error());
    weir_plan_free(plan);
}
