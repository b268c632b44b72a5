/*
 * What to do about a failed check: see health.h. The first row that fits a check decides. A reset
 * remaps failed memory of a GPU and trains its NVLinks again; it cannot reach a GPU that the bus
 * has lost.
 */
#include "bench/health/health.h"

#include <fnmatch.h>

static const struct action_row {
    const char *ids; /* a pattern of glob */
    health_verdict verdict;
    health_action action;
} action_rows[] = {
    {"*", HEALTH_WRONG, HEALTH_DRAIN}, /* no result of this node can be trusted */
    {"gpu*.ecc.uncorrected", HEALTH_MISSING, HEALTH_RESET_GPU},
    {"gpu*.nvlink.errors", HEALTH_MISSING, HEALTH_RESET_GPU},
    {"gpu*.nvlinks", HEALTH_MISSING, HEALTH_RESET_GPU},
    {"gpu*.driver", HEALTH_MISSING, HEALTH_REBOOT},
    {"gpus", HEALTH_MISSING, HEALTH_REBOOT},
    {"gpus.usable", HEALTH_MISSING, HEALTH_REBOOT},
    {"gpu*.pcie", HEALTH_SLOW, HEALTH_REBOOT}, /* the link trains again */
    {"fleet.node*.exchange", HEALTH_HUNG, HEALTH_DRAIN},
    {"*", HEALTH_HUNG, HEALTH_REBOOT}, /* what hangs holds devices and memory */
    {"*", HEALTH_MISSING, HEALTH_DRAIN},
    {"fleet.node*", HEALTH_SLOW, HEALTH_DRAIN}, /* every job with this node waits for it */
    {"*", HEALTH_SLOW, HEALTH_WATCH},
    {"*", HEALTH_BROKEN, HEALTH_WATCH},
};

health_action health_action_of(const health_check *check)
{
    for (size_t i = 0; i < sizeof action_rows / sizeof action_rows[0]; i++)
        if (check->verdict == action_rows[i].verdict &&
            fnmatch(action_rows[i].ids, check->id, 0) == 0)
            return action_rows[i].action;
    return HEALTH_NOTHING;
}

health_action health_action_of_all(const health_report *report)
{
    health_action most = HEALTH_NOTHING;
    for (size_t i = 0; i < report->count; i++)
        if (health_action_of(&report->checks[i]) > most)
            most = health_action_of(&report->checks[i]);
    return most;
}

const char *health_action_name(health_action action)
{
    static const char *const names[] = {[HEALTH_NOTHING] = "",
                                        [HEALTH_WATCH] = "watch",
                                        [HEALTH_RESET_GPU] = "reset the GPU",
                                        [HEALTH_REBOOT] = "reboot",
                                        [HEALTH_DRAIN] = "drain"};
    return names[action];
}
