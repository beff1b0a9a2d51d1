# What the system tests share; sourced by them. A test gets an empty folder, a device of its own,
# and whatever happens, what it mounted, attached and started is gone when it ends.
#
# Environment:
#   LAZYFS_BIN      where the programs are (default: build/bin of this tree)
#   LAZYFS_DEVICE   loop (default): a loop device over a sparse file; image: the file itself
#   LAZYFS_WORK     where the folder is made (default /var/tmp); a real disk, not a tmpfs
#   LAZYFS_OPTIONS  mount options added to every mount
#   LAZYFS_SEED     for tests that draw lots
# Exit status: 0 passed, 1 failed, 77 cannot run here (no root, no FUSE).
#
# Variables for tests: WORK (the folder), IMAGE, DEVICE, MNT, DAEMON (pid while mounted, or empty).
# shellcheck shell=bash
set -euo pipefail

HERE=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
TOP=$(dirname "$(dirname "$HERE")")
BIN=${LAZYFS_BIN:-$TOP/build/bin}
DEVICE_KIND=${LAZYFS_DEVICE:-loop}
TEST=$(basename "$0" .sh)
PATH=$BIN:$PATH
export LC_ALL=C

WORK='' IMAGE='' DEVICE='' MNT='' DAEMON='' LOG=''
LOOPS=()
DAEMON_ENVIRONMENT=()  # NAME=VALUE...

say()  { printf '%s %s: %s\n' "$(date +%T)" "$TEST" "$*"; }
fail() { printf '%s: FAILED: %s\n' "$TEST" "$*" >&2; exit 1; }
skip() { printf '%s: cannot run here: %s\n' "$TEST" "$*" >&2; exit 77; }

