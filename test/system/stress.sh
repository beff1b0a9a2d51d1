#!/usr/bin/env bash
# Compares random operations of several processes with a model: with small caches, with and without
# the kernel's write-back cache, on a disk that is too small, and while bands are cleaned. After
# each round all data must exist after a sync and a kill of the daemon, and after mounting again.
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
  local cleaner=''
  if [[ $name == *clean* ]]; then
    while [[ ! -e $WORK/enough ]] && lazyfsctl gc "$MNT"; do :; done &
    cleaner=$!
  fi
  python3 "$HERE/stress.py" "$verb" "$MNT" "$WORK/record" "$SEED" "$operations" "$processes" ||
    fail "$name"
  say "$(df --output=pcent "$MNT" | tail -n 1) of the disk is used"
  if [[ -n $cleaner ]]; then
    touch "$WORK/enough"
    wait "$cleaner" || fail "lazyfsctl gc"
    rm "$WORK/enough"
  fi
  lazyfsctl sync "$MNT"
  kill_fs
  fsck_fs
  mount_fs "$options"
  python3 "$HERE/stress.py" verify "$MNT" "$WORK/record" "$processes" || fail "$name, killed"
  remount_fs "$options"
  python3 "$HERE/stress.py" verify "$MNT" "$WORK/record" "$processes" || fail "$name, mounted again"
  unmount_fs
  fsck_fs --data
}

new_fs 512M --band-size 1M
round "small caches" dirty=4M,cache=2M,commit=1
round "without the kernel's write-back cache" nowriteback
# With the write-back cache a write that finds the disk full fails later, at close or fsync, and the
# model would not know what was written.
new_fs 16M --band-size 256K
round "a full disk, cleaned all the time" nowriteback fill
round "a full disk" nowriteback,commit=1 fill
round "a full disk, small caches" nowriteback,dirty=1M,cache=1M fill
new_fs 10M
round "a tiny disk" nowriteback fill
new_edi_fs -s4096 --zone 40x64 --zone 20x100 --zone 30x400 --conventional 7-9,70 --linked 45-48
round "bands of many kinds" nowriteback,commit=1 fill
new_edi_fs -s512 -b2405 -c40
round "blocks of 512 bytes" nowriteback fill
new_edi_fs --format 0 -s4096 -b300 -c40
round "EDI format 0" nowriteback fill
