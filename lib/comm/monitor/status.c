/* What both forms of the status have in common. */
#include "comm/monitor/status.h"

int weiri_status_missing(const weiri_view_comm *comm)
{
    int missing = 0;
    for (int rank = 0; rank < comm->nranks; rank++)
        missing += weiri_view_is_missing(&comm->ranks[rank]);
    return missing;
}

int weiri_status_waiting(const weiri_view_comm *comm, int rank, uint64_t *longest_ns)
{
    int waiting = 0;
    *longest_ns = 0;
    for (int one = 0; one < comm->nranks; one++) {
        if (one == rank || weiri_view_is_missing(&comm->ranks[one]) ||
            weiri_view_blocker(comm, one) != rank)
            continue;
        waiting++;
        if (comm->ranks[one].awaited_ns > *longest_ns)
            *longest_ns = comm->ranks[one].awaited_ns;
    }
    return waiting;
}
