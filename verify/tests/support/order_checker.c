/*
 * A checker of memory order. With BUILD=order the compiler instruments every access for a thread
 * sanitizer (-fsanitize=thread), and this file takes the place of its library, because that one
 * does not see that two processes map the same memory, and knows no fences.
 *
 * It keeps vector clocks. A process or thread has a clock; a release copies it to the atomic word,
 * and an acquire that reads the word joins it. Fences count: a relaxed store passes on what the
 * last release fence of its thread covered, and an acquire fence joins what relaxed loads have
 * read.
 * Bytes of shared mappings (identified by inode and offset) remember their latest accesses; two
 * accesses to a byte, one of them a write, not both atomic, of which neither is ordered after the
 * other, are a fault. A load whose latest store is not ordered before it returns the value before
 * that store in half of all cases, until the loading thread has seen the store, as a processor may
 * do: code that relies on the order of two relaxed stores then computes wrong data. System calls on
 * sockets and descriptors, mutexes, and the start and end of threads order as well; all descriptors
 * count as one, so faults hidden by set-up messages are not found. Accesses by intrinsics (such as
 * streaming copies) and by the system are not seen.
 *
 * The tables are in one mapping that forked processes share. Each entry has a lock, which is held
 * while an atomic access is executed, so that a value and its clock belong together.
 */
#define _GNU_SOURCE
#ifndef WEIR_ORDER_CHECKER
#define WEIR_ORDER_CHECKER 1
#endif
#include "verify/tests/support/order_checker.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    ACTORS = 192, /* processes and threads in the life of a program */
    CELLS = 7,    /* remembered accesses of 8 bytes */
    GRANULES = 1 << 20,
    WORDS = 1 << 15, /* atomic words and mutexes */
    MAPPINGS = 256,
    FAULTS_SHOWN = 5,
};

typedef struct clock_vector {
    uint32_t at[ACTORS];
} clock_vector;

/* An access: which bytes of the granule, by whom, at which time of its clock. */
typedef struct access_cell {
    uint32_t time; /* 0: empty */
    uint8_t actor, mask, is_write, is_atomic;
} access_cell;

typedef struct granule {
    uint64_t key; /* 0: free */
    access_cell cells[CELLS];
} granule;

/* The latest store to an atomic word: what it and the one before it pass on, the value that it
 * replaced, when it was made, and which actors have seen it. */
typedef struct sync_word {
    uint64_t key, before;
    uint32_t time;
    uint8_t writer, seen[(ACTORS + 7) / 8];
    clock_vector released, released_before;
} sync_word;

typedef struct shared_tables {
    uint32_t nactors, nfaults, nshown;
    unsigned char granule_locks[GRANULES], word_locks[WORDS];
    granule granules[GRANULES];
    sync_word words[WORDS];
} shared_tables;

typedef struct actor_state {
    int id; /* 0: not yet known */
    clock_vector now, fenced, pending;
} actor_state;

typedef struct shared_mapping {
    uintptr_t base, end;
    uint64_t key;
} shared_mapping;

static shared_tables *tables;
static __thread actor_state self;
static shared_mapping mappings[MAPPINGS];
static int nmappings;
static uint64_t process_key; /* distinguishes private memory of processes */

/* ------------------------------------------------------------------ actors */

static void actor_begin(const clock_vector *after)
{
    uint32_t id = 1 + __atomic_fetch_add(&tables->nactors, 1, __ATOMIC_RELAXED);
    if (id >= ACTORS) {
        fprintf(stderr, "order checker: more than %d processes and threads\n", ACTORS);
        abort();
    }
    self = (actor_state){.id = (int)id};
    if (after)
        self.now = *after;
    self.now.at[id] = 1;
}

static void clock_join(clock_vector *to, const clock_vector *from)
{
    for (int i = 0; i < ACTORS; i++)
        to->at[i] = from->at[i] > to->at[i] ? from->at[i] : to->at[i];
}

static void before_fork(void)
{
    self.now.at[self.id]++;
}

