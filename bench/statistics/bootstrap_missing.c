/* A build without the GNU Scientific Library: no bootstrap. */
#include "bench/statistics/bootstrap.h"

const char *bench_bootstrap_method(void)
{
    return "order statistics (built without GSL)";
}

int bench_bootstrap_median(const bench_sequence *series, bench_interval *interval)
{
    (void)series;
    (void)interval;
    return -1;
}

int bench_bootstrap_ratio(const bench_sequence *above, const bench_sequence *below,
                          bench_interval *interval)
{
    (void)above;
    (void)below;
    (void)interval;
    return -1;
}
