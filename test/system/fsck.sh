#!/usr/bin/env bash
# fsck.lazyfs on many files: its memory stays within the limit of docs/checking.md, and it shows its
# progress on a terminal. Then the test damages metadata, and after that the headers of the log: -y
# repairs it, the next run is clean and changes nothing, and the remaining files are unchanged.
#   fsck.sh [FILES]     (20000)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

files=${1:-20000}
start_test
new_seed
DEVICE_KIND=image  # whose blocks can be looked through
new_fs 8G

# The memory limit of the process: 64 MiB of nodes, the memory that any program needs, and 48 bytes
# for each inode and name, twice while a table grows. Sanitizers need more than the program.
limit=(prlimit --data=$(((160 << 20) + files * 2 * 48 * 3)))
if [[ $(ldd "$BIN/fsck.lazyfs") =~ lib[at]san ]]; then limit=(); fi

# fsck OPTION...: returns its status; its output is in $WORK/fsck.log.
fsck() {
  local status=0
  "${limit[@]}" fsck.lazyfs "$@" "$DEVICE" >"$WORK/fsck.log" 2>&1 || status=$?
  return "$status"
}
digest() { python3 "$HERE/fsck.py" digest "$IMAGE"; }

mount_fs
python3 "$HERE/fsck.py" make "$MNT" "$files"
unmount_fs

say "$files files"
before=$(date +%s)
fsck -n --data || fail "status $?: $(tail -n 5 "$WORK/fsck.log")"
say "$(($(date +%s) - before)) s: $(tail -n 1 "$WORK/fsck.log")"
if grep -q $'\r' "$WORK/fsck.log"; then fail "fsck shows progress without a terminal"; fi
script -qec "fsck.lazyfs -n $DEVICE" /dev/null >"$WORK/terminal" </dev/null || fail "on a terminal"
for stage in nodes inodes bands names; do
  grep -q $'\r'"$stage  *[0-9]" "$WORK/terminal" || fail "no progress of $stage on a terminal"
  [[ $stage == bands ]] || grep -q $'\r'"$stage  *[0-9]*%, " "$WORK/terminal" ||
    fail "no percent of $stage on a terminal"
done

say "$(python3 "$HERE/fsck.py" damage "$IMAGE" 200 "$SEED")"
unchanged=$(digest)
status=0
fsck -n || status=$?
[[ $(digest) == "$unchanged" ]] || fail "fsck.lazyfs -n has changed something"
if ((status != 0)); then
  fsck -y -z "$WORK/undo" || (($? == 1)) || fail "-z: $(tail -n 5 "$WORK/fsck.log")"
  grep -q "takes the repair back" "$WORK/fsck.log" || fail "no word of the undo file"
  [[ $(digest) != "$unchanged" ]] || fail "nothing was repaired"
  fsck --undo "$WORK/undo" || (($? == 1)) || fail "--undo: $(cat "$WORK/fsck.log")"
  [[ $(digest) == "$unchanged" ]] || fail "the undo file does not give back what was there"
fi
repaired=0
before=$(date +%s)
fsck -y --losses "$WORK/losses" || repaired=$?
# The damage may have hit only node images that are no longer in use.
((repaired == 0 && status == 0 || repaired == 1 && status != 0)) ||
  fail "-n has status $status, -y $repaired: $(tail -n 5 "$WORK/fsck.log")"
say "$(($(date +%s) - before)) s: $(tail -n 1 "$WORK/fsck.log")"
((repaired == 0)) || tail -n 1 "$WORK/fsck.log" | grep -q ": repaired, " || fail "no last word"
removed=$(grep -c "which does not exist: removed" "$WORK/fsck.log") || true
((removed == 0)) || [[ $(wc -l <"$WORK/losses") -ge $removed ]] ||
  fail "$removed names were removed, and $(wc -l <"$WORK/losses") losses listed"
((removed == 0)) || grep -q "^$DEVICE: lost: /" "$WORK/fsck.log" || fail "no loss at the end"
unchanged=$(digest)
fsck -y || fail "a second run has status $?: $(tail -n 5 "$WORK/fsck.log")"
[[ $(digest) == "$unchanged" ]] || fail "a second run has changed something"
fsck -n --data || fail "data, status $?: $(tail -n 5 "$WORK/fsck.log")"

say "$(python3 "$HERE/fsck.py" headers "$IMAGE")"
fsck -n || fail "a header is a problem, status $?: $(tail -n 5 "$WORK/fsck.log")"
grep -q "The header of log band .* is damaged" "$WORK/fsck.log" || fail "no word of a header"
fsck -y || (($? == 1)) || fail "headers, status $?: $(tail -n 5 "$WORK/fsck.log")"
grep -q "Log band .* was emptied" "$WORK/fsck.log" || fail "no word of an emptied band"
unchanged=$(digest)
fsck -y || fail "after headers, status $?: $(tail -n 5 "$WORK/fsck.log")"
if grep -q "The header of" "$WORK/fsck.log"; then fail "a header is still damaged"; fi
[[ $(digest) == "$unchanged" ]] || fail "a run with nothing to do has changed something"

