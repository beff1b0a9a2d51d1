#!/usr/bin/env bash
# A filesystem that was mounted for reading becomes writable by a remount.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
is_shown_as() { grep " $MNT " /proc/self/mounts | grep -q " $1,"; }
remount() { mount.lazyfs "$DEVICE" "$MNT" -o "remount,$1" 2>"$WORK/remount"; }
sum_of() { sha256sum <"$IMAGE"; }

say "after a clean unmount"
new_fs 256M
mount_fs
mkdir "$MNT/d"
echo old >"$MNT/d/file"
unmount_fs
before=$(sum_of)
mount_fs ro
exec 7<"$MNT/d/file"  # stays open over the remount
cd "$MNT/d"
touch "$MNT/new" 2>/dev/null && fail "a file was made in a read-only mount"
[[ $(sum_of) == "$before" ]] || fail "a read-only mount has written to the device"
remount rw || fail "remount,rw: $(cat "$WORK/remount")"
is_shown_as rw || fail "the mount is not shown as writable"
[[ $(cat <&7) == old ]] || fail "a file that stayed open cannot be read"
echo appended >>file
echo new >other
python3 -c 'import os, sys
os.fsync(os.open(sys.argv[1], os.O_RDWR))' "$MNT/d/other" || fail "fsync"
rm file
mv other moved
cd /
exec 7<&-
remount ro || fail "remount,ro: $(cat "$WORK/remount")"
is_shown_as ro || fail "the mount is not shown as read-only"
remount rw || fail "a second remount,rw: $(cat "$WORK/remount")"
echo again >>"$MNT/d/moved"
unmount_fs
fsck_fs --data
mount_fs ro
[[ $(cat "$MNT/d/moved") == $'new\nagain' ]] || fail "what was written after the remount is lost"
[[ ! -e $MNT/d/file ]] || fail "a file that was deleted after the remount is back"
unmount_fs

say "after a crash"
mount_fs commit=300
for ((i = 0; i < 200; i++)); do echo "$i" >"$MNT/d/$i"; done
sync "$MNT/d"
exec 7>"$MNT/d/unlinked"
dd if=/dev/zero bs=1M count=8 status=none >&7
rm "$MNT/d/unlinked"
lazyfsctl sync "$MNT"
dd if=/dev/zero of="$MNT/d/unrecorded" bs=1M count=4 status=none
kill_fs
exec 7>&-
mount_fs ro
[[ $(cat "$MNT/d/199") == 199 ]] || fail "a durable file cannot be read"
remount rw || fail "remount,rw after a crash: $(cat "$WORK/remount")"
rm "$MNT/d/0"
echo written >"$MNT/d/1"
sync "$MNT/d/1"
kill_fs  # so the recovery by the remount is recovered
mount_fs ro
remount rw || fail "remount,rw after the second crash: $(cat "$WORK/remount")"
[[ $(cat "$MNT/d/1") == written ]] || fail "a write after the remount is lost"
unmount_fs
fsck_fs --data

say "a device that cannot be written"
if [[ $DEVICE_KIND == loop ]]; then
  blockdev --setro "$DEVICE"
  mount_fs ro
  remount rw && fail "a write-protected device became writable"
  grep -q "read-only" "$WORK/remount" || fail "no reason: $(cat "$WORK/remount")"
  is_shown_as ro || fail "the mount is shown as writable"
  [[ $(cat "$MNT/d/1") == written ]] || fail "a refused remount ends reading"
  unmount_fs
  blockdev --setrw "$DEVICE"
fi
fsck_fs
