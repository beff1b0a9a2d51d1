#!/usr/bin/env bash
# lazyfs-debug: what it shows, files copied out of a volume that is damaged or cannot be mounted, an
# image of the metadata. It writes nothing to the device.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_fs 256M
mount_fs
mkdir -p "$MNT/d/empty"
head -c 3000000 /dev/urandom >"$MNT/d/large"
echo small >"$MNT/d/small"
ln -s small "$MNT/d/link"
truncate -s 1G "$MNT/d/sparse"
chmod 640 "$MNT/d/small"
chown 5:6 "$MNT/d/small"
touch -d 2001-02-03 "$MNT/d/large"
hostile=$'file\e[2Jx'  # a command to a terminal
for ((i = 0; i < 250; i++)); do echo "$i" >"$MNT/file$i"; done
echo hostile >"$MNT/$hostile"
for ((i = 250; i < 500; i++)); do echo "$i" >"$MNT/file$i"; done
cp -a --reflink=auto "$MNT/d" "$WORK/d"
inode=$(stat -c %i "$MNT/d/large")
small=$(stat -c %i "$MNT/$hostile")
unmount_fs

# debug STATUS WORDS...: its output is in $WORK/out and $WORK/err.
debug() {
  local wanted=$1 status=0
  shift
  lazyfs-debug "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
  ((status == wanted)) || fail "$*: status $status: $(tail -n 5 "$WORK/out" "$WORK/err")"
}
field() { python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for name in sys.argv[2:]: value = value[int(name) if name.isdigit() else name]
print(value)' "$WORK/out" "$@"; }
digest() { sha256sum <"$IMAGE"; }

say "what it shows"
before=$(digest)
debug 0 superblock --json "$DEVICE"
[[ $(field ended_cleanly) == True ]] || fail "superblock: $(cat "$WORK/out")"
[[ $(field bands_without_it) == "[]" ]] || fail "superblock: $(cat "$WORK/out")"
debug 0 log --json "$DEVICE"
newest=$(field newest_transaction)
nodes=$(field nodes)
((nodes > 1)) || fail "log: $(cat "$WORK/out")"
debug 0 transactions --json --most 1 "$DEVICE"
[[ $(field newest_transaction) == "$newest" ]] || fail "transactions: $(cat "$WORK/out")"
debug 0 node --json "$DEVICE" 1
[[ $(field level) -gt 0 ]] || fail "the root: $(cat "$WORK/out")"
child=$(field items 0 child)
debug 0 node --json "$DEVICE" "$child"
field items 0 kind >/dev/null || fail "node $child: $(cat "$WORK/out")"
debug 1 node "$DEVICE" 999999
debug 0 inode --json "$DEVICE" /d/large
[[ $(field inode) == "$inode" && $(field record size) == 3000000 ]] ||
  fail "inode: $(cat "$WORK/out")"
debug 0 inode "$DEVICE" "$inode"
grep -q "^record.mode  *33188$" "$WORK/out" || fail "inode: $(cat "$WORK/out")"
debug 0 items "$DEVICE" "$inode"
grep -q '"kind":"extent"' "$WORK/out" || fail "items: $(cat "$WORK/out")"
debug 0 ls "$DEVICE" /d
grep -q '"name":"sparse"' "$WORK/out" || fail "ls: $(cat "$WORK/out")"
debug 1 ls "$DEVICE" /none
debug 2 show "$DEVICE"

say "copies"
same() {
  rsync -acn --delete --itemize-changes "$WORK/d/" "$1/" >"$WORK/diff"
  [[ ! -s $WORK/diff ]]
}
debug 0 copy "$DEVICE" /d "$WORK/copy"
same "$WORK/copy" || fail "the copy differs: $(cat "$WORK/diff")"
(($(stat -c %b "$WORK/copy/sparse") < 1000)) || fail "holes are not copied as holes"
debug 1 copy "$DEVICE" /d "$WORK/copy"
debug 0 copy "$DEVICE" / "$WORK/all"
[[ $(find "$WORK/all" -name 'file*' | wc -l) == 501 ]] || fail "not all was copied"
[[ $(digest) == "$before" ]] || fail "lazyfs-debug has changed the device"

say "an image of the metadata"
debug 0 image "$DEVICE" "$WORK/metadata"
(($(stat -c %b "$WORK/metadata") * 512 < 64 << 20)) || fail "the image is not sparse"
fsck.lazyfs -n "$WORK/metadata" >"$WORK/fsck.log" || fail "fsck: $(tail -n 3 "$WORK/fsck.log")"
lazyfs-debug ls "$WORK/metadata" /d >/dev/null || fail "ls of an image of metadata"
status=0
lazyfs-debug copy "$WORK/metadata" /d/large "$WORK/large" 2>/dev/null || status=$?
((status == 4)) || fail "contents of data bands are in the image: status $status"

say "a repair that loses files"
# damage_leaf IMAGE INODE: damages the leaf that has the contents of a small file.
damage_leaf() {
  local band='' rba
  for ((node = 2; node < 10000; node++)); do
    lazyfs-debug node --json "$1" "$node" >"$WORK/out" 2>/dev/null || continue
    tr -d ' \n' <"$WORK/out" | grep -q "\"owner\":$2,\"kind\":\"inlinedata\"" || continue
    band=$(field band) rba=$(field rba)
    break
  done
  [[ $band ]] || fail "no node has the contents of inode $2"
  edidump --json "$1" >"$WORK/out"
  echo damaged | dd of="$1" bs=1 conv=notrunc status=none \
    seek=$(($(field bands "$band" offset) + rba * 4096 + 2000))
}
cp --sparse=always "$IMAGE" "$WORK/damaged"
damage_leaf "$WORK/damaged" "$small"
debug 4 copy --repaired "$WORK/damaged" / "$WORK/some"
grep -qF "lazyfs-debug: $WORK/some/file\033[2Jx: lost" "$WORK/err" ||
  fail "no word of the hostile name: $(cat -v "$WORK/err")"
if grep -q $'\e' "$WORK/err"; then fail "a lost name commands the terminal"; fi
for ((i = 0; i < 500; i++)); do
  cmp -s "$WORK/all/file$i" "$WORK/some/file$i" || grep -q "/some/file$i: lost" "$WORK/err" ||
    fail "no word of file$i, which is not whole: $(cat "$WORK/err")"
done
lost=$(grep -c "/some/file.*: lost" "$WORK/err")
grep -q "^lazyfs-debug: $lost files are not whole" "$WORK/err" || fail "$(cat "$WORK/err")"
debug 0 copy --repaired "$WORK/damaged" /d "$WORK/whole"
same "$WORK/whole" || fail "the copy differs: $(cat "$WORK/diff")"
fsck.lazyfs -y "$WORK/damaged" >"$WORK/fsck.log" && fail "fsck has found nothing"
grep -qF 'lost: /file\033[2Jx (inode' "$WORK/fsck.log" ||
  fail "fsck has no word of the hostile name: $(cat -v "$WORK/fsck.log")"
if grep -q $'\e' "$WORK/fsck.log"; then fail "a name that fsck shows commands the terminal"; fi

say "a volume that cannot be mounted"
debug 0 superblock --json "$DEVICE"
for band in $(field super_bands | tr -d '[],'); do
  at=$(edidump --json "$DEVICE" | python3 -c 'import json, sys
print(next(b["offset"] for b in json.load(sys.stdin)["bands"] if b["band"] == int(sys.argv[1])))' \
    "$band")
  dd if=/dev/zero of="$DEVICE" bs=4096 seek=$((at / 4096)) count=256 conv=notrunc,fsync status=none
done
before=$(digest)
lazyfs -f "$DEVICE" "$MNT" 2>/dev/null && fail "it is mounted"
rm -r "$WORK/copy"
debug 0 copy "$DEVICE" /d "$WORK/copy"
grep -q "repaired in memory" "$WORK/err" || fail "no word of the repair: $(cat "$WORK/err")"
same "$WORK/copy" || fail "the copy differs: $(cat "$WORK/diff")"
[[ $(digest) == "$before" ]] || fail "the repair in memory has changed the device"
