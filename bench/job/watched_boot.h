/*
 * A bootstrap each of whose operations counts as progress of the rank. Set-up consists of many
 * exchanges; the deadline of each begins with it, and so does the watchdog's.
 */
#ifndef BENCH_JOB_WATCHED_BOOT_H
#define BENCH_JOB_WATCHED_BOOT_H

#include "bench/job/watch.h"

/* Replaces *boot by a bootstrap that performs its operations with it. watch must outlive the new
 * one, and so must *boot, unless the new one owns it and destroys it with itself. Without memory it
 * returns WEIR_ERR_NO_MEMORY, and *boot is unchanged. Local. */
weir_status bench_watch_boot(bench_watch *watch, weir_boot **boot, int owns);

#endif
