#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
[ "$(nproc)" -ge 2 ] || lacks "fewer than two processors"
debian_packages libhwloc15=2.9.0-1 libhwloc-dev=2.9.0-1
says "hwloc_get_cpubind of a process whose threads are bound to different processors returns their union, without a word that no thread has it; with HWLOC_CPUBIND_STRICT it fails with EAGAIN"
cat >bind.c <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static pthread_barrier_t bound, ended;

static void *other(void *cpu)
{
    bind_to(*(int *)cpu);
    pthread_barrier_wait(&bound);
    pthread_barrier_wait(&ended);
    return NULL;
}

int main(void)
{
    int cpus[2] = {-1, -1}, found = 0;
    cpu_set_t own;
    pthread_t thread;
    hwloc_topology_t topology;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    sched_getaffinity(0, sizeof own, &own);
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
        if (CPU_ISSET(cpu, &own))
            cpus[found++] = cpu;
    hwloc_topology_init(&topology);
    hwloc_topology_load(topology);
    pthread_barrier_init(&bound, NULL, 2);
    pthread_barrier_init(&ended, NULL, 2);
    bind_to(cpus[0]);
    pthread_create(&thread, NULL, other, &cpus[1]);
    pthread_barrier_wait(&bound);
    int status = hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS);
    printf("%d %d", status, hwloc_bitmap_weight(set));
    status = hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS | HWLOC_CPUBIND_STRICT);
    printf(" %d %s\n", status, status ? strerrorname_np(errno) : "-");
    pthread_barrier_wait(&ended);
    pthread_join(thread, NULL);
    return 0;
}
C
lib=root/usr/lib/$(gcc -print-multiarch)
gcc -o bind bind.c -Iroot/usr/include -L"$lib" -lhwloc -pthread 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "status and processors of the process; status and error of the strict query" "0 2 -1 EAGAIN" "$(LD_LIBRARY_PATH=$work/$lib ./bind)"
finish
