/* Student's t: see bootstrap.h. */
#include "bench/statistics/bootstrap.h"

#include <math.h>

/* The first terms of the expansion around the quantile of the normal distribution, good to a
 * thousandth from 5 degrees of freedom on; a table below that. */
double bench_student_quantile(int degrees)
{
    static const double few[] = {12.706, 4.303, 3.182, 2.776};
    const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z;
    double n = degrees;
    if (degrees < 5)
        return few[degrees - 1];
    return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
           (3 * z5 * z * z + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

double bench_student_widening(int rounds)
{
    const double z = 1.959964, v = rounds;
    return rounds < 2 ? 1 : bench_student_quantile(rounds - 1) / z * sqrt(v / (v - 1));
}

/* The sums of Abramowitz and Stegun, 26.7.3 and 26.7.4. */
double bench_student_tail(int degrees, double t)
{
    const double angle = atan(fabs(t) / sqrt(degrees)), cosine = cos(angle);
    double term = degrees % 2 ? cosine : 1, sum = 0;
    for (int k = degrees % 2 ? 1 : 0; k <= degrees - 2; k += 2) {
        sum += term;
        term *= cosine * cosine * (k + 1) / (k + 2);
    }
    const double pi = 3.14159265358979323846;
    const double within = degrees % 2 ? 2 / pi * (angle + sin(angle) * sum) : sin(angle) * sum;
    const double beyond = fmax(0, (1 - within) / 2);
    return t > 0 ? beyond : 1 - beyond;
}
