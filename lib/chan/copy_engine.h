/*
 * The copy engine of a GPU, as port channels use it: one CUDA stream per connection, which performs
 * copies and stores of 8-byte words in order. copy_engine_cuda.c implements it; a build without
 * CUDA has copy_engine_none.c. All functions are called by a thread that has made the GPU current
 * (weiri_copy_engine_enter): the proxy's thread, or the creator of a channel.
 */
#ifndef WEIR_CHAN_COPY_ENGINE_H
#define WEIR_CHAN_COPY_ENGINE_H

#include "comm/comm.h"

typedef struct weiri_copy_engine weiri_copy_engine;

/* Makes the communicator's GPU current for the calling thread. */
weir_status weiri_copy_engine_enter(const weir_comm *comm);
/* WEIR_ERR_UNSUPPORTED if the communicator's device or its driver lacks what is needed. Local. */
weir_status weiri_copy_engine_create(const weir_comm *comm, weiri_copy_engine **engine);
/* Performs each operation once, so that nothing remains to be loaded or allocated while kernels
 * run: reads 8 bytes at from (unless NULL) and stores 0 into word. Blocks. */
weir_status weiri_copy_engine_try(weiri_copy_engine *engine, const void *from, uint64_t *word);
/* Waits for outstanding work, then frees the engine. NULL is allowed. */
void weiri_copy_engine_free(weiri_copy_engine *engine);
/* Both enqueue their operation and return at once. Addresses are those that this GPU uses. */
weir_status weiri_copy_engine_copy(weiri_copy_engine *engine, void *to, const void *from,
                                   size_t bytes);
weir_status weiri_copy_engine_store(weiri_copy_engine *engine, uint64_t *word, uint64_t value);
/* Returns the stream's error, if it has one. */
weir_status weiri_copy_engine_check(weiri_copy_engine *engine);

#endif
