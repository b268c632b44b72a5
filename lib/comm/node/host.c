/* Identifiers of the node and hardware of a rank, and the number of cores available to ranks. */
#define _GNU_SOURCE
#include "comm/comm.h"

#include "base/env.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* FNV-1a, 64 bit: http://www.isthe.com/chongo/tech/comp/fnv/ */
uint64_t weiri_hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

uint64_t weiri_kernel_id(void)
{
    uint64_t hash = WEIRI_HASH_START;
    char text[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        size_t length = fread(text, 1, sizeof text, file);
        hash = weiri_hash_bytes(hash, text, length);
        fclose(file);
    }
    return hash;
}

uint64_t weiri_hardware_id(void)
{
    uint64_t hash = weiri_kernel_id();
    char text[256] = "";
    if (gethostname(text, sizeof text - 1) == 0)
        hash = weiri_hash_bytes(hash, text, strlen(text));
    struct stat info;
    if (stat("/proc/self/ns/pid", &info) == 0)
        hash = weiri_hash_bytes(hash, &info.st_ino, sizeof info.st_ino);
    return hash;
}

uint64_t weiri_host_id(void)
{
    uint64_t hash = weiri_hardware_id();
    const char *name = weiri_env(WEIRI_ENV_HOSTID);
    return name ? weiri_hash_bytes(hash, name, strlen(name)) : hash;
}

_Static_assert(sizeof(cpu_set_t) == WEIRI_CORES_BYTES, "a core mask is a cpu_set_t");

void weiri_host_own_cores(int rank, unsigned char mask[WEIRI_CORES_BYTES])
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) < 0)
        CPU_SET((size_t)rank % CPU_SETSIZE, &cores);
    memcpy(mask, &cores, sizeof cores);
}

static int assumed_numa;

void weiri_host_assume_numa(int count)
{
    assumed_numa = count;
}

/* Adds the numbers of a list such as "0-15,64-79" to a set. */
static void add_listed_cores(FILE *list, cpu_set_t *cores)
{
    int first, last;
    char next = ',';
    while (next == ',' && fscanf(list, "%d", &first) == 1) {
        last = first;
        if (fscanf(list, "%c", &next) == 1 && next == '-' &&
            (fscanf(list, "%d", &last) != 1 || fscanf(list, "%c", &next) != 1))
            next = '\n';
        for (int core = first; core >= 0 && core <= last && core < CPU_SETSIZE; core++)
            CPU_SET((size_t)core, cores);
    }
}

int weiri_host_numa(int rank, const unsigned char mask[WEIRI_CORES_BYTES])
{
    unsigned core = 0, node = 0;
    char path[64];
    cpu_set_t own, of_node, both;
    if (assumed_numa)
        return rank % assumed_numa;
    if (syscall(SYS_getcpu, &core, &node, NULL) != 0)
        return -1;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
    FILE *list = fopen(path, "re");
    if (!list)
        return -1;
    CPU_ZERO(&of_node);
    add_listed_cores(list, &of_node);
    fclose(list);
    memcpy(&own, mask, sizeof own);
    CPU_AND(&both, &own, &of_node);
    return CPU_EQUAL(&both, &own) ? (int)node : -1;
}

int weiri_host_cores(const void *masks, size_t stride_bytes, int count)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int i = 0; i < count; i++) {
        cpu_set_t one;
        memcpy(&one, (const char *)masks + (size_t)i * stride_bytes, sizeof one);
        CPU_OR(&all, &all, &one);
    }
    return CPU_COUNT(&all);
}