say "a note about a copy of the image's header"
mkfs.lazyfs -q "$WORK/grown.img" 64M
dd if="$WORK/grown.img" of="$WORK/header" bs=64K count=1 status=none
lazyfsctl grow "$WORK/grown.img" 128M >/dev/null
dd if="$WORK/header" of="$WORK/grown.img" conv=notrunc status=none
note() { fsck.lazyfs "$1" "$WORK/grown.img" >"$WORK/fsck.log"; }
cp --sparse=always "$WORK/grown.img" "$WORK/older.img"
note -n || fail "an older copy is a problem, status $?: $(cat "$WORK/fsck.log")"
grep -q "Copy 1 of the image's header is not the newest" "$WORK/fsck.log" || fail "no word of it"
note -y || (($? == 1)) || fail "status $?: $(cat "$WORK/fsck.log")"
grep -q ": repair: Copies were rewritten" "$WORK/fsck.log" || fail "$(cat "$WORK/fsck.log")"
note -y || fail "after the copy was rewritten, status $?: $(cat "$WORK/fsck.log")"
if grep -q "repair" "$WORK/fsck.log"; then fail "rewritten twice: $(cat "$WORK/fsck.log")"; fi

say "a damaged copy of the image's header"
cp --sparse=always "$WORK/grown.img" "$WORK/damaged.img"
dd if=/dev/zero of="$WORK/damaged.img" bs=64K count=1 conv=notrunc status=none
fsck.lazyfs -y "$WORK/damaged.img" >"$WORK/fsck.log" 2>&1 || (($? == 1)) || fail "status $?"
[[ $(grep -c "Copy 1 of the image's header is unusable" "$WORK/fsck.log") == 1 ]] ||
  fail "not one warning: $(cat "$WORK/fsck.log")"
[[ $(grep -c "Copy 1 of the image's header was rewritten" "$WORK/fsck.log") == 1 ]] ||
  fail "not one repair: $(cat "$WORK/fsck.log")"

# A copy of a block device, to whose last band a limit on sizes of files lets nothing be written.
say "a superblock that cannot be rewritten"
truncate -s 64M "$WORK/limited.img"
attach "$WORK/limited.img"
mkfs.lazyfs -q "$LOOP"
detach "$LOOP"
last_band=$(edidump --json "$WORK/limited.img" | python3 -c 'import json, sys
print(json.load(sys.stdin)["bands"][-1]["offset"])')
dd if=/dev/zero of="$WORK/limited.img" bs=4096 seek=$((last_band / 4096)) count=64 conv=notrunc \
  status=none
limited() {
  trap '' XFSZ
  ulimit -f $((last_band / 1024))
  fsck.lazyfs -y "$WORK/limited.img" 2>&1
}
log=$(limited) || fail "status $?: $log"
if grep -q ": repair: " <<<"$log"; then fail "it was not rewritten: $log"; fi
grep -q "The newest superblock is not in band" <<<"$log" || fail "no word of it: $log"
log=$(fsck.lazyfs -y "$WORK/limited.img" 2>&1) || (($? == 1)) || fail "status $?: $log"
grep -q ": repair: The superblock in band .* was rewritten" <<<"$log" || fail "no word: $log"

# Somebody could mount it after the check, and before the repair.
say "the image stays claimed from the check to the repair"
status=0
if ! strace -o /dev/null true; then
  say "skipped: strace may not trace here"
else
  python3 "$HERE/claims.py" "$WORK/older.img" fsck.lazyfs -y "$WORK/older.img" >"$WORK/fsck.log" ||
    status=$?
  ((status == 1)) || fail "status $status: $(cat "$WORK/fsck.log")"
fi

mount_fs
touch "$WORK/losses"  # no repair, no file
python3 "$HERE/fsck.py" verify "$MNT" "$files" $((files / 5)) "$WORK/losses" || fail "see above"
unmount_fs

# The newest transaction is torn, and the end of the one before it; and a superblock.
say "a log that has lost transactions, and is repaired"
new_fs 64M
mount_fs
for ((i = 0; i < 5; i++)); do
  mkdir "$MNT/d$i"
  sync "$MNT/d$i"
done
kill_fs
wait_for_device
# The newest transaction but its first descriptor; then of the one before it the descriptor, and the
# copy at its end; then the newest superblock.
edidump --json "$DEVICE" >"$WORK/bands"
for what in newest older superblock; do
  lazyfs-debug transactions --json "$DEVICE" >"$WORK/transactions" 2>/dev/null
  python3 - "$what" "$IMAGE" "$WORK/transactions" "$WORK/bands" <<'END'
import json, os, sys
what, image, transactions, bands = sys.argv[1:]
fd = os.open(image, os.O_RDWR)
part = json.load(open(transactions))["parts"][0]
bands = json.load(open(bands))["bands"]
def tear(band, first, blocks):
    os.pwrite(fd, bytes(blocks * 4096), bands[band]["offset"] + first * 4096)
if what == "newest":
    tear(part["band"], part["rba"] + 1, part["blocks"] - 1)
elif what == "older":
    tear(part["band"], part["rba"], 1)
    tear(part["band"], part["rba"] + part["blocks"] - 1, 1)
else:
    tear(1, bands[1]["write_pointer"] - 1, 1)
END
done
fsck -n || fail "status $?: $(cat "$WORK/fsck.log")"
fsck.lazyfs -y "$DEVICE" >"$WORK/fsck.log" || (($? == 1)) || fail "status $?"
losses=$(grep -c "The metadata log is damaged" "$WORK/fsck.log") || true
((losses == 1)) || fail "the loss is named $losses times: $(cat "$WORK/fsck.log")"
