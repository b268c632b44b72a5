# How sources are compiled and programs linked: flags by BUILD, libraries, and the sources that need flags of
# their own. Recipes are at the end.
CSTD := -std=gnu11
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
# Debuggers see lines, but no variables, of a release build: BUILD=debug has them.
OPT_release := -O3 -g1 -DNDEBUG
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
LINK_OPT := $(if $(filter order,$(BUILD)),-g $(addprefix -Wl$(COMMA)--wrap=,$(WRAPPED)),$(OPT))

CFLAGS ?=
NVCCFLAGS ?=
LDFLAGS ?=
VERBS_CFLAGS := $(if $(HAVE_VERBS),-DWEIR_HAVE_VERBS=1)
WEIR_CFLAGS = $(CSTD) $(WARN) $(OPT) -fPIC -fvisibility=hidden -pthread -Ilib/include -Ilib -I. \
	-DWEIR_BUILD_NAME='"$(BUILD)"' $(VERBS_CFLAGS) $(CFLAGS)
WEIR_LDFLAGS = $(LINK_OPT) -pthread $(LDFLAGS)
CUDA_CFLAGS := $(if $(HAVE_CUDA),-DWEIR_HAVE_CUDA=1 -isystem $(CUDA_HOME)/include)
CUDA_LIBS := $(if $(HAVE_CUDA),$(firstword $(wildcard $(CUDA_HOME)/lib64/libcudart_static.a \
	$(CUDA_HOME)/targets/*/lib/libcudart_static.a)))
TOPO_LIBS = $(if $(HAVE_TOPO),$(call once,TOPO_LIBS,pkg-config --libs hwloc expat))
TOPO_CFLAGS = $(if $(HAVE_TOPO),$(call once,TOPO_CFLAGS,pkg-config --cflags hwloc expat))
GSL_LIBS = $(if $(HAVE_GSL),$(call once,GSL_LIBS,pkg-config --libs gsl))
GSL_CFLAGS = $(if $(HAVE_GSL),$(call once,GSL_CFLAGS,pkg-config --cflags gsl))
JANSSON_LIBS = $(if $(HAVE_JANSSON),$(call once,JANSSON_LIBS,pkg-config --libs jansson))
JANSSON_CFLAGS = $(if $(HAVE_JANSSON),$(call once,JANSSON_CFLAGS,pkg-config --cflags jansson))
SQLITE_LIBS = $(if $(HAVE_SQLITE),$(call once,SQLITE_LIBS,pkg-config --libs sqlite3))
ZLIB_LIBS = $(if $(HAVE_ZLIB),$(call once,ZLIB_LIBS,pkg-config --libs zlib))
PROTOBUF_LIBS = $(if $(HAVE_PROTOBUF),$(call once,PROTOBUF_LIBS,pkg-config --libs libprotobuf-c))
BENCH_LIBS = $(GSL_LIBS) $(ZLIB_LIBS) $(PROTOBUF_LIBS)
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

# Calls run on threads of programs, whose stacks may be small.
ifeq ($(BUILD),release)
$(call obj,$(LIB_SRC) $(NCCL_SRC)): FRAME := -Wframe-larger-than=14336
endif
# A source whose name ends in an instruction set is compiled for it, and called only if the processor
# has it.
%_avx2.o: ISA := -mavx2 -mfma -mf16c
%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512
ifeq ($(BUILD),release)
# GCC's -O3 also multiplies these loops by their conditions, which gains nothing: half the compile time.
ifeq ($(findstring clang,$(CC)),)
$(O)/obj/verify/exact.o: OPT := $(patsubst -O3,-O2 -ftree-vectorize -fvect-cost-model=dynamic,$(OPT))
endif
endif
# Weighted sums, the oracle that repeats them, normalisation and quantisation round each product.
$(O)/obj/lib/compute/weigh_%.o $(O)/obj/lib/compute/norm.o $(O)/obj/lib/compute/quantize.o $(O)/obj/verify/moe%.o: EXTRA_CFLAGS := -ffp-contract=off
$(call obj,bench/statistics/bootstrap_gsl.c): EXTRA_CFLAGS = $(GSL_CFLAGS)
$(call obj,bench/replay/chakra.c): EXTRA_CFLAGS = -isystem $(O)
$(call obj,bench/replay/chakra.c) $(CHAKRA_OBJ): $(O)/chakra.pb-c.c
$(HEALTH_OBJ) $(RESULTS_OBJ): EXTRA_CFLAGS = $(GSL_CFLAGS) $(JANSSON_CFLAGS)
$(call obj,$(JSON_SRC)): EXTRA_CFLAGS = $(JANSSON_CFLAGS)
$(call obj,bench/health/models.c): bench/health/models.txt
$(call obj,bench/candidate/candidate_python.c): bench/candidate/peer_python.py
$(call obj,results/output/page.c): results/output/report.html results/output/report.css results/output/report.js
# It refuses GPUs in a build with few kernels.
$(O)/obj_cuda/lib/comm/gpu/gpu_device_cuda.o: EXTRA_CFLAGS := $(FEW_KERNELS)
$(O)/obj_cuda/lib/comm/gpu/gpu_device_cuda.o: $(O)/gpu_flags.id
# It names the architectures that the build has, unless NVCCFLAGS adds others.
GPU_CODE := $(if $(HAVE_CUDA),$(if $(findstring arch,$(NVCCFLAGS))$(findstring gencode,$(NVCCFLAGS)),,$(SM)))
$(O)/obj/lib/base/gpu_code.o: EXTRA_CFLAGS := $(if $(GPU_CODE),-DWEIR_GPU_CODE='"$(GPU_CODE)"')
$(O)/obj/lib/base/gpu_code.o: $(O)/gpu_code.id

# Programs open MPI at run time (lib/base/mpi_open.h). With MPI_LINK=1 they are linked with the MPI of
# MPICC instead, by its wrapper around CC.
MPI_CC := OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC)
LINK_CC := $(if $(MPI_LINK),$(MPI_CC),$(CC))
$(O)/obj/bench/job/mpi_linked.o: COMPILE := $(MPI_CC)
COMPILE ?= $(CC)

# ------------------------------------------------------ what the build is
# What the manifest of a result says about the build: a hash of all sources, the commit, the flags.
BUILD_COMMIT := $(shell git describe --always --dirty 2>/dev/null)
BUILD_FLAGS = $(call plain,$(strip $(CSTD) $(OPT) $(CFLAGS) $(LDFLAGS)))
$(call obj,bench/output/build_info.c): EXTRA_CFLAGS = -DWEIR_BUILD_SOURCES="\"$$(cat $(O)/sources.id)\"" \
	-DWEIR_BUILD_COMMIT='"$(BUILD_COMMIT)"' -DWEIR_BUILD_FLAGS='"$(BUILD_FLAGS)"'
$(call obj,bench/output/build_info.c): $(O)/build.id $(O)/sources.id
# The hash is computed again when a source changed or the list of sources did.
$(O)/sources.id: $(SOURCES) $(O)/sources.list
	$(Q)cat $(SOURCES) | sha256sum | cut -c1-16 >$@
# What ranks compare before they form a communicator: the sources of the library, CUDA's and NCCL's included, so that builds
# of the same sources agree whatever the machine has; and options that change the layout of structures.
LIBRARY_SOURCES := $(sort $(wildcard $(foreach kind,c cu h cuh,$(addsuffix /*.$(kind),lib/include/weir $(LIB_DIRS) lib/coll/cuda/device \
	lib/plan/cuda/device lib/moe/cuda/device lib/nccl $(NCCL_DIRS)))))
LAYOUT_FLAGS := $(filter -DWEIR% -UWEIR% -m32 -mx32 -fpack-struct% -fshort-enums,$(CC) $(CFLAGS))
$(call obj,lib/base/build_id.c): EXTRA_CFLAGS = -DWEIR_LIBRARY_SOURCES="\"$$(cat $(O)/library.id)\""
$(call obj,lib/base/build_id.c): $(O)/library.id
$(O)/library.id: $(LIBRARY_SOURCES) $(O)/sources.list $(O)/flags.id
	$(Q){ cat $(LIBRARY_SOURCES); echo '$(call plain,$(LAYOUT_FLAGS))'; } | sha256sum | cut -c1-16 >$@
# Files whose time changes only with their content $(2). They are written while the Makefile is read:
# with rules, the objects that depend on them would be built last. link.id names what libweir.a and
# programs.a consist of: programs are linked again when CUDA is switched on or off, or a source is removed.
says = $(shell mkdir -p $(O); echo "$(2)" | cmp -s - $(O)/$(1) || echo "$(2)" >$(O)/$(1))
plain = $(subst ',,$(subst ",,$(1)))
# Goals that build; empty if there are none.
BUILDS := $(if $(IS_FIRST_READING),,$(filter-out deps lint analyze config help clean uninstall left-out $(if $(RUNS),,plot),$(or \
	$(MAKECMDGOALS),all)))
# Those of them that exist and compile, so that a later `make install` keeps their choice of CUDA.
CHOOSES := $(if $(BUILDS),$(filter-out man,$(filter $(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' Makefile ci/make/*.mk) \
	$(O)/% bench_% weir-%,$(BUILDS))))
ifneq ($(BUILDS),)
$(call says,sources.list,$(SOURCES))
$(call says,build.id,$(BUILD_COMMIT) $(BUILD_FLAGS))
ifneq ($(and $(CHOOSES),$(RUNS)),)
$(call says,cuda.choice,CUDA=$(if $(HAVE_CUDA),1,0))
$(if $(HAVE_CUDA),$(call says,kernels.choice,KERNELS=$(KERNELS)))
$(if $(and $(HAVE_CUDA),$(filter all,$(KERNELS))),$(call says,sm.choice,$(SM)))
endif
$(call says,gpu_code.id,$(GPU_CODE))
$(call says,flags.id,$(CC) $(call plain,$(WEIR_CFLAGS)))
$(call says,link.id,$(call plain,$(WEIR_LDFLAGS) $(WEIR_LIBS) $(LIB_OBJ) $(KIT_OBJ) $(if $(MPI_LINK),$(MPICC))))
$(if $(HAVE_CUDA),$(call says,cuda_flags.id,$(CUDA_CFLAGS)) $(call says,gpu_flags.id,$(NVCC) $(NVCC_FLAGS)))
endif

# ----------------------------------------------------------------- recipes
# Every step prints one line, "CC file".
say = $(if $(filter 1,$(V)),,$(info $(1) $(2)))
# An object of the first prerequisite. $(1): what the line says, $(2): the compiler and its flags.
define compile
$(call say,$(1),$<)
$(Q)mkdir -p $(@D)
$(Q)$(2) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
endef
# An archive of the objects among the prerequisites.
define archive
$(call say,AR,$@)
$(Q)mkdir -p $(@D)
$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
endef
# A program of the objects and archives among the prerequisites. $(1): the compiler, $(2): libraries.
define link
$(call say,LINK,$@)
$(Q)mkdir -p $(@D)
$(Q)$(1) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(WEIR_LDFLAGS) $(2) $(WEIR_LIBS)
endef

RULES := Makefile ci/make/flags.mk ci/make/sources.mk
$(O)/obj/%.o: %.c $(RULES) $(O)/flags.id
	$(call compile,CC,$(COMPILE) $(WEIR_CFLAGS) $(FRAME) $(EXTRA_CFLAGS) $(ISA))
$(O)/chakra.pb-c.c: bench/replay/chakra.proto
	$(Q)mkdir -p $(@D)
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(@D) $<
$(O)/obj/chakra.pb-c.o: $(O)/chakra.pb-c.c $(O)/flags.id
	$(call compile,CC,$(CC) $(CSTD) $(OPT) $(FRAME))
$(O)/obj_cuda/%.o: %.c $(RULES) $(O)/flags.id $(O)/cuda_flags.id
	$(call compile,CC,$(COMPILE) $(WEIR_CFLAGS) $(CUDA_CFLAGS) $(EXTRA_CFLAGS))
$(O)/obj/%.o: %.cu $(RULES) $(O)/gpu_flags.id
	$(call compile,NVCC,$(NVCC) $(NVCC_FLAGS))
$(foreach group,$(GPU_GROUPS),$(O)/$(group)_kernels.cu): $(O)/%_kernels.cu: $(RULES) $(O)/sources.list
	$(Q)printf '#include "%s"\n' $(IN_$*) >$@
$(O)/obj/%_kernels.o: $(O)/%_kernels.cu $(O)/gpu_flags.id
	$(call compile,NVCC,$(NVCC) $(NVCC_FLAGS))
