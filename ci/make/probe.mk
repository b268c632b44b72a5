# What this machine has, and what the user asked for. Each HAVE_ variable holds what was found, or is
# empty; `make config` prints them. The goals `run` and `test` install what is missing first, then make
# reads everything again.

# A variable's value, found when it is first needed.
once = $(eval $(1) := $$(shell $(2)))$($(1))
have = $(shell command -v $(1) 2>/dev/null)
pkg = $(shell pkg-config --modversion $(1) 2>/dev/null)
header = $(shell echo '$(HASH)include <$(1)>' | $(CC) -E - >/dev/null 2>&1 && echo yes)

MPICC ?= mpicc
MPIRUN ?= mpirun
ARCH := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
HAVE_MPI := $(call have,$(MPICC))
HAVE_HWLOC := $(call pkg,hwloc)
HAVE_EXPAT := $(call pkg,expat)
HAVE_VERBS := $(call header,infiniband/verbs.h)
HAVE_CMOCKA := $(call pkg,cmocka)
HAVE_GSL := $(call pkg,gsl)
HAVE_JANSSON := $(call pkg,jansson)
HAVE_SQLITE := $(call pkg,sqlite3)
HAVE_ZLIB := $(call pkg,zlib)
HAVE_PROTOBUF := $(and $(call have,protoc-c),$(call pkg,libprotobuf-c))
HAVE_GNUPLOT := $(call have,gnuplot)
HAVE_CXX := $(call have,$(CXX))
HAVE_PYTHON := $(call have,python3)
HAVE_SIMGRID := $(and $(HAVE_CXX),$(call header,simgrid/engine.h))
# The folder topo/ needs both.
HAVE_TOPO := $(and $(HAVE_HWLOC),$(HAVE_EXPAT))
# weir-compare, weir-report and weir-check read results with these.
HAVE_RESULTS := $(and $(HAVE_GSL),$(HAVE_JANSSON))

