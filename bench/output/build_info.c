/* The build description that the Makefile passes in: see manifest.h. */
#include "bench/output/manifest.h"

#ifndef WEIR_BUILD_SOURCES
#define WEIR_BUILD_SOURCES "unknown"
#endif
#ifndef WEIR_BUILD_COMMIT
#define WEIR_BUILD_COMMIT "unknown"
#endif
#ifndef WEIR_BUILD_FLAGS
#define WEIR_BUILD_FLAGS "unknown"
#endif
#ifndef WEIR_BUILD_NAME
#define WEIR_BUILD_NAME "unknown"
#endif

const char *bench_build_sources(void)
{
    return WEIR_BUILD_SOURCES;
}

const char *bench_build_commit(void)
{
    return *WEIR_BUILD_COMMIT ? WEIR_BUILD_COMMIT : "unknown";
}

const char *bench_build_compiler(void)
{
#if defined(__clang__)
    return __VERSION__;
#else
    return "gcc " __VERSION__;
#endif
}

const char *bench_build_flags(void)
{
    return WEIR_BUILD_FLAGS;
}

const char *bench_build_kind(void)
{
    return WEIR_BUILD_NAME;
}
