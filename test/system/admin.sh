#!/usr/bin/env bash
# What administrators and their monitors rely on: exit statuses, waiting, output that cannot be
# written, logging of requests.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_fs 256M

# expect STATUS COMMAND...: its output is in $WORK/out and $WORK/err.
expect() {
  local wanted=$1 status=0
  shift
  "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
  ((status == wanted)) || fail "$*: status $status, not $wanted: $(cat "$WORK/out" "$WORK/err")"
}
# expect_full STATUS COMMAND...: the disk that standard output goes to is full.
expect_full() {
  local wanted=$1 status=0
  shift
  "$@" >/dev/full 2>"$WORK/err" || status=$?
  ((status == wanted)) || fail "$* >/dev/full: status $status, not $wanted"
  grep -q "^${1##*/}: standard output: cannot be written" "$WORK/err" ||
    fail "$* >/dev/full: $(cat "$WORK/err")"
}

say "output that cannot be written"
mount_fs
for command in stats "stats --json" info list health; do
  arguments=("$MNT")
  if [[ $command == list ]]; then arguments=(); fi
  # shellcheck disable=SC2086
  expect_full 1 lazyfsctl $command "${arguments[@]}"
done
expect_full 1 lazyfsctl scrub "$MNT"
unmount_fs
expect_full 1 edistats "$DEVICE"
expect_full 1 edistats --json "$DEVICE"
expect_full 1 edistats --html - "$DEVICE"
expect_full 1 edidump "$DEVICE"
expect_full 1 edidump --json "$DEVICE"
expect_full 8 fsck.lazyfs -n "$DEVICE"
expect_full 8 fsck.lazyfs -n --json "$DEVICE"
for program in edistats edidump lazyfsctl mkfs.lazyfs lazyfs edicreate lazyfs-id; do
  expect_full 2 "$program" --help
done
expect_full 16 fsck.lazyfs --help

say "- is standard output"
cd "$WORK"
expect 0 edistats --html - "$DEVICE"
grep -q '</html>' "$WORK/out" || fail "--html - does not print the picture"
if grep -q '^EDI Image' <(tail -n 1 "$WORK/out"); then fail "--html - prints the report too"; fi
expect 0 edistats --svg - "$DEVICE" "$WORK/report"
grep -q '</svg>' "$WORK/out" || fail "--svg - does not print the picture"
grep -q '^EDI Image' "$WORK/report" || fail "the report is not in its file"
expect 0 edistats "$DEVICE" -
grep -q '^EDI Image' "$WORK/out" || fail "the output file - is not standard output"
expect 2 edistats --html - --svg - "$DEVICE"
[[ ! -e - ]] || fail "edistats made a file named -"
cd /

say "wait"
mount_fs
expect 1 lazyfsctl wait --timeout 0.3 "$MNT"
grep -q "still in use" "$WORK/err" || fail "wait --timeout: $(cat "$WORK/err")"
expect 1 lazyfsctl wait --timeout 0.3 "$DEVICE"
expect 1 lazyfsctl wait --timeout 0.3 "$WORK"
grep -q "no lazyfs is mounted there" "$WORK/err" || fail "wait: $(cat "$WORK/err")"
mkdir "$MNT/d"
lazyfsctl wait "$MNT/d" &
waiter=$!
sleep 0.5
kill -0 "$waiter" 2>/dev/null || fail "wait has not waited for a live mount"
unmount_fs
wait "$waiter" || fail "wait: status $?"
expect 0 lazyfsctl wait "$DEVICE"
expect 0 lazyfsctl wait --timeout 5 "$DEVICE"

say "health"
mount_fs
expect 0 lazyfsctl health "$MNT"
grep -q "healthy, writable" "$WORK/out" || fail "health: $(cat "$WORK/out")"
expect 0 lazyfsctl health --json "$MNT"
grep -q '"healthy": true' "$WORK/out" || fail "health --json: $(cat "$WORK/out")"
kill -STOP "$DAEMON"
expect 4 lazyfsctl health --timeout 1 "$MNT"
kill -CONT "$DAEMON"
grep -q "has not answered within 1 s" "$WORK/out" || fail "health: $(cat "$WORK/out")"
lazyfsctl shutdown "$MNT"
expect 4 lazyfsctl health "$MNT"
grep -q "it is shut down" "$WORK/out" || fail "health after a shutdown: $(cat "$WORK/out")"
expect 4 lazyfsctl health --json "$MNT"
umount "$MNT"
wait "$DAEMON" || true
DAEMON=''
expect 1 lazyfsctl health "$MNT"
mount_fs
kill -KILL "$DAEMON"
wait "$DAEMON" 2>/dev/null || true
expect 1 lazyfsctl health "$MNT"
DAEMON=''
umount -l "$MNT"

say "-o debug logs requests"
: >"$LOG"
mount_fs debug
mkdir "$MNT/logged"
unmount_fs
grep -q "opcode: MKDIR" "$LOG" || fail "-o debug logs no requests: $(tail -n 5 "$LOG")"
fsck_fs
