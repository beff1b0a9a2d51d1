#!/usr/bin/env bash
# The tests of `make check-zoned`, one by name; runs in the guest, in the host's root folder, with
# the zoned device $ZBD. The guest's own /share is at /tmp/share.
#   guest.sh contract | files | tools | full | rewrite | failing | refused | cuts
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
BIN=${LAZYFS_BIN:-$HERE/../../build/bin}
TESTS=${LAZYFS_BIN:-$HERE/../../build/bin}/../test
PATH=$BIN:$PATH
MNT=/tmp/mnt
LOG=/tmp/lazyfs.log
daemon=

fail() { echo "FAILED: $*"; tail -n 40 "$LOG" 2>/dev/null; exit 1; }

mount_fs() {  # [OPTIONS]
  mkdir -p "$MNT"
  lazyfs -f ${1:+-o "$1"} "$ZBD" "$MNT" >>"$LOG" 2>&1 &
  daemon=$!
  for ((i = 0; i < 600; i++)); do
    findmnt "$MNT" >/dev/null && return
    kill -0 "$daemon" 2>/dev/null || fail "the mount has ended"
    sleep 0.1
  done
  fail "no mount within a minute"
}
unmount_fs() { umount "$MNT"; wait "$daemon" || fail "the daemon failed"; }
fsck_fs() { fsck.lazyfs -n "$ZBD" || fail "fsck.lazyfs found problems"; }
disk_bytes() { df -B1 --output=size "$MNT" | tail -n 1; }
# Zones in the conditions that count against the limit.
active_zones() {
  edidump --json "$ZBD" | python3 -c 'import json, sys
bands = json.load(sys.stdin)["bands"]
print(sum(b["condition"] in ("implicitly-open", "explicitly-open", "closed") for b in bands))'
}
# bytes FILE MIB SEED: contents that differ by seed and cost little.
bytes() {
  head -c "$(($2 << 20))" < <(yes "$3" 2>/dev/null) >"$1"
}

# ---- the tests -----------------------------------------------------------------------------------

contract() {
  LAZYFS_ZONED_DEVICE=$ZBD "$TESTS/zoned_test" --gtest_brief=1 \
    --gtest_filter='*block_device*:-*Unknown*'
}

