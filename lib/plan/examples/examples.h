/*
 * Plans that the library can generate: one for each common schedule of each collective. They are
 * written with the public builder, as examples of it, and serve as references to compare with. The
 * share of a rank is the part of the data that it reduces or owns, usually one chunk.
 */
#ifndef WEIR_PLAN_EXAMPLES_EXAMPLES_H
#define WEIR_PLAN_EXAMPLES_EXAMPLES_H

#include <weir/plan.h>

typedef struct weiri_plan_example_options {
    int nranks;
    int instances; /* 0: 1 */
    int in_place;
    int node_ranks;      /* consecutive ranks of a node, for hierarchical schedules;
                          * 0: half of the ranks, or 1 if their number is odd */
    uint64_t unit_bytes; /* handled in a turn of a pipeline, a multiple of 16; 0: 128 KiB */
    weir_op op;          /* of reductions; WEIR_SUM: the caller's operation */
    struct weiri_example_mesh *mesh; /* of weiri_plan_example_make, for the program */
} weiri_plan_example_options;

typedef struct weiri_plan_example {
    const char *name; /* of the plan: collective_schedule */
    weir_collective collective;
    const char *summary; /* one line */
    int double_scratch;
    void (*program)(weir_plan_builder *builder, const weiri_plan_example_options *with);
} weiri_plan_example;

/* The table; static storage. */
const weiri_plan_example *weiri_plan_examples(size_t *count);

/* The example of that name; NULL: there is none. */
const weiri_plan_example *weiri_plan_example_find(const char *name);

/* Generates the plan, which the caller owns. Local. WEIR_ERR_INVALID: the example does not support
 * the options, for example one rank. */
weir_status weiri_plan_example_make(const weiri_plan_example *example,
                                    const weiri_plan_example_options *with, weir_plan **plan);

#endif
