#!/usr/bin/env bash
# A directory of 150,000 files: a program that wants names gets no attributes, and one that wants
# attributes gets them without a LOOKUP for each.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

FILES=150000
LOOKUPS_MAX=$((FILES / 32))  # one entry in 64 comes without attributes

lookups() { lazyfsctl stats --json "$MNT" | figure operations.lookup; }
read_names() { (($(find "$MNT/d" -name 'f*' | wc -l) == FILES)) || fail "find -name: other names"; }
expect_few_lookups() {  # WHAT
  local count
  count=$(lookups)
  say "$1: $count lookups"
  ((count <= LOOKUPS_MAX)) || fail "$1: $count lookups"
}
mount_again() {
  unmount_fs
  mount_fs
}

start_test
new_fs 512M
mount_fs
python3 -c 'import os, sys
os.mkdir(sys.argv[1])
for i in range(int(sys.argv[2])):
    os.mknod(f"{sys.argv[1]}/f{i}")' "$MNT/d" "$FILES"

# Other tests drop the kernel's caches, which may happen between the two programs: tried again then.
for try in 1 2 3 4 5; do
  mount_again
  read_names
  expect_few_lookups "names"
  before=$(lookups)
  stat -c %s "$MNT/d/f100" "$MNT/d/f$((FILES - 100))" >/dev/null
  more=$(($(lookups) - before))
  ((more == 1)) && break
  say "try $try: $more lookups of an early and a late name"
done
((more == 1)) || fail "not the early names alone came with attributes"
# The kernel does not keep this listing, so the next one brings attributes.
(($(find "$MNT/d" -size 0 -type f | wc -l) == FILES)) || fail "find -size: other files"
expect_few_lookups "sizes after names"

mount_again
# Each name is looked at as soon as it is read.
python3 -c 'import os, sys
with os.scandir(sys.argv[1]) as entries:
    assert sum(1 for entry in entries if entry.stat().st_size == 0) == int(sys.argv[2])
' "$MNT/d" "$FILES"
expect_few_lookups "sizes"
# From the memory of the kernel.
read_names

mount_again
rm -r "$MNT/d"
expect_few_lookups "rm -r"
unmount_fs
fsck_fs
