#!/usr/bin/env bash
# Overwrites, deletes, cleans and scrubs on a disk that stays 95 % full. Afterwards, and after
# mounting again, all files have their written contents, and fsck --data finds nothing.
#   soak.sh [SECONDS [SIZE OF THE DISK [PROCESSES]]]     (60, 256M, 2)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

seconds=${1:-60}
size=${2:-256M}
processes=${3:-2}
start_test
new_seed

resident() { awk '/^VmHWM/ {print $2 " KiB"}' "/proc/$DAEMON/status"; }

# Scrubs (each fifth time) or cleans, until $WORK/enough exists.
keep_cleaning() {
  local times=0
  while [[ ! -e $WORK/enough ]]; do
    if ((++times % 5 == 0)); then
      lazyfsctl scrub "$MNT" >"$WORK/scrub.log" 2>&1 || { cat "$WORK/scrub.log"; return 1; }
    else
      lazyfsctl gc "$MNT" >/dev/null || return 1
    fi
    sleep 5
  done
  say "$times cleanings and scrubs"
}

new_fs "$size" --band-size 1M
mount_fs
keep_cleaning &
cleaner=$!
python3 "$HERE/soak.py" work "$MNT" "$WORK/record" "$SEED" "$seconds" "$processes" || fail "work"
touch "$WORK/enough"
wait "$cleaner" || fail "cleaning or scrubbing"
say "the daemon's maximum resident memory: $(resident)"
lazyfsctl stats --all "$MNT" | tee "$WORK/stats"
remount_fs
python3 "$HERE/soak.py" verify "$MNT" "$WORK/record" "$processes" || fail "mounted again"
unmount_fs
fsck_fs --data
