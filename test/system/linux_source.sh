#!/usr/bin/env bash
# Unpacks Debian's Linux source on lazyfs. After mounting again every file is correct. After removal
# its blocks are dead, and after cleaning its bands are free.
#   linux_source.sh [COUNT]      the first COUNT members of the archive (all of them)
# LINUX_SOURCE names another archive.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

count=${1:-0}
archive=${LINUX_SOURCE:-/usr/src/linux-source-6.1.tar.xz}
[[ -e $archive ]] || fail "$archive does not exist: install linux-source-6.1"
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
free_bands=$(totals free_bands)

say "unpacking"
# GNU tar could not set the times of folders while it unpacks, because of the archive's order.
tar -C "$MNT" --delay-directory-restore -xf "$WORK/linux.tar"
lazyfsctl sync "$MNT"
live=$(totals live)
remount_fs
say "comparing every file with the archive"
python3 "$HERE/tar_tree.py" compare "$WORK/linux.tar" "$MNT"

say "removing it"
rm -rf "${MNT:?}"/linux-source-*
[[ -z $(ls -A "$MNT") ]] || fail "rm -rf left something: $(ls -A "$MNT" | head)"
# lazyfs deletes an inode when the kernel forgets it, which may be late.
blocks_are_gone() {
  lazyfsctl sync "$MNT"
  (($(totals live) == 0))
}
until_true "removed blocks still count as live" blocks_are_gone
say "$live blocks were live; now $(totals live), and $(totals dead) dead;" \
  "$(totals free_bands) free bands"
lazyfsctl gc "$MNT"
lazyfsctl sync "$MNT"
say "after cleaning: $(totals dead) blocks dead, $(totals free_bands) bands free," \
  "$free_bands before unpacking"
(($(totals dead) * 100 <= live)) || fail "cleaning left dead blocks"
# The metadata log may have grown.
(($(totals free_bands) * 10 >= free_bands * 9)) || fail "cleaning left bands that are not free"

mount_points=$(grep -c " $MNT " /proc/self/mounts)
((mount_points == 1)) || fail "$mount_points mounts"
unmount_fs
fsck_fs
