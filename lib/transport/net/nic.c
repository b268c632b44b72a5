/* The rule by which a NIC is chosen. */
#include "transport/net/nic.h"

/* Smaller is better: state first, then kind, then distance. */
static int nic_cost(const weiri_nic_view *view)
{
    return (view->up == 0 ? 100 : 0) + (view->verbs ? 0 : 10) + view->distance;
}

int weiri_nic_pick(const weiri_nic_view *views, int count, int ordinal)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (best < 0 || nic_cost(&views[i]) < nic_cost(&views[best]))
            best = i;
    if (best < 0)
        return -1;
    int skip = ordinal % weiri_nic_equals(views, count, best);
    for (int i = best; i < count; i++)
        if (nic_cost(&views[i]) == nic_cost(&views[best]) && skip-- == 0)
            return i;
    return best;
}

int weiri_nic_equals(const weiri_nic_view *views, int count, int index)
{
    int equals = 0;
    for (int i = 0; i < count; i++)
        equals += nic_cost(&views[i]) == nic_cost(&views[index]);
    return equals;
}

const char *weiri_nic_distance_name(int distance)
{
    static const char *const names[] = {"self", "same-switch", "same-root", "same-numa",
                                        "cross-numa"};
    return distance >= 0 && distance <= WEIRI_NIC_FAR ? names[distance] : "unknown";
}
