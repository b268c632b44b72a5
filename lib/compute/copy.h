/*
 * Bulk copies between buffers that do not overlap, of any alignment and length, 0 included. All
 * functions are local, thread-safe and cannot fail.
 */
#ifndef WEIR_COMPUTE_COPY_H
#define WEIR_COMPUTE_COPY_H

#include <stddef.h>
#include <stdint.h>

enum {
    WEIRI_PEER_STREAMING_BYTES = 2048, /* below this size a fence costs more than streaming saves */
    WEIRI_PREFETCH_BYTES = 1024,       /* requested at once, before the block ahead is copied */
};

/* Copies through the caches: for data that will be read soon. */
void weiri_copy(void *dst, const void *src, size_t bytes);

/* Copies with stores that bypass the caches, if the processor has them: for a destination that will
 * not be read soon. Its stores are ordered before any later store. */
void weiri_copy_streaming(void *dst, const void *src, size_t bytes);

/* Copies into memory that another core reads next: from WEIRI_PEER_STREAMING_BYTES on with stores
 * that bypass the caches, if this thread's stores were slow lately (weiri_copy_to_peers_is_slow)
 * and this processor gains by it (weiri_copy_streams_to_peers). They are ordered before any later
 * store. */
void weiri_copy_to_peer(void *dst, const void *src, size_t bytes);

/* Whether copies of this thread into memory that other cores read are slow. It forgets the verdict
 * after a number of copies and of calls, and copies are timed again. */
int weiri_copy_to_peers_is_slow(void);

/* Whether they take longer than between cores that share a cache, so that copies by their readers
 * alone are preferable. It forgets the verdict after a number of calls. */
int weiri_copy_to_peers_is_far(void);

/* Whether the next copy of WEIRI_PEER_STREAMING_BYTES or more is timed for a first verdict or one
 * after the last was forgotten. The peer should not read there meanwhile. */
int weiri_copy_to_peer_is_timed(void);

/* Notes how long a copy to a peer took; weiri_copy_to_peer does so itself. */
void weiri_copy_note_pace(size_t bytes, uint64_t elapsed_ns);

/* Copies from memory that another core has written: requests cache lines ahead of their use, where
 * they come from afar (weiri_copy_from_peers_is_slow). */
void weiri_copy_from_peer(void *dst, const void *src, size_t bytes);

/* Copies with stores through the caches that do not fetch the lines that they replace, if the
 * processor has them: for buffers that are not in the caches of this core. They are ordered before
 * any later store. */
void weiri_copy_unfetched(void *dst, const void *src, size_t bytes);

/* Whether that is faster for a call whose buffers have total_bytes: they exceed the second-level
 * cache, and this is not one of AMD's processors, on which it has not been measured. */
int weiri_copies_unfetched(size_t total_bytes);

/* Whether this thread's stores to peers were slow lately, and lines that those have written are
 * therefore worth requesting ahead. Unlike weiri_copy_to_peers_is_slow, it does not shorten the
 * verdict. */
int weiri_copy_from_peers_is_slow(void);

/* The next two do nothing on processors on which copies to peers may bypass the caches
 * (weiri_copy_streams_to_peers). */

/* Requests the cache lines of a block that this core will store to soon, so that other cores give
 * up their copies in the meantime. */
void weiri_request_for_writing(const void *block, size_t bytes);

/* Waits until earlier loads have completed, such as that of the flag that permits to read a peer's
 * data. Otherwise a processor that expects the flag to be set reads the data in advance, and takes
 * cache lines away from the peer that is still storing to them. */
void weiri_read_no_earlier(void);

/* Requests the cache lines of a block that will be read next. */
void weiri_prefetch(const void *src, size_t bytes);

/* Whether weiri_copy_to_peer bypasses the caches where stores are slow: a store to a line that a
 * core of another last-level cache holds waits until that core has given it up, which takes much
 * longer than storing to memory on some processors (AMD's). Constant for the life of the process.
 */
int weiri_copy_streams_to_peers(void);
/* Lets this process behave as on a processor where it does, or does not: for tests. */
void weiri_copy_assume_streams_to_peers(int does);

/* Returns the working set (bytes that all ranks on one last-level cache read and write in one
 * operation) from which on streaming stores are faster. Constant for the life of the process. */
size_t weiri_streaming_threshold_bytes(void);

#endif
