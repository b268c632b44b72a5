/*
 * Proves that registered memory works: ranks write and read each other's memory through handles,
 * mappings are removed with their memory, and invalid, stale and forged handles are rejected.
 */
#include "verify/tests/support/comm_ranks.h"

#include "transport/transport.h"

#include <sys/stat.h>

enum { MOST_ALLOCATIONS = 512, HANDLE_CONTENT_BYTES = 256 };

/* Imports a handle that must be rejected with this status and message. */
static void expect_refused(int *failures, weir_comm *comm, const weir_mem_handle *handle,
                           weir_status status, const char *text)
{
    weir_mem *untouched = (weir_mem *)(void *)failures;
    weir_mem *mem = untouched;
    EXPECT(failures, weir_mem_import(comm, handle, &mem) == status);
    EXPECT(failures, boot_last_error_has(text));
    EXPECT(failures, mem == untouched);
}

/* ----------------------------------------------------------------- exchange */

/* Every rank writes its part of every rank's memory. */
static void write_to_all(weir_comm *comm, int *failures)
{
    enum { PART = 5003 }; /* neither a page nor aligned */
    int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    weir_mem *mem = NULL, *mems[MOST_RANKS] = {NULL};
    EXPECT_OK(failures, weir_mem_alloc(comm, (size_t)nranks * PART, &mem));
    if (*failures)
        return;
    unsigned char *own = weir_mem_pointer(mem);
    for (size_t i = 0; i < weir_mem_bytes(mem); i++)
        EXPECT(failures, own[i] == 0);
    EXPECT(failures, (uintptr_t)own % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
    EXPECT(failures, weir_mem_bytes(mem) == (size_t)nranks * PART && weir_mem_shareable(mem));
    EXPECT_OK(failures, weir_mem_exchange(comm, mem, mems));
    EXPECT(failures, mems[rank] == mem);
    for (int peer = 0; peer < nranks; peer++) {
        unsigned char *theirs = weir_mem_pointer(mems[peer]);
        EXPECT(failures, weir_mem_bytes(mems[peer]) == weir_mem_bytes(mem));
        boot_fill(theirs + (size_t)rank * PART, PART, rank, peer);
    }
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (int peer = 0; peer < nranks; peer++)
        EXPECT(failures, boot_filled(own + (size_t)peer * PART, PART, peer, rank));
    EXPECT_OK(failures, weir_comm_barrier(comm));
    for (int peer = 0; peer < nranks; peer++)
        if (peer != rank)
            weir_mem_free(mems[peer]);
    weir_mem_free(mem);
}

/* Writes and reads by copies; ranges outside of the memory are rejected. */
static void write_and_read(weir_comm *comm, int *failures)
{
    char text[] = "channel", back[8] = "";
    weir_mem *mem = NULL;
    EXPECT_OK(failures, weir_mem_alloc(comm, 64, &mem));
    if (*failures)
        return;
    EXPECT_OK(failures, weir_mem_write(mem, 56, text, 8));
    EXPECT_OK(failures, weir_mem_read(mem, 56, back, 8));
    EXPECT(failures, strcmp(text, back) == 0);
    EXPECT(failures, weir_mem_write(mem, 57, text, 8) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_mem_read(mem, SIZE_MAX, back, 8) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_mem_read(mem, 64, NULL, 0) == WEIR_OK);
    weir_mem_free(mem);
}

/* Memory of equal sizes is symmetric; of different sizes it is not, on any rank. */
static void symmetric(weir_comm *comm, int *failures)
{
    int rank = weir_comm_rank(comm);
    weir_mem *equal = NULL, *unequal = NULL, *piece = NULL;
    EXPECT_OK(failures, weir_mem_alloc(comm, 4096, &equal));
    EXPECT_OK(failures, weir_mem_alloc(comm, rank == 1 ? 8192 : 4096, &unequal));
    EXPECT_OK(failures, weir_mem_register(comm, weir_mem_pointer(equal), 64, &piece));
    if (*failures)
        return;
    EXPECT_OK(failures, weir_mem_symmetric(equal));
    EXPECT_OK(failures, weir_mem_symmetric(equal));
    EXPECT(failures, weir_mem_symmetric(unequal) == WEIR_ERR_MISMATCH);
    EXPECT(failures, weir_mem_symmetric(rank == 0 ? piece : equal) == WEIR_ERR_INVALID);
    weir_mem_free(piece);
    weir_mem_free(unequal);
    weir_mem_free(equal);
}

/* A registered part of an allocation is accessed at its offset in the one mapping of the
 * allocation, however often it is imported. */
static void pieces(weir_comm *comm, int *failures)
{
    enum { BYTES = 20000, OFFSET = 4097, PIECE = 1001, TIMES = 20, TAG = 4 };
    int rank = weir_comm_rank(comm), peer = 1 - rank;
    weir_mem *mem = NULL, *piece = NULL, *theirs[TIMES] = {NULL};
    EXPECT_OK(failures, weir_mem_alloc(comm, BYTES, &mem));
    if (*failures)
        return;
    unsigned char *own = weir_mem_pointer(mem);
    EXPECT_OK(failures, weir_mem_register(comm, own + OFFSET, PIECE, &piece));
    EXPECT(failures, weir_mem_pointer(piece) == own + OFFSET && weir_mem_bytes(piece) == PIECE);
    EXPECT(failures, weir_mem_shareable(piece));
    boot_fill(own + OFFSET, PIECE, rank, 1);
    int maps = count_maps("memfd:weir");
    for (int i = 0; i < TIMES; i++) {
        EXPECT_OK(failures, weir_mem_send(comm, piece, peer, TAG));
        EXPECT_OK(failures, weir_mem_recv(comm, peer, TAG, &theirs[i]));
        EXPECT(failures, weir_mem_pointer(theirs[i]) == weir_mem_pointer(theirs[0]));
    }
    EXPECT(failures, count_maps("memfd:weir") == maps + 1);
    EXPECT(failures, weir_mem_bytes(theirs[0]) == PIECE);
    EXPECT(failures, boot_filled(weir_mem_pointer(theirs[0]), PIECE, peer, 1));
    for (int i = 0; i < TIMES - 1; i++)
        weir_mem_free(theirs[i]);
    EXPECT(failures, boot_filled(weir_mem_pointer(theirs[TIMES - 1]), PIECE, peer, 1));
    weir_mem_free(theirs[TIMES - 1]);
    EXPECT(failures, count_maps("memfd:weir") == maps);
    weir_mem_free(piece);
    weir_mem_free(mem);
}

/* Rank 1 has unregistered memory, which cannot be shared: every rank gets an error that names it.
 */
static void unregistered_memory(weir_comm *comm, int *failures)
{
    static char unregistered[100];
    int rank = weir_comm_rank(comm);
    weir_mem *mem = NULL, *across = NULL, *mems[MOST_RANKS] = {NULL};
    weir_mem_handle handle;
    EXPECT_OK(failures, weir_mem_alloc(comm, sizeof unregistered, &mem));
    if (*failures)
        return;
    EXPECT_OK(failures, weir_mem_register(comm, (char *)weir_mem_pointer(mem) + 50, 51, &across));
    EXPECT(failures, !weir_mem_shareable(across)); /* reaches beyond its allocation */
    weir_mem_free(across);
    if (rank == 1) {
        weir_mem_free(mem);
        EXPECT_OK(failures, weir_mem_register(comm, unregistered, sizeof unregistered, &mem));
        EXPECT(failures, !weir_mem_shareable(mem) && weir_mem_pointer(mem) == unregistered);
        EXPECT_OK(failures, weir_mem_export(mem, &handle));
        expect_refused(failures, comm, &handle, WEIR_ERR_UNSUPPORTED, "weir_mem_alloc");
    }
    EXPECT(failures, weir_mem_exchange(comm, mem, mems) == WEIR_ERR_UNSUPPORTED);
    EXPECT(failures, boot_last_error_has("rank 1's memory is unregistered"));
    for (int peer = 0; peer < weir_comm_nranks(comm); peer++)
        EXPECT(failures, mems[peer] == NULL);
    EXPECT_OK(failures, weir_comm_barrier(comm)); /* the communicator is still usable */
    weir_mem_free(mem);
}

/* Sending no memory is rejected, and the receiver gets an error instead of waiting. */
static void send_nothing(weir_comm *comm, int *failures)
{
    weir_mem *mem = NULL;
    if (weir_comm_rank(comm) == 0) {
        EXPECT(failures, weir_mem_send(comm, NULL, 1, 0) == WEIR_ERR_INVALID);
    } else {
        EXPECT(failures, weir_mem_recv(comm, 0, 0, &mem) == WEIR_ERR_INVALID);
        EXPECT(failures, boot_last_error_has("rank 0 could not export the memory") && !mem);
    }
}

/* ----------------------------------------------------------------- lifetime */

/* The same table entry is reused for different memory many times. */
static void generations(weir_comm *comm, int *failures)
{
    enum { ROUNDS = 3000, WARM = 10, TAG = 2 };
    int rank = weir_comm_rank(comm), peer = 1 - rank, maps = 0, fds = 0;
    for (int round = 0; round < ROUNDS && !*failures; round++) {
        weir_mem *mem = NULL, *theirs = NULL;
        EXPECT_OK(failures, weir_mem_alloc(comm, 64 + (size_t)round % 3 * 4096, &mem));
        if (*failures)
            break;
        *(int *)weir_mem_pointer(mem) = rank * ROUNDS + round;
        EXPECT_OK(failures, weir_mem_send(comm, mem, peer, TAG));
        EXPECT_OK(failures, weir_mem_recv(comm, peer, TAG, &theirs));
        EXPECT(failures, theirs && *(int *)weir_mem_pointer(theirs) == peer * ROUNDS + round);
        if (round == WARM) {
            maps = count_steady_maps();
            fds = count_fds();
        }
        if (round == ROUNDS - 1)
            EXPECT(failures, count_steady_maps() <= maps + 2 && count_fds() == fds);
        EXPECT_OK(failures, weir_comm_barrier(comm));
        weir_mem_free(theirs);
        weir_mem_free(mem);
    }
}

/* Memory of 0 bytes may lie where other memory ends; freeing it frees nothing else. The order of
 * calls makes the kernel place it there. */
static void empty_memory(weir_comm *comm, int *failures)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    weir_mem *first = NULL, *fence = NULL, *gap = NULL, *below = NULL, *filler = NULL;
    weir_mem *empty = NULL, *again = NULL;
    weir_mem_handle handle;
    EXPECT_OK(failures, weir_mem_alloc(comm, page, &first));
    EXPECT_OK(failures, weir_mem_alloc(comm, page, &fence));
    EXPECT_OK(failures, weir_mem_alloc(comm, page, &gap));
    weir_mem_free(first); /* its low entry goes to the memory below the gap */
    EXPECT_OK(failures, weir_mem_alloc(comm, 2 * page, &below));
    EXPECT_OK(failures, weir_mem_alloc(comm, page, &filler));
    weir_mem_free(gap);
    EXPECT_OK(failures, weir_mem_alloc(comm, 0, &empty));
    EXPECT(failures, weir_mem_pointer(empty) && weir_mem_bytes(empty) == 0);
    weir_mem_free(empty);
    memset(weir_mem_pointer(below), 1, 2 * page);
    EXPECT_OK(failures, weir_mem_export(below, &handle));
    EXPECT_OK(failures, weir_mem_import(comm, &handle, &again));
    weir_mem_free(again);
    weir_mem_free(below);
    weir_mem_free(filler);
    weir_mem_free(fence);
}

