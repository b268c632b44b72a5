# The build of weir, for GNU make. `make help` lists the targets; `make config` shows what was found
# on this machine. Objects go to $(O). Programs go to the top folder, or to $(O) if O or BUILD is
# given, so that several builds can exist side by side.
#
# Sections: probes, flags, sources, targets (libraries, programs, tests, what is left out), checks,
# installation.

, := ,
HASH := \#
BUILD ?= release
ifeq ($(BUILD),release)
O ?= build
else
O ?= build/$(BUILD)
endif
BIN := $(if $(filter build,$(O)),.,$(O))
V ?= 0
PREFIX ?= /usr/local
MPICC ?= mpicc
MPIRUN ?= mpirun
NP ?= 8

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
LETTERS := $(firstword -$(MAKEFLAGS)) # of make's options
RUNS := $(if $(findstring n,$(LETTERS)),,yes)
MAKEFLAGS += --no-builtin-rules
Q := $(if $(filter 1,$(V)),,@)

# Goals that build; empty if there are none. Only these count their steps, and write the stamps below.
BUILDS := $(if $(MAKECMDGOALS),$(filter-out run test test-long test-hosts test-rdma coverage deps lint analyze config help clean uninstall plot order left-out,$(MAKECMDGOALS)),all)
# Those of them that exist and compile, so that a later `make install` keeps their choice of CUDA.
GOALS := $(if $(BUILDS),$(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST))))
CHOOSES := $(filter-out man,$(filter $(GOALS) $(O)/% bench_% weir-%,$(BUILDS)))

# Every step prints one line, "[n/total] CC file". The total is found by a dry run of the same goals,
# in which a step is a line with the word weir_step. make expands each recipe once, when it starts, so
# the steps of parallel jobs are counted and printed in order.
ifneq ($(COUNTING),)
say = : weir_step
else
ifneq ($(and $(BUILDS),$(filter 0,$(V)),$(RUNS)),)
TOTAL := $(shell MAKEFLAGS='nk$(if $(findstring B,$(LETTERS)),B) -- $(subst ','\'',$(MAKEOVERRIDES)) COUNTING=1' $(MAKE) -f $(firstword $(MAKEFILE_LIST)) $(BUILDS) 2>/dev/null | grep -c weir_step)
endif
step = $(eval STEPS += x)$(words $(STEPS))
say = $(if $(filter 1,$(V)),,$(info $(if $(TOTAL),[$(step)/$(TOTAL)]) $(1) $(2)))
endif
empty :=
COMMA := ,
space := $(empty) $(empty)

# ------------------------------------------------------------------- probes
# Each variable holds what was found, or is empty.
have = $(shell command -v $(1) 2>/dev/null)
pkg = $(shell pkg-config --modversion $(1) 2>/dev/null)
# A variable's value, found when it is first needed.
once = $(eval $(1) := $$(shell $(2)))$($(1))
header = $(shell echo '$(HASH)include <$(1)>' | $(CC) -E - >/dev/null 2>&1 && echo yes)