# A source tree is unpacked, compared, and compared again after the next mount.
files() {
  mkfs.lazyfs -q "$ZBD"
  mount_fs
  tar -C "$MNT" -xf /tmp/share/tree.tar
  lazyfsctl sync "$MNT"
  tar -C "$MNT" -df /tmp/share/tree.tar || fail "the files differ"
  unmount_fs
  fsck_fs
  mount_fs
  tar -C "$MNT" -df /tmp/share/tree.tar || fail "the files differ after the mount"
  rm -rf "${MNT:?}"/*
  unmount_fs
  fsck_fs
  echo "zones active: $(active_zones)"
}

# The sequential zone with the most blocks of files: its number, and its first sector.
data_zone() {
  edidump --json "$ZBD" >/tmp/dump
  edistats --json "$ZBD" >/tmp/report
  python3 -c '
import json
zones = json.load(open("/tmp/dump"))["bands"]
bands = [b for b in json.load(open("/tmp/report"))["bands"]
         if b["state"] not in ("log", "super") and zones[b["band"]]["kind"] == "sequential"]
band = max(bands, key=lambda b: b["live"])["band"]
print(band, zones[band]["offset"] // 512)'
}
# json PROGRAM: runs it with the dump or report on standard input.
json() { python3 -c "import json, sys; d = json.load(sys.stdin); $1"; }

# Every program that opens a device, on a zoned one.
tools() {
  mkfs.lazyfs -q -L first "$ZBD"
  lazyfs-id "$ZBD" | grep -q first || fail "lazyfs-id"
  edidump --json "$ZBD" | json '
bands = d["bands"]
assert {b["kind"] for b in bands} <= {"conventional", "sequential"}, bands[0]
assert all(b["condition"] and 0 < b["capacity"] <= b["blocks"] for b in bands), bands[0]' ||
    fail "edidump --json"
  mount_fs
  for ((i = 0; i < 20; i++)); do bytes "$MNT/$i" 2 "$i"; done
  rm "$MNT"/1?
  lazyfsctl sync "$MNT"
  lazyfsctl info "$MNT" | grep -q first || fail "lazyfsctl info"
  lazyfsctl gc --dead 1 "$MNT" || fail "lazyfsctl gc"
  lazyfsctl scrub "$MNT" | grep -q " 0 damaged" || fail "lazyfsctl scrub"
  lazyfsctl map "$MNT/1" >/dev/null || fail "lazyfsctl map"
  lazyfsctl health "$MNT" || fail "lazyfsctl health"
  lazyfsctl stats --json "$MNT" | json 'assert d["data"]' || fail "lazyfsctl stats"
  unmount_fs
  lazyfsctl label "$ZBD" second || fail "lazyfsctl label"
  lazyfs-id "$ZBD" | grep -q second || fail "the label is the old one"
  edistats "$ZBD" >/tmp/report || fail "edistats"
  edistats --json "$ZBD" | json 'assert d["bands"]' || fail "edistats --json"
  edistats --html /tmp/picture.html "$ZBD" >/dev/null && [[ -s /tmp/picture.html ]] ||
    fail "edistats --html"
  lazyfs-debug superblock "$ZBD" >/dev/null || fail "lazyfs-debug"
  lazyfs-debug image "$ZBD" /tmp/metadata || fail "lazyfs-debug image"
  fsck.lazyfs -n /tmp/metadata >/tmp/fsck.log || fail "the image: $(cat /tmp/fsck.log)"
  # A zone with data is reset by somebody else: fsck says so, repairs, and is content then.
  blkzone reset -c 1 -o "$(data_zone | cut -d " " -f 2)" "$ZBD"
  local status=0
  fsck.lazyfs -n "$ZBD" >/tmp/fsck.log || status=$?
  ((status == 4)) || fail "fsck -n: status $status after a reset: $(cat /tmp/fsck.log)"
  status=0
  fsck.lazyfs -y "$ZBD" >/tmp/fsck.log || status=$?
  ((status == 1)) || fail "fsck -y: status $status: $(cat /tmp/fsck.log)"
  tail -n 2 /tmp/fsck.log
  fsck_fs
  mount_fs
  unmount_fs
  fsck_fs
}

full() {
  mkfs.lazyfs -q "$ZBD"
  mount_fs
  for ((round = 0; round < 2; round++)); do
    dd if=/dev/zero of="$MNT/big" bs=1M 2>/dev/null && fail "the disk is not full"
    local used=$(($(stat -c %s "$MNT/big") * 100 / $(disk_bytes)))
    ((used >= 98)) || fail "ENOSPC with $used % of what df says used"
    rm "$MNT/big"
    lazyfsctl sync "$MNT" || lazyfsctl sync "$MNT" || fail "no sync"  # the first one says ENOSPC
  done
  unmount_fs
  fsck_fs
}

# A quarter of the disk is overwritten at random places, until 8 disks are written.
rewrite() {
  mkfs.lazyfs -q "$ZBD"
  mount_fs
  local size files=40
  size=$(disk_bytes)
  local mib=$((size / 4 / files >> 20)) written=0 seed=0
  ((mib > 0)) || fail "the disk is too small for this test"
  bytes "$MNT/keep" $((size / 2 >> 20)) keep   # and half of the disk is cold
  local keep
  keep=$(sha256sum <"$MNT/keep")
  while ((written < 8 * size)); do
    seed=$((seed + 1))
    local file=$((RANDOM % files))
    bytes "$MNT/$file" "$mib" "$seed" || fail "ENOSPC after $((written * 100 / size)) % of the disk"
    sums[file]=$seed
    written=$((written + (mib << 20)))
  done
  lazyfsctl sync "$MNT"
  for file in "${!sums[@]}"; do
    bytes /tmp/expected "$mib" "${sums[file]}"
    cmp "$MNT/$file" /tmp/expected || fail "file $file differs"
  done
  [[ $(sha256sum <"$MNT/keep") == "$keep" ]] || fail "the cold file differs"
  lazyfsctl stats "$MNT" 2>/dev/null | grep -E 'moved|reset|cleaned' | head -n 12 || true
  unmount_fs
  fsck_fs
}
declare -a sums

# Zones go read-only and offline while files are written (null_blk).
failing() {
  local control=/sys/kernel/config/nullb/nullb0
  mkfs.lazyfs -q "$ZBD"
  mount_fs
  for ((i = 0; i < 40; i++)); do bytes "$MNT/before-$i" 2 "$i"; done
  lazyfsctl sync "$MNT"
  local read_only sector
  read -r read_only sector < <(data_zone)
  echo "$sector" >"$control/zone_readonly"
  for ((i = 0; i < 40; i++)); do bytes "$MNT/after-$i" 2 "after-$i"; done
  lazyfsctl sync "$MNT"
  for ((i = 0; i < 40; i++)); do
    bytes /tmp/expected 2 "$i"
    cmp "$MNT/before-$i" /tmp/expected || fail "before-$i differs, zone $read_only is read-only"
    bytes /tmp/expected 2 "after-$i"
    cmp "$MNT/after-$i" /tmp/expected || fail "after-$i differs"
  done
  unmount_fs
  fsck.lazyfs -n "$ZBD" || echo "fsck: see above"
  mount_fs
  for ((i = 0; i < 40; i++)); do
    bytes /tmp/expected 2 "$i"
    cmp "$MNT/before-$i" /tmp/expected || fail "before-$i differs after the mount"
  done
  # Offline: what lay there is lost, all else is not, and the volume continues.
  local offline
  read -r offline sector < <(data_zone)
  echo "$sector" >"$control/zone_offline"
  echo 3 >/proc/sys/vm/drop_caches
  local lost=0
  for ((i = 0; i < 40; i++)); do
    for file in "before-$i" "after-$i"; do
      bytes /tmp/expected 2 "$([[ $file == before* ]] && echo "$i" || echo "$file")"
      cat "$MNT/$file" >/tmp/found 2>/dev/null || { lost=$((lost + 1)); continue; }
      cmp /tmp/found /tmp/expected || fail "$file differs after zone $offline went offline"
    done
  done
  ((lost > 0)) || fail "zone $offline went offline, and no file was in it"
  echo "of 80 files $lost lay in the zone that went offline"
  for ((i = 0; i < 20; i++)); do bytes "$MNT/last-$i" 2 "last-$i"; done
  lazyfsctl sync "$MNT" || fail "no sync with a zone offline"
  for ((i = 0; i < 20; i++)); do
    bytes /tmp/expected 2 "last-$i"
    cmp "$MNT/last-$i" /tmp/expected || fail "last-$i differs"
  done
  unmount_fs
}

# A device that allows fewer zones than lazyfs needs.
refused() {
  local text
  text=$(mkfs.lazyfs "$ZBD" 2>&1) && fail "made a filesystem"
  grep -q "fewer than 6" <<<"$text" || fail "no reason: $text"
}

# The power is cut while files are written and fsynced; each boot verifies what the one before it
# has left. One more boot than CUTS.
cuts() {
  local journal=/tmp/share/journal writer=$HERE/../system/crash_writer.py
  if ((BOOT == 1)); then
    mkfs.lazyfs -q "$ZBD"
    mount_fs
  else
    mount_fs
    python3 -S "$writer" verify "$MNT/$((BOOT - 1))" "$journal-$((BOOT - 1))" ||
      fail "cut $((BOOT - 1)) has lost something"
    rm -rf "${MNT:?}/$((BOOT - 1))" "$journal-$((BOOT - 1))"
    lazyfsctl sync "$MNT"
    if ((BOOT % 5 == 0)); then
      unmount_fs
      fsck_fs
      mount_fs
    fi
  fi
  if ((BOOT > CUTS)); then
    unmount_fs
    fsck_fs
    echo "$CUTS cuts"
    return
  fi
  python3 -S "$writer" write "$MNT/$BOOT" "$journal-$BOOT" "$((BOOT * 7919))" >/dev/null 2>&1 &
  for ((i = 0; i < 600; i++)); do
    [[ -e $journal-$BOOT ]] && (($(wc -l <"$journal-$BOOT") > 10)) && break
    sleep 0.1
  done
  sleep "$((RANDOM % 3)).$((RANDOM % 10))"
  echo b >/proc/sysrq-trigger
  sleep 60
}

"$@"
