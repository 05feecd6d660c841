# The only entry point: everything below drives CMake, see CMakePresets.json for the flavours. `make T=name` is `make test T=name`.
JOBS   ?= $(shell nproc)
PREFIX ?= /usr/local
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := $(if $(T),test,all)

build  = scripts/configure $(1) && cmake --build --preset $(1) -j $(JOBS) $(2)
SOURCES = $(shell tests/habits/sources)

.PHONY: all lib examples demo test busy asan tsan bench sim mutations limits kill clusters fuzz python test-python python-torch python-torch-suite compare model coverage docs format install clean

all:
	@$(call build,release,)

# The library and the gradwire command: what `make install` installs.
lib:
	@$(call build,release,--target gradwire-installed)

examples:
	@$(call build,release,--target gradwire-examples)

demo:
	@scripts/setup build
	@$(call build,release,--target example-rl_cartpole gradwire-tool)
	build/bin/rl_cartpole

# T="name ..." builds and runs only the tests whose names contain one of them.
test:
	@scripts/setup test
	@$(if $(T),JOBS=$(JOBS) scripts/build-tests $(T),$(call build,release,))
	GW_TEST_RAN=build/tests-passed build/bin/gradwire-tests $(T)
	$(if $(T),,tests/habits/faults build build/tests-passed)

# Tests hold on a machine that others use: all of them three times (TIMES), beside eight processes that compute (LOAD).
busy:
	@scripts/setup busy
	@$(call build,release,)
	scripts/busy $(or $(LOAD),8) $(or $(TIMES),3) build/bin/gradwire-tests $(T)

# Sanitizers slow everything down, so that repetitions are divided by SCALE. They halt on the first error.
asan:
	@scripts/setup test
	@$(call build,asan,)
	SCALE=10 ASAN_OPTIONS=detect_leaks=1:halt_on_error=1:detect_stack_use_after_return=1:allocator_may_return_null=1 \
	    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build-asan/bin/gradwire-tests $(T)

tsan:
	@scripts/setup test
	@$(call build,tsan,)
	SCALE=10 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1 build-tsan/bin/gradwire-tests $(T)

bench:
	@$(call build,release,--target gw-bench)
	build/bin/gw-bench

simulated = $(or $(F),$(if $(SEED)$(SEEDS),jobs_sim,sim session))
# SEED=7 repeats one mixed workload and says what was done to it, SEEDS=20000 walks through many; F=name picks other tests.
sim:
	@scripts/setup test
	@JOBS=$(JOBS) scripts/build-tests $(simulated)
	@rm -f build/sim.log
	$(if $(SEED),SEED=$(SEED)) $(if $(SEEDS),SEEDS=$(SEEDS) GW_TEST_LIMIT_S=36000) \
	    JOBS_LOG=$(CURDIR)/build/sim.log build/bin/gradwire-tests $(simulated)
	@if [ -f build/sim.log ]; then cat build/sim.log; fi

# F=codec picks a target (scripts/fuzz lists them), T=60 how long; `scripts/fuzz keep codec` keeps what was learnt.
fuzz:
	@scripts/setup fuzz
	@$(call build,fuzz,--target fuzz-$(F))
	scripts/fuzz run $(F) $(or $(T),60)

# What the tests reach, by room. Tests that judge the sources or kill their workers are left to `make test`.
coverage:
	@scripts/setup test
	@$(call build,coverage,)
	-SCALE=10 build-coverage/bin/gradwire-tests $(T)
	scripts/coverage build-coverage

# The examples under each limit of the system, every value: tests/examples/limits_test.c; and tensors of 4 GiB.
limits:
	@$(call build,release)
	GW_LIMITS=all GW_TEST_LIMIT_S=3600 build/bin/gradwire-tests limits large_sum.counts

# For each mutation of tests/sim/mutation_seeds.txt (or each of BUG="name ..."), the first seed that finds it.
mutations:
	@scripts/setup test
	@$(call build,release,--target gradwire-mutations)
	scripts/mutations build/bin/gradwire-mutations $(BUG)

# Kills workers of real jobs N times and says how long the others took to know.
N ?= 1000
kill:
	@scripts/setup test
	@$(call build,release,--target gradwire-tests)
	@rm -f build/kills
	KILLS=$(N) GW_KILL_REPORT=build/kills GW_TEST_LIMIT_S=3600 build/bin/gradwire-tests --jobs 3 kill.
	@scripts/kills build/kills

# Launchers of others, and hosts with links that fail, also where it takes long.
clusters:
	@scripts/setup clusters
	@$(call build,release,)
	GW_CLUSTERS=1 build/bin/gradwire-tests clusters_

# The Python module, in build/python: PYTHONPATH=build/python.
python:
	@scripts/setup python
	@$(call build,release,--target gradwire-python --target gradwire-tool)

test-python: python
	cd python/tests && GW_BUILD_DIR=$(CURDIR)/build PYTHONPATH=$(CURDIR)/build/python PYTHONDONTWRITEBYTECODE=1 \
	    /usr/bin/python3 -m pytest -q -p no:cacheprovider $(F)

# The backend of torch.distributed.rpc for the installed PyTorch, in build/python/gradwire/torch. Without PyTorch's headers,
# which other systems than Debian have to install, it is left out.
python-torch:
	@scripts/setup torch
	@$(call build,release,--target gradwire-python --target gradwire-tool)
	@if cmake --build build --target help | grep -q gradwire-torch; then $(call build,release,--target gradwire-torch); \
	else echo "PyTorch and its headers are not installed: no backend of torch.distributed.rpc"; fi

# PyTorch's own tests of RPC with gradwire and with TensorPipe; LIMIT=300 seconds for each, F=RpcTest some.
python-torch-suite: python-torch
	cd python/tests && PYTHONPATH=$(CURDIR)/build/python PYTHONDONTWRITEBYTECODE=1 \
	    /usr/bin/python3 torch_table.py --limit $(or $(LIMIT),300) -k "$(F)"

# Operators beside PyTorch's, where it is installed. N=20 rounds, SEED=1.
compare:
	@$(call build,release,--target gradwire-shared)
	@tools/compare/compare.py $(or $(N),20) $(SEED) || [ $$? = 77 ]

# Formal models, by Spin; FULL=1 for those that take minutes.
model:
	@scripts/setup model
	docs/models/check $(F)

# The site build/docs/html/index.html and pages of section 3 of the manual, which `make install` installs once they are made.
docs:
	scripts/docs build/docs

format:
	@clang-format -i $(SOURCES)

# PREFIX=/usr DESTDIR=folder for a package.
install: lib
	DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

clean:
	rm -rf build build-asan build-tsan build-fuzz build-coverage compile_commands.json
