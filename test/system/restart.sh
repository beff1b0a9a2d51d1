#!/usr/bin/env bash
# The keeper mounts again when the daemon was killed, as often as the option `restart` says; not
# after an unmount, and not when an administrator has unmounted meanwhile.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
# This test sends the signals itself: no sanitizer shall report them.
for options in ASAN_OPTIONS TSAN_OPTIONS; do
  export "$options=${!options}:handle_abort=0:handle_segv=0:handle_sigbus=0"
done
new_fs 256M

# The daemon that runs in the background, as systems have it.
mount_in_background() {
  lazyfs -o "$1,logfile=$LOG" "$DEVICE" "$MNT" || fail "mount with $1"
  find_daemon
}
# Its keeper has the same command line, and another name.
find_daemon() {
  local pid
  DAEMON=''
  for pid in $(pgrep -x lazyfs || true); do
    if [[ $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) == *"$DEVICE $MNT "* ]]; then
      DAEMON=$pid
    fi
  done
}
is_alive() { stat -f "$MNT" >/dev/null 2>&1 && [[ $(stat -f -c %T "$MNT") == fuseblk ]]; }
is_new_daemon() {
  local before=$1
  is_alive || return 1
  find_daemon
  [[ -n $DAEMON && $DAEMON != "$before" ]]
}
is_ended() { ! pgrep -f "lazyfs.*$DEVICE $MNT" >/dev/null; }
unmount_background() {
  umount "$MNT" || fail "umount"
  DAEMON=''
  until_true "a process remains: $(pgrep -fa "$MNT")" is_ended
  if mountpoint -q "$MNT"; then fail "it is mounted again after an unmount"; fi
}

say "always"
mount_in_background restart=always
if (echo -900 >/proc/self/oom_score_adj) 2>/dev/null; then  # not in every container
  [[ $(<"/proc/$DAEMON/oom_score_adj") == -900 ]] || fail "the daemon is not spared"
fi
for round in 1 2; do
  echo "$round" >"$MNT/file"
  sync "$MNT/file"
  before=$DAEMON
  kill -KILL "$DAEMON"
  until_true "not mounted again in round $round: $(tail -n 3 "$LOG")" is_new_daemon "$before"
  [[ $(<"$MNT/file") == "$round" ]] || fail "round $round: the synced file is lost"
done

# a remount cannot change it
if lazyfs -o remount,restart=once "$DEVICE" "$MNT" 2>"$WORK/refused"; then
  fail "a remount accepts another restart="
fi
grep -q "option 'restart': cannot be changed" "$WORK/refused" || fail "$(<"$WORK/refused")"

# options that a remount has changed
lazyfs -o remount,commit=30,noatime "$DEVICE" "$MNT" || fail "remount"
mount -i -o remount,ro "$MNT" || fail "remount,ro"
before=$DAEMON
kill -KILL "$DAEMON"
until_true "not mounted again after remounts: $(tail -n 3 "$LOG")" is_new_daemon "$before"
for option in ro noatime commit=30; do
  lazyfsctl stats "$MNT" | grep -Eq "^Options .*\\b$option\\b" ||
    fail "$option is forgotten: $(lazyfsctl stats "$MNT" | grep ^Options)"
done
unmount_background

say "always, beside busy processes"
ulimit -c 0
mount_in_background restart=always
busy=()
for ((i = 0; i < 2 * $(nproc); i++)); do
  # Ends with this script, however that ends.
  (while [[ -e /proc/$$ ]]; do for ((n = 0; n < 100000; n++)); do :; done; done) &
  busy+=($!)
done
signals=(ABRT SEGV KILL BUS)
for round in 1 2 3 4 5 6 7 8; do
  before=$DAEMON
  kill "-${signals[round % 4]}" "$DAEMON"
  until_true "not mounted again in round $round: $(tail -n 3 "$LOG")" is_new_daemon "$before"
done
kill "${busy[@]}"
wait "${busy[@]}" 2>/dev/null || true
unmount_background

say "always, by io_uring"
for round in 1 2 3; do
  [[ -e $URING ]] || break
  with_uring mount_in_background restart=always,transport=io_uring
  [[ $(transport_kind) == io_uring ]] || fail "round $round: requests come by $(transport_kind)"
  before=$DAEMON
  kill -KILL "$DAEMON"
  until_true "not mounted again in round $round: $(tail -n 3 "$LOG")" is_new_daemon "$before"
  unmount_background
done

say "once, with remounts by fstab's options"
mount_in_background restart=once
lazyfs -o remount,restart=once "$DEVICE" "$MNT" || fail "remount"
before=$DAEMON
kill -KILL "$DAEMON"
until_true "not mounted again: $(tail -n 3 "$LOG")" is_new_daemon "$before"
lazyfs -o remount,restart=once "$DEVICE" "$MNT" || fail "remount after a restart"
kill -KILL "$DAEMON"
until_true "a keeper remains" is_ended
DAEMON=''
if is_alive; then fail "mounted again twice"; fi
umount -l "$MNT"

say "no, and an unmount meanwhile"
wait_for_device
mount_in_background restart=no
kill -KILL "$DAEMON"
until_true "a keeper remains" is_ended
DAEMON=''
if is_alive; then fail "mounted again without being asked to"; fi
umount -l "$MNT"
fsck_fs
