/* The identity of this build. This object alone is compiled again whenever a source of the library
 * changes. */
#include "base/build_id.h"

#include <weir/weir.h>

/* Computed by the Makefile. */
#ifndef WEIR_LIBRARY_SOURCES
#define WEIR_LIBRARY_SOURCES "unknown"
#endif

const weiri_build_id *weiri_build_id_own(void)
{
    static const weiri_build_id own = {WEIR_VERSION, WEIR_LIBRARY_SOURCES};
    return &own;
}
