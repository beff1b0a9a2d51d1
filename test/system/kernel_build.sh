#!/usr/bin/env bash
# Configures and builds a Linux kernel on the mount. A build of the same sources on this machine's
# disk must give the same objects.
#   kernel_build.sh [TARGET]...     (vmlinux of tinyconfig)
# LINUX_SOURCE names another archive; JOBS is the number of parallel compilers (2).
. "$(dirname "$(readlink -f "$0")")/lib.sh"

archive=${LINUX_SOURCE:-/usr/src/linux-source-6.1.tar.xz}
[[ -e $archive ]] || fail "$archive does not exist: install linux-source-6.1"
for program in make gcc flex bison bc; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
targets=("${@:-vmlinux}")
start_test
new_fs 4G
mount_fs
# These variables make both builds write the same names and times into the objects.
export KBUILD_BUILD_TIMESTAMP='2020-02-02' KBUILD_BUILD_USER=user KBUILD_BUILD_HOST=host

# build FOLDER: unpacks and builds the sources there.
build() {
  mkdir "$1"
  tar -C "$1" --strip-components=1 --delay-directory-restore -xf "$WORK/linux.tar"
  {
    make -C "$1" tinyconfig && make -C "$1" -j "${JOBS:-2}" "${targets[@]}"
  } >"$WORK/build.log" 2>&1 || fail "building in $1: $(tail -n 3 "$WORK/build.log")"
}

# digests FOLDER FILE: writes the digests of all objects of the build to FILE.
digests() {
  (cd "$1" && find . -name '*.o' -o -name vmlinux -o -name '*.a' | sort | xargs sha256sum) >"$2"
}

xz -T0 -dc "$archive" >"$WORK/linux.tar"
say "building on lazyfs"
build "$MNT/linux"
digests "$MNT/linux" "$WORK/built"
say "$(wc -l <"$WORK/built") objects"
remount_fs
digests "$MNT/linux" "$WORK/again"
cmp "$WORK/built" "$WORK/again" || fail "objects changed when the filesystem was mounted again"
say "nothing is left to do"
make -C "$MNT/linux" -j1 "${targets[@]}" >"$WORK/build.log" 2>&1 || fail "make, mounted again"
grep -q '^  \(CC\|AS\) ' "$WORK/build.log" && fail "make built again: $(grep CC "$WORK/build.log")"
say "building on this machine's disk"
# The same path, because the compiler writes it into the objects.
unmount_fs
build "$MNT/linux"
digests "$MNT/linux" "$WORK/native"
cmp "$WORK/built" "$WORK/native" || fail "the objects differ"
rm -rf "$MNT/linux"
fsck_fs --data