/* ------------------------------------------------------------------ handles */

/* Rank 1 imports rank 0's handle unchanged, truncated and with changed bytes. */
static void check_forgeries(int *failures, weir_comm *comm, const weir_mem_handle *good)
{
    weir_mem_handle bad;
    weir_mem *mem = NULL;
    EXPECT_OK(failures, weir_mem_import(comm, good, &mem));
    weir_mem_free(mem);
    memset(&bad, 0, sizeof bad);
    expect_refused(failures, comm, &bad, WEIR_ERR_INVALID, "not a memory handle");
    memset(&bad, 0xff, sizeof bad);
    expect_refused(failures, comm, &bad, WEIR_ERR_INVALID, "not a memory handle");
    for (size_t kept = 1; kept < HANDLE_CONTENT_BYTES; kept++) {
        memset(&bad, 0, sizeof bad);
        memcpy(&bad, good, kept);
        /* If the bytes cut off were all zero, the handle is unchanged. */
        if (memcmp(&bad, good, sizeof bad) != 0)
            expect_refused(failures, comm, &bad, WEIR_ERR_INVALID, "256 bytes");
    }
    for (size_t spoilt = 0; spoilt < HANDLE_CONTENT_BYTES; spoilt++) {
        bad = *good;
        bad.bytes[spoilt] ^= 0x80;
        expect_refused(failures, comm, &bad, WEIR_ERR_INVALID, "256 bytes");
    }
}

