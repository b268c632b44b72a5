/* The table of contract.h. */
#include "base/contract.h"

#define RESULT WEIRI_AFTER_RESULT
#define KEPT WEIRI_AFTER_KEPT
#define UNDEFINED WEIRI_AFTER_UNDEFINED

/* in_has_blocks, out_has_blocks, has_root, in_place, out, in_place_in */
static const weiri_contract contracts[WEIR_COLL_COUNT] = {
    [WEIR_COLL_ALLREDUCE] = {0, 0, 0, WEIRI_IN_PLACE_CALLS, {RESULT, RESULT}, {RESULT, RESULT}},
    [WEIR_COLL_REDUCE_SCATTER] =
        {1, 0, 0, WEIRI_IN_PLACE_CALLS, {RESULT, RESULT}, {UNDEFINED, UNDEFINED}},
    [WEIR_COLL_ALLGATHER] = {0, 1, 0, WEIRI_IN_PLACE_CALLS, {RESULT, RESULT}, {KEPT, KEPT}},
    [WEIR_COLL_BROADCAST] = {0, 0, 1, WEIRI_IN_PLACE_CALLS, {RESULT, RESULT}, {KEPT, RESULT}},
    [WEIR_COLL_REDUCE] = {0, 0, 1, WEIRI_IN_PLACE_CALLS, {RESULT, KEPT}, {RESULT, KEPT}},
    [WEIR_COLL_ALLTOALL] = {1, 1, 0, WEIRI_IN_PLACE_PLANS, {RESULT, RESULT}, {RESULT, RESULT}},
    [WEIR_COLL_ALLTOALLV] = {1, 1, 0, WEIRI_IN_PLACE_NONE, {RESULT, RESULT}, {RESULT, RESULT}},
    [WEIR_COLL_SENDRECV] = {0, 0, 0, WEIRI_IN_PLACE_NONE, {RESULT, RESULT}, {RESULT, RESULT}},
};

const weiri_contract *weiri_contract_of(int collective)
{
    static const weiri_contract unknown = {
        0, 0, 0, WEIRI_IN_PLACE_PLANS, {RESULT, RESULT}, {UNDEFINED, UNDEFINED}};
    return (unsigned)collective < WEIR_COLL_COUNT ? &contracts[collective] : &unknown;
}
