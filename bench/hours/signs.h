/*
 * Signs of a disturbance: what a rank's process, core, node and GPU have counted. Differences of
 * two readings say what happened in between.
 */
#ifndef BENCH_HOURS_SIGNS_H
#define BENCH_HOURS_SIGNS_H

#include "bench/gpu/clocks.h"

/* In the order in which they explain an outlier: the first one that does is named. */
typedef enum bench_sign {
    BENCH_SIGN_STOPPED,     /* times that the process was continued after a stop */
    BENCH_SIGN_XID,         /* errors that the GPU's driver reported */
    BENCH_SIGN_ECC,         /* uncorrected errors of the GPU's memory */
    BENCH_SIGN_NVLINK,      /* errors of the GPU's NVLinks */
    BENCH_SIGN_PCIE,        /* replays of the GPU's PCIe link */
    BENCH_SIGN_POWER,       /* 1: the power cap limits the GPU's clocks */
    BENCH_SIGN_HEAT,        /* 1: heat limits them */
    BENCH_SIGN_HARDWARE,    /* 1: the board's protection limits them */
    BENCH_SIGN_SLOW_CLOCK,  /* 1: the GPU's clock is 5% below the highest seen */
    BENCH_SIGN_QUOTA,       /* us for which a CPU quota stopped the processes of a cgroup */
    BENCH_SIGN_STOLEN,      /* us of the node's CPUs that the hypervisor gave to other machines */
    BENCH_SIGN_NEIGHBOUR,   /* us for which the thread was ready and other tasks had its core */
    BENCH_SIGN_MAJOR_FAULT, /* page faults that read from a disk */
    BENCH_SIGN_MINOR_FAULT, /* other page faults */
    BENCH_SIGN_SWITCH,      /* context switches that the thread did not ask for */
    BENCH_SIGN_NIC,         /* errors and drops of network interfaces, and TCP's retransmissions */
    BENCH_SIGNS
} bench_sign;

typedef enum bench_sign_kind {
    BENCH_SIGN_EVENT, /* a count; explains an outlier if it usually stays the same */
    BENCH_SIGN_LEVEL, /* 0 or 1; explains an outlier if it is usually 0 */
    BENCH_SIGN_TIME,  /* explains an outlier if it grew by half of the time that was lost */
    BENCH_SIGN_RATE,  /* a count; explains an outlier if it grew much faster than usual */
} bench_sign_kind;

typedef struct bench_sign_info {
    bench_sign_kind kind;
    const char *column; /* in the CSV: "stopped" */
    const char *during; /* what happened to the rank %d: "rank %d was stopped" */
} bench_sign_info;

extern const bench_sign_info bench_sign_infos[BENCH_SIGNS];

typedef struct bench_signs {
    const char *root; /* the caller's */
    bench_nvml *nvml;
    double last[BENCH_SIGNS]; /* the latest readings */
    int highest_mhz;
} bench_signs;

/* Takes the first reading, of the calling thread. root: "" for this machine; tests have a folder of
 * made-up files. nvml may be NULL. Local; handles SIGCONT until bench_signs_close. */
void bench_signs_open(bench_signs *signs, const char *root, bench_nvml *nvml);
/* Writes what happened since the latest reading; for levels, what holds now. A sign that cannot be
 * read is 0. Local. */
void bench_signs_read(bench_signs *signs, double changes[BENCH_SIGNS]);
void bench_signs_close(void);

#endif
