#!/usr/bin/env bash
# Errors on a mount: which calls report a failed write, that a damaged block affects no other block,
# and how a filesystem reports that it has become read-only.
#
# The image is on a small filesystem in memory. When that is full, writes to the device fail.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
HOST=$WORK/host
mkdir "$HOST"
mount -t tmpfs -o size=96M,mode=755 lazyfs-errors "$HOST" || skip "no tmpfs"

# image_on_host: makes an empty filesystem there and sets DEVICE.
image_on_host() {
  IMAGE=$HOST/disk.img DEVICE=$HOST/disk.img
  rm -f "$IMAGE"
  mkfs.lazyfs -q "$DEVICE" 256M || fail "mkfs"
}
fill_host()  { dd if=/dev/zero of="$HOST/filler" bs=64K status=none 2>/dev/null || true; }
empty_host() { rm "$HOST/filler"; }
stat_of() {
  lazyfsctl stats --all "$MNT" | awk -v name="$1" '$1 == name { $1 = ""; print substr($0, 2) }'
}

# Without the kernel's write-back cache, which would also change times while nothing can be written:
# the log's bands would fail, and the filesystem would become read-only.
for options in commit=1,opens commit=1; do
  say "data that cannot be written ($options)"
  image_on_host
  mount_fs "$options,nowriteback"
  mkfifo "$WORK/step" "$WORK/done"
  python3 "$HERE/errors.py" writers "$MNT" "${options#commit=1}" <"$WORK/step" >"$WORK/done" &
  writers=$!
  exec 8>"$WORK/step" 9<"$WORK/done"
  read -r -u 9 _ || fail "the writers"  # they have made their files durable
  fill_host
  echo go >&8
  read -r -u 9 _ || fail "the writers"  # they have written
  wrote_in_vain() { (($(stat_of data.write_back_errors) > 0)); }
  until_true "no write-back error was counted while nothing could be written" wrote_in_vain
  echo go >&8
  read -r -u 9 _ || fail "the writers, while nothing could be written"
  empty_host
  echo go >&8
  wait "$writers" || fail "the writers, see above"
  exec 8>&- 9<&-
  rm "$WORK/step" "$WORK/done"
  [[ $(stat_of state) == writable ]] || fail "the filesystem is $(stat_of state)"
  unmount_fs
  fsck_fs --data
  mount_fs
  python3 "$HERE/errors.py" written "$MNT" || fail "see above"
  unmount_fs
done

say "a damaged block"
image_on_host
mount_fs
python3 "$HERE/errors.py" make "$MNT/file" || fail "see above"
unmount_fs
python3 "$HERE/errors.py" damage "$IMAGE" || fail "see above"
mount_fs
python3 "$HERE/errors.py" read "$MNT/file" || fail "see above"
[[ $(stat_of state) == writable ]] || fail "the filesystem is $(stat_of state)"
lazyfsctl scrub "$MNT" >"$WORK/scrub" && fail "scrub found nothing"
[[ $(grep -c byte "$WORK/scrub") == 1 ]] || fail "scrub: $(cat "$WORK/scrub")"
unmount_fs

say "metadata that cannot be written"
image_on_host
cat >"$WORK/hook" <<END
#!/bin/sh
echo "\$# \$*" >>"$WORK/hooked"
END
chmod +x "$WORK/hook"
mount_fs "commit=1,nosuid,nodev,errors=remount-ro,on_error=$WORK/hook"
echo kept >"$MNT/kept"
sync "$MNT/kept"
exec 7>"$MNT/open"
fill_host
for ((i = 0; i < 100000; i++)); do : 2>/dev/null >"$MNT/$i" || break; done
gave_up() { [[ $(stat_of state) == "read-only after an error" ]]; }
until_true "the filesystem is not read-only" gave_up
grep -q "read-only" "$LOG" || fail "the log does not report it"
until_true "the program of on_error is not started" test -s "$WORK/hooked"
[[ $(cat "$WORK/hooked") == "2 read-only $MNT" ]] || fail "on_error: $(cat "$WORK/hooked")"
status=0
lazyfsctl health "$MNT" >"$WORK/health" || status=$?
((status == 4)) || fail "health after an error: status $status: $(cat "$WORK/health")"
grep -q "it is read-only after an error" "$WORK/health" || fail "health: $(cat "$WORK/health")"
touch "$MNT/new" 2>"$WORK/touch" && fail "a file was made in a filesystem that is read-only"
grep -q "Read-only file system" "$WORK/touch" || fail "touch: $(cat "$WORK/touch")"
grep " $MNT " /proc/self/mounts | grep -q " rw," || fail "remounted under an open file"
[[ $(cat "$MNT/kept") == kept ]] || fail "durable data cannot be read"
exec 7>&-
shown() { grep " $MNT " /proc/self/mounts | grep -q " ro,nosuid,nodev"; }
until_true "the mount is not shown as read-only: $(grep " $MNT " /proc/self/mounts)" shown
python3 -c 'import os, sys
sys.exit(not os.statvfs(sys.argv[1]).f_flag & os.ST_RDONLY)' "$MNT" || fail "not in statvfs"
[[ $(cat "$MNT/kept") == kept ]] || fail "durable data cannot be read"
empty_host
mount.lazyfs "$DEVICE" "$MNT" -o remount,rw 2>"$WORK/remount" && fail "remount,rw after an error"
grep -q "metadata log could not be written" "$WORK/remount" ||
  fail "no reason: $(cat "$WORK/remount")"
shown || fail "a refused remount is shown as writable"
umount "$MNT" || fail "umount"
wait "$DAEMON" && fail "the daemon reports success"
DAEMON=''
fsck_fs --data
mount_fs
[[ $(cat "$MNT/kept") == kept ]] || fail "durable data is lost"
touch "$MNT/new" || fail "after mounting again it is not writable"
unmount_fs

shown_read_only() { grep " $MNT " /proc/self/mounts | grep -q " ro,"; }
# fail_metadata OPTIONS: a mount whose metadata cannot be written.
fail_metadata() {
  image_on_host
  mount_fs "commit=1,$1"
  fill_host
  for ((i = 0; i < 100000; i++)); do : 2>/dev/null >"$MNT/$i" || break; done
  until_true "the filesystem is not read-only" gave_up
  touch "$MNT/new" 2>/dev/null && fail "a file was made in a filesystem that is read-only"
  empty_host
}
end_failed() {
  umount "$MNT" || fail "umount"
  wait "$DAEMON" && fail "the daemon reports success"
  DAEMON=''
  fsck_fs
}

say "errors=panic"
trigger=$WORK/trigger
: >"$trigger"
fail_metadata "errors=panic,panic_trigger=$trigger"
until_true "the machine is not crashed" test -s "$trigger"
[[ $(cat "$trigger") == c ]] || fail "written to the trigger: $(cat "$trigger")"
until_true "not read-only after a panic that did not happen" shown_read_only
end_failed

say "errors=continue"
fail_metadata errors=continue
sleep 2  # a remount would have been tried
grep " $MNT " /proc/self/mounts | grep -q " rw," || fail "errors=continue remounts"
repeated=$(grep -c "commit failed" "$LOG" || true)
((repeated <= 20)) || fail "the log says $repeated times that a commit failed"
end_failed
umount "$HOST"
