/* What a node has: processors, memory, limits, GPUs and NICs. */
#include "bench/gpu/clocks.h"
#include "bench/health/checks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

static const double gib = 1024.0 * 1024 * 1024;

void health_describe_versions(char *text, size_t bytes)
{
    char driver[64] = "";
    FILE *file = fopen("/sys/module/nvidia/version", "r");
    if (file && !fgets(driver, sizeof driver, file))
        driver[0] = '\0';
    if (file)
        fclose(file);
    driver[strcspn(driver, "\n")] = '\0';
    snprintf(text, bytes, "%s%s%s", weir_version_string(), driver[0] ? ", NVIDIA driver " : "",
             driver);
}

static void facts_add_versions(health_report *report)
{
    char versions[160];
    struct utsname system;
    health_check *check = health_add(report, "node.versions", "versions");
    health_describe_versions(versions, sizeof versions);
    health_look(check, "the node's image: a node that differs from the others runs other software");
    if (uname(&system) != 0)
        system.release[0] = '\0';
    health_set(check, HEALTH_NOTED, "%s, Linux %.64s", versions, system.release);
}

static void facts_add_processors(health_report *report, const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    health_check *check = health_add(report, "node.cores", "cores that may be used");
    health_set_value(check, counts.usable_cores, "", 0);
    health_look(check, "the job's limits (cgroup, taskset), and offline cores (lscpu -e)");
    check = health_add(report, "node.numa", "NUMA nodes");
    health_set_value(check, counts.numa_nodes, "", 0);
    health_look(check, "the firmware's memory settings, and numactl --hardware");
    check = health_add(report, "node.memory", "memory");
    health_set_value(check, (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / gib,
                     "GiB", 1);
    health_look(check, "failed memory modules: dmidecode -t memory, edac-util");
}

/* Shared memory holds the channels between ranks of a node: at least 64 MiB for each core. */
static void facts_add_limits(health_report *report, const weiri_topo *topo)
{
    weiri_topo_counts counts;
    struct statvfs shm;
    struct rlimit files;
    weiri_topo_count(topo, &counts);
    health_check *check = health_add(report, "node.shm", "free shared memory (/dev/shm)");
    health_look(check, "files left in /dev/shm, and its size: mount -o remount,size=50% /dev/shm");
    if (statvfs("/dev/shm", &shm) == 0) {
        health_set_value(check, (double)shm.f_bavail * (double)shm.f_frsize / gib, "GiB", 2);
        const int nranks = counts.gpus > 0 ? counts.gpus : counts.usable_cores;
        health_expect(check, HEALTH_AT_LEAST, nranks * 64.0 / 1024, HEALTH_MISSING,
                      "64 MiB for each rank");
    } else {
        health_set(check, HEALTH_MISSING, "/dev/shm is not there");
    }
    check = health_add(report, "node.files", "open files allowed (ulimit -n)");
    health_look(check, "ulimit -n, and LimitNOFILE= of the service that starts jobs");
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        health_set_value(check, files.rlim_cur == RLIM_INFINITY ? 1e9 : (double)files.rlim_cur, "",
                         0);
        health_expect(check, HEALTH_AT_LEAST, 256, HEALTH_MISSING, "what a job on one node needs");
    }
}

/* Memory that an RDMA device may pin. */
static void facts_add_memlock(health_report *report, const weiri_topo *topo)
{
    struct rlimit locked;
    weiri_topo_counts counts;
    int has_verbs = 0;
    weiri_topo_count(topo, &counts);
    for (int i = 0; i < counts.nics; i++)
        has_verbs |= weiri_topo_nic(topo, i)->openfabrics;
    if (!has_verbs || getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        return;
    health_check *check =
        health_add(report, "node.memlock", "memory that may be locked (ulimit -l)");
    health_look(check,
                "ulimit -l unlimited, and LimitMEMLOCK=infinity of the service that starts jobs");
    health_set_value(check, locked.rlim_cur == RLIM_INFINITY ? 1e6 : (double)locked.rlim_cur / gib,
                     "GiB", 2);
    health_expect(check, HEALTH_AT_LEAST, 1, HEALTH_MISSING, "buffers of RDMA devices are locked");
}

static void facts_add_nics(health_report *report, const health_settings *settings,
                           const weiri_topo *topo)
{
    weiri_topo_counts counts;
    int up = 0;
    weiri_topo_count(topo, &counts);
    for (int i = 0; i < counts.nics; i++) {
        const weiri_topo_device *nic = weiri_topo_nic(topo, i);
        char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
        up += nic->link_up != 0;
        snprintf(id, sizeof id, "nic.%.40s.rate", nic->name);
        snprintf(what, sizeof what, "%.31s: link rate", nic->name);
        health_check *check = health_add(report, id, what);
        snprintf(check->device, sizeof check->device, "%s", nic->model);
        health_look(check,
                    "the cable and its port: ethtool, ibstat, mlxlink; the switch's port counters");
        if (nic->link_up == 0)
            health_set(check, HEALTH_NOTED, "the link is down");
        else if (nic->link_gbits > 0)
            health_set_value(check, nic->link_gbits, "Gbit/s", 0);
        else
            health_set(check, HEALTH_NOTED, "up, rate unknown");
    }
    health_check *check = health_add(report, "nics.up", "NICs whose link is not down");
    health_set_value(check, up, "", 0);
    health_look(check, "ip link, ibstat; lspci for devices that are not there at all");
    if (settings->nics >= 0)
        health_expect(check, HEALTH_AT_LEAST, settings->nics, HEALTH_MISSING, "--nics");
}

static void facts_add_gpus(health_report *report, const health_settings *settings,
                           const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    health_check *check = health_add(report, "gpus", "GPUs");
    health_set_value(check, counts.gpus, "", 0);
    health_look(check, "nvidia-smi -L, dmesg (Xid messages), lspci | grep -i nvidia");
    if (settings->gpus >= 0)
        health_expect(check, HEALTH_AT_LEAST, settings->gpus, HEALTH_MISSING, "--gpus");
    for (int i = 0; i < counts.gpus; i++) {
        const weiri_topo_device *gpu = weiri_topo_gpu(topo, i);
        char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
        if (i == 0)
            snprintf(report->gpu_model, sizeof report->gpu_model, "%s", gpu->model);
        snprintf(id, sizeof id, "gpu%d.pcie", i);
        snprintf(what, sizeof what, "GPU %d (%.15s, %.95s): PCIe link", i, gpu->pci, gpu->model);
        check = health_add(report, id, what);
        health_look(check, "lspci -vv (LnkSta below LnkCap), the riser or slot of the GPU");
        if (gpu->pcie_gbs > 0)
            health_set_value(check, gpu->pcie_gbs, "GB/s", 1);
        else
            health_set(check, HEALTH_NOTED, "unknown");
    }
}

/* The processor's model, as /proc/cpuinfo has it. */
static void facts_read_cpu_model(char *model, size_t bytes)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            snprintf(model, bytes, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file)
        fclose(file);
}

void health_check_facts(health_report *report, const health_settings *settings,
                        const weiri_topo *topo)
{
    facts_read_cpu_model(report->cpu_model, sizeof report->cpu_model);
    weiri_topo_summary(topo, report->hardware, sizeof report->hardware);
    facts_add_versions(report);
    facts_add_processors(report, topo);
    facts_add_limits(report, topo);
    facts_add_memlock(report, topo);
    facts_add_nics(report, settings, topo);
    facts_add_gpus(report, settings, topo);
}
