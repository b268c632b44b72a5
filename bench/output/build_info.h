/* How this program was built, compiled in by the Makefile. All static text;
 * "unknown" where something else compiled it. */
#ifndef BENCH_OUTPUT_BUILD_INFO_H
#define BENCH_OUTPUT_BUILD_INFO_H

/* A hash of all sources, changed ones included: 16 hexadecimal digits. */
const char *bench_build_sources(void);
/* What git describe said: the commit, with "-dirty" if sources differed. */
const char *bench_build_commit(void);
const char *bench_build_compiler(void);
const char *bench_build_flags(void);
/* "release", "debug", "asan", "tsan". */
const char *bench_build_kind(void);

#endif
