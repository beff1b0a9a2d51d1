#!/usr/bin/env bash
# The daemon gets SIGTERM while much data waits to be written, and is killed before it has ended.
# Nothing may hang afterwards: sync(2) returns, and the filesystem can be unmounted and mounted
# again.
#   ending.sh [ROUNDS]     (6)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

rounds=${1:-6}
start_test
new_seed
RANDOM=$SEED
new_fs 512M --band-size 1M

# Ends what the kernel waits for, so that a failure costs this test and not the machine.
end_connections() {
  mkdir -p "$WORK/connections"
  mount -t fusectl none "$WORK/connections" || return 0
  local number
  number=$((($(stat -c '0x%t' "$DEVICE") << 20) + $(stat -c '0x%T' "$DEVICE")))
  if [[ -e $WORK/connections/$number ]]; then echo 1 >"$WORK/connections/$number/abort"; fi
  umount "$WORK/connections"
}

for ((round = 1; round <= rounds; round++)); do
  mount_fs
  echo "$round" >"$MNT/durable"
  sync "$MNT/durable"
  dd if=/dev/urandom of="$MNT/waiting-$((round % 2))" bs=1M count=48 status=none
  kill -TERM "$DAEMON"
  moment=$((RANDOM % 150))
  sleep "0.$(printf %03d $moment)"
  kill -KILL "$DAEMON" 2>/dev/null || true
  rm -f "$WORK/synced"
  { sync; touch "$WORK/synced"; } &  # nothing can kill a sync that hangs
  for ((tries = 0; tries < 600; tries++)); do
    if [[ -e $WORK/synced ]]; then break; fi
    sleep 0.1
  done
  if [[ ! -e $WORK/synced ]]; then
    end_connections
    fail "sync does not return after a daemon was killed $moment ms into its end"
  fi
  wait "$DAEMON" 2>/dev/null || true
  DAEMON=''
  if mountpoint -q "$MNT" || ! stat "$MNT" >/dev/null 2>&1; then umount -l "$MNT" || true; fi
  fsck_fs
  mount_fs
  [[ $(cat "$MNT/durable") == "$round" ]] || fail "the synced data of round $round is lost"
  unmount_fs
  say "round $round: killed $moment ms into its end"
done
