# Common functions of the system tests, which source this file. A test gets an empty folder and its
# own device. At its end, also after a failure, all its mounts, loop devices and processes are
# removed.
#
# Environment:
#   LAZYFS_BIN      folder of the programs (default: build/bin of this tree)
#   LAZYFS_DEVICE   loop (default): a loop device over a sparse file; image: the file itself
#   LAZYFS_WORK     parent of the test's folder (default /var/tmp); on a real disk, not a tmpfs
#   LAZYFS_OPTIONS  mount options added to every mount
#   LAZYFS_TRANSPORT  read (default), io_uring: of each mount of mount_fs that names no transport
#   LAZYFS_SEED     seed of random tests
#   LAZYFS_KEEP     if set, the test's folder is not removed
# Exit status: 0 passed, 1 failed, 77 cannot run here (no root, no FUSE).
#
# Variables for tests: WORK (the folder), IMAGE, DEVICE, MNT, DAEMON (pid while mounted, or empty).
# shellcheck shell=bash
set -euo pipefail

HERE=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
TOP=$(dirname "$(dirname "$HERE")")
BIN=${LAZYFS_BIN:-$TOP/build/bin}
DEVICE_KIND=${LAZYFS_DEVICE:-loop}
TRANSPORT=${LAZYFS_TRANSPORT:-read}
TEST=$(basename "$0" .sh)
PATH=$BIN:$PATH
export LC_ALL=C

WORK='' IMAGE='' DEVICE='' MNT='' DAEMON='' LOG=''
LOOPS=()
DAEMON_ENVIRONMENT=()  # NAME=VALUE...
URING=/sys/module/fuse/parameters/enable_uring URING_BEFORE=''

say()  { printf '%s %s: %s\n' "$(date +%T)" "$TEST" "$*"; }
fail() { printf '%s: FAILED: %s\n' "$TEST" "$*" >&2; exit 1; }
skip() { printf '%s: cannot run here: %s\n' "$TEST" "$*" >&2; exit 77; }

