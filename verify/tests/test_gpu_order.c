/*
 * The order of a communicator's calls in several streams and in graphs' captures, with a CUDA
 * runtime of the test's own that writes down what streams wait for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "comm/gpu_cuda.h"
#include "nccl/gpu.h"

#define weiri_cuda_enter fake_enter
#define weiri_cuda_leave fake_leave
#define weiri_cuda_relax fake_relax
#define weiri_cuda_restore fake_restore
#define cudaStreamGetCaptureInfo(stream, status, id, ...) fake_capture_info(stream, status, id)
#define cudaStreamGetCaptureInfo_v2(stream, status, id, ...) fake_capture_info(stream, status, id)
#define cudaEventCreateWithFlags fake_event
#define cudaEventDestroy fake_destroy
#define cudaEventRecord fake_record
#define cudaStreamWaitEvent fake_wait
#define cudaStreamQuery fake_query
#define cudaDeviceSynchronize fake_synchronize
#define cudaGetLastError fake_last_error

static weir_status fake_enter(const weir_comm *comm, int *before);
static void fake_leave(const weir_comm *comm, int before);
static enum cudaStreamCaptureMode fake_relax(void);
static void fake_restore(enum cudaStreamCaptureMode mode);
static cudaError_t fake_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id);
static cudaError_t fake_event(cudaEvent_t *event, unsigned flags);
static cudaError_t fake_destroy(cudaEvent_t event);
static cudaError_t fake_record(cudaEvent_t event, cudaStream_t stream);
static cudaError_t fake_wait(cudaStream_t stream, cudaEvent_t event, unsigned flags);
static cudaError_t fake_query(cudaStream_t stream);
static cudaError_t fake_synchronize(void);
static cudaError_t fake_last_error(void);
#include "nccl/gpu_order_cuda.c"

enum { LOG_BYTES = 256, NEVENTS = 3 };

/* Streams are letters; here is which capture each is in. */
static unsigned long long captures[128];
/* What an event is behind, and in which capture it was recorded. */
static struct {
    char stream;
    unsigned long long capture;
} events[NEVENTS];
static int nevents, relaxed, refuses;
static char done[LOG_BYTES];

static char letter_of(cudaStream_t stream)
{
    return (char)(uintptr_t)stream;
}

static void note(const char *what, char stream)
{
    const size_t used = strlen(done);
    snprintf(done + used, sizeof done - used, "%s%s%c", used ? ", " : "", what, stream);
}

static weir_status fake_enter(const weir_comm *comm, int *before)
{
    (void)comm;
    *before = 0;
    return WEIR_OK;
}

static void fake_leave(const weir_comm *comm, int before)
{
    (void)comm, (void)before;
}

static enum cudaStreamCaptureMode fake_relax(void)
{
    relaxed++;
    return cudaStreamCaptureModeGlobal;
}

static void fake_restore(enum cudaStreamCaptureMode mode)
{
    (void)mode;
    relaxed--;
}

static cudaError_t fake_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id)
{
    const unsigned long long capture = captures[(int)letter_of(stream)];
    if (capture == FOREIGN_CAPTURE)
        return cudaErrorStreamCaptureImplicit;
    *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    *id = capture;
    return cudaSuccess;
}

static cudaError_t fake_event(cudaEvent_t *event, unsigned flags)
{
    assert_int_equal(flags, cudaEventDisableTiming);
    assert_true(relaxed > 0 && nevents < NEVENTS);
    *event = (cudaEvent_t)&events[nevents++];
    return cudaSuccess;
}

static cudaError_t fake_destroy(cudaEvent_t event)
{
    (void)event;
    nevents--;
    return cudaSuccess;
}

static int index_of(cudaEvent_t event)
{
    for (int i = 0; i < nevents; i++)
        if (event == (cudaEvent_t)&events[i])
            return i;
    fail();
    return -1;
}

static cudaError_t fake_record(cudaEvent_t event, cudaStream_t stream)
{
    const int index = index_of(event);
    if (refuses)
        return cudaErrorInvalidValue;
    events[index].stream = letter_of(stream);
    events[index].capture = captures[(int)letter_of(stream)];
    return cudaSuccess;
}

/* As CUDA does, it refuses what is not of the same capture. */
static cudaError_t fake_wait(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    const int index = index_of(event);
    (void)flags;
    if (events[index].capture != captures[(int)letter_of(stream)])
        return cudaErrorStreamCaptureIsolation;
    char what[] = "? behind ";
    what[0] = letter_of(stream);
    note(what, events[index].stream);
    return cudaSuccess;
}

static cudaError_t fake_query(cudaStream_t stream)
{
    (void)stream;
    return cudaErrorNotReady;
}

