#!/usr/bin/env bash
# Random work by several processes, compared with a model: with small caches, with the kernel's
# write-back cache, on a disk that is too small, and while bands are cleaned.
#   stress.sh [OPERATIONS OF EACH PROCESS [PROCESSES]]     (1500, 4)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

operations=${1:-1500}
processes=${2:-4}
start_test
new_seed

# round NAME OPTIONS [fill]
round() {
  local name=$1 options=$2 verb=${3:-work}
  say "$name (${options:-no options})"
  mount_fs "$options"
  python3 "$HERE/stress.py" "$verb" "$MNT" "$WORK/record" "$SEED" "$operations" "$processes" ||
    fail "$name"
  say "$(df --output=pcent "$MNT" | tail -n 1) of the disk is used"
  if [[ $name == *clean* ]]; then lazyfsctl gc "$MNT"; fi
  remount_fs "$options"
  python3 "$HERE/stress.py" verify "$MNT" "$WORK/record" "$processes" || fail "$name, mounted again"
  unmount_fs
  fsck_fs --data
}

new_fs 512M --band-size 1M
round "small caches" dirty=4M,cache=2M,commit=1
round "the kernel's write-back cache" writeback
round "cleaned" ""
new_fs 16M --band-size 256K
round "a full disk" commit=1 fill
round "a full disk, small caches" dirty=1M,cache=1M fill
new_fs 10M
round "a tiny disk" "" fill
