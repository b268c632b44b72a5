# The build of weir, for GNU make. `make help` lists the targets; `make config` shows what was found
# on this machine. Objects go to $(O). Programs go to the top folder, or to $(O) if O or BUILD is
# given, so that several builds can exist side by side.
#
# Read in this order:
#   ci/make/probe.mk    what this machine has, what it installs, what is left out
#   ci/make/sources.mk  which sources make which library and program
#   ci/make/flags.mk    flags, and how one file is compiled or linked
#   this file           libraries, programs, and the everyday goals
#   ci/make/tests.mk    test programs, and the goals that run tests
#   ci/make/install.mk  manual pages, installation

# Goals that are separate builds, or select tests.
ifneq ($(filter coverage order fuzz-inputs,$(MAKECMDGOALS)),)
override BUILD := $(patsubst fuzz-inputs,fuzz,$(filter coverage order fuzz-inputs,$(MAKECMDGOALS)))
override CUDA := 0
endif
ifneq ($(filter fuzz-inputs,$(MAKECMDGOALS)),)
override CC := clang
endif
T := $(or $(T),$(if $(filter test-hosts,$(MAKECMDGOALS)),hosts,$(if $(filter test-rdma,$(MAKECMDGOALS)),rdma)))
TEST_LONG := $(or $(TEST_LONG),$(if $(filter test-long,$(MAKECMDGOALS)),1))

BUILD ?= release
ifeq ($(BUILD),release)
O ?= build
else
O ?= build/$(BUILD)
endif
BIN := $(if $(filter build,$(O)),.,$(O))
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
PREFIX ?= /usr/local
NP ?= 8
VERSION := $(shell sed -n 's/^\#define WEIR_VERSION "\(.*\)"/\1/p' lib/include/weir/weir.h)
COMMA := ,
HASH := \#

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
LETTERS := $(firstword -$(MAKEFLAGS)) # of make's options
RUNS := $(if $(findstring n,$(LETTERS)),,yes)
MAKEFLAGS += --no-builtin-rules

include ci/make/probe.mk
include ci/make/sources.mk
include ci/make/flags.mk

# --------------------------------------------------- libraries and programs
.PHONY: weir-bench packages all lib tests run test test-long test-hosts test-rdma test-xpmem check lint config install uninstall clean help plot man deps fuzz \
	fuzz-inputs coverage soak order mutation left-out analyze kernels check-kernels
# Kernels come first, as nvcc takes up to a minute for each while the other cores build the rest.
all: left-out $(GPU_OBJ) lib $(BENCHES) $(TOOLS) ## everything that this machine can build
LIBS := $(O)/libweir.a $(O)/libweir.so $(O)/libweir_nccl.so $(O)/libnccl-tuner-weir.so
lib: $(LIBS) ## the libraries alone

$(O)/libweir.a: $(LIB_OBJ) $(O)/link.id
$(O)/programs.a: $(KIT_OBJ) $(O)/link.id
$(O)/libweir.a $(O)/programs.a:
	$(archive)

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

# A plug-in that NCCL loads (NCCL_TUNER_PLUGIN); benchmarks find it next to the libraries.
$(O)/libnccl-tuner-weir.so: $(call obj,$(TUNER_SRC))
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libnccl-tuner-weir.so -o $@ $^ $(WEIR_LDFLAGS)

# Every benchmark consists of these, and of its main. MPI is opened at run time, or linked by MPI_LINK=1.
BENCH_PARTS := $(BENCH_OBJ) $(VERIFY_OBJ) $(TOPO_OBJ) $(O)/programs.a $(O)/libweir.a
$(BENCHES): $(BIN)/%: $(O)/obj/bench/%.o $(BENCH_PARTS)
	$(call link,$(LINK_CC),$(BENCH_LIBS) $(TOPO_LIBS))

$(BIN)/weir-topo: $(O)/obj/topo/cli/weir_topo.o $(TOPO_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call link,$(CC),$(TOPO_LIBS))

$(BIN)/weir-plan: $(call obj,$(PLAN_MAIN)) $(O)/programs.a $(O)/libweir.a
	$(call link,$(CC))

.SECONDARY: $(call obj,$(RESULTS_MAIN))
$(READERS): $(BIN)/weir-%: $(O)/obj/results/cli/weir_%.o $(RESULTS_OBJ) $(O)/programs.a $(O)/libweir.a
	$(call link,$(CC),$(GSL_LIBS) $(SQLITE_LIBS))

