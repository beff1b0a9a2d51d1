#!/usr/bin/env bash
# What POSIX says of files and what Linux adds, asked of a mount; once without and once with the
# kernel's write-back cache.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_fs 1G
for options in "" writeback; do
  say "mount options: ${options:-none}"
  mount_fs "$options"
  # shellcheck disable=SC2086  # an argument or none
  python3 "$HERE/semantics.py" "$MNT" $options 2>&1 || fail "see above"
  python3 "$HERE/users.py" "$MNT" 2>&1 || fail "see above"
  [[ -n $options ]] || python3 "$HERE/fine_print.py" "$MNT" 2>&1 || fail "see above"
  # With its write-back cache the kernel finds no data that it has not sent yet.
  [[ -n $options ]] || python3 "$HERE/beyond_posix.py" "$MNT" 2>&1 || fail "see above"
  rm -rf "${MNT:?}"/*
  unmount_fs
  fsck_fs
done
for option in noatime strictatime lazytime; do
  say "mount options: $option"
  mount_fs "$option"
  python3 "$HERE/fine_print.py" "$MNT" "${option/lazytime/relatime}" Times 2>&1 || fail "see above"
  rm -rf "${MNT:?}"/*
  unmount_fs
done
