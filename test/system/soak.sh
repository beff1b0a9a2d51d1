#!/usr/bin/env bash
# A disk that stays 95 % full while it is overwritten, deleted from, cleaned and scrubbed; then
# everything on it is as written, now and after a new mount, and fsck with all data finds nothing.
#   soak.sh [SECONDS [SIZE OF THE DISK [PROCESSES]]]     (60, 256M, 2)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

seconds=${1:-60}
size=${2:-256M}
processes=${3:-2}
start_test
new_seed

resident() { awk '/^VmHWM/ {print $2 " KiB"}' "/proc/$DAEMON/status"; }

# Until $WORK/enough is there: each fifth time a scrub, otherwise a cleaning.
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
say "most memory that the daemon had: $(resident)"
lazyfsctl stats "$MNT" | tee "$WORK/stats"
remount_fs
python3 "$HERE/soak.py" verify "$MNT" "$WORK/record" "$processes" || fail "mounted again"
unmount_fs
fsck_fs --data
