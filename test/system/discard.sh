#!/usr/bin/env bash
# Space that the filesystem frees reaches the device: bands that are reset, mkfs.lazyfs, fstrim(8).
# A loop device discards by making holes in its file, so the file's blocks on the disk tell.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
command -v fstrim >/dev/null || skip "no fstrim"

taken_mib() { du -m "$IMAGE" | cut -f1; }
takes_at_most() { (($(taken_mib) <= $1)); }
takes_at_least() { (($(taken_mib) >= $1)) || fail "$2: the image takes $(taken_mib) MiB"; }
fill() { dd if=/dev/urandom of="$MNT/$1" bs=1M count="$2" status=none; }
# Returns when nothing is left to be deleted or reset.
settle() { lazyfsctl sync "$MNT" && lazyfsctl gc "$MNT" >/dev/null && lazyfsctl sync "$MNT"; }
trimmed_bytes() {  # OPTION OF fstrim...
  fstrim -v "$@" "$MNT" >"$WORK/fstrim" 2>&1 || fail "fstrim: $(cat "$WORK/fstrim")"
  sed -n 's/.*(\([0-9]*\) bytes).*/\1/p' "$WORK/fstrim"
}

mkfs_discards() {
  dd if=/dev/urandom of="$IMAGE" bs=1M count=200 seek=40 conv=notrunc status=none
  mkfs.lazyfs -f -K "$DEVICE" >"$WORK/mkfs.log" || fail "mkfs.lazyfs -K"
  grep -q 'discard  nothing (-K)' "$WORK/mkfs.log" || fail "mkfs.lazyfs -K: $(cat "$WORK/mkfs.log")"
  takes_at_least 200 "after mkfs.lazyfs -K"
  mkfs.lazyfs -f "$DEVICE" >"$WORK/mkfs.log" || fail "mkfs.lazyfs"
  grep -q 'discard  [0-9]' "$WORK/mkfs.log" || fail "mkfs.lazyfs: $(cat "$WORK/mkfs.log")"
  takes_at_most 60 || fail "after mkfs.lazyfs the image takes $(taken_mib) MiB"
}

deleting_discards() {
  mount_fs
  fill kept 20
  fill file 200
  lazyfsctl sync "$MNT"
  takes_at_least 200 "after writing"
  rm "$MNT/file"
  settle
  until_true "deleted bands are not discarded" takes_at_most 90
  fill file 200
  lazyfsctl sync "$MNT"
  sum=$(sha256sum <"$MNT/kept")
  rm "$MNT/file"
  unmount_fs
  takes_at_most 90 || fail "after the unmount the image takes $(taken_mib) MiB"
  fsck_fs --data
}

trimming_discards() {
  local bytes
  mount_fs nodiscard
  fill file 200
  rm "$MNT/file"
  fill file 200
  lazyfsctl sync "$MNT"
  rm "$MNT/file"
  settle
  sleep 2  # the background's chance to do what it must not do
  takes_at_least 200 "mounted with nodiscard, after deleting"
  [[ $(trimmed_bytes -o 600M -l 1M) == 0 ]] 2>/dev/null && fail "fstrim past the end"
  bytes=$(trimmed_bytes -o 100M -l 100M)
  ((bytes > 0 && bytes <= 104 * 1024 * 1024)) || fail "fstrim of a part trims $bytes bytes"
  [[ $(trimmed_bytes -m 600M) == 0 ]] || fail "fstrim -m trims shorter runs"
  bytes=$(trimmed_bytes)
  ((bytes >= 300 * 1024 * 1024)) || fail "fstrim trims $bytes bytes"
  takes_at_most 90 || fail "after fstrim the image takes $(taken_mib) MiB"
  chmod 755 "$WORK"
  if runuser -u nobody -- fstrim "$MNT" 2>"$WORK/fstrim"; then fail "fstrim by another user"; fi
  [[ $(sha256sum <"$MNT/kept") == "$sum" ]] || fail "fstrim has damaged a file"

  mount.lazyfs "$DEVICE" "$MNT" -o remount,discard || fail "remount,discard"
  fill file 200
  lazyfsctl sync "$MNT"
  rm "$MNT/file"
  settle
  until_true "nothing is discarded after remount,discard" takes_at_most 90
}

crashing_keeps_all() {
  fill file 50
  lazyfsctl sync "$MNT"
  rm "$MNT/file"
  kill_fs
  mount_fs
  trimmed_bytes >/dev/null
  [[ $(sha256sum <"$MNT/kept") == "$sum" ]] || fail "a file is damaged after a crash and fstrim"
  kill_fs
  fsck_fs --data
  mount_fs ro
  if fstrim "$MNT" 2>"$WORK/fstrim"; then fail "fstrim of a read-only mount"; fi
  [[ $(sha256sum <"$MNT/kept") == "$sum" ]] || fail "a file is damaged"
  unmount_fs
}

for DEVICE_KIND in loop image; do
  say "$DEVICE_KIND"
  new_fs 512M --band-size 4M
  mkfs_discards
  deleting_discards
  trimming_discards
  crashing_keeps_all
  if [[ $DEVICE_KIND == loop ]]; then detach "$DEVICE"; fi
done