static int handles(weir_boot *boot, void *argument)
{
    enum { TAG = 9 };
    (void)argument;
    int rank = weir_boot_rank(boot), failures = 0;
    weir_comm *comm = open_comm(boot), *other = open_comm(boot);
    weir_mem *mem = NULL;
    weir_mem_handle handle = {{0}};
    if (!comm || !other)
        return NO_COMM;
    if (rank == 0) {
        EXPECT_OK(&failures, weir_mem_alloc(comm, 100, &mem));
        EXPECT_OK(&failures, weir_mem_export(mem, &handle));
        EXPECT_OK(&failures, weir_boot_send(boot, &handle, sizeof handle, 1, TAG));
    } else {
        EXPECT_OK(&failures, weir_boot_recv(boot, &handle, sizeof handle, 0, TAG));
        check_forgeries(&failures, comm, &handle);
        expect_refused(&failures, other, &handle, WEIR_ERR_INVALID, "another communicator");
    }
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    weir_mem_free(mem);
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    if (rank == 0)
        expect_refused(&failures, comm, &handle, WEIR_ERR_INVALID, "freed");
    else
        expect_refused(&failures, comm, &handle, WEIR_ERR_PEER, "rank 0 has freed");
    weir_comm_destroy(other);
    weir_comm_destroy(comm);
    return failures;
}

