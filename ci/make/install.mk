# Manual pages, shell completion, and the installed tree.

# Manual pages: of programs from their --help, of functions from the headers.
$(O)/man/man7/weir.7: docs/man/generate docs/man/helptext.py ci/nightly ci/mpirun $(wildcard lib/include/weir/*.h) $(BENCHES) $(TOOLS)
	$(call say,MAN,$(O)/man)
	$(Q)docs/man/generate $(O)/man $(BENCHES) $(TOOLS)

man: $(if $(HAVE_PYTHON),$(O)/man/man7/weir.7) ## manual pages into build/man

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
PUBLIC_HEADERS := $(wildcard lib/include/weir/*.h)
FOLDERS = PREFIX='$(PREFIX)' BINDIR='$(BINDIR)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' \
	DATADIR='$(DATADIR)' MANDIR='$(MANDIR)' DESTDIR='$(DESTDIR)'

install: all man $(if $(HAVE_PYTHON),$(O)/completion/_weir) ## all that was built: PREFIX=/usr/local, DESTDIR, LIBDIR, ... (docs/user/install.md)
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)$(FOLDERS) O='$(O)' VERSION='$(VERSION)' SONAME='$(SONAME)' PROGRAMS='$(BENCHES) $(TOOLS)' \
		ARCHIVES='$(filter %.a,$(LIBS))' HEADERS='$(PUBLIC_HEADERS)' \
		STATIC_LIBS='$(strip $(JANSSON_LIBS) $(CUDA_LIBS))' ci/install

.PHONY: uninstall
uninstall: ## remove what make install installed, with the same PREFIX, DESTDIR, ...
	$(call say,REMOVE,$(DESTDIR)$(PREFIX))
	$(Q)$(FOLDERS) ci/install remove
