# Targets for people; CMake and Ninja build them. `make help` lists the targets.
# All outputs are below build/: programs in build/bin, libraries in build/lib.

PREFIX  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(shell nproc)
# Many tests wait for a device or for time to pass.
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
CTEST   := ctest
CRASH_STATES ?= 1200000
SOAK_SECONDS ?= 7200
FUZZ_SECONDS ?= 600
CUTS ?= 200
# Operations of each of 4 processes in each of 8 rounds: a million in all.
RANDOM_OPERATIONS ?= 31250

.PHONY: all help demo demo-clean demo-hadoop check check-long check-random check-crash check-io-uring check-zoned check-soak check-fuzz check-asan check-tsan check-tidy bench bench-flame-graphs bench-engines bench-faults bench-zoned experiments install uninstall deb clean
.DEFAULT_GOAL := all

all:            ## the release build
	@./packages.sh build
	@cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@cmake --build build -j $(JOBS)

help:           ## this list
	@sed -n 's/^\([a-z-]*\): *[a-z ]*## /  make \1: /p' Makefile

demo: all       ## an emulated shingled disk, mounted at build/demo/mnt
	@tools/demo.sh up

demo-clean:     ## unmount and remove the demo
	@tools/demo.sh down

demo-hadoop: all ## sort 256 MiB with Hadoop on one lazyfs, and draw its bands
	@./packages.sh hadoop
	@tools/demo_hadoop.sh

check:          ## everything that every change must pass
	@./packages.sh build test suites
	@$(MAKE) --no-print-directory all
	@cmake --build build -j $(JOBS) --target tests
	$(CTEST) --preset check -j $(TEST_JOBS) </dev/null

check-long: all deb ## system tests at full size, random tests with all of their rounds
	@./packages.sh test suites-long browser hadoop
	@cmake --build build -j $(JOBS) --target tests
	$(CTEST) --preset check-long </dev/null

check-random: all ## a million random operations compared with a model, on disks of many kinds
	@./packages.sh test
	LAZYFS_BIN=$(CURDIR)/build/bin test/system/stress.sh $(RANDOM_OPERATIONS) 4

check-crash:    ## CRASH_STATES states after power cuts, and all pairs of operations
	@./packages.sh build test
	@cmake --preset release --log-level=WARNING && cmake --build build -j $(JOBS) --target crash_test
	printf '%s\n' '*TwoOperations*' '-*TwoOperations*' | \
	  LAZYFS_CRASH_STATES=$(CRASH_STATES) LAZYFS_CRASH_PAIRS=all \
	  xargs -P 2 -I '{}' build/test/crash_test '--gtest_filter={}'

check-io-uring: all ## the system tests of `make check` with all requests by io_uring
	@./packages.sh build test suites
	@cmake --build build -j $(JOBS) --target tests
	LAZYFS_TRANSPORT=io_uring $(CTEST) --preset check -L system -E _io_uring -j $(JOBS) </dev/null

check-zoned: all ## zoned disks in a QEMU guest; CUTS power cuts
	@./packages.sh build test zoned
	@cmake --build build -j $(JOBS) --target zoned_test
	@CUTS=$(CUTS) test/zoned/check.sh; status=$$?; [ $$status = 77 ] || exit $$status

check-soak: all ## overwrite, delete and clean for SOAK_SECONDS on a disk that is 95 % full
	@./packages.sh test
	LAZYFS_BIN=$(CURDIR)/build/bin test/system/soak.sh $(SOAK_SECONDS) 1G

check-fuzz:     ## fuzz all code that reads a disk, guided by coverage, FUZZ_SECONDS per target
	@./packages.sh build test fuzz
	@cmake --preset fuzz --log-level=WARNING && cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	test/fuzz/run.sh build/fuzz/bin $(FUZZ_SECONDS)

check-asan:     ## unit and system tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@./packages.sh build test suites
	@cmake --preset asan --log-level=WARNING && cmake --build --preset asan -j $(JOBS) --target all tests
	$(CTEST) --preset asan -j $(JOBS) </dev/null

check-tsan:     ## unit and system tests under ThreadSanitizer
	@./packages.sh build test suites
	@cmake --preset tsan --log-level=WARNING && cmake --build --preset tsan -j $(JOBS) --target all tests
	$(CTEST) --preset tsan -j $(JOBS) </dev/null

check-tidy:     ## clang-tidy over src/ and tools/, with the checks of .clang-tidy
	@./packages.sh build tidy
	@cmake --preset dev --log-level=WARNING
	run-clang-tidy-19 -quiet -p build/dev -j $(JOBS) '^$(CURDIR)/(src|tools)/'

bench: all      ## compare lazyfs with ext4 and with the cost of FUSE alone, for some hours; bench/compare --help
	@./packages.sh bench
	@cmake --build build -j $(JOBS) --target benchmarks
	@bench/compare --output build/bench

bench-flame-graphs: all ## flame graphs of what the CPUs do while files are unpacked, made and read; bench/flame_graphs --help
	@./packages.sh bench profile
	@cmake --build build -j $(JOBS) --target benchmarks
	@bench/flame_graphs

bench-zoned: all ## compare lazyfs with f2fs, btrfs and dm-zoned on a zoned disk in a QEMU guest
	@./packages.sh bench zoned
	@bench/zoned

bench-engines: all ## Kafka, MinIO and Spark on lazyfs, whose daemon is killed in between
	@./packages.sh engines
	@bench/kafka
	@bench/spark
	@bench/minio

bench-faults: all ## a TeraSort on five workers, three of whose filesystems fail in its middle
	@./packages.sh hadoop bench
	@bench/cluster_faults

experiments: all ## every experiment of the papers, overnight; QUICK=1: in a quarter of an hour
	@./packages.sh bench
	@cmake --build build -j $(JOBS) --target benchmarks
	@bench/experiments $(if $(QUICK),--quick)

install: all    ## install programs, libraries, header, man pages, mount helper; uses DESTDIR, PREFIX
	DESTDIR=$(DESTDIR) cmake --install build --strip

uninstall:      ## remove what the last install has installed; uses DESTDIR
	@test -e build/install_manifest.txt || { echo "make: nothing was installed from here" >&2; exit 1; }
	sed 's|^|$(DESTDIR)|' build/install_manifest.txt | xargs -d '\n' rm -f --
	@sed -En 's:^(.*/(doc|share)/lazyfs)/.*:$(DESTDIR)\1:p' build/install_manifest.txt | sort -u | \
	  xargs -d '\n' -I '{}' find '{}' -depth -type d -empty -delete

deb:            ## Debian packages in build/deb, checked by lintian
	@./packages.sh build deb
	rm -rf build/deb && mkdir -p build/deb/lazyfs
	tar -c --exclude=./build --exclude=./.git . | tar -x -C build/deb/lazyfs
	cd build/deb/lazyfs && dpkg-buildpackage --build=binary --no-sign --jobs=$(JOBS)
	lintian --fail-on error,warning --allow-root build/deb/*.changes

clean:          ## remove build/
	@test ! -d build/demo || tools/demo.sh down
	rm -rf build
