/* Student's t, for intervals that rest on few rounds. All functions are pure. */
#ifndef BENCH_STATISTICS_STUDENT_H
#define BENCH_STATISTICS_STUDENT_H

/* The 97.5% quantile for a number of degrees of freedom, 1 or more. */
double bench_student_quantile(int degrees);
/* The factor by which the 95% interval of a bootstrap of so many rounds must be widened: t / z *
 * sqrt(R / (R - 1)), with the 97.5% quantiles of Student's t for R - 1 degrees of freedom and of
 * the normal distribution; 1 for one round. */
double bench_student_widening(int rounds);

#endif
