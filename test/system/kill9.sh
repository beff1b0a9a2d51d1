#!/usr/bin/env bash
# Kills the daemon, or shuts the filesystem down like a power cut, at random moments while several
# processes write. After two of three kills the device loses the writes since the last flush, all of
# them or some of their sectors. Each time the filesystem is clean, mounts, and has everything that
# was fsynced.
#   kill9.sh [ROUNDS [WRITERS [SIZE OF THE DISK]]]     (12 rounds, 4 writers, 512M)
# The recovered data of a round must be the same one round later.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

rounds=${1:-12}
writers=${2:-4}
size=${3:-512M}
start_test
new_seed
RANDOM=$SEED
new_fs "$size" --band-size 256K

folder()  { echo "$MNT/round-$1/writer-$2"; }
journal() { echo "$WORK/journal-$1-$2"; }
digest()  { tar -C "$MNT" --sort=name --numeric-owner -cf - "round-$1" | sha256sum; }

# Waits until a writer has done some operations: on a busy machine it may start late.
await_work() {
  local tries
  for ((tries = 0; tries < 1200; tries++)); do
    if [[ -e $1 ]] && (($(wc -l <"$1") > 10)); then return; fi
    sleep 0.05
  done
  fail "a writer has not begun within a minute"
}

# A disk that ignores flushes must lose data here; otherwise the test drops nothing.
see_a_loss() {
  note_unflushed deaf
  mount_fs
  echo here >"$MNT/lost"
  sync "$MNT/lost"
  kill_fs
  fsck_fs
  drop_unflushed
  mount_fs
  [[ ! -e $MNT/lost ]] || fail "the dropped data exists"
  unmount_fs
  fsck_fs
}

# end_round ROUND PID...: ends the mount in one of four ways in turn. Checks that all writers end.
# Sets `how`.
end_round() {
  local round=$1 writer
  shift
  if ((round % 4 == 3)); then
    how="shut down"
    lazyfsctl shutdown "$MNT"
  else
    how="killed"
    kill -KILL "$DAEMON"
    wait "$DAEMON" 2>/dev/null || true
    DAEMON=''
  fi
  for writer in "$@"; do wait "$writer" || fail "a writer failed in round $round"; done
  umount "$MNT" || { [[ $how == killed ]] && umount -l "$MNT"; } || fail "umount, $how"
  if [[ -n $DAEMON ]]; then wait "$DAEMON" || true; fi
  DAEMON=''
  case $((round % 4)) in
    2) how+="; $(drop_unflushed)" ;;
    0) how+="; $(drop_unflushed $((SEED + round)))" ;;
  esac
}

write_and_kill() {
  local round=$1 writer pids=() moment how
  mkdir "$MNT/round-$round"
  sync "$MNT"  # there even if no writer gets as far as its first fsync
  for ((writer = 1; writer <= writers; writer++)); do
    python3 "$HERE/crash_writer.py" write "$(folder "$round" "$writer")" \
      "$(journal "$round" "$writer")" $((SEED + 1000 * round + writer)) &
    pids+=($!)
  done
  for ((writer = 1; writer <= writers; writer++)); do
    await_work "$(journal "$round" "$writer")"
  done
  moment=$((RANDOM % 3000))
  sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
  end_round "$round" "${pids[@]}"
  say "round $round, $moment ms: $how"
}

verify() {
  local round=$1 writer
  for ((writer = 1; writer <= writers; writer++)); do
    python3 "$HERE/crash_writer.py" verify "$(folder "$round" "$writer")" \
      "$(journal "$round" "$writer")" ||
      { LAZYFS_KEEP=1; fail "round $round, writer $writer"; }
  done
}

see_a_loss
note_unflushed
before=''
for ((round = 1; round <= rounds + 1; round++)); do
  mount_fs "commit=$((1 + round % 3 * 2))"
  if ((round > 1)); then verify $((round - 1)); fi
  if ((round > 2)); then
    [[ $(digest $((round - 2))) == "$before" ]] || fail "data of round $((round - 2)) has changed"
    rm -rf "$MNT/round-$((round - 2))" "$WORK"/journal-$((round - 2))-*
  fi
  if ((round > 1)); then before=$(digest $((round - 1))); fi
  ((round <= rounds)) || break
  write_and_kill "$round"
  fsck_fs
done
unmount_fs
fsck_fs
