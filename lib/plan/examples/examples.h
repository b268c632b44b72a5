/*
 * Plans that the library can make itself: one for each usual schedule of each collective,
 * written with the builder, to be read as examples of it, run, and compared with.
 */
#ifndef WEIR_PLAN_EXAMPLES_EXAMPLES_H
#define WEIR_PLAN_EXAMPLES_EXAMPLES_H

#include <weir/plan.h>

typedef struct weiri_plan_example_options {
    int nranks;
    int instances;       /* 0: 1 */
    int in_place;
    int machine_ranks;   /* of one machine, neighbours in number; for hierarchical schedules.
                          * 0: half of the ranks, of an odd number 1 */
    uint64_t unit_bytes; /* of a pipeline's turn, a multiple of 16; 0: 128 KiB */
    weir_op op;          /* of reductions; WEIR_SUM: the caller's */
} weiri_plan_example_options;

typedef struct weiri_plan_example {
    const char *name; /* collective_schedule; the plan's name */
    weir_collective collective;
    const char *summary; /* one line */
    int double_scratch;
    void (*program)(weir_plan_builder *builder, const weiri_plan_example_options *with);
} weiri_plan_example;

/* The table; static storage. */
const weiri_plan_example *weiri_plan_examples(size_t *count);

/* NULL: there is none of that name. */
const weiri_plan_example *weiri_plan_example_find(const char *name);

/* Makes the plan, which is the caller's. WEIR_ERR_INVALID: options that it cannot have, such
 * as one rank; the message says which. */
weir_status weiri_plan_example_make(const weiri_plan_example *example,
                                    const weiri_plan_example_options *with, weir_plan **plan);

#endif
