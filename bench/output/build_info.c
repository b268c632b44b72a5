/* The build description that the Makefile passes in: see manifest.h. */
#include "bench/output/manifest.h"

#ifndef WEIR_BUILD_SOURCES
#define WEIR_BUILD_SOURCES "unknown"
#endif
#ifndef WEIR_BUILD_COMMIT
#define WEIR_BUILD_COMMIT ""
#endif
#ifndef WEIR_BUILD_FLAGS
#define WEIR_BUILD_FLAGS "unknown"
#endif
#ifndef WEIR_BUILD_NAME
#define WEIR_BUILD_NAME "unknown"
#endif

const bench_build bench_built = {
    .sources = WEIR_BUILD_SOURCES,
    .commit = sizeof WEIR_BUILD_COMMIT > 1 ? WEIR_BUILD_COMMIT : "unknown",
#if defined(__clang__)
    .compiler = __VERSION__,
#else
    .compiler = "gcc " __VERSION__,
#endif
    .flags = WEIR_BUILD_FLAGS,
    .kind = WEIR_BUILD_NAME,
};
