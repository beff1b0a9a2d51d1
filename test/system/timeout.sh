#!/usr/bin/env bash
# Option request_timeout: programs do not wait for ever for a daemon that hangs.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
[[ -e /proc/sys/fs/fuse/default_request_timeout ]] || skip "this kernel has no request timeouts"
new_fs 256M

say "a daemon that hangs"
mount_fs request_timeout=2,transport=read  # by io_uring a stopped daemon's mount does not end
echo contents >"$MNT/file"
lazyfsctl sync "$MNT"
stop_daemon
status=0
timeout 60 stat "$MNT/none" >"$WORK/out" 2>&1 || status=$?
kill -CONT "$DAEMON"
((status == 1)) || fail "stat ends with status $status: $(cat "$WORK/out")"
until_true "the daemon still runs" eval '! kill -0 "$DAEMON" 2>/dev/null'
wait "$DAEMON" || true
DAEMON=''
umount -l "$MNT" 2>/dev/null || true
fsck_fs
mount_fs
[[ $(cat "$MNT/file") == contents ]] || fail "what was durable is lost"

say "no limit"
! grep -q "no request_timeout" "$LOG" || fail "the log: $(cat "$LOG")"
lazyfsctl stats "$MNT" >/dev/null
unmount_fs
for bad in request_timeout=70000 request_timeout=x request_timeout; do
  if lazyfs -o "$bad" "$DEVICE" "$MNT" 2>"$WORK/err"; then fail "$bad is taken"; fi
  grep -q "request_timeout" "$WORK/err" || fail "$bad: $(cat "$WORK/err")"
done
