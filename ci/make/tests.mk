# The tests: which sources make which test program, how tests are built, and the goals that run them.
# Programs are test_*.c (cmocka), gpu_test_*.cc (emulated kernels) and scripts *.sh, in a folder for each
# kind; verify/tests/index lists them.

# Tests: programs test_*.c (cmocka) and scripts *.sh, in a folder for each kind.
TEST_DIRS := $(addprefix verify/tests/,unit conformance gpu cli fuzz chaos perf)
TEST_SRC := $(foreach file,$(wildcard $(addsuffix /test_*.c,$(TEST_DIRS))),$(if $(filter \
	$(if $(HAVE_JANSSON),,test_plan% test_gpu_planned%) $(if $(HAVE_RESULTS),,test_results% test_bench_health%) $(if $(HAVE_CUDA),,test_gpu%) \
	$(if $(HAVE_VERBS),,test_net_ib%),$(notdir $(file))),,$(file)))
TEST_SCRIPTS := $(wildcard $(addsuffix /*.sh,$(TEST_DIRS)))
# Every test program can register the network transport that is a test double, and its children end when they crash.
TEST_DOUBLE_SRC := verify/tests/support/net_shm.c verify/tests/support/crash_in_child.c
# The checker of memory order is linked into tests that are built for it, and is not instrumented.
ORDER_SRC := verify/tests/support/order_checker.c
TEST_DOUBLE_SRC += $(if $(filter order,$(BUILD)),$(ORDER_SRC))
# Programs that measure, built like tests and run by hand.
BY_HAND_SRC := verify/tests/perf/plan_speed.c verify/tests/perf/rma_speed.c verify/tests/perf/monitor_speed.c verify/tests/perf/setup_speed.c $(if $(HAVE_CUDA),verify/tests/perf/port_latency.c verify/tests/perf/blocks_speed.c)


# Tests of the oracles and of the benchmarks' parts are linked like the benchmarks.
named = $(foreach file,$(2),$(if $(filter $(1),$(notdir $(file))),$(file)))
BENCH_TEST_SRC := $(call named,test_verify% test_bench% test_replay% test_moe% test_gpu_moe%,$(TEST_SRC))
to_test = $(if $(HAVE_CMOCKA),$(patsubst %.c,$(O)/tests/%,$(notdir $(1))))
ORACLE_TESTS := $(call to_test,$(BENCH_TEST_SRC))
TESTS := $(call to_test,$(TEST_SRC))
BY_HAND := $(call to_test,$(BY_HAND_SRC))

# Kernels compiled as host C++ and run by gpu_emulator.hh. The thread sanitizer does not support the
# emulator's fibers.
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
# Programs in which any allocation or system call can be made to fail.
FAILING_PROGRAMS := $(addprefix $(O)/tests/failing/,$(if $(BENCHES),bench_allreduce bench_alltoallv bench_blocks bench_init bench_moe bench_p2p bench_replay) \
	weir-plan $(notdir $(READERS)))
# A benchmark with a GPU for which the build has no kernels.
OLD_GPU := $(if $(and $(BENCHES),$(HAVE_CUDA)),$(O)/tests/bench_allreduce_old_gpu)
SOAKS := $(if $(BENCHES),$(O)/tests/soak $(O)/tests/soak_standin)
# The program of port_mesh.sh.
MESH := $(O)/tests/port_mesh
MESH_OBJ := $(call obj,verify/tests/perf/port_mesh.c)
SOAK_OBJ := $(call obj,verify/tests/fuzz/soak.c)
# The simulation of collectives across nodes.
SIM := $(if $(HAVE_SIMGRID),$(O)/tests/sim)
SIM_OBJ := $(call obj,verify/tests/sim/sim.c)
# The simulation of collectives within a machine has its own objects of the host algorithms.
HOST_SIM := $(if $(HAVE_TOPO),$(O)/tests/host_sim)
HOST_SIM_DIR := verify/tests/sim/host
HOST_SIM_OBJ := $(call obj,$(wildcard $(HOST_SIM_DIR)/*.c))
HOOKED_SRC := $(wildcard lib/coll/host/*.c) lib/coll/coll.c lib/coll/peer_buffers.c
HOOKED_OBJ := $(patsubst %.c,$(O)/hooked/%.o,$(HOOKED_SRC))
# Those of the test with late ranks.
LATE_SRC := $(wildcard lib/coll/*.c lib/coll/host/*.c lib/coll/internode/*.c lib/plan/host/*.c) lib/comm/comm.c lib/algo/context.c \
	$(wildcard lib/comm/internode/*.c) $(filter-out %_cuda.c $(if $(HAVE_CUDA),%_none.c),$(wildcard lib/moe/*.c))
LATE_OBJ := $(patsubst %.c,$(O)/late/%.o,$(LATE_SRC)) $(call obj,verify/tests/support/late_ranks.c)
SIM_WRAPPED := weiri_comm_idle_for weiri_comm_wait_slow weiri_reduce weiri_copy weir_reduce weir_reduce_scatter weir_allgather \
	weir_broadcast weiri_coll_run

# ---------------------------------------------------------------- building
tests: $(TESTS) $(BY_HAND) $(MESH) $(STANDINS) $(OLD_GPU) $(SOAKS) $(FAILING_PROGRAMS) $(SIM) $(HOST_SIM) $(XPMEM_STANDIN)

# Tests are compiled in less than half the time; what they test keeps its flags. Those whose own loops
# run long are optimized a little.
ifeq ($(BUILD),release)
test_objects = $(foreach file,$(1),$(O)/obj/verify/tests/$(file).o $(O)/obj_cuda/verify/tests/$(file).o)
$(call test_objects,conformance/% unit/% fuzz/% gpu/%): OPT := -O0 $(filter-out -O%,$(OPT))
$(call test_objects,$(addprefix conformance/test_,coll late_ranks algo internode internode_algos net nccl_sends ports xpmem_faults) fuzz/test_plan_brute unit/test_plan_run): \
	OPT := -O1 $(filter-out -O%,$(OPT))
# What compilers of distributions check by default.
$(call test_objects,unit/test_rank_list): OPT := -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
endif
$(call obj,$(ORDER_SRC)): OPT := -O2 -g -DWEIR_ORDER_CHECKER

# Programs of the tests are linked in half the time where there is gold.
ifeq ($(BUILD),release)
TEST_LINKER := $(if $(call have,ld.gold),-fuse-ld=gold)
endif
$(TESTS) $(BY_HAND) $(STANDINS) $(OLD_GPU) $(SOAKS) $(MESH) $(FAILING_PROGRAMS): WEIR_LDFLAGS += $(TEST_LINKER)

# Benchmarks with another GPU than the machine's.
STANDIN_PARTS := $(STANDIN_OBJ) $(filter-out $(call obj,bench/gpu/gpu_cuda.c bench/gpu/gpu_none.c),$(BENCH_PARTS))
$(STANDINS): $(O)/tests/%_standin: $(O)/obj/bench/%.o $(STANDIN_PARTS)
$(OLD_GPU): $(SUPPORT)/old_gpu_standin.o $(O)/obj/bench/bench_allreduce.o $(BENCH_PARTS)
$(OLD_GPU): WEIR_LDFLAGS += $(addprefix -Wl$(COMMA)--wrap=,cudaGetDeviceCount cudaDeviceGetPCIBusId cudaDeviceGetAttribute)
$(SUPPORT)/old_gpu_standin.o: EXTRA_CFLAGS = $(CUDA_CFLAGS)
.SECONDARY: $(SOAK_OBJ)
$(O)/tests/soak: $(SOAK_OBJ) $(BENCH_PARTS)
$(O)/tests/soak_standin: $(SOAK_OBJ) $(STANDIN_PARTS)
$(STANDINS) $(OLD_GPU) $(SOAKS):
	$(call link,$(LINK_CC),$(BENCH_LIBS) $(TOPO_LIBS))

$(MESH): $(MESH_OBJ) $(if $(HAVE_CUDA),$(O)/obj/verify/tests/gpu/gpu_ports.o) $(O)/libweir.a
	$(call link,$(CC))

# Each test program needs the object of its source, from whichever folder.
$(foreach file,$(TEST_SRC) $(BY_HAND_SRC),$(eval $(O)/tests/$(basename $(notdir $(file))): $(call obj,$(file))))
$(filter-out $(GPU_TESTS),$(TESTS)) $(BY_HAND): $(TOPO_OBJ) $(call obj,$(TEST_DOUBLE_SRC)) $(O)/programs.a $(O)/libweir.a
	$(call link,$(LINK_CC),$(TEST_LIBS) $(TOPO_LIBS) -lcmocka)

# Without a sanitizer, so that any program can load it.
$(XPMEM_STANDIN): verify/tests/support/xpmem_standin.c verify/tests/support/xpmem_standin.h ci/make/tests.mk
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) $(WARN) -O1 -g -I. -fPIC -shared -Wl,-soname,libxpmem.so.0 -o $@ $<
$(filter %/test_xpmem %/test_xpmem_faults %/test_coll %/test_nccl_sends,$(TESTS)): | $(XPMEM_STANDIN)

# What the simulation replaces is named to the linker.
$(O)/tests/sim: $(SIM_OBJ) $(O)/obj/verify/tests/sim/sim_net.o $(O)/libweir.a
	$(call link,$(CXX),$(addprefix -Wl$(COMMA)--wrap=,$(SIM_WRAPPED)) -lsimgrid)
$(O)/obj/verify/tests/sim/sim_net.o: verify/tests/sim/sim_net.cc verify/tests/sim/sim_net.h
	$(call compile,CXX,$(CXX) -std=c++17 $(OPT) -Wall -Wextra -I.)

# The hooked objects come before the library, whose objects of the same sources are then not needed.
$(HOST_SIM): $(HOST_SIM_OBJ) $(HOOKED_OBJ) $(TOPO_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call link,$(CC),$(TOPO_LIBS))
$(HOOKED_OBJ): $(O)/hooked/%.o: %.c $(HOST_SIM_DIR)/hooks.h $(RULES) $(O)/flags.id
	$(call compile,CC,$(CC) $(WEIR_CFLAGS) -include $(HOST_SIM_DIR)/hooks.h)

# The library's calls of these functions fail when the test wants it.
FAILING := malloc calloc realloc strdup posix_memalign aligned_alloc free mmap memfd_create open fopen socket socketpair bind listen accept4 \
	connect getsockname setsockopt getsockopt pipe2 fcntl eventfd epoll_create1 epoll_ctl epoll_wait timerfd_create poll read write recv send \
	recvmsg sendmsg ftruncate posix_fallocate fstat pthread_create process_vm_readv syscall
FAILING_OBJ := $(call obj,verify/tests/support/failing_calls.c)
$(O)/tests/test_failing_calls: $(FAILING_OBJ)
$(O)/tests/test_failing_calls $(FAILING_PROGRAMS): WEIR_LDFLAGS += $(addprefix -Wl$(COMMA)--wrap=,$(FAILING))
# The same of programs.
FAILING_OBJ += $(call obj,verify/tests/support/failing_program.c)
$(O)/tests/failing/bench_%: $(O)/obj/bench/bench_%.o $(FAILING_OBJ) $(BENCH_PARTS)
	$(call link,$(LINK_CC),$(BENCH_LIBS) $(TOPO_LIBS))
$(O)/tests/failing/weir-plan: $(call obj,$(PLAN_MAIN)) $(FAILING_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call link,$(CC))
$(O)/tests/failing/weir-%: $(O)/obj/results/cli/weir_%.o $(FAILING_OBJ) $(RESULTS_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call link,$(CC),$(GSL_LIBS) $(SQLITE_LIBS))

$(O)/tests/test_late_ranks: $(LATE_OBJ)
$(LATE_OBJ): OPT := -O1 $(filter-out -O%,$(OPT))
$(O)/late/%.o: %.c verify/tests/support/late_hooks.h $(RULES) $(O)/flags.id
	$(call compile,CC,$(CC) $(WEIR_CFLAGS) -Wno-maybe-uninitialized -include verify/tests/support/late_hooks.h)

# The kernels of these tests.
$(O)/tests/test_gpu_channels: $(O)/obj/verify/tests/gpu/gpu_channels.o
$(O)/tests/test_gpu_ports $(O)/tests/port_latency: $(O)/obj/verify/tests/gpu/gpu_ports.o

# The test defines the functions of p2p_launch.c itself.
$(O)/tests/test_nccl_streams: $(filter-out %/p2p_launch.o,$(NCCL_OBJ))
$(O)/tests/test_bench_recording $(O)/tests/test_nccl_users $(O)/tests/test_nccl_threads $(O)/tests/test_nccl_sends $(O)/tests/test_float_environment $(O)/tests/test_overlap $(O)/tests/test_bad_buffers: $(NCCL_OBJ)
# The test makes allocations and other calls fail.
$(O)/tests/test_nccl_threads: WEIR_LDFLAGS += $(addprefix -Wl$(COMMA)--wrap=,calloc malloc weir_boot_agree weir_boot_allgather \
	weiri_boot_tcp_create weir_unique_id_create)

# This test makes a file system without nameless files.
$(O)/tests/test_programs: WEIR_LDFLAGS += -Wl,--wrap=access
# Ranks of this test have builds of their choice.
$(O)/tests/test_comm_builds: WEIR_LDFLAGS += -Wl,--wrap=weiri_build_id_own

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

$(ORACLE_TESTS): $(VERIFY_OBJ)
BENCH_TESTS := $(filter $(O)/tests/test_bench% $(O)/tests/test_replay%,$(ORACLE_TESTS))
$(BENCH_TESTS): $(BENCH_OBJ)
$(BENCH_TESTS): TEST_LIBS = $(BENCH_LIBS)
$(O)/tests/test_bench_health: $(filter-out %/weir_check.o,$(HEALTH_OBJ)) $(RESULTS_OBJ)
$(O)/tests/test_bench_health: TEST_LIBS = $(BENCH_LIBS) $(SQLITE_LIBS) $(JANSSON_LIBS)

# Little of the kernels and of most of their tests runs, so that optimization would cost more than it
# saves.
EMULATED_OPT := -O0
$(EMULATED_OBJ) $(call emulated,$(addprefix verify/tests/gpu/gpu_test_,move.cc reduce.cc)): EMULATED_OPT := -O1
EMULATED_CXXFLAGS = -std=gnu++17 -Wall -Wextra -Wshadow -Wno-unknown-pragmas $(filter-out -O%,$(OPT)) \
	$(EMULATED_OPT) -fno-ipa-reference -DWEIR_EMULATED -Ilib/include -Ilib -I. -include verify/tests/support/gpu_words.h $(CXXFLAGS)
$(O)/emulated/%.o: % ci/make/tests.mk
	$(call compile,CXX,$(CXX) $(EMULATED_CXXFLAGS) -x c++)

# The parts of the plan code that the emulated plans use.
PLAN_OBJ := $(call obj,$(filter-out %_cuda.c,$(filter lib/plan/%,$(LIB_SRC))))
$(O)/tests/gpu_test_plan: $(O)/tests/plan.a
$(O)/tests/plan.a: $(PLAN_OBJ)
# The layout of expert-parallel groups, and their oracle.
MOE_OBJ := $(call obj,lib/moe/gpu_layout.c verify/number.c $(wildcard verify/moe*.c))
$(O)/tests/gpu_test_moe: $(O)/tests/moe.a
$(O)/tests/moe.a: $(MOE_OBJ)
# The host's arithmetic of allreduce_norm and of quantisation.
$(O)/tests/gpu_test_norm $(O)/tests/gpu_test_quantized: $(O)/tests/norm.a
$(O)/tests/norm.a: $(call obj,$(filter lib/compute/norm.c lib/compute/quantize.c lib/compute/reduce%.c,$(LIB_SRC)))
# From an archive only the kernels are linked that a test runs.
$(GPU_TESTS): $(O)/tests/kernels.a
$(O)/tests/kernels.a: $(EMULATED_KERNEL_OBJ)
$(O)/tests/plan.a $(O)/tests/moe.a $(O)/tests/norm.a $(O)/tests/kernels.a:
	$(archive)

$(GPU_TESTS): $(O)/tests/%: $(O)/emulated/verify/tests/gpu/%.cc.o $(EMULATED_OBJ) $(call obj,lib/base/types.c lib/base/contract.c)
	$(call link,$(CXX),-lcmocka)

# ----------------------------------------------------------------- running
TEST_FILES := $(foreach file,$(wildcard $(foreach form,test_*.c gpu_test_*.cc *.sh,$(addsuffix /$(form),$(TEST_DIRS)))), \
	$(if $(or $(if $(T),,all),$(findstring $(T),$(notdir $(file)))),$(file)))
ifneq ($(and $(filter test,$(MAKECMDGOALS)),$(if $(RUNS),$(IS_FIRST_READING),dry)),)
$(info make test: installs what is missing, builds, runs up to $(words $(TEST_FILES)) test file$(if $(filter-out 1,$(words $(TEST_FILES))),s)$(if \
	$(T), with "$(T)" in their names,: about 9 minutes on 2 idle cores; make check T=word runs only some))
endif
test: check ## install what is missing, build, run all tests (T=word: only those whose name has the word)
test-long: check ## the same with the parts of tests that `make test` leaves out, and all CUDA kernels
test-hosts: check ## the tests between two emulated hosts (ci/hosts)
test-rdma: check ## the tests in a virtual machine with soft-RoCE (ci/rdma-vm)

# Tests that measure nothing, the longest first: run three at a time next to the others, as most wait
# for deadlines and processes half of their time.
BESIDE := rdma.sh test_xpmem* hangs.sh test_aborts python.sh inject.sh slurm.sh launch.sh chaos.sh bench_runs.sh bench_gpu.sh nccl.sh install.sh test_boot* gpu_test_* mpi_verify.sh mpi_pairs.sh internode.sh internode_delays.sh make.sh bench_*.sh \
	nightly.sh hosts.sh examples.sh lint.sh man.sh mpis.sh mutation.sh test_late_ranks test_internode_gpus test_failing_calls failing_programs.sh test_plan_brute test_plan_channels test_results_* test_net* weir_compare.sh \
	weir_plan*.sh weir_report.sh report_page.sh plot.sh nccl_calls.sh guides.sh

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

test-xpmem: $(addprefix $(O)/tests/,test_xpmem test_xpmem_faults test_coll) ## the tests with XPMEM's module, in a virtual machine (ci/xpmem-vm; XPMEM=folder of its sources)
	$(Q)ci/xpmem-vm '$(XPMEM)' --seconds 900 env TEST_XPMEM=real sh -ec 'for test in $^; do "$$test"; done'

fuzz: $(FUZZERS) ## the fuzzers, with new inputs each time, S=60 seconds each (BUILD=asan)
	$(Q)start=$$(date +%s) && echo "FUZZ_START=$$start" && printf '%s\n' $(FUZZERS) | \
		FUZZ_S=$(S) FUZZ_START=$$start xargs -P 2 -I @ env @

fuzz-inputs: $(INPUT_TESTS) ## libFuzzer's, S=60 seconds each; need clang
	$(Q)verify/tests/fuzz/inputs '$(O)' $(S) $(INPUT_TESTS)

coverage: check ## covered lines of lib by folder, by the C tests, in a separate build without CUDA
	$(Q)verify/tests/support/coverage $(O)

soak: $(BENCHES) $(BIN)/weir-plan $(LIBS) $(MESH) $(SOAKS) ## jobs under chaos for S=60 seconds (0: without end), SEED=N; RDMA=1: over ib, in a virtual machine
	$(Q)$(if $(filter 1,$(RDMA)),ci/rdma-vm --seconds $$(($(if $(filter 0,$(S)),86400,$(S)) + 300))) env O='$(O)' \
		verify/tests/chaos/chaos --seconds '$(S)' --seed '$(or $(SEED),0)' $(if $(filter 1,$(RDMA)),--ib)

order: $(O)/tests/test_order ## the test of memory order, with a checker that finds what x86 hides
	$(Q)$<

# One kernel of each kind, for every architecture that users have; nothing of it runs.
CHECKED_SM := 80 89 90 100 120
check-kernels: ## compile kernels for sm_80, 89, 90, 100 and 120 (KERNELS=all: all of them, for an hour)
	$(Q)for sm in $(CHECKED_SM); do \
		echo "KERNELS sm_$$sm" && $(MAKE) -s --no-print-directory O='$(O)/sm_'$$sm CUDA=1 SM=$$sm KERNELS=$(or $(GIVEN_KERNELS),few) kernels || exit; \
	done
kernels: $(GPU_OBJ) $(call gpu_obj,$(NCCL_GPU_SRC) $(TOPO_GPU_SRC) $(BENCH_GPU_SRC))

mutation: all tests ## plant faults from verify/tests/mutation/*.mutants, which tests must find (ARGS="-k boot")
	$(Q)verify/tests/mutation/run $(ARGS)