start_test() {
  ((EUID == 0)) || skip "requires root"
  [[ -e /dev/fuse ]] || modprobe fuse 2>/dev/null || true
  [[ -e /dev/fuse ]] || skip "no /dev/fuse"
  [[ -x $BIN/lazyfs ]] || fail "$BIN/lazyfs is not built"
  [[ $TRANSPORT == read || -e $URING ]] || skip "this kernel has no FUSE over io_uring"
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

# Programs built with sanitizers write their reports to files in the folder. One report makes the
# test fail, because a daemon's exit status does not always reach the test.
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

# Runs at the end of the test: success, failure or signal.
end_test() {
  local status=$1 loop
  trap - EXIT
  trap '' HUP INT TERM
  set +e
  restore_uring
  ((status == 0 || status == 77)) || show_log
  cd /
  if [[ -n $DAEMON ]]; then
    # An unmount that hangs ends when the daemon ends.
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

# attach FILE: attaches a loop device to it and sets LOOP.
attach() {
  LOOP=$(losetup --find --show --direct-io=on "$1" 2>/dev/null) ||
    LOOP=$(losetup --find --show "$1") || skip "no loop device"
  LOOPS+=("$LOOP")
  blockdev --setrw "$LOOP"  # Linux keeps the write protection of the device's previous user
}

detach() {
  local loop rest=()
  losetup -d "$1"
  for loop in "${LOOPS[@]}"; do [[ $loop == "$1" ]] || rest+=("$loop"); done
  LOOPS=("${rest[@]}")
}

# new_device SIZE: makes an empty sparse device. Sets DEVICE, and IMAGE to its file.
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

# new_edi_fs OPTION OF edicreate...: makes a filesystem in an image of that geometry.
new_edi_fs() {
  IMAGE=$WORK/disk.edi DEVICE=$WORK/disk.edi
  rm -f "$IMAGE"
  edicreate "$@" -f"$IMAGE" >"$WORK/mkfs.log" 2>&1 || fail "edicreate: $(cat "$WORK/mkfs.log")"
  mkfs.lazyfs -q "$DEVICE" >"$WORK/mkfs.log" 2>&1 || fail "mkfs: $(cat "$WORK/mkfs.log")"
}

# mount_fs [OPTION,...]: mounts, with the options and the transport of the environment.
mount_fs() {
  local options=${1:-}${1:+${LAZYFS_OPTIONS:+,}}${LAZYFS_OPTIONS:-}
  if [[ $TRANSPORT == read || ,$options == *,transport=* ]]; then
    start_daemon "$options"
  else
    with_uring start_daemon "$options${options:+,}transport=$TRANSPORT"
    [[ $(transport_kind) == "$TRANSPORT" ]] || fail "requests come by $(transport_kind)"
  fi
}

# start_daemon OPTIONS: starts the daemon in the foreground of a child process, so that the test
# knows its pid and has its log. Returns when the mount answers: it is listed before its daemon and
# the kernel have agreed on anything.
start_daemon() {
  local options=$1 tries
  wait_for_device
  env "${DAEMON_ENVIRONMENT[@]}" lazyfs -f ${options:+-o "$options"} "$DEVICE" "$MNT" \
    </dev/null >>"$LOG" 2>&1 &
  DAEMON=$!
  for ((tries = 0; tries < 1200; tries++)); do
    if mountpoint -q "$MNT" && stat "$MNT" &>/dev/null; then return 0; fi
    if ! kill -0 "$DAEMON" 2>/dev/null; then break; fi
    sleep 0.05
  done
  DAEMON=''
  fail "mount: $(tail -n 3 "$LOG")"
}

# Makes everything durable, unmounts, and waits until the daemon has released the device.
unmount_fs() {
  local status=0
  lazyfsctl sync "$MNT" || fail "sync before the unmount"
  timeout -k 1 300 umount "$MNT" || fail "umount"
  wait "$DAEMON" || status=$?
  DAEMON=''
  ((status == 0)) || fail "the daemon ended with status $status"
}

# Kills the daemon. Like a power cut, kill -9 leaves all work unfinished. The kernel may hold the
# device for a moment longer, for an overlay that was on it or a process that exits: mount_fs waits.
kill_fs() {
  kill -KILL "$DAEMON"
  wait "$DAEMON" 2>/dev/null || true
  DAEMON=''
  umount -l "$MNT" || fail "umount after kill -9"
}

# note_unflushed [deaf]: from the next mount on, records the contents of the device before each
# write that no flush covers yet. With `deaf`, no flush counts. See unflushed.cc.
note_unflushed() {
  local library
  library=$(readlink -f "$BIN/../test/libunflushed.so")
  [[ -e $library ]] || fail "$library is not built; ninja -C build unflushed"
  DAEMON_ENVIRONMENT=("LD_PRELOAD=$library" "LAZYFS_UNFLUSHED_OF=$DEVICE"
                      "LAZYFS_UNFLUSHED_JOURNAL=$WORK/unflushed")
  if [[ ${1:-} == deaf ]]; then DAEMON_ENVIRONMENT+=(LAZYFS_UNFLUSHED_DEAF=1); fi
}

# drop_unflushed [SEED]: undoes the daemon's writes since the last flush: all of them, or with SEED
# a random part. REQUIRES: the daemon was killed.
drop_unflushed() {
  python3 "$HERE/unflushed.py" drop "$DEVICE" "$WORK/unflushed" "$@" || fail "unflushed.py"
}

# Waits until no process and no mount has the device. The kernel keeps it for a moment after
# kill -9, and after an unmount until no other mount namespace has the mount: each test that makes
# such a namespace copies all mounts.
wait_for_device() {
  lazyfsctl wait --timeout 60 "$DEVICE" || fail "the kernel keeps $DEVICE"
}

# fsck_fs [OPTION]...: checks that the filesystem is clean.
fsck_fs() {
  wait_for_device
  local status=0
  fsck.lazyfs -n "$@" "$DEVICE" >"$WORK/fsck.log" 2>&1 || status=$?
  ((status == 0)) || fail "fsck.lazyfs -n: status $status: $(tail -n 20 "$WORK/fsck.log")"
}

remount_fs() {
  unmount_fs
  fsck_fs
  mount_fs "${1:-}"
}

# until_true WHAT COMMAND...: waits at most a minute until the command succeeds.
until_true() {
  local what=$1 tries
  shift
  for ((tries = 0; tries < 600; tries++)); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  fail "$what"
}

# stop_daemon: the daemon answers nothing until a `kill -CONT`. On a busy machine its threads run on
# for a moment after the signal.
stop_daemon() {
  kill -STOP "$DAEMON"
  until_true "the daemon does not stop" is_stopped
}
is_stopped() { [[ -z $(grep -L '^State:.*T (stopped)' /proc/"$DAEMON"/task/*/status) ]]; }

# with_uring COMMAND...: runs it while the kernel offers FUSE over io_uring. A mount keeps what it
# was offered, so the switch is put back at once. Tests that run at the same time wait for each
# other.
with_uring() {
  lock_uring
  URING_BEFORE=$(<"$URING")
  echo Y >"$URING"
  "$@" 7>&-
  restore_uring
}
lock_uring() {
  exec 7>/run/lazyfs-test-uring.lock
  flock 7
}
restore_uring() {
  [[ -z $URING_BEFORE ]] || echo "$URING_BEFORE" >"$URING"
  URING_BEFORE=''
  exec 7>&-
}

# figure KEY.KEY...: prints a value of the JSON on standard input.
figure() {
  python3 -c 'import functools, json, sys
print(functools.reduce(lambda o, k: o[k], sys.argv[1].split("."), json.load(sys.stdin)))' "$1"
}

# transport_kind: how requests come to the mount.
transport_kind() { lazyfsctl stats --json "$MNT" | figure transport.kind; }

# totals NAME: prints a total of edistats --json.
totals() {
  edistats --json "$DEVICE" >"$WORK/edistats.json" || fail "edistats"
  python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["totals"][sys.argv[2]])' "$WORK/edistats.json" "$1"
}

# find_debian_mirror [SUITE]: sets SUITE (that of this machine), and MIRROR to where this machine's
# apt gets it from.
find_debian_mirror() {
  SUITE=${1:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}
  # shellcheck disable=SC2016
  MIRROR=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2>/dev/null |
    awk -v suite="$SUITE" '$2 == suite { print $1; exit }')
  [[ -n $MIRROR ]] || skip "apt knows no source of $SUITE"
}

# new_seed: sets SEED to LAZYFS_SEED or to a random number, and prints it.
new_seed() {
  SEED=${LAZYFS_SEED:-$((RANDOM * 32768 + RANDOM))}
  say "LAZYFS_SEED=$SEED repeats this run"
}
