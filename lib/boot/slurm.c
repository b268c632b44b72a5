/*
 * The bootstrap from the variables that srun sets for the tasks of a job step. Rank 0 runs on the
 * first node of SLURM_STEP_NODELIST. Its port is WEIR_BOOT_PORT, else the first port that Slurm
 * reserved for the step (srun --resv-ports), else one that all tasks derive from the numbers of job
 * and step, so that steps that share a node rarely collide.
 */
#include "base/env.h"
#include "base/error.h"
#include "base/launchers.h"
#include "boot/by_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_BYTES = 256, FIRST_PORT = 20000, PORTS = 12000 }; /* below the ephemeral ports */

static weir_status slurm_read_number(weiri_env_key key, long low, long high, int *number)
{
    return weiri_launch_number(key, low, high,
                               "srun sets it for the tasks of a step, sbatch does not: start the "
                               "program with srun",
                               number);
}

/* Copies the first host of a list such as "rack[1-3]node[07,09],login1": "rack1node07". Returns 0
 * if it has no host, or a malformed one. */
static int slurm_first_host(const char *list, char host[HOST_BYTES])
{
    size_t used = 0;
    while (*list && *list != ',') {
        if (used + 1 >= HOST_BYTES)
            return 0;
        if (*list != '[') {
            host[used++] = *list++;
            continue;
        }
        const char *end = strchr(list, ']');
        size_t first = strcspn(++list, "-,]");
        if (!end || first == 0 || used + first >= HOST_BYTES)
            return 0;
        memcpy(host + used, list, first);
        used += first;
        list = end + 1;
    }
    host[used] = '\0';
    return used > 0;
}

static weir_status slurm_find_port(int *port)
{
    int job = 0, step = 0;
    const char *reserved = weiri_env(WEIRI_ENV_SLURM_STEP_RESV_PORTS);
    if (weiri_env(WEIRI_ENV_BOOT_PORT))
        return slurm_read_number(WEIRI_ENV_BOOT_PORT, 1, 65535, port);
    long first = reserved ? strtol(reserved, NULL, 10) : 0;
    if (first > 0 && first < 65536) {
        *port = (int)first;
        return WEIR_OK;
    }
    weir_status status = slurm_read_number(WEIRI_ENV_SLURM_JOB_ID, 0, 2147483647, &job);
    if (status == WEIR_OK)
        status = slurm_read_number(WEIRI_ENV_SLURM_STEP_ID, 0, 2147483647, &step);
    *port = FIRST_PORT + (int)(((long)job * 31 + step) % PORTS);
    return status;
}

/* With srun --distribution=arbitrary, rank 0 runs on any node, and the list stays sorted, so that
 * no variable names rank 0's node. Rank 0 and the tasks of the first node see that; the others do
 * not.
 */
static weir_status slurm_check_first_node(int rank, const char *list)
{
    const char *here = weiri_launcher_variable("SLURM_GTIDS"); /* ranks of this node, ascending */
    const int node = weiri_launcher_number("SLURM_NODEID");
    const int is_elsewhere = node == 0 && here && strtol(here, NULL, 10) != 0;
    if (!(rank == 0 && node > 0) && !is_elsewhere)
        return WEIR_OK;
    return weiri_fail(
        WEIR_ERR_INVALID,
        "rank 0 does not run on the first node of %s=%s, where the others look for it: "
        "start the program with srun --distribution=block or cyclic, or with srun "
        "--mpi=pmix and WEIR_LAUNCHER=pmix",
        weiri_env_name(WEIRI_ENV_SLURM_STEP_NODELIST), list);
}

weir_status weir_boot_slurm_create(weir_boot **boot)
{
    char host[HOST_BYTES];
    weiri_named_root root = {.variable = WEIRI_ENV_SLURM_STEP_NODELIST, .host = host};
    const char *list = weiri_env(WEIRI_ENV_SLURM_STEP_NODELIST);
    int rank = 0, nranks = 0;
    if (!boot)
        return weiri_fail(WEIR_ERR_INVALID, "weir_boot_slurm_create: boot is required");
    if (!list || !slurm_first_host(list, host))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s=%s: expected a list of hosts; srun sets it, sbatch does not: start "
                          "the program with srun",
                          weiri_env_name(WEIRI_ENV_SLURM_STEP_NODELIST), list ? list : "");
    weiri_env_key size = weiri_env(WEIRI_ENV_SLURM_STEP_NUM_TASKS) ? WEIRI_ENV_SLURM_STEP_NUM_TASKS
                                                                   : WEIRI_ENV_SLURM_NTASKS;
    weir_status status = slurm_read_number(WEIRI_ENV_SLURM_PROCID, 0, 65535, &rank);
    if (status == WEIR_OK)
        status = slurm_read_number(size, 1, 65536, &nranks);
    if (status == WEIR_OK)
        status = slurm_check_first_node(rank, list);
    const char *job = weiri_env(WEIRI_ENV_SLURM_JOB_ID), *step = weiri_env(WEIRI_ENV_SLURM_STEP_ID);
    snprintf(root.job, sizeof root.job, "slurm %.40s.%.40s", job ? job : "", step ? step : "");
    if (status == WEIR_OK)
        status = slurm_find_port(&root.port);
    if (status == WEIR_OK)
        status = weiri_boot_by_name_create(&root, rank, nranks, boot);
    return status == WEIR_OK ? status
                             : weiri_fail_context(status, "bootstrap from Slurm's variables");
}
