#!/usr/bin/env bash
# TeraGen, TeraSort and TeraValidate on lazyfs, with the local job runner on the mount, and on an
# HDFS whose NameNode and DataNode store everything on the mount.
#   hadoop.sh [SIZE] [MODE]...     SIZE of the rows to sort (256M); MODE local and hdfs
. "$(dirname "$(readlink -f "$0")")/lib.sh"

size=${1:-256M}
modes=("${@:2}")
((${#modes[@]})) || modes=(local hdfs)
start_test
command -v java >/dev/null || skip "no java: install default-jdk-headless"

new_fs 4G
mount_fs
for mode in "${modes[@]}"; do
  say "TeraGen, TeraSort, TeraValidate of $size, $mode"
  line=$("$HERE/hadoop/terasort.sh" "$MNT" "$mode" "$size")
  say "$line"
  [[ $line == *" validated=yes" ]] || fail "$mode is not validated"
  [[ $line == *" fstype=fuse"* ]] || fail "$mode did not run on lazyfs"
done
remount_fs
unmount_fs