static void in_child(void)
{
    const clock_vector parents = self.now;
    process_key = (uint64_t)getpid() << 44;
    actor_begin(&parents);
}

__attribute__((constructor(101))) static void order_checker_start(void)
{
    tables = mmap(NULL, sizeof *tables, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tables == MAP_FAILED)
        abort();
    process_key = (uint64_t)getpid() << 44;
    actor_begin(NULL);
    pthread_atfork(before_fork, NULL, in_child);
}

unsigned order_checker_faults(void)
{
    return __atomic_exchange_n(&tables->nfaults, 0, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ tables */

static void lock_byte(unsigned char *lock)
{
    for (unsigned spins = 0; __atomic_test_and_set(lock, __ATOMIC_ACQUIRE); spins++)
        if (spins % 64 == 63)
            usleep(1);
}

static void unlock_byte(unsigned char *lock)
{
    __atomic_clear(lock, __ATOMIC_RELEASE);
}

static uint32_t hash_of(uint64_t key)
{
    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 33);
}

/* The key of 8 bytes of a shared mapping; 0: private memory. */
static uint64_t shared_key(uintptr_t address)
{
    for (int i = 0; i < nmappings; i++)
        if (address >= mappings[i].base && address < mappings[i].end)
            return mappings[i].key + (address - mappings[i].base) / 8;
    return 0;
}

/* Finds an entry or makes one, and locks the place of its key, which stays locked while it is in
 * use. Entries are never removed, so a free one ends the search. */
static granule *granule_lock(uint64_t key, unsigned char **lock)
{
    uint32_t first = hash_of(key) % GRANULES;
    *lock = &tables->granule_locks[first];
    lock_byte(*lock);
    for (uint32_t i = 0; i < GRANULES; i++) {
        granule *at = &tables->granules[(first + i) % GRANULES];
        uint64_t none = 0;
        if (at->key == key || __atomic_compare_exchange_n(&at->key, &none, key, 0, __ATOMIC_RELAXED,
                                                          __ATOMIC_RELAXED))
            return at;
    }
    abort();
}

static sync_word *word_lock(uint64_t key, unsigned char **lock)
{
    uint32_t first = hash_of(key) % WORDS;
    *lock = &tables->word_locks[first];
    lock_byte(*lock);
    for (uint32_t i = 0; i < WORDS; i++) {
        sync_word *at = &tables->words[(first + i) % WORDS];
        uint64_t none = 0;
        if (at->key == key || __atomic_compare_exchange_n(&at->key, &none, key, 0, __ATOMIC_RELAXED,
                                                          __ATOMIC_RELAXED))
            return at;
    }
    abort();
}

/* ----------------------------------------------------------- plain accesses */

static void report_fault(uint64_t key, const access_cell *earlier, int is_write, const void *pc)
{
    __atomic_fetch_add(&tables->nfaults, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&tables->nshown, 1, __ATOMIC_RELAXED) >= FAULTS_SHOWN)
        return;
    fprintf(stderr,
            "# order checker: nothing orders this %s (actor %d, code at %p) after the %s of actor "
            "%d at the same place, %#llx\n",
            is_write ? "write" : "read", self.id, pc, earlier->is_write ? "write" : "read",
            earlier->actor, (unsigned long long)(key & 0xffffffffu) * 8);
}

static void granule_access(uint64_t key, uint8_t mask, int is_write, int is_atomic, const void *pc)
{
    unsigned char *lock;
    granule *at = granule_lock(key, &lock);
    int place = -1;
    for (int i = 0; i < CELLS; i++) {
        access_cell *cell = &at->cells[i];
        const int is_past = cell->time <= self.now.at[cell->actor];
        if (cell->time && (cell->mask & mask) && !is_past && (is_write || cell->is_write) &&
            !(is_atomic && cell->is_atomic)) {
            report_fault(key, cell, is_write, pc);
            cell->time = 0;
        }
        /* What is ordered before this access, and covered by it, need not be remembered. */
        if (!cell->time || (is_past && (cell->mask & ~mask) == 0 &&
                            (is_write || (!cell->is_write && cell->actor == self.id)) &&
                            (!is_atomic || cell->is_atomic)))
            place = i, cell->time = 0;
    }
    if (place < 0)
        place = (int)(hash_of(key + self.now.at[self.id]) % CELLS);
    at->cells[place] = (access_cell){self.now.at[self.id], (uint8_t)self.id, mask,
                                     (uint8_t)is_write, (uint8_t)is_atomic};
    unlock_byte(lock);
}

