#!/usr/bin/env bash
# The end of a mount whose requests come by io_uring, in each way that there is, while programs use
# it: the programs end, the daemon ends, and the kernel keeps nothing of the connection.
#   transports.sh [ROUNDS]     (3) of each way
. "$(dirname "$(readlink -f "$0")")/lib.sh"

rounds=${1:-3}
start_test
[[ -e $URING ]] || skip "this kernel has no FUSE over io_uring"
new_seed
RANDOM=$SEED
CONNECTIONS=$WORK/connections CONNECTION=''
mkdir "$CONNECTIONS"
mount -t fusectl none "$CONNECTIONS" || skip "no fusectl"
LOAD=()

mount_ring() {
  local device
  with_uring mount_fs "transport=io_uring,threads=8"
  [[ $(transport_kind) == io_uring ]] ||
    fail "requests come by $(transport_kind): $(tail -n 3 "$LOG")"
  device=$(mountpoint -d "$MNT")
  CONNECTION=$CONNECTIONS/$(((${device%:*} << 20) + ${device#*:}))
  [[ -e $CONNECTION ]] || fail "$CONNECTION does not exist"
}

# The statistics count what comes by the rings.
count_requests() {
  mount_ring
  for ((i = 0; i < 100; i++)); do mkdir "$MNT/d$i"; done
  local requests mkdirs
  read -r requests mkdirs < <(lazyfsctl stats --json "$MNT" | python3 -c '
import json, sys
stats = json.load(sys.stdin)
print(stats["transport"]["requests"], stats["operations"]["mkdir"])')
  [[ $mkdirs -eq 100 && $requests -gt 200 ]] ||
    fail "transport.requests is $requests after 100 mkdirs, each with a lookup"
  unmount_fs
}

# Use the mount until a call fails, or the file `stop` exists.
small_load() {
  local i=0
  while [[ ! -e $WORK/stop ]]; do
    { echo $i >"$MNT/$1-$((i % 50))" && cat "$MNT/$1-$(((i + 25) % 50))"; } &>/dev/null
    stat "$MNT/$1-$i" &>/dev/null || stat "$MNT/large" &>/dev/null || break
    i=$((i + 1))
  done
}
large_load() {
  while [[ ! -e $WORK/stop ]]; do
    dd if=/dev/zero of="$MNT/large" bs=1M count=8 conv=fsync &>/dev/null || break
    dd if="$MNT/large" of=/dev/null bs=1M iflag=direct &>/dev/null || break
  done
}

start_load() {
  rm -f "$WORK/stop"
  touch "$MNT/large"
  LOAD=()
  small_load a & LOAD+=($!)
  small_load b & LOAD+=($!)
  large_load & LOAD+=($!)
  sleep "0.$(printf %03d $((RANDOM % 250 + 50)))"
}

# within_30_s COMMAND...: whether the command succeeds in time.
within_30_s() {
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  return 1
}
has_ended() { ! kill -0 "$1" 2>/dev/null; }
is_disconnected() { [[ ! -e $CONNECTION ]]; }

# hangs WHAT: fails, and ends the connection, so that the failure costs this test only.
hangs() {
  echo "--- $1: the connection has $(cat "$CONNECTION/waiting" 2>/dev/null) requests waiting" >&2
  echo 1 >"$CONNECTION/abort" || true
  fail "$way, round $round: $1"
}

end_load() {
  local pid
  touch "$WORK/stop"
  for pid in "${LOAD[@]}"; do
    within_30_s has_ended "$pid" || hangs "a program hangs"
    wait "$pid" || true
  done
}

end_daemon() {
  within_30_s has_ended "$DAEMON" || hangs "the daemon hangs"
  wait "$DAEMON" || true
  DAEMON=''
  within_30_s is_disconnected || hangs "the kernel keeps the connection"
}

end_by_umount() {
  end_load
  timeout -k 1 60 umount "$MNT" || hangs "umount"
  end_daemon
}
end_by_lazy_umount() {
  umount -l "$MNT"
  end_load
  end_daemon
}
end_by_termination() {
  kill -TERM "$DAEMON"
  end_daemon
  end_load
}
end_by_kill() {
  kill -KILL "$DAEMON"
  end_load
  end_daemon_and_mount
}
end_by_abort() {
  echo 1 >"$CONNECTION/abort"
  end_load
  end_daemon_and_mount
}
# The device fails: its file is cut. Programs may go on with what is in memory.
end_by_device_error() {
  truncate -s 0 "$IMAGE"
  sleep 0.2
  end_load
  timeout -k 1 60 umount "$MNT" || hangs "umount"
  end_daemon
}
end_daemon_and_mount() {
  within_30_s has_ended "$DAEMON" || hangs "the daemon hangs"
  wait "$DAEMON" || true
  DAEMON=''
  umount -l "$MNT" 2>/dev/null || true
  within_30_s is_disconnected || hangs "the kernel keeps the connection"
}

say "a transport that is not offered"
new_fs 512M --band-size 1M
lock_uring
if [[ $(cat "$URING") == N ]]; then
  mount_fs transport=io_uring 7>&-
  [[ $(transport_kind) == read ]] || fail "requests come by $(transport_kind)"
  grep -q "no transport by io_uring: $URING is N" "$LOG" || fail "the log does not say why"
  unmount_fs
fi
restore_uring

say "the statistics"
count_requests

for way in umount lazy_umount termination kill abort device_error; do
  say "$rounds rounds of $way"
  for ((round = 1; round <= rounds; round++)); do
    mount_ring
    start_load
    "end_by_$way"
    if [[ $way == device_error ]]; then new_fs 512M --band-size 1M; else fsck_fs; fi
  done
done
