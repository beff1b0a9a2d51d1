#!/usr/bin/env bash
# Power cuts while `edicreate --force` replaces a volume on a block device. Afterwards the device
# holds the former volume, which fsck.lazyfs repairs, or the new image, or neither of them. What
# holds neither is not taken for an empty disk, and edicreate can be repeated.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
[[ $DEVICE_KIND == loop ]] || skip "an image file is truncated first"
new_seed
new_fs 32M -L former
mount_fs
for ((i = 1; i <= 8; i++)); do head -c $((i * 70000)) /dev/urandom >"$MNT/$i"; done
unmount_fs
cp --sparse=always "$IMAGE" "$WORK/whole"

# replace [--force]
replace() { edicreate --format "$FORMAT" -b256 -c31 -f"$DEVICE" "$@" >"$WORK/out" 2>&1; }

# look WHAT: sets FOUND to what the device holds.
look() {
  local layout=''
  blockdev --flushbufs "$DEVICE"
  FOUND=neither
  if edidump --json "$IMAGE" >"$WORK/dump" 2>"$WORK/error"; then
    layout=$(figure layout <"$WORK/dump")
    case $layout in
      plain) FOUND=former ;;
      image) FOUND=new ;;
      *) fail "$1: edidump shows the layout '$layout'" ;;
    esac
  else
    grep -q "not an EDI" "$WORK/error" || fail "$1: a part of an image: $(<"$WORK/error")"
  fi
  if lazyfs-id "$DEVICE" >"$WORK/id" 2>&1; then
    [[ $FOUND == former ]] || fail "$1: a volume, and $FOUND: $(<"$WORK/id")"
  fi
}

declare -A SEEN
# cut_round N SEED: cuts the power after N writes. Returns 0 if edicreate had ended before.
cut_round() {
  local what="format $FORMAT, cut after $1 writes, seed $2" status=0 repair=0
  dd if="$WORK/whole" of="$IMAGE" bs=1M conv=notrunc,fsync status=none
  blockdev --flushbufs "$DEVICE"
  note_unflushed
  echo "$1" >"$WORK/cut"
  # The shell would print a message about the process that was killed.
  (
    export "${DAEMON_ENVIRONMENT[@]}" "LAZYFS_UNFLUSHED_CUT=$WORK/cut"
    replace --force
  ) 2>/dev/null || status=$?
  drop_unflushed $( (($2 == 0)) || echo "$2") >>"$WORK/drops.log"
  ((status == 0 || status == 137)) || fail "$what: status $status: $(<"$WORK/out")"
  look "$what"
  SEEN[$FOUND]=$((SEEN[$FOUND] + 1))
  case $FOUND in
    former)
      fsck.lazyfs -y "$DEVICE" >"$WORK/fsck" 2>&1 || repair=$?
      ((repair <= 1)) || fail "$what: fsck.lazyfs -y has status $repair: $(<"$WORK/fsck")"
      fsck_fs ;;
    neither)
      if replace; then fail "$what: taken for an empty disk"; fi ;;
  esac
  ((status != 0)) || [[ $FOUND == new ]] || fail "$what: edicreate had ended, found: $FOUND"
  replace --force || fail "$what: edicreate cannot be repeated: $(<"$WORK/out")"
  look "$what"
  [[ $FOUND == new ]] || fail "$what: after the repetition the device holds: $FOUND"
  return $((status != 0))
}

for FORMAT in 1 0; do
  SEEN=([former]=0 [new]=0 [neither]=0)
  n=1
  until cut_round "$n" 0; do
    for ((i = 1; i <= 4; i++)); do cut_round "$n" $((SEED + 10 * n + i)) || true; done
    ((++n <= 60)) || fail "no end of writes"
  done
  say "format $FORMAT: former volume ${SEEN[former]} times, new image ${SEEN[new]}," \
    "neither ${SEEN[neither]}"
  ((SEEN[former] > 0 && SEEN[new] > 0)) || fail "no cut has left both"
done