static cudaError_t fake_synchronize(void)
{
    note("all", '.');
    return cudaSuccess;
}

static cudaError_t fake_last_error(void)
{
    return cudaSuccess;
}

static struct weiri_gpu gpu;
static weir_comm here = {.gpu = &gpu};

/* What calls in these streams wait for. Behind a letter a digit: that stream is in that capture
 * from now on; '!': in one that it has no part in. */
static const char *calls(weiri_nccl_comm *comm, const char *streams)
{
    done[0] = '\0';
    for (const char *at = streams; *at; at++) {
        const cudaStream_t stream = (cudaStream_t)(uintptr_t)*at; /* NOLINT: never followed */
        if (at[1] >= '0' && at[1] <= '9')
            captures[(int)*at] = (unsigned long long)(at[1] - '0');
        else if (at[1] == '!')
            captures[(int)*at] = FOREIGN_CAPTURE;
        at += at[1] && (at[1] < 'a' || at[1] > 'z');
        assert_int_equal(weiri_nccl_gpu_order(comm, stream), WEIR_OK);
        assert_int_equal(weiri_nccl_gpu_ordered(comm, stream), WEIR_OK);
    }
    return done;
}

static int set_up(void **state)
{
    static weiri_nccl_comm comm;
    memset(captures, 0, sizeof captures);
    memset(&comm, 0, sizeof comm);
    comm.comm = &here;
    nevents = refuses = 0;
    *state = &comm;
    return 0;
}

static void test_streams(void **state)
{
    assert_string_equal(calls(*state, "aaaa"), "");
    assert_string_equal(calls(*state, "ab"), "all.");
    assert_string_equal(calls(*state, "bbac"), "a behind b, c behind a");
    assert_int_equal(nevents, 1);
}

static void test_branches_of_a_capture(void **state)
{
    assert_string_equal(calls(*state, "a1aab1bc1a"), "b behind a, c behind b, a behind c");
    assert_int_equal(nevents, 1);
}

/* Captures have nothing to do with one another, nor with calls outside. */
static void test_graphs_and_others(void **state)
{
    assert_string_equal(calls(*state, "aa1b2c0b2a0"), "all., a behind c");
    assert_string_equal(calls(*state, "c0a1b1c0a0b0"),
                        "c behind a, b behind a, a behind c, b behind a");
    assert_int_equal(nevents, 2);
}

static void test_foreign_captures(void **state)
{
    assert_string_equal(calls(*state, "a1c!d!b1"), "b behind a");
}

/* A call that did not come about is not waited for. */
static void test_failed_calls(void **state)
{
    weiri_nccl_comm *comm = *state;
    const cudaStream_t b = (cudaStream_t)(uintptr_t)'b'; /* NOLINT: never followed */
    assert_string_equal(calls(comm, "a1"), "");
    captures['b'] = 2;
    assert_int_equal(weiri_nccl_gpu_order(comm, b), WEIR_OK);
    refuses = 1;
    assert_int_equal(weiri_nccl_gpu_ordered(comm, b), WEIR_ERR_SYSTEM);
    refuses = 0;
    assert_string_equal(calls(comm, "c2d2"), "d behind c");
}

static void test_groups_and_the_end(void **state)
{
    weiri_nccl_comm *comm = *state;
    const cudaStream_t a = (cudaStream_t)(uintptr_t)'a'; /* NOLINT: never followed */
    const cudaStream_t b = (cudaStream_t)(uintptr_t)'b'; /* NOLINT: never followed */
    assert_false(weiri_nccl_gpu_is_busy(comm));
    assert_string_equal(calls(comm, "abc1"), "all.");
    assert_true(weiri_nccl_gpu_is_busy(comm));
    assert_int_equal(weiri_nccl_gpu_follow(comm, a, b), WEIR_OK);
    assert_non_null(strstr(done, "a behind b"));
    captures['b'] = 1; /* being captured, it cannot be asked */
    assert_false(weiri_nccl_gpu_is_busy(comm));
    assert_int_equal(nevents, 3);
    weiri_nccl_gpu_forget(comm);
    assert_int_equal(nevents, 0);
    assert_null(comm->order.plain.event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_streams, set_up),
        cmocka_unit_test_setup(test_branches_of_a_capture, set_up),
        cmocka_unit_test_setup(test_graphs_and_others, set_up),
        cmocka_unit_test_setup(test_foreign_captures, set_up),
        cmocka_unit_test_setup(test_failed_calls, set_up),
        cmocka_unit_test_setup(test_groups_and_the_end, set_up),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("gpu_order", tests, NULL, NULL);
}
