/*
 * Validation of collectives. A benchmark
 *
 *   1. lays its buffers out with weirv_guard_place, fills the input with weirv_fill_input and the
 *      output with weirv_poison,
 *   2. runs the collective,
 *   3. calls weirv_check_exact (expected.h), weirv_check (reference.h), or both, and adds
 *      weirv_guard_check to result.overruns and weirv_input_changed to result.inputs_changed,
 *   4. calls weirv_reduce_result, after which every rank has the same result.
 *
 * Uses only the public API of weir; reference.h adds MPI. Number formats are decoded by this
 * folder's code, because the conversions of lib/ are under test.
 */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include "verify/compare.h"
#include "verify/expected.h"
#include "verify/forensics.h"
#include "verify/pattern.h"
#include "verify/special.h"

/* Makes a result global: on every rank, the sums, the worst error, and the first mismatch of the
 * lowest rank that has one. Collective; call it once per result. Errors as weir_boot_allgather;
 * WEIR_ERR_NO_MEMORY. */
weir_status weirv_reduce_result(weir_boot *boot, weirv_result *result);

#endif
