/*
 * Prints what setting up a job of forked ranks costs on this node. Run by hand:
 *
 *   setup_speed [-n EACH] [RANKS...]      8, 64 and 256 ranks by default
 *
 * With -n, EACH ranks form an emulated node; tcp over the loopback interface connects the nodes.
 *
 * A line per number of ranks has the medians, over STARTS jobs, of the time from the start until
 * the last rank has its bootstrap, its communicator, and the result of a first allreduce of 4
 * bytes, and until all ranks have ended; and the largest amounts over ranks of private memory, of
 * shared memory that a rank provides, and of open files.
 */
#define _GNU_SOURCE
#include "verify/tests/perf/times.h"
#include "weir/weir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STARTS = 5, RANKS_MOST = 4096, LIMIT_MS = 100000 };

enum { BOOTED, CREATED, REDUCED, ENDED, TIMES };

/* Written by the ranks: their times since the start, and amounts. */
typedef struct record {
    double start_ms, ms[TIMES];
    long own_kib, scratch_kib, files;
} record;

static record *records;
static int ranks_each; /* of an emulated node; 0: all on one */

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static long own_kib(void)
{
    char line[128];
    long kib, sum = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Clean: %ld", &kib) == 1 ||
            sscanf(line, "Private_Dirty: %ld", &kib) == 1)
            sum += kib;
    if (file)
        fclose(file);
    return sum;
}

static long open_files(void)
{
    long count = -3; /* ".", "..", and the folder itself */
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static void emulate_node(int rank)
{
    char name[32];
    snprintf(name, sizeof name, "setup-%d", rank / ranks_each);
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", "tcp", 1);
    setenv("WEIR_SOCKET_IFNAME", "lo", 1);
}

static int set_up(weir_boot *boot, void *argument)
{
    (void)argument;
    record *mine = &records[weir_boot_rank(boot)];
    float value = 1;
    weir_comm *comm;
    if (ranks_each)
        emulate_node(weir_boot_rank(boot));
    mine->ms[BOOTED] = now_ms() - mine->start_ms;
    weir_status status = weir_comm_create(boot, NULL, &comm);
    mine->ms[CREATED] = now_ms() - mine->start_ms;
    if (status != WEIR_OK)
        return 1;
    status = weir_allreduce(comm, &value, &value, 1, WEIR_FLOAT, WEIR_SUM, NULL);
    mine->ms[REDUCED] = now_ms() - mine->start_ms;
    status = status == WEIR_OK ? weir_comm_barrier(comm) : status;
    mine->own_kib = own_kib();
    mine->files = open_files();
    mine->scratch_kib = (long)(weir_comm_scratch_bytes(comm) / 1024);
    return status != WEIR_OK || weir_comm_destroy(comm) != WEIR_OK;
}

static int start(int nranks, double times[TIMES])
{
    const double begin_ms = now_ms();
    for (int rank = 0; rank < nranks; rank++)
        records[rank] = (record){.start_ms = begin_ms};
    if (weir_boot_fork_run(nranks, set_up, NULL, LIMIT_MS, NULL) != WEIR_OK)
        return 1;
    for (int what = 0; what < ENDED; what++) {
        times[what] = 0;
        for (int rank = 0; rank < nranks; rank++)
            if (records[rank].ms[what] > times[what])
                times[what] = records[rank].ms[what];
    }
    times[ENDED] = now_ms() - begin_ms;
    return times[REDUCED] == 0;
}

static int measure(int nranks)
{
    double times[STARTS][TIMES], column[STARTS];
    for (int i = 0; i < STARTS; i++)
        if (start(nranks, times[i]) != 0) {
            fprintf(stderr, "setup_speed: %d ranks: %s\n", nranks, weir_last_error());
            return 1;
        }
    printf("%6d", nranks);
    for (int what = 0; what < TIMES; what++) {
        for (int i = 0; i < STARTS; i++)
            column[i] = times[i][what];
        times_sort(column, STARTS);
        printf(" %10.1f", column[STARTS / 2]);
    }
    record most = {0};
    for (int rank = 0; rank < nranks; rank++) {
        const record *one = &records[rank];
        most.own_kib = one->own_kib > most.own_kib ? one->own_kib : most.own_kib;
        most.scratch_kib =
            one->scratch_kib > most.scratch_kib ? one->scratch_kib : most.scratch_kib;
        most.files = one->files > most.files ? one->files : most.files;
    }
    printf(" %10ld %10ld %10ld\n", most.own_kib, most.scratch_kib, most.files);
    fflush(stdout);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: setup_speed [-n EACH] [RANKS...]; 1 to %d each\n", RANKS_MOST);
    exit(2);
}

int main(int argc, char **argv)
{
    static char *defaults[] = {"", "8", "64", "256"};
    int count, failures = 0, option;
    while ((option = getopt(argc, argv, "n:")) >= 0)
        ranks_each = option == 'n' && atoi(optarg) > 0 ? atoi(optarg) : usage();
    char **ranks = argc > optind ? argv + optind - 1 : defaults;
    count = argc > optind ? argc - optind + 1 : 4;
    records = mmap(NULL, RANKS_MOST * sizeof *records, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (records == MAP_FAILED)
        return 1;
    printf("%6s %10s %10s %10s %10s %10s %10s %10s\n", "ranks", "boot ms", "comm ms", "call ms",
           "end ms", "own KiB", "shared KiB", "files");
    for (int i = 1; i < count; i++) {
        const int nranks = atoi(ranks[i]);
        if (nranks < 1 || nranks > RANKS_MOST)
            usage();
        failures |= measure(nranks);
    }
    return failures;
}