start_test() {
  ((EUID == 0)) || skip "it takes root"
  [[ -e /dev/fuse ]] || modprobe fuse 2>/dev/null || true
  [[ -e /dev/fuse ]] || skip "no /dev/fuse"
  [[ -x $BIN/lazyfs ]] || fail "$BIN/lazyfs is not built"
  WORK=$(mktemp -d "${LAZYFS_WORK:-/var/tmp}/lazyfs-$TEST.XXXXXX")
  MNT=$WORK/mnt
  LOG=$WORK/lazyfs.log
  mkdir "$MNT"
  keep_reports
  trap 'end_test $?' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# Programs that were built with sanitizers report into files of the folder, of which a single one
# makes the test fail: a daemon's exit status does not always reach the test.
keep_reports() {
  local options
  for options in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
    export "$options=${!options:-}${!options:+:}log_path=$WORK/report"
  done
  ASAN_OPTIONS+=:verify_asan_link_order=0  # for note_unflushed
}

show_reports() {
  local reports=("$WORK"/report.*)
  [[ -e ${reports[0]} ]] || return 1
  printf '%s: FAILED: %s\n' "$TEST" "${#reports[@]} reports of sanitizers" >&2
  head -n 100 "${reports[@]:0:5}" >&2
}

# Called at the end, however it comes.
end_test() {
  local status=$1 loop
  trap - EXIT
  trap '' HUP INT TERM
  set +e
  ((status == 0 || status == 77)) || show_log
  cd /
  if [[ -n $DAEMON ]]; then
    # An unmount that hangs ends when the daemon does.
    timeout -k 1 20 umount "$MNT" 2>/dev/null
    kill -KILL "$DAEMON" 2>/dev/null
    wait "$DAEMON" 2>/dev/null
  fi
  grep -F " $WORK/" /proc/self/mounts | cut -d' ' -f2 | tac | xargs -r -n1 umount -l 2>/dev/null
  for loop in "${LOOPS[@]}"; do
    blockdev --setrw "$loop" 2>/dev/null
    losetup -d "$loop" 2>/dev/null
  done
  if show_reports; then status=1; fi
  if [[ -n ${LAZYFS_KEEP:-} ]]; then say "kept: $WORK"; else rm -rf --one-file-system "$WORK"; fi
  ((status != 0)) || say "passed"
  exit "$status"
}

show_log() {
  [[ -s $LOG ]] || return 0
  echo "--- the daemon's log, last lines:" >&2
  tail -n 30 "$LOG" >&2
  echo "---" >&2
}

# attach FILE: a loop device over it, in LOOP.
attach() {
  LOOP=$(losetup --find --show --direct-io=on "$1" 2>/dev/null) ||
    LOOP=$(losetup --find --show "$1") || skip "no loop device"
  LOOPS+=("$LOOP")
  blockdev --setrw "$LOOP"  # Linux keeps the write protection of the last user of the device
}

detach() {
  local loop rest=()
  losetup -d "$1"
  for loop in "${LOOPS[@]}"; do [[ $loop == "$1" ]] || rest+=("$loop"); done
  LOOPS=("${rest[@]}")
}

# new_device SIZE: a sparse device that holds nothing, in DEVICE; its file in IMAGE.
new_device() {
  IMAGE=$WORK/disk.img
  rm -f "$IMAGE"
  truncate -s "$1" "$IMAGE"
  DEVICE=$IMAGE
  if [[ $DEVICE_KIND == loop ]]; then
    attach "$IMAGE"
    DEVICE=$LOOP
  fi
}

# new_fs SIZE [OPTION OF mkfs.lazyfs]...
new_fs() {
  local size=$1
  shift
  if [[ $DEVICE_KIND == loop ]]; then
    new_device "$size"
    mkfs.lazyfs -q "$@" "$DEVICE" >"$WORK/mkfs.log" 2>&1 || fail "mkfs: $(cat "$WORK/mkfs.log")"
  else
    IMAGE=$WORK/disk.img DEVICE=$WORK/disk.img
    rm -f "$IMAGE"
    mkfs.lazyfs -q "$@" "$DEVICE" "$size" >"$WORK/mkfs.log" 2>&1 ||
      fail "mkfs: $(cat "$WORK/mkfs.log")"
  fi
}

# new_edi_fs OPTION OF edicreate...: a filesystem in an image of that geometry.
new_edi_fs() {
  IMAGE=$WORK/disk.edi DEVICE=$WORK/disk.edi
  rm -f "$IMAGE"
  edicreate "$@" -f"$IMAGE" >"$WORK/mkfs.log" 2>&1 || fail "edicreate: $(cat "$WORK/mkfs.log")"
  mkfs.lazyfs -q "$DEVICE" >"$WORK/mkfs.log" 2>&1 || fail "mkfs: $(cat "$WORK/mkfs.log")"
}

# mount_fs [OPTION,...]: in the foreground of a child of ours, so that its pid is known and its
# log kept; returns when the mount is usable.
mount_fs() {
  local options=${1:-}${1:+${LAZYFS_OPTIONS:+,}}${LAZYFS_OPTIONS:-} tries
  env "${DAEMON_ENVIRONMENT[@]}" lazyfs -f ${options:+-o "$options"} "$DEVICE" "$MNT" \
    </dev/null >>"$LOG" 2>&1 &
  DAEMON=$!
  for ((tries = 0; tries < 1200; tries++)); do
    if mountpoint -q "$MNT"; then return 0; fi
    if ! kill -0 "$DAEMON" 2>/dev/null; then break; fi
    sleep 0.05
  done
  DAEMON=''
  fail "mount: $(tail -n 3 "$LOG")"
}

# Afterwards everything is durable and the device is free.
unmount_fs() {
  local status=0
  lazyfsctl sync "$MNT" || fail "sync before the unmount"
  timeout -k 1 300 umount "$MNT" || fail "umount"
  wait "$DAEMON" || status=$?
  DAEMON=''
  ((status == 0)) || fail "the daemon ended with status $status"
}

# As a power cut does to a machine, kill -9 does to a daemon: nothing is finished.
kill_fs() {
  kill -KILL "$DAEMON"
  wait "$DAEMON" 2>/dev/null || true
  DAEMON=''
  umount -l "$MNT" || fail "umount after kill -9"
}

# note_unflushed [deaf]: from the next mount on it is noted what the device held before each write
# that no flush covers, with `deaf` also before those that one does. See unflushed.cc.
note_unflushed() {
  local library
  library=$(readlink -f "$BIN/../test/libunflushed.so")
  [[ -e $library ]] || fail "$library is not built; ninja -C build unflushed"
  DAEMON_ENVIRONMENT=("LD_PRELOAD=$library" "LAZYFS_UNFLUSHED_OF=$DEVICE"
                      "LAZYFS_UNFLUSHED_JOURNAL=$WORK/unflushed")
  if [[ ${1:-} == deaf ]]; then DAEMON_ENVIRONMENT+=(LAZYFS_UNFLUSHED_DEAF=1); fi
}

# drop_unflushed [SEED]: what the daemon, which must have been killed, had written since the last
# flush is lost: all of it, or some by lot.
drop_unflushed() {
  python3 "$HERE/unflushed.py" drop "$DEVICE" "$WORK/unflushed" "$@" || fail "unflushed.py"
}

# fsck_fs [OPTION]...: it must be clean.
fsck_fs() {
  local status=0
  fsck.lazyfs -n "$@" "$DEVICE" >"$WORK/fsck.log" 2>&1 || status=$?
  ((status == 0)) || fail "fsck.lazyfs -n: status $status: $(tail -n 20 "$WORK/fsck.log")"
}

remount_fs() {
  unmount_fs
  fsck_fs
  mount_fs "${1:-}"
}

# until_true WHAT COMMAND...: waits, a minute at most, for what happens by itself but not at once.
until_true() {
  local what=$1 tries
  shift
  for ((tries = 0; tries < 600; tries++)); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  fail "$what"
}

# totals NAME: a figure of edistats --json.
totals() {
  edistats --json "$DEVICE" >"$WORK/edistats.json" || fail "edistats"
  python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["totals"][sys.argv[2]])' "$WORK/edistats.json" "$1"
}

# new_seed: LAZYFS_SEED or one drawn, printed, in SEED.
new_seed() {
  SEED=${LAZYFS_SEED:-$((RANDOM * 32768 + RANDOM))}
  say "LAZYFS_SEED=$SEED repeats this run"
}
