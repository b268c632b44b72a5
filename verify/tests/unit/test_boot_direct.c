/*
 * Direct messages of the bootstrap (boot/direct.h) with peers that end, stop in the middle of a
 * message, send another length, know another key, or send malformed data; and the end of a wait
 * by a shut. Both ranks are in one process, except where one of them is stopped.
 */
#include "boot/direct.h"
#include "boot/socket.h"
#include "verify/tests/support/unit_test.h"
#include <weir/target.h>

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHORT_MS = 200, LONG_MS = 20000, LONG_BYTES = 16 << 20 };

/* A key that no other job of this machine has. */
static weiri_direct_job job_of(int rank, int timeout_ms)
{
    weiri_direct_job job = {.rank = rank, .nranks = 2, .timeout_ms = timeout_ms};
    const long long process = getpid();
    memcpy(job.key, &process, sizeof process);
    return job;
}

static weiri_direct *create(int rank, int timeout_ms)
{
    const weiri_direct_job job = job_of(rank, timeout_ms);
    weiri_direct *made = NULL;
    assert_int_equal(weiri_direct_create(&job, &made), WEIR_OK);
    return made;
}

static void last_error_has(const char *words)
{
    if (!strstr(weir_last_error(), words))
        fail_msg("\"%s\" does not have \"%s\"", weir_last_error(), words);
}

static void send_number(weiri_direct *from, int value, int peer)
{
    assert_int_equal(weiri_direct_send(from, &value, sizeof value, peer, 7), WEIR_OK);
}

static void receives_number(weiri_direct *to, int expected, int peer)
{
    int value = -1;
    assert_int_equal(weiri_direct_recv(to, &value, sizeof value, peer, 7), WEIR_OK);
    assert_int_equal(value, expected);
}

/* ---------------------------------------------------------------- messages */

TEST(a_message_of_another_length_is_discarded_and_the_next_one_arrives)
{
    weiri_direct *a = create(0, LONG_MS), *b = create(1, LONG_MS);
    char text[8] = "";
    assert_int_equal(weiri_direct_send(a, "hello", 5, 1, 7), WEIR_OK);
    send_number(a, 42, 1);
    assert_int_equal(weiri_direct_recv(b, text, sizeof text, 0, 7), WEIR_ERR_MISMATCH);
    last_error_has("rank 1 expected 8 bytes with tag 7 from rank 0, got 5 bytes with tag 7");
    receives_number(b, 42, 0);
    weiri_direct_destroy(a);
    weiri_direct_destroy(b);
}

TEST(what_a_rank_sent_before_its_end_arrives_and_no_more)
{
    weiri_direct *a = create(0, LONG_MS), *b = create(1, LONG_MS);
    int value = -1;
    send_number(a, 5, 1);
    weiri_direct_destroy(a);
    receives_number(b, 5, 0);
    assert_int_equal(weiri_direct_recv(b, &value, sizeof value, 0, 7), WEIR_ERR_PEER);
    last_error_has("rank 1 receives 4 bytes with tag 7: ");
    assert_int_equal(weiri_direct_send(b, &value, sizeof value, 0, 7), WEIR_ERR_PEER);
    last_error_has("rank 0 is gone: it does not listen any more");
    weiri_direct_destroy(b);
}

TEST(a_rank_that_ends_while_it_is_awaited_is_reported_at_once)
{
    weiri_direct *b = create(1, LONG_MS);
    int ends[2], value = -1;
    char ready;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const weiri_direct_job job = job_of(0, LONG_MS);
        weiri_direct *a = NULL;
        weiri_direct_job parent = job;
        const long long process = getppid();
        memcpy(parent.key, &process, sizeof process);
        int failed = weiri_direct_create(&parent, &a) != WEIR_OK;
        failed |= write(ends[1], "r", 1) != 1;
        usleep(SHORT_MS * 1000);
        _exit(failed);
    }
    assert_int_equal(read(ends[0], &ready, 1), 1);
    const uint64_t began_ns = weir_clock_ns();
    assert_int_equal(weiri_direct_recv(b, &value, sizeof value, 0, 7), WEIR_ERR_PEER);
    last_error_has("rank 0 is gone: it ");
    assert_true(weir_clock_ns() - began_ns < LONG_MS / 2 * UINT64_C(1000000));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
    weiri_direct_destroy(b);
}

/* ------------------------------------------------- messages that end too early */

/* A long message is sent in part only while nobody receives it. */
TEST(a_message_that_was_sent_in_part_is_not_taken_for_a_whole_one)
{
    weiri_direct *a = create(0, SHORT_MS), *b = create(1, SHORT_MS);
    char *data = calloc(1, LONG_BYTES);
    int value = -1;
    assert_non_null(data);
    assert_int_equal(weiri_direct_send(a, data, LONG_BYTES, 1, 7), WEIR_ERR_TIMEOUT);
    last_error_has("rank 0 sends 16777216 bytes with tag 7 to rank 1: ");
    assert_int_equal(weiri_direct_recv(b, data, LONG_BYTES, 0, 7), WEIR_ERR_PEER);
    last_error_has("rank 1 receives 16777216 bytes with tag 7: ");
    assert_int_equal(weiri_direct_recv(b, &value, sizeof value, 0, 7), WEIR_ERR_PEER);
    free(data);
    weiri_direct_destroy(a);
    weiri_direct_destroy(b);
}

/* Sends a number and a long message of bytes that no header has, and returns 1 unless the receiver
 * ended that. */
