/* Reads the structure of a call, of this or another version of the header. */
#include "base/config.h"
#include "base/error.h"
#include "coll/coll.h"

weir_status weiri_call_read(const char *function, const weir_call *given, weir_call *call)
{
    *call = (weir_call)WEIR_CALL_INIT;
    if (given && given->size == sizeof *call) {
        *call = *given;
        return WEIR_OK;
    }
    if (!given)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: a call that begins with WEIR_CALL_INIT is required", function);
    return weiri_config_read("weir_call", given, call, sizeof *call);
}
