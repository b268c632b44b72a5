/* Compiles a plan to a program (program.h). Apart from program.h because kernels include that one,
 * and must not see the plan format. */
#ifndef WEIR_PLAN_COMPILE_COMPILE_H
#define WEIR_PLAN_COMPILE_COMPILE_H

#include "plan/format/layout.h"
#include "plan/compile/program.h"

/* Compiles the program of one rank for one layout. All ranks number the counters of channels
 * consistently. Local. The caller owns the program and releases it with free().
 * WEIR_ERR_NO_MEMORY. */
weir_status weiri_program_compile(const weir_plan *plan, int rank,
                                  const weiri_plan_layout *layout, weiri_program **program);

#endif
