/* Element counts and bus factors, from the table of collectives (base/contract.h). */
#include "bench/sizes/shape.h"

#include "base/contract.h"

enum { ALIGN_BYTES = 16 };

/* The elements that a rank sends and receives in one step. */
static void step_totals(const bench_shape *shape, size_t element_bytes, int step, int rank,
                        int nranks, const bench_dist *dist, size_t totals[2])
{
    totals[0] = totals[1] = 0;
    for (int peer = 0; peer < nranks; peer++) {
        totals[0] +=
            bench_dist_elements(dist, step, shape->count, element_bytes, rank, peer, nranks);
        totals[1] +=
            bench_dist_elements(dist, step, shape->count, element_bytes, peer, rank, nranks);
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void shape_alltoallv(bench_shape *shape, size_t element_bytes, int rank, int nranks,
                            const bench_dist *dist)
{
    size_t most = 0, totals[2];
    shape->send_elements = shape->recv_elements = 0;
    for (int step = 0; step < dist->nsteps; step++)
        for (int other = 0; other < nranks; other++) {
            step_totals(shape, element_bytes, step, other, nranks, dist, totals);
            most = larger(most, larger(totals[0], totals[1]));
            if (other != rank)
                continue;
            shape->send_elements = larger(shape->send_elements, totals[0]);
            shape->recv_elements = larger(shape->recv_elements, totals[1]);
        }
    shape->bytes = most * element_bytes;
}

bench_shape bench_shape_make(weir_collective collective, size_t bytes, size_t element_bytes,
                             int rank, int nranks, const bench_dist *dist)
{
    const weiri_contract *contract = weiri_contract_of((int)collective);
    bench_shape shape = {.count = bytes / element_bytes};
    if (contract->in_has_blocks || contract->out_has_blocks)
        shape.count = shape.count / (size_t)nranks & ~(ALIGN_BYTES / element_bytes - 1);
    shape.send_elements = shape.count * (contract->in_has_blocks ? (size_t)nranks : 1);
    shape.recv_elements = shape.count * (contract->out_has_blocks ? (size_t)nranks : 1);
    shape.send_stride_elements = shape.count * (size_t)weiri_contract_in_block(contract, 1);
    shape.recv_stride_elements = shape.count * (size_t)weiri_contract_out_block(contract, 1);
    shape.bytes = element_bytes * larger(shape.send_elements, shape.recv_elements);
    if (collective == WEIR_COLL_ALLTOALLV)
        shape_alltoallv(&shape, element_bytes, rank, nranks, dist);
    return shape;
}

weir_collective bench_collective_call(weir_collective collective)
{
    return (int)collective > WEIR_COLL_COUNT ? WEIR_COLL_ALLTOALLV : collective;
}

int bench_collective_has_op(weir_collective collective)
{
    return weiri_contract_of((int)collective)->reduces;
}

int bench_collective_has_root(weir_collective collective)
{
    return weiri_contract_of((int)collective)->has_root;
}

int bench_collective_in_place(weir_collective collective, int has_plan)
{
    weiri_in_place in_place = weiri_contract_of((int)collective)->in_place;
    return in_place == WEIRI_IN_PLACE_CALLS || (in_place == WEIRI_IN_PLACE_PLANS && has_plan);
}

double bench_bus_factor(weir_collective collective, int nranks)
{
    return weiri_contract_bus_factor(weiri_contract_of((int)collective), nranks);
}
