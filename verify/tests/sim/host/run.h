/* What the parts of the program share: the machine, and how calls are simulated. */
#ifndef WEIR_TESTS_SIM_HOST_RUN_H
#define WEIR_TESTS_SIM_HOST_RUN_H

#include "verify/tests/sim/host/machine.h"

#include <weir/weir.h>

#include <stdint.h>

typedef struct sim_run {
    sim_machine machine;
    int moves_data;    /* copies and reductions move data, so that results can be checked */
    int is_registered; /* the buffers of calls are registered memory */
    const char *fault; /* NULL, "wrong-source" or "uncounted" */
    int faults_made;
} sim_run;
extern sim_run sim;

/* expected.c. size_bytes: the larger one of what a rank sends and receives. */

/* The bytes that ranks load from and store to each other's memory by an algorithm; UINT64_MAX: no
 * closed form is known. */
uint64_t sim_expected_bytes(weir_collective collective, const char *algo, uint64_t size_bytes,
                            int nranks);
/* The least that must cross between NUMA nodes, by any algorithm. */
uint64_t sim_least_crossing(weir_collective collective, uint64_t size_bytes);

#endif
