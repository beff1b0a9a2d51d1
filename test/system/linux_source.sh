#!/usr/bin/env bash
# Debian's Linux source, unpacked on lazyfs: everything is there after mounting again, and once it
# is removed its blocks are dead and, cleaned, its bands free.
#   linux_source.sh [COUNT]      the first COUNT members of the archive; all of them without it
# LINUX_SOURCE names another archive.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

count=${1:-0}
archive=${LINUX_SOURCE:-/usr/src/linux-source-6.1.tar.xz}
[[ -e $archive ]] || fail "$archive: not there: install linux-source-6.1"
start_test

if ((count == 0)); then
  size=4G
  say "expanding $archive"
  xz -T0 -dc "$archive" >"$WORK/linux.tar"
else
  size=512M
  say "cutting the first $count members from $archive"
  python3 "$HERE/tar_tree.py" cut "$archive" "$WORK/linux.tar" "$count"
fi
new_fs "$size"
mount_fs

say "unpacking"
tar -C "$MNT" -xf "$WORK/linux.tar"
sync -f "$MNT"
live=$(totals live)
remount_fs
say "comparing every file with the archive"
python3 "$HERE/tar_tree.py" compare "$WORK/linux.tar" "$MNT"

say "removing it"
rm -rf "${MNT:?}"/linux-source-*
[[ -z $(ls -A "$MNT") ]] || fail "rm -rf left something: $(ls -A "$MNT" | head)"
sync -f "$MNT"
dead=$(totals dead)
say "$live blocks were live; now $(totals live), and $dead dead; $(totals free_bands) free bands"
((dead * 10 >= live * 9 || $(totals live) * 10 <= live)) || fail "the removed blocks are not dead"
(($(totals live) * 20 <= live)) || fail "more than 5 % of the removed blocks still count as live"
free_before=$(totals free_bands)
lazyfsctl gc "$MNT"
sync -f "$MNT"
free=$(totals free_bands) dead=$(totals dead)
say "after cleaning: $dead blocks dead, $free bands free (were $free_before)"
((free >= free_before)) || fail "cleaning freed nothing"
((dead * 20 <= live)) || fail "more than 5 % of the dead blocks are still there"

mount_points=$(grep -c " $MNT " /proc/self/mounts)
((mount_points == 1)) || fail "$mount_points mounts"
unmount_fs
fsck_fs
