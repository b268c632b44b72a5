/* Load of other processes, from /proc/stat: see busy.h. */
#include "bench/health/busy.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

/* Reads the jiffies that all processors were busy, and those that passed. Returns 0, or -1. */
static int busy_read(double *busy, double *all)
{
    unsigned long long ticks[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (!file)
        return -1;
    const int count =
        fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
               &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]);
    fclose(file);
    if (count < 4)
        return -1;
    *all = 0;
    for (int i = 0; i < 8; i++)
        *all += (double)ticks[i];
    *busy = *all - (double)ticks[3] - (double)ticks[4]; /* without idle and waiting for disks */
    return 0;
}

void health_busy_look(health_report *report)
{
    static const double MOST = 0.2; /* of all processors */
    const struct timespec moment = {.tv_nsec = 300000000};
    double busy[2], all[2];
    if (busy_read(&busy[0], &all[0]) != 0)
        return;
    nanosleep(&moment, NULL);
    if (busy_read(&busy[1], &all[1]) != 0 || all[1] <= all[0])
        return;
    const double share = (busy[1] - busy[0]) / (all[1] - all[0]);
    if (share <= MOST)
        return;
    report->busy = 1;
    snprintf(report->busy_text, sizeof report->busy_text,
             "other processes use %.0f%% of the processors, so slowness is not judged; run on an "
             "idle node",
             100 * share);
}

void health_busy_excuse(health_report *report)
{
    for (size_t i = 0; report->busy && i < report->count; i++) {
        health_check *check = &report->checks[i];
        if (check->verdict == HEALTH_SLOW && strncmp(check->id, "gpu", 3) != 0)
            check->verdict = HEALTH_NOTED;
    }
}
