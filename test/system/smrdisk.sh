#!/usr/bin/env bash
# smrdisk: a loop device and ext4 on a simulated disk, contents, the recorded trace, the report.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
mkdir "$WORK/shown"
LOOP='' SERVER=''

show_disk() {  # MODEL OPTIONS...
  smrdisk -f --disk "$1" --size 256M --record "$WORK/trace" --report "$WORK/report" "${@:2}" \
    "$WORK/backing" "$WORK/shown" &
  SERVER=$!
  for _ in {1..100}; do
    [[ ! -e $WORK/shown/disk ]] || return 0
    sleep 0.1
  done
  fail "the disk does not appear"
}

# Waits until no other mount namespace has it mounted either: each test that makes one copies all
# mounts, and the kernel keeps the device until then.
unmount_ext4() {
  umount "$MNT"
  DEVICE=$LOOP
  wait_for_device
}

hide_disk() {
  [[ -z $LOOP ]] || losetup -d "$LOOP"
  LOOP=''
  umount "$WORK/shown"
  wait "$SERVER" || fail "smrdisk ended with $?"
  SERVER=''
}

# What a failure leaves: the filesystem, the loop device and the simulated disk, in this order.
clean_up() {
  umount -q "$MNT" || true
  [[ -z $LOOP ]] || losetup -d "$LOOP" 2>/dev/null || true
  umount -q "$WORK/shown" || true
  [[ -z $SERVER ]] || kill "$SERVER" 2>/dev/null || true
}
trap 'status=$?; clean_up; end_test $status' EXIT

say "ext4 on a simulated drive-managed disk"
show_disk ST8000AS0002
LOOP=$(losetup --direct-io=on --find --show "$WORK/shown/disk")
mkfs.ext4 -q "$LOOP"
mount "$LOOP" "$MNT"
cp -r "$TOP/src" "$MNT/src"
sync "$MNT/src/CMakeLists.txt"
unmount_ext4
e2fsck -fn "$LOOP" >"$WORK/e2fsck" || fail "$(cat "$WORK/e2fsck")"
hide_disk

say "the report and the trace"
python3 - "$WORK/report" <<'EOF'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["written_bytes"] > 1 << 20, report
assert report["flushes"] > 0 and report["seconds"] > 0 and report["cleaning_seconds"] > 0, report
EOF
smrsim run --disk WD5000YS --json "$WORK/trace" >"$WORK/replay"
python3 - "$WORK/report" "$WORK/replay" <<'EOF'
import json, sys
report, replay = (json.load(open(path)) for path in sys.argv[1:])
written = sum(kind["writes"]["bytes"] for kind in replay["classes"].values())
assert written >= report["written_bytes"] and replay["flushes"] == report["flushes"], replay
EOF

say "mounted again, in real time: the contents are as before"
show_disk WD5000YS --realtime
LOOP=$(losetup --direct-io=on --find --show "$WORK/shown/disk")
mount -o ro "$LOOP" "$MNT"
diff -r "$TOP/src" "$MNT/src" || fail "the contents differ"
unmount_ext4
hide_disk

say "zeros take no space"
show_disk cheetah9lp
dd if=/dev/zero of="$WORK/shown/disk" bs=1M count=256 conv=notrunc oflag=direct status=none
hide_disk
(($(stat -c %b "$WORK/backing") == 0)) || fail "the backing file has blocks"
