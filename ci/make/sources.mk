# Which sources make which library and program. Folders are listed here; their sources are found.

# All sources of the folders $(1).
sources = $(wildcard $(addsuffix /*.c,$(1)))
gpu_sources = $(if $(HAVE_CUDA),$(wildcard $(addsuffix /*.cu,$(1))))
LIB_DIRS := $(addprefix lib/,base boot transport transport/mapped transport/net compute comm comm/node \
	comm/gpu comm/internode comm/monitor chan coll coll/host coll/cuda coll/cuda/launch coll/internode algo blocks blocks/cuda moe moe/cuda \
	$(addprefix plan/,format build check cost draw compile execute host cuda examples))
# The kit of all programs, which is in no library.
KIT_DIRS := lib/programs
NCCL_DIRS := $(addprefix lib/nccl/,calls comm p2p rma gpu vendor)
TOPO_DIRS := topo
BENCH_DIRS := bench $(addprefix bench/,tuner moe blocks replay control options sizes job gpu candidate trial check measure hours statistics output)
HEALTH_DIRS := bench/health bench/health/cli
RESULTS_DIRS := $(addprefix results/,read store judge output)
# Where a part depends on CUDA, a build contains either its *_cuda.c or its *_none.c.
OTHER_SIDE := %_$(if $(HAVE_CUDA),none,cuda).c

GPU_SRC := $(wildcard lib/coll/cuda/*.cu lib/plan/cuda/*.cu lib/moe/cuda/*.cu lib/blocks/cuda/*.cu)
RDMA_SRC := $(wildcard lib/transport/net/ib*.c)
ISA_SRC := $(wildcard lib/compute/*_avx2.c lib/compute/*_avx512.c)
PLAN_MAIN := $(wildcard lib/plan/cli/*.c)
JSON_SRC := $(filter-out %_missing.c,$(wildcard lib/plan/format/json*.c))
LIB_SRC := $(filter-out $(OTHER_SIDE) \
	$(if $(HAVE_JANSSON),lib/plan/format/json_missing.c,$(JSON_SRC)) $(if $(HAVE_VERBS),,$(RDMA_SRC)) \
	$(if $(filter x86_64,$(ARCH)),,$(ISA_SRC)),$(call sources,$(LIB_DIRS)))
# The NCCL-compatible library: these sources, linked with libweir.a.
NCCL_SRC := $(filter-out $(OTHER_SIDE),$(call sources,$(NCCL_DIRS)))
NCCL_GPU_SRC := $(call gpu_sources,$(NCCL_DIRS))
KIT_SRC := $(call sources,$(KIT_DIRS))
TOPO_SRC := $(if $(HAVE_TOPO),$(filter-out $(OTHER_SIDE),$(call sources,$(TOPO_DIRS))))
TOPO_GPU_SRC := $(if $(HAVE_TOPO),$(call gpu_sources,$(TOPO_DIRS)))
VERIFY_SRC := $(call sources,verify)
BENCH_MAIN := $(wildcard bench/bench_*.c)
# NCCL's tuner plug-in, which contains nothing of weir's libraries.
TUNER_SRC := $(addprefix bench/tuner/,plugin.c table.c)
BENCH_SRC := $(filter-out $(BENCH_MAIN) bench/tuner/plugin.c %/bootstrap_$(if $(HAVE_GSL),missing,gsl).c \
	$(if $(MPI_LINK),,%/mpi_linked.c) %/unpack_$(if $(HAVE_ZLIB),missing,zlib).c %/chakra$(if $(HAVE_PROTOBUF),_missing).c $(OTHER_SIDE),$(call sources,$(BENCH_DIRS)))
BENCH_GPU_SRC := $(call gpu_sources,$(BENCH_DIRS))
# Programs that read results need no MPI, and only the library's base.
RESULTS_MAIN := $(if $(HAVE_RESULTS),$(wildcard results/cli/weir_*.c))
RESULTS_SRC := $(if $(HAVE_RESULTS),$(filter-out %/sqlite$(if $(HAVE_SQLITE),_missing).c,$(call sources,$(RESULTS_DIRS))))
# weir-check runs the benchmarks as programs, and reads their results.
HEALTH_SRC := $(if $(and $(HAVE_RESULTS),$(HAVE_TOPO)),$(filter-out $(OTHER_SIDE),$(call sources,$(HEALTH_DIRS))))

# Sources that a build with CUDA compiles with CUDA's headers and WEIR_HAVE_CUDA. Their objects
# have a separate folder, so that builds with and without CUDA share all other objects, and keep
# these.
CUDA_AWARE := %_cuda.c lib/coll/table.c lib/transport/select.c $(addprefix verify/tests/,gpu/test_gpu%.c gpu/test_nccl_streams.c \
	perf/port_latency.c perf/port_mesh.c perf/blocks_speed.c)
obj = $(patsubst %.c,$(O)/obj/%.o,$(if $(HAVE_CUDA),$(filter-out $(CUDA_AWARE),$(1)),$(1))) \
	$(if $(HAVE_CUDA),$(patsubst %.c,$(O)/obj_cuda/%.o,$(filter $(CUDA_AWARE),$(1))))
gpu_obj = $(patsubst %.cu,$(O)/obj/%.o,$(1))
# CUDA's headers take most of the time of a small file, so files are compiled in groups, the largest of
# which takes as long as the longest single file. Group G consists of IN_G.
IN_few := $(GPU_SRC)
IN_moves := $(wildcard $(addprefix lib/coll/cuda/,allgather*.cu alltoall*.cu barrier.cu broadcast*.cu exchange*.cu))
IN_lines := $(wildcard $(addprefix lib/coll/cuda/,allreduce*.cu ll128.cu))
IN_chains := $(wildcard $(addprefix lib/coll/cuda/,reduce.cu reduce_chain.cu reduce_l*.cu ring.cu) lib/plan/cuda/divide.cu)
IN_moe := $(wildcard lib/moe/cuda/*.cu)
GPU_GROUPS := $(if $(filter few,$(KERNELS)),few,moves lines chains moe)
GPU_OBJ := $(if $(HAVE_CUDA),$(patsubst %,$(O)/obj/%_kernels.o,$(GPU_GROUPS)) \
	$(call gpu_obj,$(filter-out $(foreach group,$(GPU_GROUPS),$(IN_$(group))),$(GPU_SRC))))
LIB_OBJ := $(call obj,$(LIB_SRC)) $(GPU_OBJ)
NCCL_OBJ := $(call obj,$(NCCL_SRC)) $(call gpu_obj,$(NCCL_GPU_SRC))
KIT_OBJ := $(call obj,$(KIT_SRC))
TOPO_OBJ := $(call obj,$(TOPO_SRC)) $(call gpu_obj,$(TOPO_GPU_SRC))
VERIFY_OBJ := $(call obj,$(VERIFY_SRC))
# Messages of Chakra, which protoc-c makes.
CHAKRA_OBJ := $(if $(HAVE_PROTOBUF),$(O)/obj/chakra.pb-c.o)
BENCH_OBJ := $(call obj,$(BENCH_SRC)) $(CHAKRA_OBJ) $(call gpu_obj,$(BENCH_GPU_SRC))
RESULTS_OBJ := $(call obj,$(RESULTS_SRC))
HEALTH_OBJ := $(call obj,$(HEALTH_SRC))
SUPPORT := $(O)/obj/verify/tests/support
ALL_OBJ = $(NCCL_OBJ) $(call obj,$(PLAN_MAIN) $(RESULTS_SRC) $(RESULTS_MAIN) $(HEALTH_SRC) $(LIB_SRC) $(KIT_SRC) $(TOPO_SRC) $(VERIFY_SRC) $(BENCH_SRC) $(BENCH_MAIN) \
	$(TEST_SRC) $(BY_HAND_SRC) $(TEST_DOUBLE_SRC) verify/tests/support/gpu_standin.c verify/tests/fuzz/soak.c \
	verify/tests/perf/port_mesh.c verify/tests/sim/sim.c $(wildcard verify/tests/sim/host/*.c) \
	topo/cli/weir_topo.c) $(GPU_OBJ)

BENCHES := $(if $(HAVE_TOPO),$(patsubst bench/%.c,$(BIN)/%,$(BENCH_MAIN)))
TOOLS := $(if $(HAVE_TOPO),$(BIN)/weir-topo)
READERS := $(patsubst results/cli/weir_%.c,$(BIN)/weir-%,$(RESULTS_MAIN))
TOOLS += $(READERS) $(BIN)/weir-plan $(if $(HEALTH_SRC),$(BIN)/weir-check)

# All sources that a result depends on.
SOURCES := $(sort $(wildcard $(foreach kind,c cu h cuh,$(addsuffix /*.$(kind),lib/include/weir $(LIB_DIRS) $(KIT_DIRS) lib/coll/cuda/device \
	lib/plan/cuda/device lib/moe/cuda/device $(NCCL_DIRS) $(BENCH_DIRS) verify $(TOPO_DIRS)))) Makefile $(wildcard ci/make/*.mk))
