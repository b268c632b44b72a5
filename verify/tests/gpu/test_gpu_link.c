/*
 * Proves how the library finds out whether NVLink connects GPUs, with fakes of CUDA's runtime and
 * NVML: devices that the process sees, devices that it does not see, PCIe links, and an NVML that
 * is missing or fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define weiri_cuda_joins joins
#define cudaDeviceGetByPCIBusId fake_by_bus
#define cudaDeviceGetP2PAttribute fake_attribute
#define cudaGetLastError fake_last_error
#define dlopen fake_open
#define dlsym fake_symbol
#define dlclose fake_close
#include "comm/gpu/gpu_link_cuda.c"

/* GPU i is at buses[i]; NVLink connects GPUs whose letters in `islands` are equal. */
static const char *const buses[] = {"0000:00:00.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"};
enum { NGPUS = 4 };

/* The simulated environment. */
static struct {
    const char *islands;
    int nvisible;        /* devices that CUDA sees: the first ones */
    int nvml;            /* NVML exists */
    const char *lacking; /* a function that NVML lacks */
    int refuses_start, nknown;
} machine;
static int opened, closed, started, stopped, errors;

static int gpu_at(const char *bus)
{
    for (int i = 0; i < NGPUS; i++)
        if (strcmp(buses[i], bus) == 0)
            return i;
    return -1;
}

cudaError_t fake_by_bus(int *device, const char *bus)
{
    const int gpu = gpu_at(bus);
    if (gpu >= machine.nvisible) {
        errors++;
        return cudaErrorInvalidDevice;
    }
    *device = gpu;
    return cudaSuccess;
}

cudaError_t fake_attribute(int *value, enum cudaDeviceP2PAttr attribute, int device, int other)
{
    assert_int_equal(attribute, cudaDevP2PAttrNativeAtomicSupported);
    assert_true(device != other && other < machine.nvisible);
    *value = machine.islands[device] == machine.islands[other];
    return cudaSuccess;
}

cudaError_t fake_last_error(void)
{
    errors = 0;
    return cudaSuccess;
}

static int nvml_init(void)
{
    started += !machine.refuses_start;
    return machine.refuses_start ? 9 : 0;
}

static int nvml_shutdown(void)
{
    stopped++;
    return 0;
}

static int nvml_by_bus(const char *bus, void **device)
{
    const int gpu = gpu_at(bus);
    *device = (void *)&buses[gpu];
    return gpu < machine.nknown ? 0 : 6;
}

static int nvml_p2p(void *device, void *other, int capability, int *status)
{
    const ptrdiff_t one = (const char *const *)device - buses;
    const ptrdiff_t two = (const char *const *)other - buses;
    *status = 1; /* PCIe links also allow reads and writes */
    if (capability != NVML_P2P_NVLINK || machine.islands[one] == machine.islands[two])
        *status = NVML_P2P_OK;
    return 0;
}

void *fake_open(const char *name, int mode)
{
    (void)mode;
    assert_string_equal(name, "libnvidia-ml.so.1");
    opened += machine.nvml;
    return machine.nvml ? &machine : NULL;
}

int fake_close(void *library)
{
    assert_ptr_equal(library, &machine);
    closed++;
    return 0;
}

void *fake_symbol(void *library, const char *name)
{
    void *symbol = NULL;
    assert_ptr_equal(library, &machine);
    if (machine.lacking && strcmp(name, machine.lacking) == 0)
        return NULL;
    if (strcmp(name, "nvmlInit_v2") == 0)
        memcpy(&symbol, &(int (*)(void)){nvml_init}, sizeof symbol);
    else if (strcmp(name, "nvmlShutdown") == 0)
        memcpy(&symbol, &(int (*)(void)){nvml_shutdown}, sizeof symbol);
    else if (strcmp(name, "nvmlDeviceGetHandleByPciBusId_v2") == 0)
        memcpy(&symbol, &(int (*)(const char *, void **)){nvml_by_bus}, sizeof symbol);
    else if (strcmp(name, "nvmlDeviceGetP2PStatus") == 0)
        memcpy(&symbol, &(int (*)(void *, void *, int, int *)){nvml_p2p}, sizeof symbol);
    return symbol;
}

/* Queries GPU 0 and all GPUs of a node. NVML must be closed as often as it was opened, and CUDA's
 * last error must be cleared. */
static int asks(const char *islands, int nvisible, int has_nvml, int nknown)
{
    machine.islands = islands;
    machine.nvisible = nvisible;
    machine.nvml = has_nvml;
    machine.nknown = nknown;
    opened = closed = started = stopped = 0;
    const int found = joins(0, buses[0], buses, (int)strlen(islands));
    assert_int_equal(opened, closed);
    assert_int_equal(started, stopped);
    assert_int_equal(errors, 0);
    return found;
}

static int clear(void **state)
{
    (void)state;
    memset(&machine, 0, sizeof machine);
    return 0;
}

static void test_cuda_is_asked_about_visible_gpus(void **state)
{
    (void)state;
    assert_true(asks("aaaa", 4, 1, 4));
    assert_int_equal(opened, 0);
    assert_true(asks("aaaa", 4, 0, 0));
}

static void test_ranks_that_share_a_gpu_count_as_connected(void **state)
{
    const char *const same[] = {buses[1], buses[1], buses[1]};
    (void)state;
    machine.nvisible = 0;
    assert_true(joins(1, buses[1], same, 3));
}

static void test_a_single_pcie_link_means_no_nvlink(void **state)
{
    (void)state;
    assert_false(asks("ab", 2, 1, 4));
    assert_false(asks("ab", 2, 0, 4));
    assert_false(asks("aaab", 4, 1, 4));
    assert_false(asks("aaba", 4, 1, 4));
    assert_false(asks("abaa", 4, 1, 4));
    assert_int_equal(opened, 1);
}

static void test_nvml_is_asked_about_invisible_gpus(void **state)
{
    (void)state;
    assert_true(asks("aaaa", 1, 1, 4));
    assert_int_equal(opened, 1);
    assert_true(asks("aaaa", 3, 1, 4));
    assert_false(asks("aaab", 1, 1, 4));
}

static void test_unknown_links_count_as_pcie(void **state)
{
    static const char *const functions[] = {"nvmlInit_v2", "nvmlShutdown",
                                            "nvmlDeviceGetHandleByPciBusId_v2",
                                            "nvmlDeviceGetP2PStatus"};
    (void)state;
    assert_false(asks("aaaa", 1, 0, 4));
    assert_false(asks("aaaa", 1, 1, 3)); /* the container cannot use the last one */
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        machine.lacking = functions[i];
        assert_false(asks("aaaa", 1, 1, 4));
    }
    machine.lacking = NULL;
    machine.refuses_start = 1;
    assert_false(asks("aaaa", 1, 1, 4));
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cuda_is_asked_about_visible_gpus, clear),
        cmocka_unit_test_setup(test_ranks_that_share_a_gpu_count_as_connected, clear),
        cmocka_unit_test_setup(test_a_single_pcie_link_means_no_nvlink, clear),
        cmocka_unit_test_setup(test_nvml_is_asked_about_invisible_gpus, clear),
        cmocka_unit_test_setup(test_unknown_links_count_as_pcie, clear),
    };
    return cmocka_run_group_tests_name("NVLink between GPUs", tests, NULL, NULL);
}
