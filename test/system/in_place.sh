#!/usr/bin/env bash
# On a block device no block is written in place: new files with an fsync each, overwrites,
# deletions and an unmount write each block of the device once at most, and none of the first and
# the last MiB.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
[[ $DEVICE_KIND == loop ]] || skip "an image keeps its write pointers in place"
new_fs 256M
# The library keeps a record of each write; with `deaf` no flush removes it.
note_unflushed deaf
mount_fs
for ((i = 0; i < 20; i++)); do
  dd if=/dev/urandom of="$MNT/f$i" bs=8K count=1 conv=fsync status=none
done
for ((i = 0; i < 20; i += 2)); do
  dd if=/dev/urandom of="$MNT/f$i" bs=4K count=1 conv=notrunc,fsync status=none
  rm "$MNT/f$((i + 1))"
done
sync "$MNT"
unmount_fs
python3 - "$WORK/unflushed" "$(blockdev --getsize64 "$DEVICE")" <<'PYTHON' || fail "see above"
import struct
import sys

MIB = 1 << 20
journal, size = open(sys.argv[1], "rb").read(), int(sys.argv[2])
at, appends, written = 0, 0, set()
while at + 32 <= len(journal):
    kind, _, offset, length = struct.unpack_from("<4Q", journal, at)
    at += 32
    if kind != 0:
        continue
    at += length
    appends += 1
    for block in range(offset // 4096, (offset + length) // 4096):
        if not MIB <= block * 4096 < size // MIB * MIB - MIB:
            sys.exit(f"block {block} lies in the first or the last MiB")
        if block in written:
            sys.exit(f"block {block} is written twice")
        written.add(block)
if appends < 40:
    sys.exit(f"only {appends} writes were seen")
print(f"{appends} appends, {len(written)} blocks, none in place")
PYTHON
fsck_fs
