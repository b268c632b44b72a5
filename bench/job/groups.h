/* The control groups of this process, of version 1 and 2, which limit its processors and memory. */
#ifndef BENCH_JOB_GROUPS_H
#define BENCH_JOB_GROUPS_H

/* Called with the folder of a group. */
typedef void bench_group_reader(const char *folder, void *context);

/* Calls `read` for the group of this process that the controller ("cpu", "memory") limits, and for
 * all groups above it, up to the root of the mount: a limit of each applies. root: "" for this
 * machine; tests use recorded files. Groups that cannot be seen, as in a namespace, are left out.
 * Local. */
void bench_groups_read(const char *root, const char *controller, bench_group_reader *read,
                       void *context);

#endif