static void access_range(const void *data, size_t bytes, int is_write, int is_atomic,
                         const void *pc)
{
    uintptr_t at = (uintptr_t)data, end = at + bytes;
    if (!self.id || !bytes)
        return;
    while (at < end) {
        const uintptr_t next = (at / 8 + 1) * 8, stop = next < end ? next : end;
        const uint64_t key = shared_key(at);
        if (!key)
            return;
        granule_access(key, (uint8_t)(((1u << (stop - at)) - 1) << at % 8), is_write, is_atomic,
                       pc);
        at = stop;
    }
}

#define PC __builtin_return_address(0)
#define PLAIN(name, bytes)                                                                         \
    void __tsan_read##name(void *at);                                                              \
    void __tsan_write##name(void *at);                                                             \
    void __tsan_read##name(void *at)                                                               \
    {                                                                                              \
        access_range(at, bytes, 0, 0, PC);                                                         \
    }                                                                                              \
    void __tsan_write##name(void *at)                                                              \
    {                                                                                              \
        access_range(at, bytes, 1, 0, PC);                                                         \
    }
#define UNALIGNED(bytes)                                                                           \
    void __tsan_unaligned_read##bytes(void *at);                                                   \
    void __tsan_unaligned_write##bytes(void *at);                                                  \
    void __tsan_unaligned_read##bytes(void *at)                                                    \
    {                                                                                              \
        access_range(at, bytes, 0, 0, PC);                                                         \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *at)                                                   \
    {                                                                                              \
        access_range(at, bytes, 1, 0, PC);                                                         \
    }
PLAIN(1, 1)
PLAIN(2, 2)
PLAIN(4, 4)
PLAIN(8, 8)
PLAIN(16, 16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);
void __tsan_read_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes);
void __tsan_init(void)
{
}
void __tsan_func_entry(void *pc)
{
    (void)pc;
}
void __tsan_func_exit(void)
{
}
void __tsan_read_range(void *at, size_t bytes)
{
    access_range(at, bytes, 0, 0, PC);
}
void __tsan_write_range(void *at, size_t bytes)
{
    access_range(at, bytes, 1, 0, PC);
}

/* ---------------------------------------------------------- atomic accesses */

static int acquires(int order)
{
    return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
}

