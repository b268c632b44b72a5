/*
 * How this program was built, as the Makefile compiled it in. All texts are static; "unknown" if
 * the program was built in another manner.
 */
#ifndef BENCH_OUTPUT_BUILD_INFO_H
#define BENCH_OUTPUT_BUILD_INFO_H

/* A hash of all sources as they were built: 16 hexadecimal digits. */
const char *bench_build_sources(void);
/* The commit from git describe, with "-dirty" if sources differed. */
const char *bench_build_commit(void);
const char *bench_build_compiler(void);
const char *bench_build_flags(void);
/* "release", "debug", "asan", "tsan". */
const char *bench_build_kind(void);

#endif
