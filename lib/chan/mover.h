/*
 * The copy engine of a GPU as port channels use it: one stream of copies and stores of
 * words, in order, of a connection's. mover_cuda.c has it, mover_none.c is a build
 * without CUDA. A proxy's thread calls these, having made the GPU current.
 */
#ifndef WEIR_CHAN_MOVER_H
#define WEIR_CHAN_MOVER_H

#include "comm/comm.h"

typedef struct weiri_mover weiri_mover;

/* Makes the communicator's GPU current for the calling thread, for good. */
weir_status weiri_mover_enter(const weir_comm *comm);
/* Whether the device of comm, and its driver, can. Local. */
weir_status weiri_mover_create(const weir_comm *comm, weiri_mover **mover);
/* Tries all that it will do, so that nothing is left to be loaded or made once kernels
 * run: reads 8 bytes at from, and stores 0 into word. Blocks. */
weir_status weiri_mover_try(weiri_mover *mover, const void *from, uint64_t *word);
/* Waits for what is under way. NULL is allowed. */
void weiri_mover_free(weiri_mover *mover);
/* Both return at once; their memory is as this GPU sees it. */
weir_status weiri_mover_copy(weiri_mover *mover, void *to, const void *from, size_t bytes);
weir_status weiri_mover_store(weiri_mover *mover, uint64_t *word, uint64_t value);
/* What has gone wrong on the stream, if anything has. */
weir_status weiri_mover_check(weiri_mover *mover);

#endif
