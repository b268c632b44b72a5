/* Replaces json*.c in a build without jansson: plans cannot be read from JSON. */
#include "plan/format/plan.h"

#include "base/error.h"

weir_status weir_plan_parse(const char *text, size_t bytes, const char *name, weir_plan **plan)
{
    (void)text;
    (void)bytes;
    (void)plan;
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "%s: this build reads no plans: install jansson (apt-get install "
                      "libjansson-dev) and build again",
                      name);
}

weir_status weir_plan_read(const char *file, weir_plan **plan)
{
    return weir_plan_parse(NULL, 0, file, plan);
}