/* A stale handle: the entry that it names has been reused for other memory. */
static void stale_handle(weir_comm *comm, int *failures)
{
    enum { TAG = 9 };
    int rank = weir_comm_rank(comm);
    weir_mem *mem = NULL, *imported = NULL;
    weir_mem_handle old = {{0}}, new = {{0}};
    if (rank == 0) {
        EXPECT_OK(failures, weir_mem_alloc(comm, 100, &mem));
        EXPECT_OK(failures, weir_mem_export(mem, &old));
        EXPECT_OK(failures, weir_boot_send(weir_comm_boot(comm), &old, sizeof old, 1, TAG));
        EXPECT_OK(failures, weir_comm_barrier(comm));
        weir_mem_free(mem);
        EXPECT_OK(failures, weir_mem_alloc(comm, 100, &mem));
        EXPECT_OK(failures, weir_mem_export(mem, &new));
        EXPECT_OK(failures, weir_boot_send(weir_comm_boot(comm), &new, sizeof new, 1, TAG));
    } else {
        EXPECT_OK(failures, weir_boot_recv(weir_comm_boot(comm), &old, sizeof old, 0, TAG));
        EXPECT_OK(failures, weir_mem_import(comm, &old, &imported));
        EXPECT_OK(failures, weir_comm_barrier(comm));
        EXPECT_OK(failures, weir_boot_recv(weir_comm_boot(comm), &new, sizeof new, 0, TAG));
        /* The old import still holds the old memory, which is not the new one. */
        expect_refused(failures, comm, &new, WEIR_ERR_INVALID, "free the import first");
        EXPECT(failures, *(char *)weir_mem_pointer(imported) == 0);
        weir_mem_free(imported);
        expect_refused(failures, comm, &old, WEIR_ERR_PEER, "rank 0 has freed");
        EXPECT_OK(failures, weir_mem_import(comm, &new, &imported));
        weir_mem_free(imported);
    }
    EXPECT_OK(failures, weir_comm_barrier(comm));
    weir_mem_free(mem);
}

/* ------------------------------------------------------------------- limits */

static void limits(weir_comm *comm, int *failures)
{
    int made = 0;
    weir_mem *mems[MOST_ALLOCATIONS] = {NULL}, *more = NULL;
    size_t absurd[] = {(size_t)1 << 50, SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2};
    for (int i = 0; i < 4; i++) {
        EXPECT(failures, weir_mem_alloc(comm, absurd[i], &more) == WEIR_ERR_NO_MEMORY);
        EXPECT(failures, boot_last_error_has("use smaller buffers"));
    }
    while (made < MOST_ALLOCATIONS && weir_mem_alloc(comm, 1, &mems[made]) == WEIR_OK)
        made++;
    EXPECT(failures, made == MOST_ALLOCATIONS);
    EXPECT(failures, weir_mem_alloc(comm, 1, &more) == WEIR_ERR_NO_MEMORY);
    EXPECT(failures, boot_last_error_has("more than 512 live allocations") &&
                         boot_last_error_has("use parts of them"));
    EXPECT(failures, more == NULL);
    weir_mem_free(mems[100]); /* its entry can be used again */
    EXPECT_OK(failures, weir_mem_alloc(comm, 1, &mems[100]));
    for (int i = 0; i < made; i++)
        weir_mem_free(mems[i]);
    weir_mem_free(NULL);
}

