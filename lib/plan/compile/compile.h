/* Compiles plans: what each rank's executor runs, program.h. */
#ifndef WEIR_PLAN_COMPILE_COMPILE_H
#define WEIR_PLAN_COMPILE_COMPILE_H

#include "plan/format/layout.h"
#include "plan/compile/program.h"

/* A rank's program for a layout; every rank's counters are numbered alike. Local. The
 * caller frees it with free(). WEIR_ERR_NO_MEMORY. */
weir_status weiri_program_compile(const weir_plan *plan, int rank,
                                  const weiri_plan_layout *layout, weiri_program **program);

#endif
