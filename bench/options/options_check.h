/* The rules that relate several options to each other, and the defaults that depend on others. */
#ifndef BENCH_OPTIONS_OPTIONS_CHECK_H
#define BENCH_OPTIONS_OPTIONS_CHECK_H

#include "bench/options/options.h"

/* Called by bench_options_parse, once each option was read alone. Local. As bench_options_parse. */
weir_status bench_options_check(bench_options *options, weir_collective collective, char *problem);

#endif