static void arguments(weir_comm *comm, int *failures)
{
    weir_mem *mem = NULL;
    weir_mem_handle handle = {{0}};
    char byte = 0;
    EXPECT(failures, weir_mem_alloc(NULL, 1, &mem) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_mem_alloc(comm, 1, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_mem_register(comm, NULL, 1, &mem) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_mem_register(comm, &byte, 1, NULL) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_mem_export(NULL, &handle) == WEIR_ERR_INVALID);
    EXPECT(failures, weir_mem_import(comm, NULL, &mem) == WEIR_ERR_INVALID);
    EXPECT_OK(failures, weir_mem_register(comm, NULL, 0, &mem));
    weir_mem_free(mem);
}

/* A descriptor may have been closed and opened again: only the segment that the key names is
 * mapped. */
static void test_keys_of_other_memory(void **state)
{
    (void)state;
    const weiri_transport_ops *shm = &weiri_transport_shm;
    weiri_segment own = {0}, mapped = {0};
    weiri_segment_key key, wrong;
    assert_int_equal(shm->segment_create(5000, &own, &key), WEIR_OK);
    assert_int_equal(shm->segment_map(&key, &mapped), WEIR_OK);
    assert_int_equal(mapped.bytes, own.bytes);
    ((char *)own.base)[4999] = 3;
    assert_int_equal(((char *)mapped.base)[4999], 3);
    shm->segment_destroy(&mapped);
    wrong = key;
    wrong.inode++;
    assert_int_equal(shm->segment_map(&wrong, &mapped), WEIR_ERR_PEER);
    assert_true(boot_last_error_has("has freed that shared memory"));
    wrong = key;
    wrong.bytes *= 2;
    assert_int_equal(shm->segment_map(&wrong, &mapped), WEIR_ERR_PEER);
    assert_true(boot_last_error_has("has freed that shared memory"));
    shm->segment_destroy(&own);
    assert_int_equal(shm->segment_map(&key, &mapped), WEIR_ERR_PEER);
}

/* Each rank backs its own part of a segment that all share. */
static void test_segment_of_parts(void **state)
{
    (void)state;
    enum { PART = 8192 };
    const weiri_transport_ops *shm = &weiri_transport_shm;
    weiri_segment own = {0}, mapped = {0};
    weiri_segment_key key;
    struct stat info;
    assert_int_equal(shm->segment_reserve(SIZE_MAX / 4096 * 4096, 3, &own, &key),
                     WEIR_ERR_NO_MEMORY);
    assert_int_equal(shm->segment_reserve(PART, 3, &own, &key), WEIR_OK);
    assert_int_equal(own.bytes, 3 * PART);
    assert_int_equal(shm->segment_map(&key, &mapped), WEIR_OK);
    assert_int_equal(shm->segment_back(&mapped, PART, PART), WEIR_OK);
    assert_int_equal(fstat(own.fd, &info), 0);
    assert_true(info.st_blocks >= PART / 512); /* all of them, where parts cannot be backed */
    ((char *)mapped.base)[PART] = 5;
    assert_int_equal(((char *)own.base)[PART], 5);
    assert_int_equal(((char *)own.base)[3 * PART - 1], 0);
    shm->segment_destroy(&mapped);
    shm->segment_destroy(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMM_TEST("1 rank writes to itself", 1, write_to_all),
        COMM_TEST("2 ranks write to all", 2, write_to_all),
        COMM_TEST("3 ranks write to all", 3, write_to_all),
        COMM_TEST("5 ranks write to all", 5, write_to_all),
        COMM_TEST("8 ranks write to all", 8, write_to_all),
        COMM_TEST("write and read", 2, write_and_read),
        COMM_TEST("symmetric memory", 3, symmetric),
        COMM_TEST("parts of an allocation share one mapping", 2, pieces),
        COMM_TEST("unregistered memory is rejected on every rank", 3, unregistered_memory),
        COMM_TEST("sending nothing fails at both ends", 2, send_nothing),
        COMM_TEST("3000 allocations and exchanges leak nothing", 2, generations),
        COMM_TEST("freeing empty memory frees nothing else", 1, empty_memory),
        RANKS_TEST("invalid handles are rejected", 2, handles, NULL),
        COMM_TEST("a stale handle is rejected", 2, stale_handle),
        COMM_TEST("exceeded limits are reported", 1, limits),
        COMM_TEST("missing arguments are rejected", 1, arguments),
        AT("keys of other memory are not mapped", test_keys_of_other_memory, NULL),
        AT("ranks back their own parts of a segment", test_segment_of_parts, NULL),
    };
    return RUN_TESTS("memory", tests);
}