static int send_long(weiri_direct *a)
{
    const int ready = 1;
    char *data = malloc(LONG_BYTES);
    if (!data)
        return 1;
    memset(data, 'x', LONG_BYTES);
    if (weiri_direct_send(a, &ready, sizeof ready, 1, 7) != WEIR_OK)
        return 1;
    return weiri_direct_send(a, data, LONG_BYTES, 1, 7) != WEIR_ERR_PEER;
}

/* Whether a process sleeps, and does not merely wait for a processor. */
static int sleeps(pid_t process)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

/* Until the process waits for room in its socket's buffer. */
static void await_full_buffer(pid_t process)
{
    for (int seen = 0; seen < 5; seen = sleeps(process) ? seen + 1 : 0)
        usleep(10000);
}

/* The sender stops in the middle: the rest of its message, which comes later, must not be read as
 * the next one. */
static void receive_of_stopped(size_t bytes)
{
    weiri_direct *a = create(0, LONG_MS), *b = create(1, LONG_MS);
    char *data = malloc(LONG_BYTES);
    int status = -1;
    assert_non_null(data);
    const pid_t child = fork();
    if (child == 0)
        _exit(send_long(a));
    weiri_direct_destroy(a);
    receives_number(b, 1, 0);
    await_full_buffer(child);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    weiri_direct_set_timeout(b, SHORT_MS);
    assert_int_equal(weiri_direct_recv(b, data, bytes, 0, 7), WEIR_ERR_TIMEOUT);
    assert_int_equal(kill(child, SIGCONT), 0);
    weiri_direct_set_timeout(b, LONG_MS);
    assert_int_equal(weiri_direct_recv(b, data, LONG_BYTES, 0, 7), WEIR_ERR_PEER);
    last_error_has("a message of rank 0 was received in part only");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    free(data);
    weiri_direct_destroy(b);
}

TEST(the_rest_of_a_message_that_came_too_late_is_not_the_next_message)
{
    receive_of_stopped(LONG_BYTES);
}

TEST(the_rest_of_a_discarded_message_that_came_too_late_is_not_the_next_message)
{
    receive_of_stopped(8);
}

/* ------------------------------------------------------------------- strangers */

static weiri_direct *create_tcp(int rank, const weiri_direct_job *job, const int *listeners,
                                const weiri_address *table)
{
    weiri_direct *made = NULL;
    assert_int_equal(weiri_direct_create_tcp(job, listeners[rank], table, NULL, &made), WEIR_OK);
    return made;
}

static int call_with(const weiri_address *to, const void *data, size_t bytes)
{
    const weiri_socket_call call = {.rank = 0, .to = to};
    const weiri_deadline deadline = weiri_deadline_in(LONG_MS);
    int fd = -1;
    assert_int_equal(weiri_socket_connect(&call, &deadline, &fd), WEIR_OK);
    assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
    return fd;
}

TEST(malformed_data_and_a_rank_with_another_key_are_not_heard)
{
    int listeners[3], value = -1;
    weiri_address table[3];
    for (int i = 0; i < 3; i++) {
        table[i] = (weiri_address){.ip = {127, 0, 0, 1}};
        assert_int_equal(weiri_socket_listen(&table[i], &listeners[i]), WEIR_OK);
        assert_int_equal(weiri_socket_address(listeners[i], &table[i]), WEIR_OK);
    }
    const weiri_address of_forger[2] = {table[2], table[1]};
    const int forger_listens[2] = {listeners[2], listeners[1]};
    weiri_direct_job jobs[2] = {job_of(0, LONG_MS), job_of(1, SHORT_MS)}, wrong = jobs[0];
    wrong.key[5] ^= 1;
    weiri_direct *a = create_tcp(0, &jobs[0], listeners, table);
    weiri_direct *b = create_tcp(1, &jobs[1], listeners, table);
    weiri_direct *forger = create_tcp(0, &wrong, forger_listens, of_forger);
    char malformed[256];
    memset(malformed, 'r', sizeof malformed);
    const int part = call_with(&table[1], malformed, 3);
    const int whole = call_with(&table[1], malformed, sizeof malformed);
    send_number(forger, 66, 1);
    assert_int_equal(weiri_direct_recv(b, &value, sizeof value, 0, 7), WEIR_ERR_TIMEOUT);
    last_error_has("rank 0 has not answered after 200 ms");
    assert_int_equal(value, -1);
    weiri_direct_set_timeout(b, LONG_MS);
    send_number(a, 9, 1);
    receives_number(b, 9, 0);
    close(part);
    close(whole);
    weiri_direct_destroy(forger);
    weiri_direct_destroy(a);
    weiri_direct_destroy(b);
}

/* ------------------------------------------------------------------------ shut */

static void *shut_soon(void *direct)
{
    usleep(SHORT_MS * 1000);
    weiri_direct_shut(direct);
    return NULL;
}

TEST(a_shut_ends_a_wait_and_allows_no_more)
{
    weiri_direct *a = create(0, LONG_MS), *b = create(1, LONG_MS);
    pthread_t thread;
    int value = 0;
    send_number(a, 1, 1);
    receives_number(b, 1, 0);
    assert_int_equal(pthread_create(&thread, NULL, shut_soon, b), 0);
    const uint64_t began_ns = weir_clock_ns();
    assert_int_equal(weiri_direct_recv(b, &value, sizeof value, 0, 7), WEIR_ERR_PEER);
    assert_true(weir_clock_ns() - began_ns < LONG_MS / 2 * UINT64_C(1000000));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(weiri_direct_send(b, &value, sizeof value, 0, 7), WEIR_ERR_PEER);
    last_error_has("rank 1: the bootstrap was shut");
    weiri_direct_destroy(a);
    weiri_direct_destroy(b);
}

int main(void)
{
    return run_all_tests("direct messages");
}
