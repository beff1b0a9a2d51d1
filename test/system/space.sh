#!/usr/bin/env bash
# Space is reported correctly: a program can write as much as statfs reports as available, and gets
# no ENOSPC while space is available, whatever it deletes and overwrites.
#   space.sh [SIZE OF THE DISK [ROUNDS OF FILLING AND DELETING]]     (40M, 5)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

size=${1:-40M}
rounds=${2:-5}
start_test
new_seed

work() {
  say "$*"
  python3 "$HERE/space.py" "$1" "$MNT" "${@:2}" || fail "$*"
}

# round OPTIONS BAND_SIZE
round() {
  say "mounted with ${1:-no options}, bands of $2"
  new_fs "$size" --band-size "$2"
  mount_fs "$1"
  # With the kernel's cache a write without space succeeds, and fsync and close report the error.
  if [[ $1 == nowriteback ]]; then
    work fill
  else
    work late
    lazyfsctl sync "$MNT" 2>/dev/null && fail "syncfs does not report what was refused"
  fi
  work rewrite
  work scatter "$SEED"
  work refill "$rounds"
  unmount_fs
  fsck_fs --data
}

say "remounting changes placement"
new_fs "$size" --band-size 256K
mount_fs ""
for policy in best random age first; do
  lazyfs -o "remount,placement=$policy" "$DEVICE" "$MNT" || fail "remount,placement=$policy"
  lazyfsctl stats --json "$MNT" | grep -q "\"placement\": *\"$policy\"" ||
    fail "placement is not $policy"
  work rewrite
done
lazyfs -o remount "$DEVICE" "$MNT" || fail "remount"
lazyfsctl stats --json "$MNT" | grep -q '"placement": *"first"' ||
  fail "remounting without the option changes placement"
unmount_fs
fsck_fs --data

round "" 256K
round nowriteback 256K
