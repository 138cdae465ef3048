# The commands of the project. Each sets up what it needs (scripts/setup.sh) and builds through the CMake
# presets; a prepared machine needs no network.
PREFIX ?= /usr/local
SETUP := scripts/setup.sh
LINT_FILES = $(shell find include src tools tests examples bench -name '*.h' -o -name '*.cpp')

.PHONY: demo test test-processors test-full bench docs lint format install package clean

# Trains a network that recognises digits on the best device present, and prints the path of its report.
demo:
	@$(SETUP) demo
	@cmake --preset demo >/dev/null
	cmake --build --preset demo --target volta_cli
	build/release/bin/volta train digits-cnn --epochs 2

test:
	@$(SETUP) test
	cmake --preset release
	cmake --build --preset release
	ctest --preset release

# Runs the tests of CPU computations with the instructions of older processors (VOLTA_CPU_ISA), and in a build
# without oneDNN. That build shares nearly all of its objects with the first one through ccache.
test-processors:
	@$(SETUP) processors
	cmake --preset release
	cmake --build --preset release --target volta_tests
	ctest --preset release -C Processors -R '^processor_'
	cmake --preset no-onednn
	cmake --build --preset no-onednn
	ctest --preset no-onednn -C Processors

# The same tests under the sanitizers, without the loadable backends, and built by Clang; more random programs, the
# whole suite on OpenCL, reports in a browser, Volta built inside another project, and every fuzz target for
# FUZZ_SECONDS.
test-full: test $(addprefix test-full-,random opencl kills browser downstream asan tsan cpu clang fuzz)

.PHONY: $(addprefix test-full-,random opencl kills browser downstream asan tsan cpu clang fuzz)
test-full-random: test
	ctest --preset release -C Full -R '^random_graphs.*full'
test-full-opencl: test
	ctest --preset release -C Full -R '^volta_tests_opencl_full'
test-full-kills: test
	ctest --preset release -C Full -R '^cli_kills_full$$'
test-full-browser: test
	@$(SETUP) full
	ctest --preset release -C Full -R '_in_browser$$'
test-full-downstream: test
	ctest --preset release -C Full -R '^install_(fetch_content|static_full)$$'
$(addprefix test-full-,asan tsan cpu clang): test-full-%:
	@$(SETUP) full
	cmake --preset $*
	cmake --build --preset $*
	ctest --preset $*
FUZZ_SECONDS ?= 600
test-full-fuzz:
	@$(SETUP) full
	cmake --preset fuzz -DVOLTA_FUZZ_SECONDS=$(FUZZ_SECONDS)
	cmake --build --preset fuzz
	ctest --preset fuzz

bench:
	@$(SETUP) bench
	cmake --preset demo -DVOLTA_BENCH=ON
	cmake --build --preset demo --target benchmarks
	@set -e; for program in build/release/bench/volta_*; do \
	  case $$program in *_sources|*_search) continue;; esac; \
	  echo "== $$program"; $$program; \
	done

# Builds the pages of docs/ as a site that can be opened as files. The tests check their code and links.
docs:
	@$(SETUP) docs
	mkdocs build --quiet --strict --clean
	@echo build/docs/index.html

lint:
	@$(SETUP) lint
	clang-format-19 --dry-run -Werror $(LINT_FILES)
	cmake --preset lint
	run-clang-tidy-19 -quiet -p build/lint '$(CURDIR)/(src|tools)/'

# Formats the sources as `make lint` requires. It runs twice, because reflowed comments settle on the second pass.
format:
	@$(SETUP) lint
	clang-format-19 -i $(LINT_FILES)
	clang-format-19 -i $(LINT_FILES)

install:
	@$(SETUP) demo
	cmake --preset demo
	cmake --build --preset demo --target volta_installed
	cmake --install build/release --prefix $(PREFIX)

# Makes a relocatable archive and Debian packages in build/packages.
package:
	@$(SETUP) package
	cmake --preset demo
	cmake --build --preset demo --target volta_installed
	rm -rf build/packages
	cpack --config build/release/CPackConfig.cmake -B build/packages
	@rm -rf build/packages/_CPack_Packages
	@du -h --apparent-size build/packages/*

clean:
	rm -rf build
