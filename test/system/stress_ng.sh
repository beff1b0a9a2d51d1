#!/usr/bin/env bash
# All stressors of stress-ng that work on files, one after the other, two processes of each; they
# check what they read.
#   stress_ng.sh [SECONDS]     (4) of each stressor
. "$(dirname "$(readlink -f "$0")")/lib.sh"

seconds=${1:-4}
command -v stress-ng >/dev/null || skip "stress-ng is not installed"
start_test
new_fs 4G
mount_fs
mkdir "$MNT/work"

# run_class CLASS [OPTION...]. Status 3: some stressors were skipped (binderfs, fs-verity).
run_class() {
  local status=0
  say "class $1"
  stress-ng --class "$1" "${@:2}" --seq 2 --timeout "$seconds" --verify --temp-path "$MNT/work" \
    >"$WORK/out" 2>&1 || status=$?
  ((status == 0 || status == 3)) || fail "status $status: $(grep -E 'fail|error' "$WORK/out")"
  grep -q 'successful run completed' "$WORK/out" || fail "$(tail -n 3 "$WORK/out")"
}

run_class filesystem
run_class io --exclude io-uring  # fails on ext4, too: it asks for a file it has removed
[[ -z $(ls -A "$MNT/work") ]] || fail "files are left: $(find "$MNT/work" | head -n 5)"
sync -f "$MNT" 2>/dev/null || true  # reports what the stressor chattr wrote to immutable files
unmount_fs
if grep -E '\[(error|critical)\]' "$LOG"; then fail "the daemon has met errors"; fi
fsck_fs --data
