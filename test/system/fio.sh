#!/usr/bin/env bash
# fio writes patterns and reads them back, with several block sizes and engines, direct and cached,
# random and sequential. The data is verified at once, and again after mounting again.
#   fio.sh [SIZE OF EACH FILE]     (16m)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

size=${1:-16m}
start_test
new_seed
new_fs 2G
mount_fs

# job NAME OPTION...
job() {
  local name=$1
  shift
  say "$name"
  fio --name="$name" --filename="$MNT/$name" --size="$size" --randseed="$SEED" --verify=crc32c \
    --verify_fatal=1 --verify_state_save=0 --do_verify=1 --fallocate=none --output="$WORK/fio.out" \
    "$@" >/dev/null 2>&1 || fail "$name: $(cat "$WORK/fio.out")"
}

job psync-512 --ioengine=psync --rw=randwrite --bs=512 --size=2m
for block in 4k 60k 1m; do
  job "psync-$block" --ioengine=psync --rw=randwrite --bs="$block"
  job "sequential-$block" --ioengine=psync --rw=write --bs="$block"
done
job mmap-4k --ioengine=mmap --rw=randwrite --bs=4k
job mmap-64k --ioengine=mmap --rw=write --bs=64k
job direct-4k --ioengine=psync --direct=1 --rw=randwrite --bs=4k
job direct-1m --ioengine=psync --direct=1 --rw=write --bs=1m
job unaligned --ioengine=psync --rw=randwrite --bsrange=1k-200k --bs_unaligned=1
job synced --ioengine=psync --rw=randwrite --bs=8k --fsync=50 --size=4m
job asynchronous --ioengine=libaio --iodepth=8 --direct=1 --rw=randwrite --bs=16k

(cd "$MNT" && sha256sum ./*) >"$WORK/sums"
remount_fs
(cd "$MNT" && sha256sum --quiet -c "$WORK/sums") || fail "contents after mounting again"
unmount_fs
fsck_fs
