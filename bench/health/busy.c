/* Load of other processes: what /proc/stat counts beyond this process. See busy.h. */
#include "bench/health/busy.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Reads the seconds for which all processors were busy, and the seconds that passed. Returns 0, or
 * -1. */
static int busy_read(double *busy_s, double *all_s)
{
    unsigned long long ticks[8] = {0};
    double all = 0;
    const double per_second = (double)sysconf(_SC_CLK_TCK);
    FILE *file = fopen("/proc/stat", "r");
    if (!file)
        return -1;
    const int count =
        fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
               &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]);
    fclose(file);
    if (count < 4 || per_second <= 0)
        return -1;
    for (int i = 0; i < 8; i++)
        all += (double)ticks[i];
    *all_s = all / per_second;
    *busy_s =
        (all - (double)ticks[3] - (double)ticks[4]) / per_second; /* idle, waiting for disks */
    return 0;
}

/* The processor time of this process and of the children that it has waited for. */
static double busy_own_s(void)
{
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double seconds = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage used;
        if (getrusage(whose[i], &used) == 0)
            seconds += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    }
    return seconds;
}

void health_busy_since(health_report *report)
{
    static const double MOST = 0.1, LEAST_S = 0.2; /* of all processors; of each */
    double busy_s, all_s;
    const double own_s = busy_own_s();
    if (busy_read(&busy_s, &all_s) != 0)
        return;
    const double passed_s = all_s - report->all_s;
    if (passed_s < LEAST_S * (double)sysconf(_SC_NPROCESSORS_ONLN))
        return;
    const double share = (busy_s - report->busy_s - (own_s - report->own_s)) / passed_s;
    report->busy_s = busy_s;
    report->all_s = all_s;
    report->own_s = own_s;
    if (share <= MOST || report->busy)
        return;
    report->busy = 1;
    snprintf(report->busy_text, sizeof report->busy_text,
             "other processes use %.0f%% of the processors, so slowness is not judged; run on an "
             "idle node",
             100 * share);
}

void health_busy_look(health_report *report)
{
    const struct timespec moment = {.tv_nsec = 300000000};
    if (busy_read(&report->busy_s, &report->all_s) != 0)
        return;
    report->own_s = busy_own_s();
    nanosleep(&moment, NULL);
    health_busy_since(report);
}

void health_busy_excuse(health_report *report)
{
    for (size_t i = 0; report->busy && i < report->count; i++) {
        health_check *check = &report->checks[i];
        if (check->verdict == HEALTH_SLOW && strncmp(check->id, "gpu", 3) != 0)
            check->verdict = HEALTH_NOTED;
    }
}
