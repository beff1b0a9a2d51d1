#!/usr/bin/env bash
# The demonstration: an emulated shingled disk in a sparse file, a lazyfs on it, real work in it.
#   tools/demo.sh up      makes build/demo/disk.edi, mounts it at build/demo/mnt and works there;
#                         leaves it mounted
#   tools/demo.sh down    unmounts it and removes build/demo
set -euo pipefail

top=$(dirname "$(dirname "$(readlink -f "$0")")")
bin=$top/build/bin
demo=$top/build/demo
disk=$demo/disk.edi
mnt=$demo/mnt

say()  { printf '\n== %s\n' "$*"; }
run()  { printf '$ %s\n' "$*"; "$@"; }
die()  { echo "demo: $*" >&2; exit 1; }
# A path as the user may type it in the folder where this script was started.
short() { printf '%s' "${1#"$PWD"/}"; }

mounted() { mountpoint -q "$mnt" 2>/dev/null; }

down() {
  if mounted; then
    umount "$mnt" || die "$mnt: still in use: leave that folder and try again"
    "$bin/lazyfsctl" wait "$disk"
  fi
  rm -rf "$demo"
}

need_fuse() {
  [[ -e /dev/fuse ]] || modprobe fuse 2>/dev/null || true
  [[ -e /dev/fuse ]] || die "/dev/fuse: the kernel offers no FUSE here (a container needs \
--device /dev/fuse --cap-add SYS_ADMIN)"
  ((EUID == 0)) || die "mounting for all users takes root: run it as root"
}

make_disk() {
  say "An emulated shingled disk: 128 bands of 4096 blocks of 4096 bytes, 2 GiB, sparse"
  run "$bin/edicreate" -s4096 -b4096 -c128 -f"$disk"
  run "$bin/mkfs.lazyfs" -L demo "$disk"
  run "$bin/lazyfs" "$disk" "$mnt"
  run df -h "$mnt"
}

copy_files() {
  say "Copy the project's own sources, and compare"
  run cp -a "$top/src" "$mnt/src"
  run diff -r "$top/src" "$mnt/src"
  say "Pack and unpack an archive"
  run tar -C "$top" -cf "$mnt/src.tar" src
  mkdir "$mnt/unpacked"
  run tar -C "$mnt/unpacked" -xf "$mnt/src.tar"
  run diff -r "$top/src" "$mnt/unpacked/src"
}

compile_program() {
  say "Compile a program, and run it from the disk"
  cat >"$mnt/hello.c" <<'C'
#include <stdio.h>

int main(void) {
  puts("hello from a shingled disk");
  return 0;
}
C
  run cc -O2 -o "$mnt/hello" "$mnt/hello.c"
  run "$mnt/hello"
}

change_things() {
  say "Links, renames, overwriting in the middle, a sparse file, deleting"
  run ln -s hello.c "$mnt/link"
  run ln "$mnt/hello" "$mnt/hard-link"
  run mv "$mnt/unpacked" "$mnt/renamed"
  run dd if=/dev/urandom of="$mnt/numbers" bs=1M count=64 status=none
  run dd if=/dev/zero of="$mnt/numbers" bs=1M seek=16 count=16 conv=notrunc status=none
  run truncate -s 10G "$mnt/sparse"
  run rm -r "$mnt/renamed"
  run ls -l "$mnt"
}

remount() {
  say "Unmount, check, and mount again: everything is there"
  local before after
  before=$(cd "$mnt" && find . -type f ! -name sparse -print0 | sort -z | xargs -0 sha256sum)
  run umount "$mnt"
  run "$bin/lazyfsctl" wait "$disk"
  run "$bin/fsck.lazyfs" -n "$disk"
  run "$bin/lazyfs" "$disk" "$mnt"
  after=$(cd "$mnt" && find . -type f ! -name sparse -print0 | sort -z | xargs -0 sha256sum)
  [[ $before == "$after" ]] || die "the files differ after mounting again"
  echo "$(wc -l <<<"$after") files have the contents that they had before"
}

up() {
  need_fuse
  down
  mkdir -p "$mnt"
  trap 'echo "demo: failed; tools/demo.sh down takes away what it left" >&2' ERR
  make_disk
  copy_files
  compile_program
  change_things
  remount
  say "What the disk looks like now"
  "$bin/lazyfsctl" sync "$mnt"
  "$bin/edistats" "$disk" | awk '/Free/ { free++; if (free > 3) next } { print }'
  cat <<TEXT

lazyfs is mounted at $(short "$mnt"). Try these commands, one after the other:
  cp -a $(short "$top/docs") $(short "$mnt")
  $(short "$bin")/lazyfsctl sync $(short "$mnt")      makes all changes durable
  $(short "$bin")/edistats $(short "$disk")           bands, live and dead blocks
  $(short "$bin")/lazyfsctl stats $(short "$mnt")     what the daemon counts
  $(short "$bin")/lazyfsctl gc $(short "$mnt")        cleans bands
To unmount it:   umount $(short "$mnt")
To mount again:  $(short "$bin")/lazyfs $(short "$disk") $(short "$mnt")
To remove it:    make demo-clean
TEXT
}

case ${1:-} in
  up) up ;;
  down) down ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
