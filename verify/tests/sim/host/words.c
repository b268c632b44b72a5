/* The lines of flags and counters: who has stored to them last, who has them, and who waits. */
#include "verify/tests/sim/host/words.h"

#include "verify/tests/sim/host/clock.h"
#include "verify/tests/sim/host/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static const double STORE_NS = 2, POLL_NS = 500;

typedef struct line {
    uint64_t readers; /* bit r: rank r has the current value */
    double free_ns;   /* when the next reader can get it */
    int8_t writer;    /* plus 1; 0: nobody yet */
} line;

/* What a stopped rank waits for; word NULL: for any store. */
typedef struct waiting {
    int waits;
    const uint64_t *word;
    uint64_t target, seen; /* seen: the number of stores when it looked last */
} waiting;

static const sim_machine *machine;
static line *lines;
static size_t lines_bytes;
static uint64_t nstores;
static waiting waits[SIM_RANKS_MAX];

void sim_words_create(const sim_machine *of, size_t nlines)
{
    if (lines)
        munmap(lines, lines_bytes);
    machine = of;
    lines_bytes = nlines * sizeof *lines;
    lines = mmap(NULL, lines_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lines == MAP_FAILED) {
        perror("host_sim: no address space");
        exit(3);
    }
    nstores = 0;
    for (int rank = 0; rank < SIM_RANKS_MAX; rank++)
        waits[rank] = (waiting){0};
}

/* When a rank that asks for a line at a time has it. */
static double line_get(line *wanted, int rank, double asked_ns)
{
    const uint64_t bit = (uint64_t)1 << rank;
    if (wanted->readers & bit || !wanted->writer || wanted->writer - 1 == rank)
        return asked_ns + machine->values.line_ns[SIM_OWN];
    sim_distance distance = sim_machine_distance(machine, wanted->writer - 1, rank);
    double served_ns = wanted->free_ns > asked_ns ? wanted->free_ns : asked_ns;
    wanted->free_ns = served_ns + machine->values.serve_ns;
    wanted->readers |= bit;
    sim_memory_counts()->lines++;
    sim_memory_counts()->far_lines += distance == SIM_FAR;
    return served_ns + machine->values.line_ns[distance];
}

static line *line_of(const uint64_t *word)
{
    return &lines[sim_memory_line(word)];
}

void sim_word_load(const uint64_t *word)
{
    if (sim_memory_owner(word) < 0)
        return;
    sim_clock_advance_to(line_get(line_of(word), sim_clock_self(), sim_clock_now_ns()));
}

void sim_word_wait(const uint64_t *word, uint64_t target)
{
    const int rank = sim_clock_self();
    if (*word < target) {
        waits[rank] = (waiting){1, word, target, 0};
        sim_clock_block();
    }
    sim_word_load(word);
}

void sim_word_wait_any(void)
{
    waiting *own = &waits[sim_clock_self()];
    if (own->seen == nstores) {
        *own = (waiting){1, NULL, 0, nstores};
        sim_clock_block();
    }
    own->seen = nstores;
    sim_clock_advance_to(sim_clock_now_ns() + POLL_NS);
}

static void wake_waiting(const uint64_t *word, double now_ns)
{
    for (int rank = 0; rank < machine->nranks; rank++) {
        waiting *other = &waits[rank];
        if (!other->waits || (other->word && (other->word != word || *word < other->target)))
            continue;
        other->waits = 0;
        sim_clock_wake(rank, now_ns);
    }
}

void sim_word_store(uint64_t *word, uint64_t value)
{
    const int rank = sim_clock_self();
    *word = value;
    nstores++;
    if (sim_memory_owner(word) >= 0)
        *line_of(word) = (line){(uint64_t)1 << rank, sim_clock_now_ns(), (int8_t)(rank + 1)};
    wake_waiting(word, sim_clock_now_ns());
    sim_clock_advance_to(sim_clock_now_ns() + STORE_NS);
}

uint64_t sim_word_add(uint64_t *word, uint64_t value)
{
    sim_word_load(word);
    uint64_t before = *word;
    sim_word_store(word, before + value);
    return before;
}
