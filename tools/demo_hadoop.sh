#!/usr/bin/env bash
# The demonstration with Hadoop: TeraGen, TeraSort and TeraValidate over HDFS on one lazyfs, with
# all of Hadoop's files on it, then its bands.
#   tools/demo_hadoop.sh [SIZE]    SIZE of the rows to sort (256M); as root
# Unmounts at the end. Leaves the disk, the report and the picture in build/demo-hadoop.
set -euo pipefail

top=$(dirname "$(dirname "$(readlink -f "$0")")")
bin=$top/build/bin
demo=$top/build/demo-hadoop
disk=$demo/disk.edi
mnt=$demo/mnt
size=${1:-256M}

say()  { printf '\n== %s\n' "$*"; }
run()  { printf '$ %s\n' "$*"; "$@"; }
die()  { echo "demo-hadoop: $*" >&2; exit 1; }

case $size in -h|--help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;; esac
((EUID == 0)) || die "mounting for all users takes root: run it as root"
[[ -e /dev/fuse ]] || modprobe fuse 2>/dev/null || die "/dev/fuse: the kernel offers no FUSE here"
bytes=$(numfmt --from=iec "$size") || die "$size: not a size"

unmount() {
  ! mountpoint -q "$mnt" || umount "$mnt"
  "$bin/lazyfsctl" wait "$disk"
}
trap 'mountpoint -q "$mnt" 2>/dev/null && umount -l "$mnt"' EXIT

if mountpoint -q "$mnt" 2>/dev/null; then die "$mnt is mounted: unmount it first"; fi
rm -rf "$demo"
mkdir -p "$mnt"
# Rows, sorted rows and what is between them, four times over; bands of 16 MiB.
bands=$((4 * 4 * bytes / (16 << 20) + 64))
say "An emulated shingled disk: $bands bands of 16 MiB, sparse"
run "$bin/edicreate" -s4096 -b4096 -c"$bands" -f"$disk"
run "$bin/mkfs.lazyfs" -q "$disk"
run "$bin/lazyfs" "$disk" "$mnt"
run df -h "$mnt"

say "TeraGen, TeraSort and TeraValidate of $size over HDFS: NameNode, DataNode and jobs on the disk"
result=$(TERASORT_KEEP=yes "$top/test/system/hadoop/terasort.sh" "$mnt" hdfs "$size")
echo "$result"
[[ $result == *" validated=yes" ]] || die "the sorted rows are not valid"
"$bin/lazyfsctl" sync "$mnt"
"$bin/lazyfsctl" stats --json "$mnt" >"$demo/stats.json"
unmount

say "Its bands, with the rows and the sorted rows"
"$bin/edistats" --svg "$demo/bands.svg" "$disk" "$demo/bands.txt"
tail -n 12 "$demo/bands.txt"
run "$bin/fsck.lazyfs" -n -f --data "$disk"

say "What next"
echo "In ${demo#"$PWD"/}: a picture of the bands, bands.svg; the report, bands.txt; the counters,
stats.json. A cluster of five workers beside ext4 and a FUSE pass-through: bench/cluster --help."
