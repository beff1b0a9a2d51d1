#!/usr/bin/env bash
# The daemon gets SIGTERM while much data waits to be written, and is killed, or crashes, before it
# has ended; it gets SIGTERM, is killed, or crashes while it waits for data that the kernel sends.
# Nothing may hang afterwards: sync(2) returns, and the filesystem can be unmounted and mounted
# again.
#   ending.sh [ROUNDS]     (6)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

rounds=${1:-6}
start_test
new_seed
RANDOM=$SEED
new_fs 512M --band-size 1M

# The number of the mount's connection.
note_connection() {
  CONNECTION=$(awk -v mnt="$MNT" '$5 == mnt { split($3, n, ":"); print n[1] * 2 ^ 20 + n[2] }' \
    /proc/self/mountinfo)
}

# Ends what the kernel waits for, so that a failure costs this test and not the machine.
end_connection() {
  mkdir -p "$WORK/connections"
  mount -t fusectl none "$WORK/connections" || return 0
  if [[ -e $WORK/connections/$CONNECTION ]]; then
    echo 1 >"$WORK/connections/$CONNECTION/abort"
  fi
  umount "$WORK/connections"
}

# Whether sync(2) returns within a minute. It waits for all filesystems of the machine. Nothing can
# kill a sync that hangs, so it must not hold the test's output open.
sync_returns() {
  local tries
  rm -f "$WORK/synced"
  { sync; touch "$WORK/synced"; } &>/dev/null &
  for ((tries = 0; tries < 600; tries++)); do
    if [[ -e $WORK/synced ]]; then return 0; fi
    sleep 0.1
  done
  return 1
}

sync_returns || skip "sync(2) waits for another filesystem of this machine"

ulimit -c 0
# A crash by io_uring may hang in the kernel (docs/transport.md), and then only a restart of the
# machine helps. So it is left out here.
crashes=(ABRT SYS)
[[ $TRANSPORT == read ]] || crashes=(KILL KILL)
endings=(KILL "${crashes[0]}")
for ((round = 1; round <= rounds; round++)); do
  mount_fs
  note_connection
  echo "$round" >"$MNT/durable"
  sync "$MNT/durable"
  dd if=/dev/urandom of="$MNT/waiting-$((round % 2))" bs=1M count=48 status=none
  kill -TERM "$DAEMON"
  moment=$((RANDOM % 150))
  sleep "0.$(printf %03d $moment)"
  kill "-${endings[round % 2]}" "$DAEMON" 2>/dev/null || true
  if ! sync_returns; then
    end_connection
    fail "sync does not return after a daemon was killed $moment ms into its end"
  fi
  wait "$DAEMON" 2>/dev/null || true
  DAEMON=''
  if mountpoint -q "$MNT" || ! stat "$MNT" >/dev/null 2>&1; then umount -l "$MNT" || true; fi
  fsck_fs
  mount_fs
  [[ $(cat "$MNT/durable") == "$round" ]] || fail "the synced data of round $round is lost"
  unmount_fs
  say "round $round: SIG${endings[round % 2]} $moment ms into its end"
done

# A thread that waits in the kernel outlives the daemon's first one, which is then a zombie.
has_ended() { ! grep -qs '^State:.[^Z]' "/proc/$DAEMON/task/"*/status; }

# Mounts, begins programs that seek holes, and waits until they are at work.
mount_and_seek_holes() {
  mount_fs
  note_connection
  rm -f "$MNT"/file-*
  python3 "$HERE/hole_seekers.py" "$MNT" 4 &
  SEEKERS=$!
  until_true "no file is written" test -s "$MNT/file-3"
}

# end_daemon SIGNAL: returns when all of the daemon has ended.
end_daemon() {
  local tries
  kill "-$1" "$DAEMON"
  for ((tries = 0; tries < 300; tries++)); do
    if has_ended; then break; fi
    sleep 0.1
  done
  if ! has_ended; then
    end_connection
    fail "the daemon does not end after SIG$1 while programs seek holes"
  fi
  wait "$DAEMON" 2>/dev/null || true
  DAEMON=''
  wait "$SEEKERS"
}

say "SIGTERM while programs seek holes"
mount_and_seek_holes
end_daemon TERM
if grep -q "$MNT" /proc/self/mounts; then fail "it is still mounted"; fi
fsck_fs
signals=(KILL "${crashes[@]}")
for ((round = 1; round <= rounds; round++)); do
  mount_and_seek_holes
  sleep "0.$(printf %03d $((RANDOM % 500)))"
  signal=${signals[round % 3]}
  end_daemon "$signal"
  if stat -f "$MNT" 2>"$WORK/error"; then fail "a mount without a daemon answers"; fi
  grep -q "endpoint is not connected\|connection abort" "$WORK/error" || fail "$(<"$WORK/error")"
  grep -q "$MNT" /proc/self/mounts || fail "the mount is gone with the daemon"
  umount -l "$MNT"
  fsck_fs
  say "round $round: SIG$signal while programs seek holes"
done
