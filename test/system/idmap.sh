#!/usr/bin/env bash
# Option idmap: an idmapped mount shows files under other owners, and makes them so.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
chmod 755 "$WORK"
new_fs 256M

say "without the option"
mount_fs
python3 "$HERE/idmap.py" "$MNT" "$WORK/mapped" refused || fail "see above"
unmount_fs

say "with it"
mount_fs idmap
if grep -q "no idmap" "$LOG"; then skip "this kernel has no idmapped mounts by FUSE"; fi
python3 "$HERE/idmap.py" "$MNT" "$WORK/mapped" || fail "see above"
lazyfsctl stats "$MNT" >/dev/null || fail "root may not ask for statistics"
lazyfsctl gc "$MNT" >/dev/null || fail "root may not ask for garbage collection"
if mount.lazyfs "$DEVICE" "$MNT" -o remount,noidmap 2>"$WORK/error"; then
  fail "a remount took noidmap"
fi
grep -q "noidmap" "$WORK/error" || fail "$(cat "$WORK/error")"
unmount_fs
fsck_fs
