/* Without the GNU Scientific Library: no bootstrap. */
#include "bench/bootstrap.h"

const char *bench_bootstrap_method(void)
{
    return "order statistics (built without GSL)";
}

int bench_bootstrap_median(const double *series, size_t count, bench_interval *interval)
{
    (void)series;
    (void)count;
    (void)interval;
    return -1;
}

int bench_bootstrap_ratio(const double *above, size_t above_count, const double *below,
                          size_t below_count, bench_interval *interval)
{
    (void)above;
    (void)above_count;
    (void)below;
    (void)below_count;
    (void)interval;
    return -1;
}
