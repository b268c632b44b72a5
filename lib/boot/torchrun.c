/*
 * The bootstrap from torchrun's environment: RANK and WORLD_SIZE give this rank and the number of
 * ranks, MASTER_ADDR and MASTER_PORT the node of rank 0. PyTorch's store listens at MASTER_PORT, so
 * rank 0 listens at the next port, or at WEIR_BOOT_PORT.
 */
#include "base/env.h"
#include "base/error.h"
#include "base/launchers.h"
#include "boot/by_name.h"

#include <stdio.h>

enum { LAST_PORT = 65535 };

static weir_status torchrun_read_number(weiri_env_key key, long low, long high, int *number)
{
    return weiri_launch_number(
        key, low, high, "torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT", number);
}

static weir_status torchrun_find_root(weiri_named_root *root)
{
    *root = (weiri_named_root){.variable = WEIRI_ENV_MASTER_ADDR,
                               .host = weiri_env(WEIRI_ENV_MASTER_ADDR)};
    if (!root->host)
        return weiri_fail(WEIR_ERR_INVALID, "%s is not set; torchrun sets it",
                          weiri_env_name(WEIRI_ENV_MASTER_ADDR));
    if (weiri_env(WEIRI_ENV_BOOT_PORT))
        return torchrun_read_number(WEIRI_ENV_BOOT_PORT, 1, LAST_PORT, &root->port);
    weir_status status = torchrun_read_number(WEIRI_ENV_MASTER_PORT, 1, LAST_PORT, &root->port);
    if (status == WEIR_OK && root->port == LAST_PORT)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s=%d: rank 0 would listen at the next port, and there is none; set %s "
                          "to a free port, or %s below %d",
                          weiri_env_name(WEIRI_ENV_MASTER_PORT), LAST_PORT,
                          weiri_env_name(WEIRI_ENV_BOOT_PORT),
                          weiri_env_name(WEIRI_ENV_MASTER_PORT), LAST_PORT);
    root->port++;
    return status;
}

weir_status weir_boot_torchrun_create(weir_boot **boot)
{
    weiri_named_root root;
    int rank = 0, nranks = 0;
    if (!boot)
        return weiri_fail(WEIR_ERR_INVALID, "weir_boot_torchrun_create: boot is required");
    weir_status status = torchrun_read_number(WEIRI_ENV_RANK, 0, 65535, &rank);
    if (status == WEIR_OK)
        status = torchrun_read_number(WEIRI_ENV_WORLD_SIZE, 1, 65536, &nranks);
    if (status == WEIR_OK)
        status = torchrun_find_root(&root);
    if (status != WEIR_OK)
        return status;
    const char *run = weiri_launcher_variable("TORCHELASTIC_RUN_ID");
    snprintf(root.job, sizeof root.job, "torchrun %d %.80s", root.port, run ? run : "");
    status = weiri_boot_by_name_create(&root, rank, nranks, boot);
    return status == WEIR_OK ? status
                             : weiri_fail_context(status, "bootstrap from torchrun's environment");
}
