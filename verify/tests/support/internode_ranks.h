/*
 * Helpers for tests of communicators across nodes that are emulated on one node: ranks with
 * different values of WEIR_HOSTID.
 */
#ifndef VERIFY_TESTS_SUPPORT_INTERNODE_RANKS_H
#define VERIFY_TESTS_SUPPORT_INTERNODE_RANKS_H

#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/device_standin.h"
#include "verify/tests/support/net_shm.h"

#include <stdlib.h>
#include <string.h>

typedef struct layout {
    const char *nodes; /* the node of each rank, one letter per rank */
    int nnodes;
    const char *transport; /* NULL: shm */
    int gpus;              /* whether the ranks have stand-ins for GPUs */
    int first_use;         /* whether they connect when they first use a connection; over tcp */
} layout;

static inline int ranks_of(const layout *where)
{
    return (int)strlen(where->nodes);
}

static inline weir_comm *open_internode(weir_boot *boot, const layout *where)
{
    char name[2] = {where->nodes[weir_boot_rank(boot)], '\0'};
    net_shm_register();
    setenv("WEIR_HOSTID", name, 1);
    setenv("WEIR_TRANSPORT", where->transport ? where->transport : "shm", 1);
    setenv("WEIR_CONNECT", where->first_use ? "first-use" : "auto", 1);
    weir_comm *comm = open_comm(boot);
    if (comm && where->gpus && standin_attach(comm) != WEIR_OK) {
        weir_comm_destroy(comm);
        return NULL;
    }
    return comm;
}

/* A test whose ranks run body, with communicators in this layout. */
typedef struct layout_test {
    layout where;
    ranks_body *body; /* its argument is the layout */
    void (*in_comm)(weir_comm *comm, const layout *where, int *failures);
} layout_test;

static inline int run_layout_body(weir_boot *boot, void *argument)
{
    const layout_test *test = argument;
    int failures = 0;
    weir_comm *comm = open_internode(boot, &test->where);
    if (!comm)
        return NO_COMM;
    test->in_comm(comm, &test->where, &failures);
    weir_comm_destroy(comm);
    return failures;
}

static inline void test_layout(void **state)
{
    layout_test *test = *state;
    if (test->in_comm)
        run_ranks(ranks_of(&test->where), run_layout_body, test);
    else
        run_ranks(ranks_of(&test->where), test->body, &test->where);
}

/* Rows of a cmocka table: the layout follows the function that the ranks run. */
#define LAYOUT_TEST(name, in_comm, ...)                                                            \
    AT(name, test_layout, (&(layout_test){{.nodes = __VA_ARGS__}, NULL, in_comm}))
#define LAYOUT_RANKS_TEST(name, body, ...)                                                         \
    AT(name, test_layout, (&(layout_test){{.nodes = __VA_ARGS__}, body, NULL}))

#endif
