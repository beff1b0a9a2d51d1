#!/usr/bin/env bash
# Checks the semantics of POSIX and Linux on a mount, once with and once without the kernel's
# write-back cache.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_fs 1G
for options in writeback nowriteback; do
  say "mount options: $options"
  mount_fs "$options"
  python3 "$HERE/semantics.py" "$MNT" "$options" 2>&1 || fail "see above"
  python3 "$HERE/users.py" "$MNT" 2>&1 || fail "see above"
  python3 "$HERE/direct.py" "$MNT" 2>&1 || fail "see above"
  python3 "$HERE/fine_print.py" "$MNT" 2>&1 || fail "see above"
  python3 "$HERE/beyond_posix.py" "$MNT" 2>&1 || fail "see above"
  rm -rf "${MNT:?}"/*
  python3 "$HERE/late_times.py" write "$MNT/times" "$WORK/times" 2>&1 || fail "see above"
  unmount_fs
  fsck_fs
  mount_fs "$options"
  python3 "$HERE/late_times.py" compare "$MNT/times" "$WORK/times" 2>&1 || fail "see above"
  rm -r "$MNT/times"
  unmount_fs
done
mount_fs
python3 "$HERE/links.py" "$MNT" 2>&1 || fail "see above"
lazyfsctl stats --json "$MNT" | python3 -c '
import json, sys
known = open(sys.argv[1], encoding="utf-8").read()
for group, figures in json.load(sys.stdin).items():
    if group == "operation_times":
        figures = {key: 0 for histogram in figures.values() for key in histogram}
    for key in figures if isinstance(figures, dict) and group != "operations" else [group]:
        assert f"`{key}`" in known, f"{group}: {key} is not in {sys.argv[1]}"
' "$TOP/docs/stats.md" || fail "see above"
unmount_fs
for option in noatime strictatime lazytime; do
  say "mount options: $option"
  mount_fs "$option"
  python3 "$HERE/fine_print.py" "$MNT" "${option/lazytime/relatime}" Times 2>&1 || fail "see above"
  rm -rf "${MNT:?}"/*
  unmount_fs
done