static int releases(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static uint64_t word_key(const volatile void *at)
{
    uint64_t key = shared_key((uintptr_t)at);
    return key ? key : (process_key ^ (uintptr_t)at) | UINT64_C(1) << 63;
}

static uint32_t random_bit(void)
{
    static __thread uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return state >> 31;
}

static int word_is_stale(sync_word *word)
{
    uint8_t *seen = &word->seen[self.id / 8], bit = (uint8_t)(1 << self.id % 8);
    if (word->time > self.now.at[word->writer] && !(*seen & bit) && random_bit())
        return 1;
    *seen |= bit;
    return 0;
}

static void word_note_store(sync_word *word, uint64_t before)
{
    word->before = before;
    word->released_before = word->released;
    word->time = self.now.at[self.id];
    word->writer = (uint8_t)self.id;
    memset(word->seen, 0, sizeof word->seen);
    word->seen[self.id / 8] = (uint8_t)(1 << self.id % 8);
}

static void word_acquire(const sync_word *word, int order, int is_stale)
{
    clock_join(acquires(order) ? &self.now : &self.pending,
               is_stale ? &word->released_before : &word->released);
}

/* A store replaces what the word passes on; a read-modify-write continues it. */
static void word_release(sync_word *word, int order, int continues)
{
    const clock_vector *passed = releases(order) ? &self.now : &self.fenced;
    if (continues)
        clock_join(&word->released, passed);
    else
        word->released = *passed;
    self.now.at[self.id]++;
}

/* All that is executed between the lock and the unlock of an atomic word. The access is counted
 * before a release advances the clock. */
#define ATOMIC(at, body)                                                                           \
    do {                                                                                           \
        unsigned char *lock;                                                                       \
        sync_word *word = word_lock(word_key(at), &lock);                                          \
        body;                                                                                      \
        unlock_byte(lock);                                                                         \
    } while (0)

#define ATOMIC_TYPE(bits, type)                                                                    \
    type __tsan_atomic##bits##_load(const volatile type *at, int order);                           \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order);                    \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected,           \
                                                      type value, int order, int failure);         \
    type __tsan_atomic##bits##_load(const volatile type *at, int order)                            \
    {                                                                                              \
        type value;                                                                                \
        ATOMIC(at, {                                                                               \
            const int is_stale = word_is_stale(word);                                              \
            value = is_stale ? (type)word->before : *at;                                           \
            word_acquire(word, order, is_stale);                                                   \
        });                                                                                        \
        access_range((const void *)(uintptr_t)at, sizeof *at, 0, 1, PC);                           \
        return value;                                                                              \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order)                     \
    {                                                                                              \
        access_range((const void *)(uintptr_t)at, sizeof *at, 1, 1, PC);                           \
        ATOMIC(at, {                                                                               \
            word_note_store(word, *at);                                                            \
            word_release(word, order, 0);                                                          \
            *at = value;                                                                           \
        });                                                                                        \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected,           \
                                                      type value, int order, int failure)          \
    {                                                                                              \
        int same;                                                                                  \
        access_range((const void *)(uintptr_t)at, sizeof *at, 1, 1, PC);                           \
        ATOMIC(at, {                                                                               \
            same = *at == *expected;                                                               \
            word_acquire(word, same ? order : failure, 0);                                         \
            if (same) {                                                                            \
                word_note_store(word, *at);                                                        \
                word_release(word, order, 1);                                                      \
                *at = value;                                                                       \
            } else {                                                                               \
                *expected = *at;                                                                   \
            }                                                                                      \
        });                                                                                        \
        return same;                                                                               \
    }                                                                                              \
    READ_MODIFY_WRITE(bits, type, exchange, value)                                                 \
    READ_MODIFY_WRITE(bits, type, fetch_add, (type)(before + value))                               \
    READ_MODIFY_WRITE(bits, type, fetch_sub, (type)(before - value))                               \
    READ_MODIFY_WRITE(bits, type, fetch_or, before | value)                                        \
    READ_MODIFY_WRITE(bits, type, fetch_and, (type)(before & value))

#define READ_MODIFY_WRITE(bits, type, name, after)                                                 \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order);                   \
    type __tsan_atomic##bits##_##name(volatile type *at, type value, int order)                    \
    {                                                                                              \
        type before;                                                                               \
        access_range((const void *)(uintptr_t)at, sizeof *at, 1, 1, PC);                           \
        ATOMIC(at, {                                                                               \
            before = *at;                                                                          \
            word_acquire(word, order, 0);                                                          \
            word_note_store(word, before);                                                         \
            word_release(word, order, 1);                                                          \
            *at = after;                                                                           \
        });                                                                                        \
        return before;                                                                             \
    }