HAVE_MPI := $(call have,$(MPICC))
HAVE_HWLOC := $(call pkg,hwloc)
HAVE_VERBS := $(call header,infiniband/verbs.h)
HAVE_CMOCKA := $(call pkg,cmocka)
HAVE_GSL := $(call pkg,gsl)
HAVE_JANSSON := $(call pkg,jansson)
HAVE_SQLITE := $(call pkg,sqlite3)
HAVE_GNUPLOT := $(call have,gnuplot)
HAVE_SIMGRID := $(and $(call have,$(CXX)),$(call header,simgrid/engine.h))
ifeq ($(origin NVCC),undefined)
NVCC := $(firstword $(call have,nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
endif
# These goals alone keep what the last build chose: pip builds lib.
ifeq ($(filter-out install uninstall man lib,$(or $(MAKECMDGOALS),all)),)
LAST_CUDA := $(shell sed -n 's/^CUDA=\([01]\)$$/\1/p' '$(O)/cuda.choice' 2>/dev/null)
endif
CUDA ?= $(if $(NVCC),$(or $(LAST_CUDA),1),0)
# Kernels take most of a build with CUDA. KERNELS=few compiles one of each kind, for which nothing can
# run; `make test` chooses it where there is no GPU, and `make check` and `make run` keep the choice there.
GPU_DEVICES ?= $(wildcard /dev/nvidia[0-9]* /dev/dxg)
ifneq ($(if $(GPU_DEVICES),,$(filter check run,$(MAKECMDGOALS))),)
LAST_KERNELS := $(shell sed -n 's/^KERNELS=//p' '$(O)/kernels.choice' 2>/dev/null)
endif
KERNELS ?= $(or $(LAST_KERNELS),all)
$(if $(filter-out all few,$(KERNELS)),$(error KERNELS=$(KERNELS): expected all or few))
SM ?= 90
ARCH := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
HAVE_CUDA := $(and $(NVCC),$(filter 1,$(CUDA)))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(if $(HAVE_CUDA),$(realpath $(NVCC))))
VERBS_CFLAGS := $(if $(HAVE_VERBS),-DWEIR_HAVE_VERBS=1)
VERSION := $(shell sed -n 's/^\#define WEIR_VERSION "\(.*\)"/\1/p' lib/include/weir/weir.h)

# -------------------------------------------------------------------- flags
CSTD := -std=gnu11
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
OPT_release := -O3 -g -DNDEBUG
OPT_debug := -O0 -g3
OPT_asan := -O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
OPT_coverage := -O0 -g --coverage
OPT_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -DWEIR_LIBFUZZER
OPT_tsan := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
# Instrumented for verify/tests/support/order_checker.c, which takes the place of the sanitizer's library.
OPT_order := -O1 -g -fsanitize=thread -Wno-tsan -fno-builtin-memcpy -fno-builtin-memset -fno-builtin-memmove -DWEIR_ORDER_CHECKER
OPT := $(OPT_$(BUILD))
$(if $(OPT),,$(error BUILD=$(BUILD): expected release, debug, asan, tsan, coverage, fuzz or order))
WRAPPED := memcpy memmove memset mmap munmap read write send sendmsg recv recvmsg pthread_mutex_lock \
	pthread_mutex_unlock pthread_create pthread_join
LINK_OPT := $(if $(filter order,$(BUILD)),-g $(addprefix -Wl$(,)--wrap=,$(WRAPPED)),$(OPT))

CFLAGS ?=
NVCCFLAGS ?=
LDFLAGS ?=
WEIR_CFLAGS = $(CSTD) $(WARN) $(OPT) -fPIC -fvisibility=hidden -pthread -Ilib/include -Ilib -I. \
	-DWEIR_BUILD_NAME='"$(BUILD)"' $(VERBS_CFLAGS) $(CFLAGS)
WEIR_LDFLAGS = $(LINK_OPT) -pthread $(LDFLAGS)
CUDA_CFLAGS := $(if $(HAVE_CUDA),-DWEIR_HAVE_CUDA=1 -isystem $(CUDA_HOME)/include)
CUDA_LIBS := $(if $(HAVE_CUDA),$(firstword $(wildcard $(CUDA_HOME)/lib64/libcudart_static.a \
	$(CUDA_HOME)/targets/*/lib/libcudart_static.a)))
HWLOC_LIBS = $(if $(HAVE_HWLOC),$(call once,HWLOC_LIBS,pkg-config --libs hwloc))
HWLOC_CFLAGS = $(if $(HAVE_HWLOC),$(call once,HWLOC_CFLAGS,pkg-config --cflags hwloc))
GSL_LIBS = $(if $(HAVE_GSL),$(call once,GSL_LIBS,pkg-config --libs gsl))
GSL_CFLAGS = $(if $(HAVE_GSL),$(call once,GSL_CFLAGS,pkg-config --cflags gsl))
JANSSON_LIBS = $(if $(HAVE_JANSSON),$(call once,JANSSON_LIBS,pkg-config --libs jansson))
JANSSON_CFLAGS = $(if $(HAVE_JANSSON),$(call once,JANSSON_CFLAGS,pkg-config --cflags jansson))
SQLITE_LIBS = $(if $(HAVE_SQLITE),$(call once,SQLITE_LIBS,pkg-config --libs sqlite3))
SYSTEM_LIBS := $(CUDA_LIBS) -lm -ldl -lrt
WEIR_LIBS = $(JANSSON_LIBS) $(SYSTEM_LIBS)

# Device code is compiled for the architectures in SM, for the last of them also as PTX, which later
# GPUs can run, and is compressed. NVCCFLAGS=-lineinfo adds source lines for profilers and doubles
# the size of the objects.
NVCC_ARCH = $(foreach sm,$(SM),-gencode arch=compute_$(sm),code=sm_$(sm)) \
	-gencode arch=compute_$(lastword $(SM)),code=compute_$(lastword $(SM))
NVCC_FLAGS = -std=c++17 $(if $(filter debug,$(BUILD)),-G -O0,$(or $(NVCC_FAST),-O3)) $(NVCC_ARCH) -Xfatbin -compress-all -Ilib/include -Ilib -I. \
	-DWEIR_HAVE_CUDA=1 -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics $(FEW_KERNELS) $(NVCCFLAGS)
# Kernels of KERNELS=few never run, so that newer versions of nvcc may compile them fast, in half the time.
NVCC_FAST := $(if $(and $(HAVE_CUDA),$(filter few,$(KERNELS))),$(shell '$(NVCC)' --help 2>/dev/null | grep -q -e '--Ofast-compile' && \
	echo -Ofc=max -O0))
FEW_KERNELS := $(if $(filter few,$(KERNELS)),-DWEIR_FEW_KERNELS=1)

# A source whose name ends in an instruction set is compiled for it, and called only if the processor
# has it.
%_avx2.o: ISA := -mavx2 -mfma -mf16c
%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512
# Debuggers see lines, but no variables, of what templates expand to a hundred loops.
ifeq ($(BUILD),release)
$(O)/obj/lib/compute/reduce_%.o: OPT := $(patsubst -g,-g1,$(OPT))
# GCC's -O3 also multiplies these loops by their conditions, which gains nothing: half the compile time.
ifeq ($(findstring clang,$(CC)),)
$(O)/obj/verify/exact.o: OPT := $(patsubst -O3,-O2 -ftree-vectorize -fvect-cost-model=dynamic,$(OPT))
endif
endif
# Weighted sums, and the oracle that repeats them, round each product.
$(O)/obj/lib/compute/weigh_%.o $(O)/obj/verify/moe%.o: EXTRA_CFLAGS := -ffp-contract=off

# ------------------------------------------------------------------ sources
# All sources of the folders $(1).
sources = $(wildcard $(addsuffix /*.c,$(1)))
gpu_sources = $(if $(HAVE_CUDA),$(wildcard $(addsuffix /*.cu,$(1))))
LIB_DIRS := $(addprefix lib/,base boot transport transport/mapped transport/net compute comm comm/node \
	comm/gpu comm/internode comm/monitor chan coll coll/host coll/cuda coll/cuda/launch coll/internode algo moe moe/cuda \
	$(addprefix plan/,format build check cost draw compile execute host cuda examples))
# The kit of all programs, which is in no library.
KIT_DIRS := lib/programs
NCCL_DIRS := $(addprefix lib/nccl/,calls comm p2p rma gpu vendor)
TOPO_DIRS := topo
BENCH_DIRS := bench $(addprefix bench/,moe options sizes job gpu candidate trial check measure statistics output)
HEALTH_DIRS := bench/health bench/health/cli
RESULTS_DIRS := $(addprefix results/,read store judge output)
# Where a part depends on CUDA, a build contains either its *_cuda.c or its *_none.c.
OTHER_SIDE := %_$(if $(HAVE_CUDA),none,cuda).c

GPU_SRC := $(wildcard lib/coll/cuda/*.cu lib/plan/cuda/*.cu lib/moe/cuda/*.cu)
RDMA_SRC := $(wildcard lib/transport/net/ib*.c)
ISA_SRC := $(wildcard lib/compute/*_avx2.c lib/compute/*_avx512.c)
BOOT_MPI_SRC := lib/boot/mpi.c
PLAN_MAIN := $(wildcard lib/plan/cli/*.c)
JSON_SRC := $(filter-out %_missing.c,$(wildcard lib/plan/format/json*.c))
LIB_SRC := $(filter-out $(OTHER_SIDE) $(BOOT_MPI_SRC) \
	$(if $(HAVE_JANSSON),lib/plan/format/json_missing.c,$(JSON_SRC)) $(if $(HAVE_VERBS),,$(RDMA_SRC)) \
	$(if $(filter x86_64,$(ARCH)),,$(ISA_SRC)),$(call sources,$(LIB_DIRS)))
# The NCCL-compatible library: these sources, linked with libweir.a.
NCCL_SRC := $(filter-out $(OTHER_SIDE),$(call sources,$(NCCL_DIRS)))
NCCL_GPU_SRC := $(call gpu_sources,$(NCCL_DIRS))
KIT_SRC := $(call sources,$(KIT_DIRS))
TOPO_SRC := $(if $(HAVE_HWLOC),$(filter-out $(OTHER_SIDE),$(call sources,$(TOPO_DIRS))))
TOPO_GPU_SRC := $(if $(HAVE_HWLOC),$(call gpu_sources,$(TOPO_DIRS)))
VERIFY_SRC := $(filter-out $(if $(HAVE_MPI),,verify/check%.c),$(call sources,verify))
BENCH_MAIN := $(wildcard bench/bench_*.c)
# Where a part of the benchmarks depends on MPI, a build contains either its *_mpi.c or its
# *_mpi_missing.c. The MPI reference of verify/ is in separate files.
BENCH_SRC := $(filter-out $(BENCH_MAIN) %/bootstrap_$(if $(HAVE_GSL),missing,gsl).c \
	%_mpi$(if $(HAVE_MPI),_missing).c $(OTHER_SIDE),$(call sources,$(BENCH_DIRS)))
# Programs that read results need no MPI, and only the library's base.
HAVE_RESULTS := $(and $(HAVE_GSL),$(HAVE_JANSSON))
RESULTS_MAIN := $(if $(HAVE_RESULTS),$(wildcard results/cli/weir_*.c))
RESULTS_SRC := $(if $(HAVE_RESULTS),$(filter-out %/sqlite$(if $(HAVE_SQLITE),_missing).c,$(call sources,$(RESULTS_DIRS))))
# weir-check runs the benchmarks as programs, and reads their results.
HEALTH_SRC := $(if $(and $(HAVE_RESULTS),$(HAVE_HWLOC)),$(filter-out $(OTHER_SIDE),$(call sources,$(HEALTH_DIRS))))

# Tests: programs test_*.c (cmocka) and scripts *.sh, in a folder for each kind.
TEST_DIRS := $(addprefix verify/tests/,unit conformance gpu cli fuzz chaos perf)
TEST_SRC := $(foreach file,$(wildcard $(addsuffix /test_*.c,$(TEST_DIRS))),$(if $(filter \
	$(if $(HAVE_JANSSON),,test_plan% test_gpu_planned%) $(if $(HAVE_RESULTS),,test_results% test_bench_health%) $(if $(HAVE_CUDA),,test_gpu%) \
	$(if $(HAVE_VERBS),,test_net_ib%),$(notdir $(file))),,$(file)))
TEST_SCRIPTS := $(wildcard $(addsuffix /*.sh,$(TEST_DIRS)))
# Every test program can register the network transport that is a test double.
TEST_DOUBLE_SRC := verify/tests/support/net_shm.c
# The checker of memory order is linked into tests that are built for it, and is not instrumented.
ORDER_SRC := verify/tests/support/order_checker.c
TEST_DOUBLE_SRC += $(if $(filter order,$(BUILD)),$(ORDER_SRC))
# Programs that measure, built like tests and run by hand.
BY_HAND_SRC := verify/tests/perf/plan_speed.c verify/tests/perf/rma_speed.c verify/tests/perf/monitor_speed.c verify/tests/perf/setup_speed.c $(if $(HAVE_CUDA),verify/tests/perf/port_latency.c)

# Sources that a build with CUDA compiles with CUDA's headers and WEIR_HAVE_CUDA. Their objects
# have a separate folder, so that builds with and without CUDA share all other objects, and keep
# these.
CUDA_AWARE := %_cuda.c lib/coll/table.c lib/transport/select.c $(addprefix verify/tests/,gpu/test_gpu%.c gpu/test_nccl_streams.c \
	perf/port_latency.c perf/port_mesh.c)
obj = $(patsubst %.c,$(O)/obj/%.o,$(if $(HAVE_CUDA),$(filter-out $(CUDA_AWARE),$(1)),$(1))) \
	$(if $(HAVE_CUDA),$(patsubst %.c,$(O)/obj_cuda/%.o,$(filter $(CUDA_AWARE),$(1))))
gpu_obj = $(patsubst %.cu,$(O)/obj/%.o,$(1))
GPU_OBJ := $(if $(HAVE_CUDA),$(if $(filter few,$(KERNELS)),$(O)/obj/few_kernels.o,$(call gpu_obj,$(GPU_SRC))))
LIB_OBJ := $(call obj,$(LIB_SRC)) $(GPU_OBJ)
NCCL_OBJ := $(call obj,$(NCCL_SRC)) $(call gpu_obj,$(NCCL_GPU_SRC))
KIT_OBJ := $(call obj,$(KIT_SRC))
TOPO_OBJ := $(call obj,$(TOPO_SRC)) $(call gpu_obj,$(TOPO_GPU_SRC))
VERIFY_OBJ := $(call obj,$(VERIFY_SRC))
BENCH_OBJ := $(call obj,$(BENCH_SRC))
RESULTS_OBJ := $(call obj,$(RESULTS_SRC))
HEALTH_OBJ := $(call obj,$(HEALTH_SRC))
BOOT_MPI_OBJ := $(if $(HAVE_MPI),$(call obj,$(BOOT_MPI_SRC)))
SUPPORT := $(O)/obj/verify/tests/support
ALL_OBJ := $(NCCL_OBJ) $(call obj,$(PLAN_MAIN) $(RESULTS_SRC) $(RESULTS_MAIN) $(HEALTH_SRC) $(LIB_SRC) $(KIT_SRC) $(TOPO_SRC) $(VERIFY_SRC) $(BENCH_SRC) $(BENCH_MAIN) \
	$(BOOT_MPI_SRC) $(TEST_SRC) $(BY_HAND_SRC) $(TEST_DOUBLE_SRC) verify/tests/support/gpu_standin.c verify/tests/fuzz/soak.c \
	verify/tests/perf/port_mesh.c verify/tests/sim/sim.c $(wildcard verify/tests/sim/host/*.c) \
	topo/cli/weir_topo.c) $(GPU_OBJ)

BENCHES := $(if $(HAVE_HWLOC),$(patsubst bench/%.c,$(BIN)/%,$(BENCH_MAIN)))
TOOLS := $(if $(HAVE_HWLOC),$(BIN)/weir-topo)
READERS := $(patsubst results/cli/weir_%.c,$(BIN)/weir-%,$(RESULTS_MAIN))
TOOLS += $(READERS) $(BIN)/weir-plan $(if $(HEALTH_SRC),$(BIN)/weir-check)
# Tests of the oracles and of the benchmarks' parts are linked like the benchmarks.
named = $(foreach file,$(2),$(if $(filter $(1),$(notdir $(file))),$(file)))
BENCH_TEST_SRC := $(call named,test_verify% test_bench% test_moe% test_gpu_moe%,$(TEST_SRC))
to_test = $(if $(HAVE_CMOCKA),$(patsubst %.c,$(O)/tests/%,$(notdir $(1))))
ORACLE_TESTS := $(call to_test,$(BENCH_TEST_SRC))
TESTS := $(call to_test,$(TEST_SRC))
BY_HAND := $(call to_test,$(BY_HAND_SRC))

# Kernels compiled as host C++ and run by gpu_emulator.hh. The thread sanitizer does not support the
# emulator's fibers.
HAVE_CXX := $(call have,$(CXX))
CAN_EMULATE := $(and $(HAVE_CXX),$(HAVE_CMOCKA),$(filter-out tsan,$(BUILD)))
GPU_TEST_SRC := $(wildcard verify/tests/gpu/gpu_test_*.cc)
emulated = $(patsubst %,$(O)/emulated/%.o,$(1))
EMULATED_OBJ := $(call emulated,$(wildcard verify/tests/support/gpu_*.cc))
EMULATED_KERNEL_OBJ := $(call emulated,$(GPU_SRC))
GPU_TESTS := $(if $(CAN_EMULATE),$(patsubst verify/tests/gpu/%.cc,$(O)/tests/%,$(GPU_TEST_SRC)))
TESTS += $(GPU_TESTS)

# The stand-in for XPMEM's library, which tests and programs load by its name.
XPMEM_STANDIN := $(O)/tests/libxpmem.so.0
# Benchmarks that use a simulated GPU, for the tests.
STANDINS := $(if $(BENCHES),$(patsubst bench/%.c,$(O)/tests/%_standin,$(BENCH_MAIN)))
STANDIN_OBJ := $(SUPPORT)/gpu_standin.o
SOAKS := $(if $(BENCHES),$(O)/tests/soak $(O)/tests/soak_standin)
# The program of port_mesh.sh.
MESH := $(if $(HAVE_MPI),$(O)/tests/port_mesh)
MESH_OBJ := $(call obj,verify/tests/perf/port_mesh.c)
SOAK_OBJ := $(call obj,verify/tests/fuzz/soak.c)
# The simulation of collectives across nodes.
SIM := $(if $(HAVE_SIMGRID),$(O)/tests/sim)
SIM_OBJ := $(call obj,verify/tests/sim/sim.c)
# The simulation of collectives within a machine has its own objects of the host algorithms.
HOST_SIM := $(if $(HAVE_HWLOC),$(O)/tests/host_sim)
HOST_SIM_DIR := verify/tests/sim/host
HOST_SIM_OBJ := $(call obj,$(wildcard $(HOST_SIM_DIR)/*.c))
HOOKED_SRC := $(wildcard lib/coll/host/*.c) lib/coll/coll.c lib/coll/peer_buffers.c
HOOKED_OBJ := $(patsubst %.c,$(O)/hooked/%.o,$(HOOKED_SRC))
SIM_WRAPPED := weiri_comm_idle_for weiri_comm_wait_slow weiri_reduce weiri_copy weir_reduce weir_reduce_scatter weir_allgather \
	weir_broadcast weiri_coll_run

# What the manifest of a result says about the build: a hash of all sources, the commit, the flags.
SOURCES := $(sort $(wildcard $(foreach kind,c cu h cuh,$(addsuffix /*.$(kind),lib/include/weir $(LIB_DIRS) $(KIT_DIRS) lib/coll/cuda/device \
	lib/plan/cuda/device lib/moe/cuda/device lib/nccl $(NCCL_DIRS) $(BENCH_DIRS) verify $(TOPO_DIRS)))) Makefile)
BUILD_COMMIT := $(shell git describe --always --dirty 2>/dev/null)
BUILD_FLAGS = $(subst ',,$(subst ",,$(strip $(CSTD) $(OPT) $(CFLAGS) $(LDFLAGS))))
BUILD_INFO = -DWEIR_BUILD_SOURCES="\"$$(cat $(O)/sources.id)\"" -DWEIR_BUILD_COMMIT='"$(BUILD_COMMIT)"' \
	-DWEIR_BUILD_FLAGS='"$(BUILD_FLAGS)"'

# ------------------------------------------------------------------ targets
.PHONY: all lib tests run test test-long test-hosts test-rdma test-xpmem check lint config install clean help plot man deps fuzz fuzz-inputs coverage soak order mutation left-out analyze
# Kernels come first, as nvcc takes up to a minute for each while the other cores build the rest.
all: left-out $(GPU_OBJ) lib $(BENCHES) $(TOOLS) ## everything that this machine can build
LIBS := $(O)/libweir.a $(O)/libweir.so $(O)/libweir_nccl.so $(if $(HAVE_MPI),$(O)/libweir_mpi.a)
lib: $(LIBS) ## the libraries alone
tests: $(TESTS) $(BY_HAND) $(MESH) $(STANDINS) $(SOAKS) $(SIM) $(HOST_SIM) $(XPMEM_STANDIN)

$(O)/libweir.a: $(LIB_OBJ) $(O)/link.id
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(O)/programs.a: $(KIT_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(O)/libweir_mpi.a: $(BOOT_MPI_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Both shared libraries stay loaded after dlclose (nodelete), because their threads may still run.
$(O)/libweir.so: $(LIB_OBJ) lib/weir.map $(O)/link.id
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=lib/weir.map -Wl,-z,nodelete \
		-o $@ $(filter %.o,$^) $(WEIR_LDFLAGS) $(WEIR_LIBS)
	$(Q)ln -sf libweir.so $(O)/$(SONAME)

# Exports NCCL's functions only. compat/ has it under NCCL's name, for programs linked with NCCL.
$(O)/libweir_nccl.so: $(NCCL_OBJ) $(O)/libweir.a lib/nccl/exports.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libnccl.so.2 -Wl,--version-script=lib/nccl/exports.map -Wl,-z,nodelete \
		-o $@ $(filter %.o %.a,$^) $(WEIR_LDFLAGS) $(WEIR_LIBS)
	$(Q)mkdir -p $(O)/compat
	$(Q)ln -sf ../libweir_nccl.so $(O)/compat/libnccl.so.2
	$(Q)ln -sf libnccl.so.2 $(O)/compat/libnccl.so

# Sources that call MPI are compiled, and programs that may use it are linked, by MPI's wrapper
# around CC.
MPI_CC := $(if $(HAVE_MPI),OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC),$(CC))
$(BOOT_MPI_OBJ) $(MESH_OBJ) $(filter %_mpi.o,$(BENCH_OBJ)) $(filter $(O)/obj/verify/check%.o,$(VERIFY_OBJ)): COMPILE := $(MPI_CC)
COMPILE ?= $(CC)
$(call obj,bench/output/build_info.c): EXTRA_CFLAGS = $(BUILD_INFO)
$(call obj,bench/output/build_info.c): $(O)/build.id $(O)/sources.id
# The hash is computed again when a source changed or the list of sources did.
$(O)/sources.id: $(SOURCES) $(O)/sources.list
	$(Q)cat $(SOURCES) | sha256sum | cut -c1-16 >$@
# Files whose time changes only with their content $(2). They are written while the Makefile is read:
# with rules, the objects that depend on them would be built last. link.id names what libweir.a
# consists of: programs are linked again when CUDA is switched on or off, or a source is removed.
says = $(shell mkdir -p $(O); echo "$(2)" | cmp -s - $(O)/$(1) || echo "$(2)" >$(O)/$(1))
plain = $(subst ',,$(subst ",,$(1)))
ifneq ($(BUILDS),)
$(call says,sources.list,$(SOURCES))
$(call says,build.id,$(BUILD_COMMIT) $(BUILD_FLAGS))
ifneq ($(and $(CHOOSES),$(RUNS)),)
$(call says,cuda.choice,CUDA=$(if $(HAVE_CUDA),1,0))
$(if $(HAVE_CUDA),$(call says,kernels.choice,KERNELS=$(KERNELS)))
endif
$(call says,flags.id,$(CC) $(call plain,$(WEIR_CFLAGS)))
$(call says,link.id,$(call plain,$(WEIR_LDFLAGS) $(WEIR_LIBS) $(LIB_OBJ)))
$(if $(HAVE_CUDA),$(call says,cuda_flags.id,$(CUDA_CFLAGS)) $(call says,gpu_flags.id,$(NVCC) $(NVCC_FLAGS)))
endif
$(call obj,bench/statistics/bootstrap_gsl.c): EXTRA_CFLAGS = $(GSL_CFLAGS)

# Tests are compiled in less than half the time; what they test keeps its flags. Those whose own loops
# run long are optimized a little.
ifeq ($(BUILD),release)
test_objects = $(foreach file,$(1),$(O)/obj/verify/tests/$(file).o $(O)/obj_cuda/verify/tests/$(file).o)
$(call test_objects,conformance/% unit/% fuzz/% gpu/%): OPT := -O0 $(filter-out -O%,$(OPT))
$(call test_objects,$(addprefix conformance/test_,coll algo internode internode_algos net nccl_sends ports xpmem_faults) fuzz/test_plan_brute unit/test_plan_run): \
	OPT := -O1 $(filter-out -O%,$(OPT))
endif
$(call obj,$(ORDER_SRC)): OPT := -O2 -g -DWEIR_ORDER_CHECKER

# It refuses GPUs in a build with few kernels.
$(O)/obj_cuda/lib/comm/gpu/gpu_device_cuda.o: EXTRA_CFLAGS := $(FEW_KERNELS)
$(O)/obj_cuda/lib/comm/gpu/gpu_device_cuda.o: $(O)/gpu_flags.id

$(O)/obj/%.o: %.c Makefile $(O)/flags.id
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(COMPILE) $(WEIR_CFLAGS) $(EXTRA_CFLAGS) $(ISA) -MMD -MP -c -o $@ $<

$(O)/obj_cuda/%.o: %.c Makefile $(O)/flags.id $(O)/cuda_flags.id
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(COMPILE) $(WEIR_CFLAGS) $(CUDA_CFLAGS) $(EXTRA_CFLAGS) -MMD -MP -c -o $@ $<

$(O)/obj/%.o: %.cu Makefile $(O)/gpu_flags.id
	$(call say,NVCC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# CUDA's headers take most of the time of a file with few kernels, so these are compiled as one file.
$(O)/few_kernels.cu: Makefile $(O)/sources.list
	$(Q)printf '#include "%s"\n' $(GPU_SRC) >$@
$(O)/obj/few_kernels.o: $(O)/few_kernels.cu $(O)/gpu_flags.id
	$(call say,NVCC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(BENCHES): $(BIN)/%: $(O)/obj/bench/%.o $(BENCH_OBJ) $(VERIFY_OBJ) $(TOPO_OBJ) $(BOOT_MPI_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)$(MPI_CC) -o $@ $^ $(WEIR_LDFLAGS) $(GSL_LIBS) $(HWLOC_LIBS) $(WEIR_LIBS)

$(STANDINS): $(O)/tests/%_standin: $(O)/obj/bench/%.o $(STANDIN_OBJ) $(filter-out $(call obj,bench/gpu/gpu_cuda.c bench/gpu/gpu_none.c),$(BENCH_OBJ)) $(VERIFY_OBJ) $(TOPO_OBJ) $(BOOT_MPI_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(MPI_CC) -o $@ $^ $(WEIR_LDFLAGS) $(GSL_LIBS) $(HWLOC_LIBS) $(WEIR_LIBS)

.SECONDARY: $(SOAK_OBJ)
$(O)/tests/soak: $(SOAK_OBJ) $(BENCH_OBJ) $(VERIFY_OBJ) $(TOPO_OBJ) $(BOOT_MPI_OBJ) $(O)/programs.a $(O)/libweir.a
$(O)/tests/soak_standin: $(SOAK_OBJ) $(STANDIN_OBJ) $(filter-out $(call obj,bench/gpu/gpu_cuda.c bench/gpu/gpu_none.c),$(BENCH_OBJ)) $(VERIFY_OBJ) $(TOPO_OBJ) $(BOOT_MPI_OBJ) $(O)/programs.a $(O)/libweir.a
$(SOAKS):
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(MPI_CC) -o $@ $^ $(WEIR_LDFLAGS) $(GSL_LIBS) $(HWLOC_LIBS) $(WEIR_LIBS)

$(MESH): $(MESH_OBJ) $(if $(HAVE_CUDA),$(O)/obj/verify/tests/gpu/gpu_ports.o) $(BOOT_MPI_OBJ) $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(MPI_CC) -o $@ $^ $(WEIR_LDFLAGS) $(WEIR_LIBS)

$(BIN)/weir-topo: $(O)/obj/topo/cli/weir_topo.o $(TOPO_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(WEIR_LDFLAGS) $(HWLOC_LIBS) $(WEIR_LIBS)

$(BIN)/weir-plan: $(call obj,$(PLAN_MAIN)) $(O)/programs.a $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(WEIR_LDFLAGS) $(WEIR_LIBS)

$(READERS): $(BIN)/weir-%: $(O)/obj/results/cli/weir_%.o $(RESULTS_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(WEIR_LDFLAGS) $(GSL_LIBS) $(SQLITE_LIBS) $(WEIR_LIBS)
.SECONDARY: $(call obj,$(RESULTS_MAIN))
$(BIN)/weir-check: $(HEALTH_OBJ) $(BENCH_OBJ) $(VERIFY_OBJ) $(TOPO_OBJ) $(RESULTS_OBJ) $(BOOT_MPI_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)$(MPI_CC) -o $@ $^ $(WEIR_LDFLAGS) $(GSL_LIBS) $(SQLITE_LIBS) $(HWLOC_LIBS) $(WEIR_LIBS)
$(HEALTH_OBJ): EXTRA_CFLAGS = $(GSL_CFLAGS) $(JANSSON_CFLAGS)
$(call obj,bench/health/models.c): bench/health/models.txt
$(RESULTS_OBJ): EXTRA_CFLAGS = $(GSL_CFLAGS) $(JANSSON_CFLAGS)
$(call obj,results/output/page.c): results/output/report.html results/output/report.css
$(call obj,$(JSON_SRC)): EXTRA_CFLAGS = $(JANSSON_CFLAGS)

# Programs of the tests are linked in half the time where there is gold.
ifeq ($(BUILD),release)
TEST_LINKER := $(if $(call have,ld.gold),-fuse-ld=gold)
endif
$(TESTS) $(BY_HAND) $(STANDINS) $(SOAKS) $(MESH): WEIR_LDFLAGS += $(TEST_LINKER)

# Each test program needs the object of its source, from whichever folder.
$(foreach file,$(TEST_SRC) $(BY_HAND_SRC),$(eval $(O)/tests/$(basename $(notdir $(file))): $(call obj,$(file))))
$(filter-out $(GPU_TESTS),$(TESTS)) $(BY_HAND): $(TOPO_OBJ) $(call obj,$(TEST_DOUBLE_SRC)) $(O)/programs.a $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(TEST_CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(WEIR_LDFLAGS) $(TEST_LIBS) $(HWLOC_LIBS) -lcmocka $(WEIR_LIBS)

# Without a sanitizer, so that any program can load it.
$(XPMEM_STANDIN): verify/tests/support/xpmem_standin.c verify/tests/support/xpmem_standin.h Makefile
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) $(WARN) -O1 -g -I. -fPIC -shared -Wl,-soname,libxpmem.so.0 -o $@ $<

$(filter %/test_xpmem %/test_xpmem_faults %/test_coll %/test_nccl_sends,$(TESTS)): | $(XPMEM_STANDIN)

# What the simulation replaces is named to the linker.
$(O)/tests/sim: $(SIM_OBJ) $(O)/obj/verify/tests/sim/sim_net.o $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(addprefix -Wl$(COMMA)--wrap=,$(SIM_WRAPPED)) $(WEIR_LDFLAGS) -lsimgrid \
		$(WEIR_LIBS)
$(O)/obj/verify/tests/sim/sim_net.o: verify/tests/sim/sim_net.cc verify/tests/sim/sim_net.h
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 $(OPT) -Wall -Wextra -I. -c $< -o $@

# The hooked objects come before the library, whose objects of the same sources are then not needed.
$(HOST_SIM): $(HOST_SIM_OBJ) $(HOOKED_OBJ) $(TOPO_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(WEIR_LDFLAGS) $(HWLOC_LIBS) $(WEIR_LIBS)
$(HOOKED_OBJ): $(O)/hooked/%.o: %.c $(HOST_SIM_DIR)/hooks.h Makefile $(O)/flags.id
	$(call say,CC,hooked $<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(WEIR_CFLAGS) -include $(HOST_SIM_DIR)/hooks.h -MMD -MP -c $< -o $@

# The kernels of these tests.
$(O)/tests/test_gpu_channels: $(O)/obj/verify/tests/gpu/gpu_channels.o
$(O)/tests/test_gpu_ports $(O)/tests/port_latency: $(O)/obj/verify/tests/gpu/gpu_ports.o

# The test defines the functions of p2p_launch.c itself.
$(O)/tests/test_nccl_streams: $(filter-out %/p2p_launch.o,$(NCCL_OBJ))
$(O)/tests/test_nccl_users $(O)/tests/test_nccl_threads $(O)/tests/test_nccl_sends: $(NCCL_OBJ)
# The test makes allocations and other calls fail.
$(O)/tests/test_nccl_threads: WEIR_LDFLAGS += $(addprefix -Wl$(COMMA)--wrap=,calloc malloc weir_boot_agree weir_boot_allgather \
	weiri_boot_tcp_create weir_unique_id_create)

# Tests of the result readers and of their statistics.
RESULTS_TESTS := $(filter $(O)/tests/test_results%,$(TESTS))
$(RESULTS_TESTS): $(RESULTS_OBJ)
$(RESULTS_TESTS): TEST_LIBS = $(GSL_LIBS) $(SQLITE_LIBS) $(JANSSON_LIBS)

ifeq ($(BUILD),coverage)
COVERAGE_EXIT := $(call obj,verify/tests/support/coverage_exit.c)
$(filter-out $(GPU_TESTS),$(TESTS)): $(COVERAGE_EXIT)
$(filter-out $(GPU_TESTS),$(TESTS)): WEIR_LDFLAGS += -Wl,--wrap=_exit
endif

# Tests that take arbitrary bytes (support/fuzz_input.h). With BUILD=fuzz libFuzzer has their main().
INPUT_TESTS := $(filter %_input,$(TESTS))
ifeq ($(BUILD),fuzz)
$(INPUT_TESTS): WEIR_LDFLAGS += -fsanitize=fuzzer
endif

TEST_CC = $(CC)
$(ORACLE_TESTS): TEST_CC = $(MPI_CC)
$(ORACLE_TESTS): $(VERIFY_OBJ)
BENCH_TESTS := $(filter $(O)/tests/test_bench%,$(ORACLE_TESTS))
$(BENCH_TESTS): $(BENCH_OBJ) $(BOOT_MPI_OBJ)
$(BENCH_TESTS): TEST_LIBS = $(GSL_LIBS)
$(O)/tests/test_bench_health: $(filter-out %/weir_check.o,$(HEALTH_OBJ)) $(RESULTS_OBJ)
$(O)/tests/test_bench_health: TEST_LIBS = $(GSL_LIBS) $(SQLITE_LIBS) $(JANSSON_LIBS)

# Little of the kernels and of most of their tests runs, so that optimization would cost more than it
# saves.
EMULATED_OPT := -O0
$(EMULATED_OBJ) $(call emulated,$(addprefix verify/tests/gpu/gpu_test_,move.cc reduce.cc)): EMULATED_OPT := -O1
EMULATED_CXXFLAGS = -std=gnu++17 -Wall -Wextra -Wshadow -Wno-unknown-pragmas $(filter-out -O%,$(if $(filter release,$(BUILD)),$(OPT:-g=-g1),$(OPT))) \
	$(EMULATED_OPT) -fno-ipa-reference -DWEIR_EMULATED -Ilib/include -Ilib -I. -include verify/tests/support/gpu_words.h $(CXXFLAGS)
$(O)/emulated/%.o: % Makefile
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(EMULATED_CXXFLAGS) -MMD -MP -c -o $@ -x c++ $<

# The parts of the plan code that the emulated plans use.
PLAN_OBJ := $(call obj,$(filter-out %_cuda.c,$(filter lib/plan/%,$(LIB_SRC))))
$(O)/tests/gpu_test_plan: $(O)/tests/plan.a
$(O)/tests/plan.a: $(PLAN_OBJ)
# The layout of expert-parallel groups, and their oracle.
MOE_OBJ := $(call obj,lib/moe/gpu_layout.c verify/number.c $(wildcard verify/moe*.c))
$(O)/tests/gpu_test_moe: $(O)/tests/moe.a
$(O)/tests/moe.a: $(MOE_OBJ)
# From an archive only the kernels are linked that a test runs.
$(GPU_TESTS): $(O)/tests/kernels.a
$(O)/tests/kernels.a: $(EMULATED_KERNEL_OBJ)
$(O)/tests/plan.a $(O)/tests/moe.a $(O)/tests/kernels.a:
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(GPU_TESTS): $(O)/tests/%: $(O)/emulated/verify/tests/gpu/%.cc.o $(EMULATED_OBJ) $(call obj,lib/base/types.c lib/base/contract.c)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(WEIR_LDFLAGS) -lcmocka $(WEIR_LIBS)

-include $(patsubst %.o,%.d,$(ALL_OBJ) $(HOOKED_OBJ) $(EMULATED_OBJ) $(EMULATED_KERNEL_OBJ) $(call emulated,$(GPU_TEST_SRC)))

# Prints one line for each part that cannot be built on this machine. $(1): what the part needs, empty
# if missing; $(2): the part; $(3): the reason and the remedy.
missing = $(if $(1),,@printf '  %-7s %s\n' WITHOUT '$(2): $(3)')
comma := ,
left-out:
	$(call missing,$(HAVE_MPI),the MPI reference and --peer mpi,no $(MPICC); apt-get install libopenmpi-dev openmpi-bin)
	$(call missing,$(HAVE_HWLOC),weir-topo and the benchmarks,no hwloc; apt-get install libhwloc-dev pkg-config)
	$(call missing,$(HAVE_CMOCKA),the C tests,no cmocka; apt-get install libcmocka-dev pkg-config)
	$(call missing,$(HAVE_GSL),bootstrap intervals,no gsl; apt-get install libgsl-dev pkg-config; order statistics instead)
	$(call missing,$(HAVE_RESULTS),weir-compare$(comma) weir-report and weir-check,no gsl or no jansson; apt-get install libgsl-dev libjansson-dev pkg-config)
	$(call missing,$(HAVE_JANSSON),the reader of plans,no jansson; apt-get install libjansson-dev pkg-config)
	$(call missing,$(HAVE_SQLITE),stores of results in one file,no sqlite3; apt-get install libsqlite3-dev)
	$(call missing,$(HAVE_GNUPLOT),plots of make plot and weir-report,no gnuplot; apt-get install gnuplot-nox)
	$(call missing,$(CAN_EMULATE),emulated GPU kernels in the tests,$(EMULATE_WHY))
	$(call missing,$(GPU_READY),GPU memory,$(GPU_WHY))
	$(call missing,$(RDMA_READY),RDMA,$(RDMA_WHY))
EMULATE_WHY := $(if $(filter tsan,$(BUILD)),not with BUILD=tsan,$(if $(HAVE_CXX),no cmocka; apt-get install libcmocka-dev,no $(CXX); apt-get install g++))
GPU_READY := $(HAVE_CUDA)
GPU_WHY := $(if $(NVCC),turned off by CUDA=$(CUDA); run make CUDA=1 to include it,no nvcc; install the CUDA toolkit or set NVCC)
RDMA_READY := $(and $(RDMA_SRC),$(HAVE_VERBS))
RDMA_WHY := $(if $(RDMA_SRC),no verbs; apt-get install libibverbs-dev,not in this version)

config: left-out ## what was found on this machine and what is left out
	@VERSION='$(VERSION)' BUILD='$(BUILD)' O='$(O)' BIN='$(BIN)' CC='$(CC)' \
		MPICC='$(MPICC)' MPIRUN='$(MPIRUN)' HWLOC='$(HAVE_HWLOC)' VERBS='$(HAVE_VERBS)' \
		CMOCKA='$(HAVE_CMOCKA)' GSL='$(HAVE_GSL)' JANSSON='$(HAVE_JANSSON)' SQLITE='$(HAVE_SQLITE)' NVCC='$(NVCC)' CUDA='$(CUDA)' SM='$(SM)' ARCH='$(ARCH)' ci/config

# ------------------------------------------------------------------ checks
# ci/deps may change what the probes above find, so the build is a second make, which uses every core
# unless -j was given.
AGAIN = $(Q)+$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

# What the last build chose about CUDA, or what the GPUs of this machine suggest.
GIVEN_CUDA := $(if $(filter command environment override,$(origin CUDA)),$(CUDA))
GIVEN_KERNELS := $(if $(filter command environment override,$(origin KERNELS)),$(KERNELS))
kept_kernels = $(if $(GIVEN_CUDA),,KERNELS=$(KERNELS))
cuda_choice = $$(ci/cuda-choice run '$(O)' '$(NVCC)' '$(GIVEN_CUDA)' $(GPU_DEVICES) $(1))

run: ## the main job: install what is missing, build what it runs, run NP=8 ranks of bench_allreduce (ARGS=...)
	$(Q)ci/deps run
	$(AGAIN) -s $(call cuda_choice) $(kept_kernels) $(BIN)/bench_allreduce
	$(Q)MPIRUN='$(MPIRUN)' ci/mpirun -np $(NP) $(BIN)/bench_allreduce $(ARGS)

TEST_FILES := $(foreach file,$(wildcard $(foreach form,test_*.c gpu_test_*.cc *.sh,$(addsuffix /$(form),$(TEST_DIRS)))), \
	$(if $(or $(if $(T),,all),$(findstring $(T),$(notdir $(file)))),$(file)))
test: ## install what is missing, build, run all tests (T=word: only those whose name has the word)
	@echo 'make test: installs what is missing, builds, runs up to $(words $(TEST_FILES)) test file$(if $(filter-out 1,$(words $(TEST_FILES))),s)$(if $(T), with "$(T)" in their names,: about 9 minutes on 2 idle cores; make check T=word runs only some)'
	$(Q)ci/deps
	$(AGAIN) $(if $(HAVE_CUDA),$$(ci/cuda-choice test '$(O)' '$(NVCC)' '$(GIVEN_KERNELS)' $(GPU_DEVICES))) check

test-long: ## the same with the parts of tests that `make test` leaves out, and all CUDA kernels
	$(Q)ci/deps
	$(AGAIN) KERNELS=$(or $(GIVEN_KERNELS),all) check TEST_LONG=1

# Tests that measure nothing, the longest first: run three at a time next to the others, as most wait
# for deadlines and processes half of their time.
BESIDE := rdma.sh test_xpmem* hangs.sh python.sh inject.sh slurm.sh launch.sh chaos.sh bench_runs.sh bench_gpu.sh nccl.sh install.sh test_boot* gpu_test_* mpi_verify.sh internode.sh internode_delays.sh make.sh bench_*.sh \
	nightly.sh hosts.sh examples.sh lint.sh man.sh mpis.sh mutation.sh test_plan_brute test_plan_channels test_results_* test_net* weir_compare.sh \
	weir_plan*.sh weir_report.sh plot.sh nccl_calls.sh

# Fuzzers of the readers of results and plans: they read mutated files, the same ones in each run, for
# S seconds (a fifth of that in a short run) while the other tests leave a core idle.
S ?= 60
FUZZ_S = $(if $(T),2,$(if $(filter 1,$(TEST_LONG)),$(S),$(shell expr \( $(S) + 4 \) / 5)))
FUZZERS := $(filter $(O)/tests/test_results $(O)/tests/test_plan_fuzz,$(TESTS))

# Shell tests run the programs in the top folder, where only the default build puts them.
check: all tests ## the tests, installing nothing (TEST_LONG=1: as test-long)
	$(Q)O='$(O)' BUILD='$(BUILD)' KERNELS='$(KERNELS)' TEST_LONG='$(TEST_LONG)' FUZZ_S=$(FUZZ_S) verify/tests/run $(if $(T),-t '$(T)') $(if $(TEST_LONG),-l 900) -b '$(BESIDE)' \
		-n '$(notdir $(FUZZERS))' $(sort $(TESTS)) \
		$(if $(filter .,$(BIN)),$(sort $(TEST_SCRIPTS)))

test-hosts: ## the tests between two emulated hosts (ci/hosts)
	$(Q)ci/deps
	$(AGAIN) check T=hosts

test-rdma: ## the tests in a virtual machine with soft-RoCE (ci/rdma-vm)
	$(Q)ci/deps
	$(AGAIN) check T=rdma

test-xpmem: $(addprefix $(O)/tests/,test_xpmem test_xpmem_faults test_coll) ## the tests with XPMEM's module, in a virtual machine (ci/xpmem-vm; XPMEM=folder of its sources)
	$(Q)ci/xpmem-vm '$(XPMEM)' --seconds 900 env TEST_XPMEM=real sh -ec 'for test in $^; do "$$test"; done'

fuzz: $(FUZZERS) ## the fuzzers, with new inputs each time, S=60 seconds each (BUILD=asan); libFuzzer's need clang
	$(Q)start=$$(date +%s) && echo "FUZZ_START=$$start" && printf '%s\n' $(FUZZERS) | \
		FUZZ_S=$(S) FUZZ_START=$$start xargs -P 2 -I @ env @
	$(Q)$(if $(CLANG),+$(MAKE) --no-print-directory -s BUILD=fuzz CC=clang CUDA=0 O='$(O)/fuzz' S=$(S) fuzz-inputs,\
		echo 'make fuzz: libFuzzer is left out: no clang; apt-get install clang')
CLANG := $(call have,clang)

coverage: ## covered lines of lib by folder, by the C tests, in a separate build without CUDA
	$(Q)+$(MAKE) --no-print-directory BUILD=coverage CUDA=0 check
	$(Q)verify/tests/support/coverage $(O)/coverage

fuzz-inputs: $(INPUT_TESTS)
	$(Q)verify/tests/fuzz/inputs '$(O)' $(S) $(INPUT_TESTS)

soak: $(BENCHES) $(BIN)/weir-plan $(LIBS) $(MESH) $(SOAKS) ## jobs under chaos for S=60 seconds (0: without end), SEED=N; RDMA=1: over ib, in a virtual machine
	$(Q)$(if $(filter 1,$(RDMA)),ci/rdma-vm --seconds $$(($(if $(filter 0,$(S)),86400,$(S)) + 300))) env O='$(O)' \
		verify/tests/chaos/chaos --seconds '$(S)' --seed '$(or $(SEED),0)' $(if $(filter 1,$(RDMA)),--ib)

# test_order of a build whose accesses order_checker.c watches.
order: ## the test of memory order, with a checker that finds what x86 hides
	$(Q)+$(MAKE) --no-print-directory -s BUILD=order CUDA=0 build/order/tests/test_order
	$(Q)build/order/tests/test_order

mutation: all tests ## plant faults from verify/tests/mutation/*.mutants, which tests must find (ARGS="-k boot")
	$(Q)verify/tests/mutation/run $(ARGS)

deps: ## install what is missing
	$(Q)ci/deps

LINT_CFLAGS = $(CSTD) $(WARN) -Ilib/include -Ilib -I. $(HWLOC_CFLAGS) $(GSL_CFLAGS) $(JANSSON_CFLAGS)
lint: ## warnings as errors, headers alone, scripts, blanks, spelling, words, links, dependencies
	$(Q)CFLAGS_LINT='$(LINT_CFLAGS)' MPICC='$(MPICC)' ci/lint

analyze: ## clang-tidy on all sources but the tests: about 25 minutes of one core
	$(Q)CFLAGS_LINT='$(LINT_CFLAGS) $(VERBS_CFLAGS)' MPICC='$(MPICC)' ci/analyze

plot: ## plots of result files: CSV="a.csv b.csv" [OUT=folder]
	$(if $(HAVE_RESULTS),$(AGAIN) -s $(call cuda_choice,2>/dev/null) $(BIN)/weir-report)
	$(Q)results/plot $(if $(OUT),-o '$(OUT)') $(CSV)

# Manual pages: of programs from their --help, of functions from the headers.
HAVE_PYTHON := $(call have,python3)
$(O)/man/man7/weir.7: docs/man/generate docs/man/helptext.py ci/nightly ci/mpirun $(wildcard lib/include/weir/*.h) $(BENCHES) $(TOOLS)
	$(call say,MAN,$(O)/man)
	$(Q)docs/man/generate $(O)/man $(BENCHES) $(TOOLS)

man: $(if $(HAVE_PYTHON),$(O)/man/man7/weir.7) ## manual pages into build/man

# ------------------------------------------------------------------ install
# Shell completion, from the programs' --help as the manual pages.
$(O)/completion/_weir: docs/man/completion docs/man/helptext.py $(BENCHES) $(TOOLS)
	$(call say,GEN,$(O)/completion)
	$(Q)docs/man/completion $(O)/completion $(BENCHES) $(TOOLS)

# LIBDIR/weir/compat holds libweir_nccl.so under NCCL's names. It is not in the linker's default path,
# so that installing weir does not replace NCCL: programs use it with LD_LIBRARY_PATH or -L.
SONAME := libweir.so.$(firstword $(subst ., ,$(VERSION)))
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
PUBLIC_HEADERS := $(filter-out $(if $(HAVE_MPI),,%/mpi.h),$(wildcard lib/include/weir/*.h))
FOLDERS = PREFIX='$(PREFIX)' BINDIR='$(BINDIR)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' \
	DATADIR='$(DATADIR)' MANDIR='$(MANDIR)' DESTDIR='$(DESTDIR)'

install: all man $(if $(HAVE_PYTHON),$(O)/completion/_weir) ## all that was built: PREFIX=/usr/local, DESTDIR, LIBDIR, ... (docs/user/install.md)
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)$(FOLDERS) O='$(O)' VERSION='$(VERSION)' SONAME='$(SONAME)' PROGRAMS='$(BENCHES) $(TOOLS)' \
		ARCHIVES='$(filter %.a,$(LIBS))' HEADERS='$(PUBLIC_HEADERS)' \
		STATIC_LIBS='$(strip $(JANSSON_LIBS) $(CUDA_LIBS))' MPI='$(HAVE_MPI)' ci/install

.PHONY: uninstall
uninstall: ## remove what make install installed, with the same PREFIX, DESTDIR, ...
	$(call say,REMOVE,$(DESTDIR)$(PREFIX))
	$(Q)$(FOLDERS) ci/install remove

clean: ## remove everything that was built
	$(call say,RM,$(O))
	$(Q)rm -rf $(O) $(BENCHES) $(TOOLS)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo '  V=1 shows commands; O=folder; BUILD=release|debug|asan|tsan|fuzz; CC=clang; NP, ARGS and'
	@echo '  MPIRUN_FLAGS configure make run.'