# ---------------------------------------------------------------------- CUDA
ifeq ($(origin NVCC),undefined)
NVCC := $(firstword $(call have,nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
endif
GPU_DEVICES ?= $(wildcard /dev/nvidia[0-9]* /dev/dxg)
# These goals alone keep what the last build chose: pip builds lib.
ifeq ($(filter-out install uninstall man lib,$(or $(MAKECMDGOALS),all)),)
LAST_CUDA := $(shell sed -n 's/^CUDA=\([01]\)$$/\1/p' '$(O)/cuda.choice' 2>/dev/null)
LAST_SM := $(shell cat '$(O)/sm.choice' 2>/dev/null)
endif
# Kernels take most of a build with CUDA. KERNELS=few compiles one of each kind, for which nothing can
# run; `make test` chooses it where there is no GPU, and `make check` and `make run` keep the choice there.
GIVEN_CUDA := $(if $(filter command environment override,$(origin CUDA)),$(CUDA))
GIVEN_KERNELS := $(if $(filter command environment override,$(origin KERNELS)),$(KERNELS))
ifneq ($(if $(GPU_DEVICES),,$(filter check $(if $(GIVEN_CUDA),,run),$(MAKECMDGOALS))),)
LAST_KERNELS := $(shell sed -n 's/^KERNELS=//p' '$(O)/kernels.choice' 2>/dev/null)
LAST_SM := $(shell cat '$(O)/sm.choice' 2>/dev/null)
endif

# The first reading for a goal that installs runs ci/deps, and writes what to build for GPUs into
# begin.mk, which the second reading includes. That one uses every core unless -j was given.
INSTALLS := $(filter run test test-long test-hosts test-rdma plot,$(MAKECMDGOALS))
ifneq ($(and $(INSTALLS),$(RUNS)),)
IS_FIRST_READING := $(if $(MAKE_RESTARTS),,yes)
$(if $(IS_FIRST_READING),$(shell rm -f '$(O)/begin.mk'))
include $(O)/begin.mk
ifdef IS_FIRST_READING
.PHONY: begin
$(O)/begin.mk: begin
	$(Q)$(if $(filter plot,$(INSTALLS)),,ci/deps $(filter run,$(INSTALLS)))
	$(Q)mkdir -p $(@D)
	$(Q){ $(gpu_choice) && echo '$(if $(findstring -j,$(MAKEFLAGS)),,MAKEFLAGS += -j$(shell nproc))'; } >$@
endif
endif
# What to build for GPUs, as a line of make.
gpu_choice = $(if $(filter run,$(INSTALLS)),$(choice_run),$(if $(filter plot,$(INSTALLS)),$(choice_run) 2>/dev/null,$(if \
	$(filter test-long,$(INSTALLS)),echo KERNELS=$(or $(GIVEN_KERNELS),all),$(if $(HAVE_CUDA),$(choice_test),true))))
choice_run = ci/cuda-choice run '$(O)' '$(NVCC)' '$(GIVEN_CUDA)' $(GPU_DEVICES)
choice_test = ci/cuda-choice test '$(O)' '$(NVCC)' '$(GIVEN_KERNELS)' $(GPU_DEVICES)

CUDA ?= $(if $(NVCC),$(or $(LAST_CUDA),1),0)
KERNELS ?= $(or $(LAST_KERNELS),all)
$(if $(filter-out all few,$(KERNELS)),$(error KERNELS=$(KERNELS): expected all or few))
HAVE_CUDA := $(and $(NVCC),$(filter 1,$(CUDA)))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(if $(HAVE_CUDA),$(realpath $(NVCC))))
# Architectures: those of this machine's GPUs, or those of a choice for others. What tests compile without a GPU
# cannot run, so one architecture is enough for it.
SM_FOR := $(if $(filter 1,$(TEST_LONG)),few,$(KERNELS))
ifeq ($(origin SM),undefined)
SM := $(if $(HAVE_CUDA),$(or $(LAST_SM),$(shell ci/cuda-choice sm '$(NVCC)' '$(SM_FOR)' $(GPU_DEVICES))))
endif

# ---------------------------------------------------------- what is left out
# One line for each part that cannot be built on this machine. $(1): what the part needs, empty if
# missing; $(2): the part; $(3): the reason and the remedy.
missing = $(if $(1),,@printf '  %-7s %s\n' WITHOUT '$(2): $(3)')
left-out:
	$(call missing,$(HAVE_MPI),tests of programs that are compiled for MPI,no $(MPICC); apt-get install libopenmpi-dev openmpi-bin)
	$(call missing,$(HAVE_TOPO),weir-topo and the benchmarks,no hwloc or no expat; apt-get install libhwloc-dev libexpat1-dev pkg-config)
	$(call missing,$(HAVE_CMOCKA),the C tests,no cmocka; apt-get install libcmocka-dev pkg-config)
	$(call missing,$(HAVE_GSL),bootstrap intervals,no gsl; apt-get install libgsl-dev pkg-config; order statistics instead)
	$(call missing,$(HAVE_RESULTS),weir-compare$(COMMA) weir-report and weir-check,no gsl or no jansson; apt-get install libgsl-dev libjansson-dev pkg-config)
	$(call missing,$(HAVE_JANSSON),the reader of plans,no jansson; apt-get install libjansson-dev pkg-config)
	$(call missing,$(HAVE_SQLITE),stores of results in one file,no sqlite3; apt-get install libsqlite3-dev)
	$(call missing,$(HAVE_PROTOBUF),traces of Chakra in bench_replay,no protobuf-c; apt-get install libprotobuf-c-dev protobuf-c-compiler)
	$(call missing,$(HAVE_ZLIB),packed traces in bench_replay,no zlib; apt-get install zlib1g-dev)
	$(call missing,$(HAVE_GNUPLOT),plots of make plot and weir-report,no gnuplot; apt-get install gnuplot-nox)
	$(call missing,$(CAN_EMULATE),emulated GPU kernels in the tests,$(EMULATE_WHY))
	$(call missing,$(HAVE_CUDA),GPU memory,$(GPU_WHY))
	$(call missing,$(HAVE_VERBS),RDMA,no verbs; apt-get install libibverbs-dev)
EMULATE_WHY = $(if $(filter tsan,$(BUILD)),not with BUILD=tsan,$(if $(HAVE_CXX),no cmocka; apt-get install libcmocka-dev,no $(CXX); apt-get install g++))
GPU_WHY = $(if $(NVCC),turned off by CUDA=$(CUDA); run make CUDA=1 to include it,no nvcc; install the CUDA toolkit or set NVCC)

config: left-out ## what was found on this machine and what is left out
	@VERSION='$(VERSION)' BUILD='$(BUILD)' O='$(O)' BIN='$(BIN)' CC='$(CC)' \
		MPICC='$(MPICC)' MPIRUN='$(MPIRUN)' HWLOC='$(HAVE_HWLOC)' EXPAT='$(HAVE_EXPAT)' VERBS='$(HAVE_VERBS)' \
		CMOCKA='$(HAVE_CMOCKA)' GSL='$(HAVE_GSL)' JANSSON='$(HAVE_JANSSON)' SQLITE='$(HAVE_SQLITE)' ZLIB='$(HAVE_ZLIB)' PROTOBUF='$(HAVE_PROTOBUF)' NVCC='$(NVCC)' CUDA='$(CUDA)' SM='$(SM)' ARCH='$(ARCH)' ci/config
