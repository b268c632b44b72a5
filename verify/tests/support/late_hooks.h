/*
 * Included before the first line of the library's collectives when they are compiled for
 * test_late_ranks: their flags and waits become functions of late_ranks.c, which decide which rank
 * runs. The library's own lines stay as they are.
 */
#ifndef VERIFY_TESTS_SUPPORT_LATE_HOOKS_H
#define VERIFY_TESTS_SUPPORT_LATE_HOOKS_H

#include "comm/comm.h"
#include "compute/copy.h"

uint64_t late_load(const uint64_t *word);
void late_store(uint64_t *word, uint64_t value);
uint64_t late_claim(uint64_t *word);
weir_status late_wait(weir_comm *comm, const uint64_t *word, uint64_t target, int peer,
                      const char *phase);
weir_status late_idle(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word, uint64_t target,
                      int peer, const char *phase);
int late_streams_to_peers(void);
int late_never(void);

#ifndef LATE_HOOKS_THEMSELVES
#define weir_load_acquire late_load
#define weir_store_release late_store
#define weiri_comm_wait late_wait
#define weiri_comm_idle late_idle
#define weiri_comm_idle_for late_idle
/* What kind of processor this is, the tests choose; how fast its copies are varies. */
#define weiri_copy_streams_to_peers late_streams_to_peers
#define weiri_copy_to_peer_is_timed late_never
#define weiri_copy_to_peers_is_slow late_never
#define weiri_copy_to_peers_is_far late_never
#include "coll/coll.h"
#define weiri_claim(coll) late_claim(&(coll)->areas[0].claimed[(coll)->epoch & 1].value)
#endif

#endif
