#!/usr/bin/env bash
# Volumes grow while they are mounted and while they are not: df has the new space at once, files
# fill it, and a power cut at any write leaves the volume grown or not, with all that it held.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
say "device: $DEVICE_KIND"

# enlarge MIB: the device, or of an image nothing: lazyfsctl gives it its SIZE.
enlarge() {
  SIZE_MIB=$1 SIZE_ARGUMENT=()
  if [[ $DEVICE_KIND == loop ]]; then
    truncate -s "$1M" "$IMAGE"
    losetup -c "$DEVICE"
  else
    SIZE_ARGUMENT=("$1M")
  fi
}
grow() { lazyfsctl grow "$1" "${SIZE_ARGUMENT[@]}" >"$WORK/grow.log" 2>&1; }
grow_or_fail() { grow "$1" || fail "grow: $(cat "$WORK/grow.log")"; }
df_mib() { df -m --output="$1" "$MNT" | tail -n 1; }
bands() {
  lazyfsctl info --json "$1" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["bands"])'
}
edistats_bands() {
  edistats --json "$DEVICE" |
    python3 -c 'import json, sys; print(len(json.load(sys.stdin)["bands"]))'
}
check_files() { (cd "$MNT" && md5sum --quiet -c "$WORK/sums") || fail "contents differ"; }
# add_file NAME MIB
add_file() {
  dd if=/dev/urandom of="$MNT/$1" bs=1M count="$2" conv=fsync status=none || fail "writing $1"
  (cd "$MNT" && md5sum "$1") >>"$WORK/sums"
}
# refused WHY COMMAND...
refused() {
  local why=$1
  shift
  if "$@" >"$WORK/refused.log" 2>&1; then fail "not refused: $*"; fi
  grep -q "$why" "$WORK/refused.log" || fail "another reason: $(cat "$WORK/refused.log")"
}

: >"$WORK/sums"
new_fs 32M --band-size 256K
mount_fs
add_file before 8
refused "no room for a further band" lazyfsctl grow "$MNT"
if [[ $DEVICE_KIND == loop ]]; then
  refused "only a file can be given a size" lazyfsctl grow "$MNT" 200M
else
  refused "cannot shrink" lazyfsctl grow "$MNT" 20M
fi

# While a program writes.
dd if=/dev/urandom of="$MNT/meanwhile" bs=1M count=8 status=none &
enlarge 100
old_total=$(df_mib size)
grow_or_fail "$MNT"
((old_total + 50 < $(df_mib size))) || fail "df: $old_total MiB before, $(df_mib size) after"
(($(df_mib size) < 100)) || fail "df: $(df_mib size) MiB"
wait %% || fail "the program that wrote meanwhile"
(cd "$MNT" && md5sum meanwhile) >>"$WORK/sums"
add_file filled $(($(df_mib avail) - 1))
(($(edistats_bands) == $(bands "$MNT"))) || fail "edistats: $(edistats_bands) bands"
check_files
remount_fs
check_files
lazyfsctl gc "$MNT"

# Not mounted.
unmount_fs
enlarge 130
grow_or_fail "$DEVICE"
grep -q "grown from" "$WORK/grow.log" || fail "$(cat "$WORK/grow.log")"
fsck_fs
mount_fs
add_file later 15
check_files
remount_fs ro
enlarge 140
refused "read-only" lazyfsctl grow "$MNT" "${SIZE_ARGUMENT[@]}"
remount_fs
check_files
grow_or_fail "$MNT/before"  # any path on the mount
check_files

# An image that is stored on the mount is meant itself.
before=$(bands "$MNT")
mkfs.lazyfs -q "$MNT/image" 16M --band-size 256K
refused "no room for a further band" lazyfsctl grow "$MNT/image"
lazyfsctl grow "$MNT/image" 20M >"$WORK/grow.log" || fail "grow of an image on the mount"
grep -q "^$MNT/image: grown from" "$WORK/grow.log" || fail "$(cat "$WORK/grow.log")"
fsck.lazyfs -n "$MNT/image" >"$WORK/fsck.log" 2>&1 || fail "fsck: $(cat "$WORK/fsck.log")"
(($(bands "$MNT") == before)) || fail "the volume has grown that the image is stored on"
rm "$MNT/image"
say "grown while mounted and not"

# Power cuts. Each round cuts one write later, until growing ends before the cut.
export LAZYFS_UNFLUSHED_CUT=$WORK/cut
new_seed
# cut_round MOUNTED N
cut_round() {
  local is_mounted=$1 n=$2 before after status=0
  enlarge $((SIZE_MIB + 2))  # eight bands
  before=$(bands "$MNT")
  note_unflushed
  DAEMON_ENVIRONMENT+=("LAZYFS_UNFLUSHED_CUT=$WORK/cut")
  if ((is_mounted)); then
    remount_fs
    echo "$n" >"$WORK/cut"
    grow "$MNT" || status=$?
    kill -KILL "$DAEMON" 2>/dev/null
    wait "$DAEMON" 2>/dev/null
    DAEMON=''
    umount -l "$MNT" || fail "umount after the power cut"
  else
    unmount_fs
    echo "$n" >"$WORK/cut"
    (export "${DAEMON_ENVIRONMENT[@]}"; grow "$DEVICE") || status=$?
  fi
  rm "$WORK/cut"
  # The first write is lost as a whole, of the others some sectors.
  drop_unflushed $( ((n == 1)) || echo $((SEED + n))) >>"$WORK/drops.log"
  DAEMON_ENVIRONMENT=()
  mount_fs
  after=$(bands "$MNT")
  ((after == before || after == before + 8)) || fail "$before bands became $after"
  ((status != 0 || after == before + 8)) || fail "it said that it had grown, but has not"
  check_files
  ((after > before)) || grow_or_fail "$MNT"
  (($(bands "$MNT") == before + 8)) || fail "$(bands "$MNT") bands after $before"
  if ((after == before)); then ((++not_grown)); else ((++grown)); fi
  return $((status != 0))
}
for is_mounted in 1 0; do
  not_grown=0 grown=0 n=1
  until cut_round "$is_mounted" "$n"; do
    ((++n <= 60)) || fail "no end of writes"
  done
  ((n >= 4)) || fail "only $n writes"
  ((not_grown > 0 && grown > 0)) || fail "grown $grown times, $not_grown times not"
  say "mounted: $is_mounted; cut after each of $((n - 1)) writes: $grown grown, $not_grown not"
done
unmount_fs
fsck_fs
say "ok"
