/* Ranks in simulated time: each has its own stack and is entered by swapcontext. */
#include "verify/tests/sim/host/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { RANKS_MAX = 64, STACK_BYTES = 512 << 10 };

typedef enum fibre_state { FIBRE_RUNS, FIBRE_WAITS, FIBRE_ENDED } fibre_state;

typedef struct fibre {
    ucontext_t context;
    void *stack;
    double now_ns;
    fibre_state state;
} fibre;

static fibre fibres[RANKS_MAX];
static ucontext_t outside;
static int nfibres, self = -1;
static void (*rank_main)(int rank);

/* The earliest rank that can run, or -1. */
static int earliest(void)
{
    int best = -1;
    for (int rank = 0; rank < nfibres; rank++)
        if (fibres[rank].state == FIBRE_RUNS &&
            (best < 0 || fibres[rank].now_ns < fibres[best].now_ns))
            best = rank;
    return best;
}

static void check_end(void)
{
    for (int rank = 0; rank < nfibres; rank++)
        if (fibres[rank].state == FIBRE_WAITS) {
            fprintf(stderr, "host_sim: rank %d waits forever\n", rank);
            exit(1);
        }
}

static void enter_next(ucontext_t *from)
{
    int next = earliest();
    if (next < 0)
        check_end();
    if (next == self && next >= 0)
        return;
    self = next;
    if (swapcontext(from, next < 0 ? &outside : &fibres[next].context) != 0) {
        perror("swapcontext");
        exit(3);
    }
}

static void fibre_begin(void)
{
    rank_main(self);
    fibre *ended = &fibres[self];
    ended->state = FIBRE_ENDED;
    enter_next(&ended->context);
}

static void fibre_create(fibre *made)
{
    if (!made->stack)
        made->stack =
            mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made->stack == MAP_FAILED || getcontext(&made->context) != 0) {
        perror("host_sim: no stack");
        exit(3);
    }
    made->context.uc_stack.ss_sp = made->stack;
    made->context.uc_stack.ss_size = STACK_BYTES;
    made->context.uc_link = NULL;
    made->now_ns = 0;
    made->state = FIBRE_RUNS;
    makecontext(&made->context, fibre_begin, 0);
}

void sim_clock_run(int nranks, void (*main)(int rank))
{
    nfibres = nranks;
    rank_main = main;
    for (int rank = 0; rank < nranks; rank++)
        fibre_create(&fibres[rank]);
    self = -1;
    enter_next(&outside);
}

int sim_clock_self(void)
{
    return self;
}

double sim_clock_now_ns(void)
{
    return fibres[self].now_ns;
}

void sim_clock_advance_to(double ns)
{
    fibre *own = &fibres[self];
    if (ns > own->now_ns)
        own->now_ns = ns;
    enter_next(&own->context);
}

void sim_clock_block(void)
{
    fibre *own = &fibres[self];
    own->state = FIBRE_WAITS;
    enter_next(&own->context);
}

void sim_clock_wake(int rank, double ns)
{
    fibre *woken = &fibres[rank];
    if (ns > woken->now_ns)
        woken->now_ns = ns;
    woken->state = FIBRE_RUNS;
}
