/*
 * Connections at a listening socket: guests that are slow or many, and connecting to a listener
 * that does not accept.
 */
#include <weir/target.h>
#include "boot/guests.h"
#include "boot/socket.h"
#include "verify/tests/support/unit_test.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* A job of two ranks, whose rank 0 listens on the loopback interface. */
typedef struct place {
    weiri_job job;
    weiri_address address;
    weiri_guests guests;
    int listener;
} place;

static weir_status admit_anyone(void *context, const weiri_job *job, const weiri_guest *guest)
{
    (void)context, (void)job, (void)guest;
    return WEIR_OK;
}

static void take_nobody(void *context, const weiri_job *job, const weiri_guest *guest)
{
    (void)context, (void)job, (void)guest;
}

static void place_open(place *at)
{
    const weiri_guests_host host = {.check = admit_anyone, .take = take_nobody};
    memset(at, 0, sizeof *at);
    at->job = (weiri_job){.rank = 0, .nranks = 2, .timeout_ms = 10000};
    at->address = (weiri_address){.ip = {127, 0, 0, 1}};
    assert_int_equal(weiri_socket_listen(&at->address, &at->listener), WEIR_OK);
    assert_int_equal(weiri_socket_address(at->listener, &at->address), WEIR_OK);
    assert_int_equal(weiri_guests_open(&at->job, &host, at->listener, 1, &at->guests), WEIR_OK);
}

static void place_close(place *at)
{
    weiri_guests_close(&at->guests);
    close(at->listener);
}

static weir_status place_connect(const place *at, int limit_ms, int *fd)
{
    const weiri_socket_call call = {.rank = 1, .to = &at->address};
    const weiri_deadline deadline = weiri_deadline_in(limit_ms);
    return weiri_socket_connect(&call, &deadline, fd);
}

/* Handles what has arrived, as the host's loop does. */
static void place_act(place *at)
{
    struct pollfd set[256];
    const int entries = weiri_guests_watch(&at->guests, set);
    assert_true(poll(set, (nfds_t)entries, 1000) >= 0);
    assert_int_equal(weiri_guests_act(&at->guests, set, entries), WEIR_OK);
}

TEST(a_slow_guest_stays_while_others_arrive)
{
    place at;
    int slow = -1, other = -1;
    place_open(&at);
    assert_int_equal(place_connect(&at, 5000, &slow), WEIR_OK);
    place_act(&at);
    assert_int_equal(at.guests.count, 1);
    usleep(400000); /* it is no longer fresh */
    assert_int_equal(place_connect(&at, 5000, &other), WEIR_OK);
    place_act(&at);
    assert_int_equal(at.guests.count, 2);
    assert_int_equal(at.guests.refused, 0);
    close(slow);
    close(other);
    place_close(&at);
}

/* Lets the guests act while the process may open no further descriptor; afterwards it may again. */
static weir_status act_without_descriptors(place *at)
{
    struct rlimit files, few;
    struct pollfd set[2] = {{.fd = at->listener, .revents = POLLIN}, {.fd = -1}};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const weir_status status = weiri_guests_act(&at->guests, set, 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    return status;
}

TEST(without_descriptors_an_old_guest_makes_room_and_a_fresh_one_stays)
{
    place at;
    int fresh = -1, other = -1;
    place_open(&at);
    assert_int_equal(place_connect(&at, 5000, &fresh), WEIR_OK);
    place_act(&at);
    assert_int_equal(place_connect(&at, 5000, &other), WEIR_OK);
    at.guests.list[0].came_ns = weir_clock_ns();
    assert_int_equal(act_without_descriptors(&at), WEIR_OK);
    assert_int_equal(at.guests.count, 1);
    assert_int_equal(weiri_guests_wait_ms(&at.guests, 5000), 10);
    at.guests.list[0].came_ns -= 400 * UINT64_C(1000000);            /* no longer fresh */
    assert_int_equal(act_without_descriptors(&at), WEIR_ERR_SYSTEM); /* nobody left */
    assert_int_equal(at.guests.refused, 1);
    close(fresh);
    close(other);
    place_close(&at);
}

TEST(a_host_waits_no_longer_than_the_pause_of_its_guests)
{
    place at;
    place_open(&at);
    at.guests.resume_ns = weir_clock_ns() + 60 * UINT64_C(1000000000);
    assert_int_equal(weiri_guests_wait_ms(&at.guests, 5000), 10);
    assert_int_equal(weiri_guests_wait_ms(&at.guests, -1), 10);
    assert_int_equal(weiri_guests_wait_ms(&at.guests, 3), 3);
    at.guests.resume_ns = 0;
    assert_int_equal(weiri_guests_wait_ms(&at.guests, 5000), 5000);
    assert_int_equal(weiri_guests_wait_ms(&at.guests, -1), -1);
    place_close(&at);
}

TEST(a_guest_that_says_nothing_is_refused_after_its_time)
{
    place at;
    int silent = -1, other = -1;
    char byte;
    place_open(&at);
    assert_int_equal(place_connect(&at, 5000, &silent), WEIR_OK);
    place_act(&at);
    assert_int_equal(place_connect(&at, 5000, &other), WEIR_OK);
    place_act(&at);
    weiri_guests_expire(&at.guests);
    assert_int_equal(at.guests.count, 2);
    at.guests.list[0].came_ns -= 11 * UINT64_C(1000000000);
    weiri_guests_expire(&at.guests);
    assert_int_equal(at.guests.count, 1);
    assert_int_equal(at.guests.refused, 1);
    struct pollfd ends = {.fd = silent, .events = POLLIN};
    ssize_t got = 1;
    while (got > 0) { /* the challenge, then the end */
        assert_int_equal(poll(&ends, 1, 5000), 1);
        got = recv(silent, &byte, 1, 0);
    }
    assert_true(got == 0 || errno == ECONNRESET);
    close(silent);
    close(other);
    place_close(&at);
}

/* The kernel drops further connections while the queue of a listener is full. */
TEST(connecting_to_a_listener_with_a_full_queue_ends_at_the_deadline)
{
    enum { MOST = 16, LIMIT_MS = 300 };
    int fds[MOST], count = 0;
    place at;
    place_open(&at);
    assert_int_equal(listen(at.listener, 0), 0);
    weir_status status = WEIR_OK;
    uint64_t began_ns = 0;
    while (count < MOST && status == WEIR_OK) {
        began_ns = weir_clock_ns();
        status = place_connect(&at, LIMIT_MS, &fds[count]);
        count += status == WEIR_OK;
    }
    assert_int_equal(status, WEIR_ERR_TIMEOUT);
    assert_non_null(strstr(weir_last_error(), "within 300 ms"));
    assert_true(weir_clock_ns() - began_ns < UINT64_C(5000000000));
    while (count > 0)
        close(fds[--count]);
    place_close(&at);
}

int main(void)
{
    return run_all_tests("boot_guests");
}