# weir-check runs the benchmarks as programs, and reads their results.
$(BIN)/weir-check: $(HEALTH_OBJ) $(RESULTS_OBJ) $(BENCH_PARTS)
	$(call link,$(LINK_CC),$(BENCH_LIBS) $(SQLITE_LIBS) $(TOPO_LIBS))

# The benchmarks and weir-check in one program, for packages. Its parts are their objects, with main renamed.
ONE_PARTS := $(patsubst bench/%.c,$(O)/one/%.o,$(BENCH_MAIN)) $(if $(HEALTH_SRC),$(O)/one/weir_check.o)
WEIR_BENCH := $(if $(HAVE_TOPO),$(O)/weir-bench)
weir-bench: $(WEIR_BENCH) ## all benchmarks in one program, for packages
$(O)/one/bench_%.o: $(O)/obj/bench/bench_%.o
	$(Q)mkdir -p $(@D) && objcopy --redefine-sym main=bench_$*_main $< $@
$(O)/one/weir_check.o: $(O)/obj/bench/health/cli/weir_check.o
	$(Q)mkdir -p $(@D) && objcopy --redefine-sym main=weir_check_main $< $@
$(O)/one/weir_bench_programs.h: $(O)/sources.list
	$(Q)mkdir -p $(@D) && printf 'PROGRAM("%s", %s)\n' $(foreach part,$(basename $(notdir $(ONE_PARTS))),$(subst weir_,weir-,$(part)) $(part)) >$@
$(O)/obj/bench/one/weir_bench.o: $(O)/one/weir_bench_programs.h
$(O)/obj/bench/one/weir_bench.o: EXTRA_CFLAGS := -I$(O)/one
$(O)/weir-bench: $(O)/obj/bench/one/weir_bench.o $(ONE_PARTS) $(filter-out %/weir_check.o,$(HEALTH_OBJ)) $(if $(HEALTH_SRC),$(RESULTS_OBJ)) $(BENCH_PARTS)
	$(call link,$(LINK_CC),$(BENCH_LIBS) $(SQLITE_LIBS) $(TOPO_LIBS))

# ---------------------------------------------------------- everyday goals
run: $(BIN)/bench_allreduce ## the main job: install what is missing, build what it runs, run NP=8 ranks of bench_allreduce (ARGS=...)
	$(Q)MPIRUN='$(MPIRUN)' ci/mpirun -np $(NP) $(BIN)/bench_allreduce $(ARGS)

deps: ## install what is missing
	$(Q)ci/deps

GENERATED_HEADERS := $(O)/one/weir_bench_programs.h $(if $(HAVE_PROTOBUF),$(O)/chakra.pb-c.c)
LINT_CFLAGS = $(CSTD) $(WARN) -Ilib/include -Ilib -I. -I$(O) -I$(O)/one $(TOPO_CFLAGS) $(GSL_CFLAGS) $(JANSSON_CFLAGS)
lint: $(GENERATED_HEADERS) ## warnings as errors, headers alone, scripts, format, blanks, spelling, words, links, dependencies
	$(Q)CFLAGS_LINT='$(LINT_CFLAGS)' MPICC='$(MPICC)' ci/lint

analyze: $(GENERATED_HEADERS) ## clang-tidy on all sources but the tests: about 25 minutes of one core
	$(Q)CFLAGS_LINT='$(LINT_CFLAGS) $(VERBS_CFLAGS)' MPICC='$(MPICC)' ci/analyze

packages: ## .deb, tarball and wheel into build/packages (ci/packages)
	$(Q)ci/packages

plot: $(if $(HAVE_RESULTS),$(BIN)/weir-report) ## plots of result files: CSV="a.csv b.csv" [OUT=folder]
	$(Q)results/plot $(if $(OUT),-o '$(OUT)') $(CSV)

clean: ## remove everything that was built
	$(call say,RM,$(O))
	$(Q)rm -rf $(O) $(BENCHES) $(TOOLS)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile ci/make/*.mk
	@echo '  V=1 shows commands; O=folder; BUILD=release|debug|asan|tsan|fuzz; CC=clang; NP, ARGS and'
	@echo '  MPIRUN_FLAGS configure make run.'

include ci/make/tests.mk
include ci/make/install.mk
-include $(patsubst %.o,%.d,$(ALL_OBJ) $(HOOKED_OBJ) $(LATE_OBJ) $(EMULATED_OBJ) $(EMULATED_KERNEL_OBJ) $(call emulated,$(GPU_TEST_SRC)))
