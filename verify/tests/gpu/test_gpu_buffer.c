/*
 * Proves which buffers and streams a GPU communicator accepts, with a fake driver in place of CUDA:
 * a few allocations on two GPUs, the library's memory among them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define weiri_cuda_range_of fake_range_of
#define cudaPointerGetAttributes fake_attributes
#define weiri_cuda_fail fake_fail
#define weiri_cuda_check_buffer check_buffer
#define weiri_cuda_check_stream check_stream
#define cudaStreamGetDevice fake_stream_device
#define cudaStreamIsCapturing fake_capturing
#define cudaGetLastError fake_last_error
#define cudaThreadExchangeStreamCaptureMode fake_mode
#include "comm/gpu/gpu_buffer_cuda.c"

typedef struct allocation {
    uintptr_t begin, end;
    int device, is_whole;
} allocation;

/* An allocation of cudaMalloc and its neighbour, two parts that are mapped side by side, one on
 * another GPU, and one of the library. */
static allocation allocations[] = {{0x10000, 0x18000, 1, 1}, {0x18000, 0x20000, 1, 1},
                                   {0x40000, 0x50000, 1, 0}, {0x50000, 0x60000, 1, 0},
                                   {0x70000, 0x80000, 0, 1}, {0x90000, 0xa0000, 1, 0}};
enum { FIRST, NEIGHBOUR, PIECE, LAST = 5 };
static int asked;
/* The thread's capture mode: queries in any but the relaxed mode would invalidate a capture. */
static enum cudaStreamCaptureMode current_mode = cudaStreamCaptureModeGlobal;

cudaError_t fake_mode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = current_mode;
    current_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

static const allocation *find(uintptr_t at)
{
    for (int i = 0; i <= LAST; i++)
        if (at >= allocations[i].begin && at < allocations[i].end)
            return &allocations[i];
    return NULL;
}

int fake_range_of(uintptr_t address, weiri_cuda_range *range)
{
    const allocation *found = find(address);
    if (!found)
        return -1;
    *range = (weiri_cuda_range){found->begin, found->end, found->is_whole};
    return 0;
}

cudaError_t fake_attributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    const allocation *found = find((uintptr_t)pointer);
    asked++;
    assert_int_equal(current_mode, cudaStreamCaptureModeRelaxed);
    memset(attributes, 0, sizeof *attributes);
    attributes->type = found ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    attributes->device = found ? found->device : -2;
    return cudaSuccess;
}

weir_status fake_fail(weir_status status, cudaError_t error, const char *what)
{
    (void)error, (void)what;
    return status;
}

/* The address of a stream encodes its GPU; 9 is invalid. */
static cudaStream_t captured; /* querying its device would invalidate the capture */

cudaError_t fake_capturing(cudaStream_t stream, enum cudaStreamCaptureStatus *capture)
{
    *capture = stream == captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t fake_stream_device(cudaStream_t stream, int *device)
{
    asked++;
    assert_ptr_not_equal(stream, captured);
    *device = (int)((uintptr_t)stream % 16);
    return *device == 9 ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

cudaError_t fake_last_error(void)
{
    return cudaSuccess;
}

static weiri_region regions[2];
static weiri_cuda cuda;
static weir_comm comm = {.regions = regions, .nregions = 2};

static int set_up(void **state)
{
    (void)state;
    memset(&cuda, 0, sizeof cuda);
    cuda.base.device = 1;
    comm.gpu = &cuda.base;
    regions[0] = (weiri_region){.segment.base = (void *)0x90000, .bytes = 0x9000};
    regions[1] = (weiri_region){.segment.base = (void *)0x10000, .bytes = 0x100, .adopted = 1};
    asked = 0;
    return 0;
}

static void expect_accepted(uintptr_t at, size_t bytes)
{
    assert_int_equal(current_mode, cudaStreamCaptureModeGlobal);
    if (check_buffer(&comm, (void *)at, bytes) != WEIR_OK)
        fail_msg("%s", weir_last_error());
}

static void expect_rejected(uintptr_t at, size_t bytes, const char *words)
{
    assert_int_equal(check_buffer(&comm, (void *)at, bytes), WEIR_ERR_INVALID);
    if (!strstr(weir_last_error(), words))
        fail_msg("%s: %s", words, weir_last_error());
}

static void test_undersized_buffers_are_rejected(void **state)
{
    (void)state;
    expect_accepted(0x10000, 0x8000);
    expect_accepted(0x17fff, 1);
    expect_rejected(0x10000, 0x8001,
                    "needs 32769 bytes of a buffer, but its allocation ends after 32768");
    expect_rejected(0x17fff, 2, "ends after 1:");
    expect_accepted(0x40000, 0x20000); /* across both parts */
    expect_rejected(0x5fff0, 0x11, "ends after 16");
    expect_rejected(0x98ff0, 0x11, "allocation by weir_mem_alloc ends after 16");
}

static void test_memory_of_other_devices_is_rejected(void **state)
{
    (void)state;
    expect_rejected(0x1000, 4, "host memory, but the communicator is on GPU 1");
    expect_rejected(0x70000, 4, "on GPU 0, but the communicator is on GPU 1");
    expect_rejected(0x70000, 4, "cudaSetDevice(1)"); /* a rejected buffer is not cached as valid */
}

/* Memory that the caller registered may be part of a longer allocation. */
static void test_registered_memory_may_be_part_of_an_allocation(void **state)
{
    (void)state;
    expect_accepted(0x10080, 0x1000);
}

static void test_freed_memory_is_queried_again(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        expect_accepted(0x10000 + (uintptr_t)i, 0x100);
        expect_accepted(0x40000, 0x20000);
    }
    assert_int_equal(asked, 2);
    /* Freed and replaced by a longer allocation: queried again and accepted. */
    allocations[FIRST].end = 0x20000;
    expect_accepted(0x10000, 0x10000);
    assert_int_equal(asked, 3);
    allocations[FIRST].end = 0x18000;
}

static void test_streams_of_other_gpus_are_rejected(void **state)
{
    (void)state;
    weir_stream own[] = {(weir_stream)0x11, (weir_stream)0x21, (weir_stream)0x31};
    for (int i = 0; i < 30; i++)
        assert_int_equal(check_stream(&comm, own[i % 3]), WEIR_OK);
    assert_int_equal(check_stream(&comm, NULL), WEIR_OK);
    assert_int_equal(asked, CUDART_VERSION >= 12080 ? 3 : 0);
    if (CUDART_VERSION < 12080)
        return;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(check_stream(&comm, (weir_stream)0x10), WEIR_ERR_INVALID);
        assert_non_null(strstr(weir_last_error(), "the stream is on GPU 0"));
    }
    assert_int_equal(check_stream(&comm, (weir_stream)0x19), WEIR_OK);
    assert_int_equal(asked, 6);
    captured = (cudaStream_t)0x20;
    assert_int_equal(check_stream(&comm, (weir_stream)0x20), WEIR_OK);
    assert_int_equal(asked, 6);
    captured = NULL;
    assert_int_equal(check_stream(&comm, (weir_stream)0x20), WEIR_ERR_INVALID);
    assert_int_equal(asked, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_undersized_buffers_are_rejected, set_up),
        cmocka_unit_test_setup(test_memory_of_other_devices_is_rejected, set_up),
        cmocka_unit_test_setup(test_registered_memory_may_be_part_of_an_allocation, set_up),
        cmocka_unit_test_setup(test_freed_memory_is_queried_again, set_up),
        cmocka_unit_test_setup(test_streams_of_other_gpus_are_rejected, set_up),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