ATOMIC_TYPE(8, uint8_t)
ATOMIC_TYPE(32, uint32_t)
ATOMIC_TYPE(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    if (acquires(order))
        clock_join(&self.now, &self.pending);
    if (releases(order)) {
        self.fenced = self.now;
        self.now.at[self.id]++;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

/* --------------------------------------------------------- wrapped functions */

#define WRAPPED(type, name, ...)                                                                   \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

WRAPPED(void *, memcpy, void *to, const void *from, size_t bytes)
{
    access_range(from, bytes, 0, 0, PC);
    access_range(to, bytes, 1, 0, PC);
    return __real_memcpy(to, from, bytes);
}

WRAPPED(void *, memmove, void *to, const void *from, size_t bytes)
{
    access_range(from, bytes, 0, 0, PC);
    access_range(to, bytes, 1, 0, PC);
    return __real_memmove(to, from, bytes);
}

WRAPPED(void *, memset, void *to, int value, size_t bytes)
{
    access_range(to, bytes, 1, 0, PC);
    return __real_memset(to, value, bytes);
}

WRAPPED(void *, mmap, void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *made = __real_mmap(at, bytes, protection, flags, fd, offset);
    struct stat info;
    if (made == MAP_FAILED || !(flags & MAP_SHARED) || fd < 0 || fstat(fd, &info) != 0)
        return made;
    if (nmappings == MAPPINGS)
        abort();
    mappings[nmappings++] =
        (shared_mapping){(uintptr_t)made, (uintptr_t)made + bytes,
                         ((uint64_t)info.st_ino + 1) % (1u << 30) << 32 | (uint64_t)offset / 8};
    return made;
}

WRAPPED(int, munmap, void *at, size_t bytes)
{
    for (int i = 0; i < nmappings; i++)
        if (mappings[i].base == (uintptr_t)at) {
            mappings[i] = mappings[--nmappings];
            break;
        }
    return __real_munmap(at, bytes);
}

static void order_release(uint64_t key)
{
    unsigned char *lock;
    sync_word *word = word_lock(key, &lock);
    word_release(word, __ATOMIC_RELEASE, 1);
    unlock_byte(lock);
}

static void order_acquire(uint64_t key)
{
    unsigned char *lock;
    const sync_word *word = word_lock(key, &lock);
    word_acquire(word, __ATOMIC_ACQUIRE, 0);
    unlock_byte(lock);
}

enum { DESCRIPTORS = 1 }; /* the key of all descriptors */

#define WRITES(type, name, parameters, arguments)                                                  \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        order_release(DESCRIPTORS);                                                                \
        return __real_##name arguments;                                                            \
    }
#define READS(type, name, parameters, arguments)                                                   \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        type done = __real_##name arguments;                                                       \
        order_acquire(DESCRIPTORS);                                                                \
        return done;                                                                               \
    }

struct msghdr;
WRITES(ssize_t, write, (int fd, const void *data, size_t bytes), (fd, data, bytes))
WRITES(ssize_t, send, (int fd, const void *data, size_t bytes, int flags), (fd, data, bytes, flags))
WRITES(ssize_t, sendmsg, (int fd, const struct msghdr *data, int flags), (fd, data, flags))
READS(ssize_t, read, (int fd, void *data, size_t bytes), (fd, data, bytes))
READS(ssize_t, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags))
READS(ssize_t, recvmsg, (int fd, struct msghdr *data, int flags), (fd, data, flags))

WRAPPED(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
    int status = __real_pthread_mutex_lock(mutex);
    order_acquire(word_key(mutex));
    return status;
}

WRAPPED(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
    order_release(word_key(mutex));
    return __real_pthread_mutex_unlock(mutex);
}

typedef struct thread_start {
    void *(*function)(void *);
    void *argument;
    clock_vector after;
} thread_start;

static void *run_thread(void *opaque)
{
    thread_start start = *(thread_start *)opaque;
    free(opaque);
    actor_begin(&start.after);
    void *result = start.function(start.argument);
    order_release(word_key((const void *)(uintptr_t)pthread_self()));
    return result;
}

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
        void *(*function)(void *), void *argument)
{
    thread_start *start = malloc(sizeof *start);
    if (!start)
        abort();
    *start = (thread_start){function, argument, self.now};
    self.now.at[self.id]++;
    return __real_pthread_create(thread, attributes, run_thread, start);
}

WRAPPED(int, pthread_join, pthread_t thread, void **result)
{
    int status = __real_pthread_join(thread, result);
    order_acquire(word_key((const void *)(uintptr_t)thread));
    return status;
}
