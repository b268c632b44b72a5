/* Between memory.c and words.c. */
#ifndef WEIR_TESTS_SIM_HOST_WORDS_H
#define WEIR_TESTS_SIM_HOST_WORDS_H

#include "verify/tests/sim/host/machine.h"

void sim_words_create(const sim_machine *machine, size_t nlines);
/* The number of an address's line in the arena. */
size_t sim_memory_line(const void *address);

#endif
