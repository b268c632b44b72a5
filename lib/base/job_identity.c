/* Finds the launcher among a process's ancestors and hashes what identifies it: see
 * job_identity.h. */
#define _GNU_SOURCE /* struct ucred */
#include "base/job_identity.h"

#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* A process, as /proc describes it. */
typedef struct ancestor {
    long pid, parent;
    unsigned long long start; /* clock ticks since the boot */
} ancestor;

static void identity_add(weiri_job_identity *identity, const void *data, size_t bytes)
{
    weiri_mac(identity->key, data, bytes, identity->key);
}

static void identity_add_text(weiri_job_identity *identity, const char *text)
{
    identity_add(identity, text, strlen(text) + 1);
}

/* Reads the beginning of a file. Returns its length; 0 if it cannot be read. */
static size_t identity_read(const char *path, char *data, size_t bytes)
{
    const int fd = weiri_fd_raise(open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return 0;
    const ssize_t length = read(fd, data, bytes);
    close(fd);
    return length > 0 ? (size_t)length : 0;
}

/* ------------------------------------------------------------ the launcher's process */

/* Returns 0 if there is no such process, or no /proc. */
static int ancestor_read(long pid, ancestor *one)
{
    char path[40], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    line[identity_read(path, line, sizeof line - 1)] = '\0';
    /* A program's name may contain blanks and brackets; no later field does. */
    const char *at = strrchr(line, ')');
    *one = (ancestor){.pid = pid};
    return at && sscanf(at,
                        ") %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                        "%*d %*d %llu",
                        &one->parent, &one->start) == 2;
}

/* 1 if the entry "NAME=value" sets the variable to its value in this process. */
static int ancestor_entry_agrees(const char *entry, const char *name)
{
    const char *mine = weiri_launcher_variable(name);
    const size_t length = name ? strlen(name) : 0;
    return mine && strncmp(entry, name, length) == 0 && entry[length] == '=' &&
           strcmp(entry + length + 1, mine) == 0;
}

/* Returns 1 if the process was started with this rank's variables, 0 if not, -1 if its environment
 * cannot be read. */
static int ancestor_is_rank(const ancestor *one, const weiri_launcher_row *row)
{
    const char *const names[] = {row->rank, row->size, row->job};
    enum { NAMES = sizeof names / sizeof *names };
    char path[40], *entry = NULL;
    size_t room = 0;
    int wanted = 0, found = 0;
    snprintf(path, sizeof path, "/proc/%ld/environ", one->pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    for (int i = 0; i < NAMES; i++)
        wanted += weiri_launcher_variable(names[i]) != NULL;
    while (getdelim(&entry, &room, '\0', file) > 0)
        for (int i = 0; i < NAMES; i++)
            found += ancestor_entry_agrees(entry, names[i]);
    free(entry);
    fclose(file);
    return found >= wanted;
}

/* Finds the launcher. Returns 1; 0 if it is not among the visible ancestors; -1 if *one is an
 * ancestor whose environment cannot be read, the launcher or a wrapper of another user. */
static int launcher_find(const weiri_launcher_row *row, ancestor *one)
{
    enum { ANCESTORS_MAX = 64 };
    /* Hydra gives each rank a socket, with this process at its other end; 0: none. */
    struct ucred peer = {.pid = 0};
    socklen_t length = sizeof peer;
    const int fd = weiri_launcher_number("PMI_FD");
    const long pmi =
        fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? peer.pid : 0;
    long pid = getppid();
    for (int i = 0; i < ANCESTORS_MAX && pid > 0 && ancestor_read(pid, one); i++) {
        const int is_rank = row && pid != pmi ? ancestor_is_rank(one, row) : 0;
        if (is_rank <= 0)
            return is_rank == 0 ? 1 : -1;
        pid = one->parent;
    }
    return 0;
}

static void identity_add_launcher(weiri_job_identity *identity, const ancestor *launcher)
{
    char path[40], addresses[1024];
    struct stat space = {0};
    identity->launcher = (int)launcher->pid;
    identity_add(identity, &launcher->pid, sizeof launcher->pid);
    identity_add(identity, &launcher->start, sizeof launcher->start);
    if (stat("/proc/self/ns/pid", &space) == 0)
        identity_add(identity, &space.st_ino, sizeof space.st_ino);
    snprintf(path, sizeof path, "/proc/%ld/auxv", launcher->pid);
    identity_add(identity, addresses, identity_read(path, addresses, sizeof addresses));
}

/* ------------------------------------------------------------ the launcher's variables */

/* Adds the variables that a launcher sets to the same values for all ranks of a node. Returns 1 if
 * they suffice, as they contain an address or a random number of this start of the launcher. */
static int identity_add_variables(weiri_job_identity *identity)
{
    static const char *const unique[] = {"OMPI_MCA_orte_precondition_transports",
                                         "PMIX_SERVER_URI2", "PMIX_SERVER_URI3", "PMIX_SERVER_URI4",
                                         "PMIX_SERVER_URI41"};
    static const char *const others[] = {
        "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID",   "MPIRUN_ID",
        "SLURM_JOB_ID",   "SLURM_STEP_ID",           "MASTER_PORT", "TORCHELASTIC_RUN_ID"};
    int suffices = 0;
    for (size_t i = 0; i < sizeof unique / sizeof *unique; i++) {
        const char *value = weiri_launcher_variable(unique[i]);
        suffices |= value != NULL;
        identity_add_text(identity, value ? value : "");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *value = weiri_launcher_variable(others[i]);
        identity_add_text(identity, value ? value : "");
    }
    return suffices;
}

void weiri_job_identity_find(const weiri_launcher_row *row, weiri_job_identity *identity)
{
    char boot[64];
    const uid_t user = geteuid();
    ancestor launcher = {.pid = getppid()};
    *identity = (weiri_job_identity){.key = "weir's job on a"};
    identity_add(identity, &user, sizeof user);
    identity_add(identity, boot,
                 identity_read("/proc/sys/kernel/random/boot_id", boot, sizeof boot));
    identity_add_text(identity, row ? row->rank : "");
    const int suffices = identity_add_variables(identity);
    const int found = launcher_find(row, &launcher);
    if (found > 0 || !suffices)
        identity_add_launcher(identity, &launcher);
}

void weiri_job_identity_name(const weiri_job_identity *identity, const char *purpose, int number,
                             char name[WEIRI_JOB_NAME_BYTES])
{
    char text[64];
    uint8_t mac[WEIRI_MAC_BYTES];
    const int length = snprintf(text, sizeof text, "%s %d", purpose, number);
    weiri_mac(identity->key, text, (size_t)length, mac);
    for (int i = 0; i < WEIRI_MAC_BYTES; i++)
        snprintf(name + 2 * i, 3, "%02x", mac[i]);
}
