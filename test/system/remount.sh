#!/usr/bin/env bash
# Remounts: a filesystem that was mounted for reading becomes writable, and read-only again.
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

say "by mount(2) alone, which does not ask the daemon"
mount_fs
for ((i = 0; i < 20; i++)); do
  mount -i -o remount,ro "$MNT" || fail "remount,ro by the kernel"
  sleep "0.$((RANDOM % 3))"
  mount -i -o remount,rw "$MNT" || fail "remount,rw by the kernel"
  touch "$MNT/d/by-the-kernel-$i" || fail "the mount is writable, but the volume is not"
done
unmount_fs
fsck_fs --data

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

# Leaves bands that are worth cleaning, orphans that wait to be deleted, and dirty data.
make_work() {
  mkdir -p "$MNT/work"
  for ((i = 0; i < 160; i++)); do
    dd if=/dev/urandom of="$MNT/work/$i" bs=512K count=1 status=none
  done
  lazyfsctl sync "$MNT"
  for ((i = 0; i < 160; i += 2)); do rm "$MNT/work/$i"; done
  for ((i = 1; i < 20; i += 2)); do echo dirty >>"$MNT/work/$i"; done
}
expect_quiet() {
  local before
  before=$(sum_of)
  if lazyfsctl gc "$MNT" 2>"$WORK/gc"; then fail "gc of a read-only mount succeeds"; fi
  grep -q "Read-only" "$WORK/gc" || fail "gc of a read-only mount: $(cat "$WORK/gc")"
  lazyfsctl scrub "$MNT" >"$WORK/scrub" || fail "scrub: $(cat "$WORK/scrub")"
  lazyfsctl sync "$MNT"
  cat "$MNT"/work/* >/dev/null
  sleep 4  # longer than the periods of all background threads
  [[ $(sum_of) == "$before" ]] || fail "$1: the device is written to after the remount"
  [[ $(tail -c 6 "$MNT/work/3") == dirty ]] || fail "$1: what was written before is lost"
}

say "nothing is written once a mount is read-only"
mount_fs commit=1
make_work
remount ro || fail "remount,ro: $(cat "$WORK/remount")"
expect_quiet "by mount.lazyfs"
[[ $(lazyfsctl stats --all "$MNT") =~ state\ +read-only ]] || fail "stats do not say read-only"
remount rw,commit=1 || fail "remount,rw: $(cat "$WORK/remount")"
lazyfsctl gc "$MNT" || fail "gc of a mount that is writable again"
make_work
mount -i -o remount,ro "$MNT" || fail "remount,ro without the helper"
is_read_only() { [[ $(lazyfsctl stats --all "$MNT") =~ state\ +read-only ]]; }
until_true "the daemon does not notice the kernel's remount,ro" is_read_only
expect_quiet "by the kernel alone"
is_shown_as ro || fail "the mount is not shown as read-only"
mount -i -o remount,rw "$MNT" || fail "remount,rw without the helper"
can_write() { echo again >"$MNT/work/again" 2>/dev/null; }
until_true "the daemon does not notice the kernel's remount,rw" can_write
exec 7>"$MNT/work/open"
if remount ro; then fail "remount,ro succeeds while a file is open for writing"; fi
grep -q "a file is open for writing" "$WORK/remount" || fail "remount,ro: $(cat "$WORK/remount")"
is_shown_as rw || fail "a refused remount,ro is shown"
echo written >&7
exec 7>&-
unmount_fs
fsck_fs --data

# The options in force.
options() { lazyfsctl info --json "$MNT" | python3 -c 'import json, sys
print(json.load(sys.stdin)["options"])'; }
expect_options() {
  local option now
  now=$(options)
  for option; do [[ ,$now, == *",$option,"* ]] || fail "$option is not in force: $now"; done
}
# with_helpers COMMAND...: calls it with the helpers that `make install` puts into /sbin.
with_helpers() {
  # shellcheck disable=SC2016
  unshare -m sh -c 'mount -t overlay -o "lowerdir=$0:/usr/sbin" helpers /usr/sbin && exec "$@"' \
    "$WORK/root/sbin" "$@"
}

say "options"
mount_fs
remount commit=30,cache=64M,dirty=32M,placement=best,clean=greedy,gc=off,gc_low=40,gc_high=20 ||
  fail "remount with options: $(cat "$WORK/remount")"
remount gc_idle=9,gc_rate=1M || fail "remount,gc_idle: $(cat "$WORK/remount")"
expect_options commit=30 cache=64M dirty=32M placement=best clean=greedy gc=off gc_low=40 \
  gc_high=20 gc_idle=9 gc_rate=1048576
remount noatime,nodiscard || fail "remount,noatime: $(cat "$WORK/remount")"
expect_options noatime nodiscard commit=30
before=$(options)
for option in threads=3 spin=1 opens nowriteback readahead=64 logfile=/nowhere noallow_other \
    transport=read idmap debug request_timeout=9 awake=on on_error=/nowhere errors=continue \
    panic_trigger=/nowhere restart=once; do
  if remount "commit=9,$option"; then fail "remount with $option succeeds"; fi
  reason="option '${option%%=*}': cannot be changed by a remount"
  [[ $(grep -c "$reason" "$WORK/remount") == 1 ]] ||
    fail "remount with $option: $(cat "$WORK/remount")"
done
for option in typo commit=x gc_high=99; do
  if remount "commit=9,$option"; then fail "remount with $option succeeds"; fi
  grep -q "option '${option%%=*}'" "$WORK/remount" ||
    fail "remount with $option: $(cat "$WORK/remount")"
done
[[ $(options) == "$before" ]] || fail "a refused remount has changed options: $(options)"
remount ro,commit=11 || fail "remount,ro,commit=11: $(cat "$WORK/remount")"
expect_options ro commit=11
remount rw || fail "remount,rw: $(cat "$WORK/remount")"
expect_options rw commit=11 placement=best

say "an earlier remount that the daemon has not noticed takes no later one back"
make_writable_after_read_only() {
  python3 - "$MNT" <<'END'
import ctypes, fcntl, os, sys, time
MS_RDONLY, MS_REMOUNT = 1, 32
MAKE_WRITABLE, ANSWER_BYTES = 0x8100ED09, 256  # control.h: kMakeWritableRequest
libc = ctypes.CDLL(None, use_errno=True)
folder = os.open(sys.argv[1], os.O_RDONLY)
def remount(flags):
    if libc.mount(None, sys.argv[1].encode(), None, MS_REMOUNT | flags, None) != 0:
        raise OSError(ctypes.get_errno(), "remount")
remount(MS_RDONLY)
time.sleep(0.15)
remount(0)  # is noticed at once; the next change 100 ms later
time.sleep(0.02)
remount(MS_RDONLY)
fcntl.ioctl(folder, MAKE_WRITABLE, bytearray(ANSWER_BYTES))
time.sleep(0.3)
END
}
make_writable_after_read_only || fail "the daemon refuses to become writable"
expect_options rw
remount rw || fail "remount,rw: $(cat "$WORK/remount")"

say "options, as mount(8) finds the installed helpers"
DESTDIR=$WORK/root cmake --install "$BIN/.." --component helpers >/dev/null ||
  fail "the helpers cannot be installed"
ln -s "$BIN/lazyfs" "$BIN/lazyfsctl" "$WORK/root/sbin"
with_helpers mount -o remount,placement=age,commit=12 "$MNT" || fail "mount -o remount: status $?"
expect_options placement=age commit=12
if with_helpers mount -o remount,typo "$MNT" 2>"$WORK/remount"; then
  fail "remount,typo succeeds"
fi
grep -q "option 'typo': not known" "$WORK/remount" || fail "remount,typo: $(cat "$WORK/remount")"
with_helpers mount -o remount,ro "$MNT" || fail "mount -o remount,ro: status $?"
expect_options ro
with_helpers mount -o remount,rw "$MNT" || fail "mount -o remount,rw: status $?"

# These flags are those of a mount point, so one namespace does all of it.
access_times() {
  set -e
  expect() {
    mount -o "remount,$1" "$MNT"
    grep " $MNT " /proc/self/mounts | grep -q "[ ,]$2," || exit 1
    expect_options "${@:3}"
  }
  expect noatime noatime noatime
  expect commit=13 noatime noatime commit=13
  expect relatime relatime relatime
  expect commit=14 relatime relatime commit=14
  expect noatime,nodiratime noatime,nodiratime noatime nodiratime
  expect diratime noatime noatime
  [[ $(options) != *nodiratime* ]]
  expect atime relatime relatime
}
say "access times, as mount(8) shows them"
export MNT TEST
with_helpers bash -c "$(declare -f access_times expect_options options fail); access_times" ||
  fail "access times: $(options)"
unmount_fs

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
