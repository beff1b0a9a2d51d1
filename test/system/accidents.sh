#!/usr/bin/env bash
# Accidents at the start of a disk: other programs write there by mistake. Afterwards the files are
# readable on a read-only mount, or after fsck.lazyfs -y; mkfs.lazyfs refuses without -f; no program
# advises mkfs. Then: how the system recognises a volume and names it.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
uuid=00112233-4455-6677-8899-aabbccddeeff

# says COMMAND...: runs it, keeps its output in $WORK/says and its status in STATUS.
says() {
  STATUS=0
  timeout -k 1 60 "$@" </dev/null >"$WORK/says" 2>&1 || STATUS=$?
  ((STATUS < 124)) || fail "'$*' hangs or dies: $(cat "$WORK/says")"
  if [[ $1 != mkfs.lazyfs ]] && grep -qi mkfs "$WORK/says"; then
    fail "'$*' speaks of mkfs: $(cat "$WORK/says")"
  fi
}

files_are_whole() { (cd "$MNT" && sha256sum --quiet -c "$WORK/sums"); }

# survives NAME: what the accident left.
survives() {
  say "$DEVICE_KIND: $1"
  says mkfs.lazyfs "$DEVICE"
  ((STATUS == 1)) || fail "$1: mkfs.lazyfs without -f has status $STATUS: $(cat "$WORK/says")"
  grep -q -- 'holds .*-f' "$WORK/says" || fail "$1: mkfs.lazyfs says: $(cat "$WORK/says")"
  says lazyfs-id "$DEVICE"
  [[ $DEVICE_KIND == image || $STATUS == 0 ]] || fail "$1: lazyfs-id: $(cat "$WORK/says")"
  : >"$LOG"
  mount_fs ro
  files_are_whole || fail "$1: files on a read-only mount"
  umount "$MNT" && wait "$DAEMON" || fail "$1: umount"
  DAEMON=''
  ! grep -qi mkfs "$LOG" || fail "$1: lazyfs speaks of mkfs: $(cat "$LOG")"
  says fsck.lazyfs -n "$DEVICE"
  says fsck.lazyfs -y "$DEVICE"
  ((STATUS <= 1)) || fail "$1: fsck.lazyfs -y has status $STATUS: $(cat "$WORK/says")"
  fsck_fs
  mount_fs
  files_are_whole || fail "$1: files after the repair"
  unmount_fs
}

# back: the device as it was before the accident.
back() { dd if="$WORK/whole" of="$IMAGE" bs=1M conv=notrunc,sparse,fsync status=none; }
# zeros FIRST-BLOCK BYTES-OF-A-BLOCK BLOCKS
zeros() {
  dd if=/dev/zero of="$DEVICE" bs="$2" seek="$1" count="$3" conv=notrunc,fsync status=none
}

# partition dos|gpt: writes the sectors that a partition table consists of, garbage for the rest.
partition() {
  python3 - "$DEVICE" "$1" <<'PYTHON'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
size = os.lseek(fd, 0, os.SEEK_END)
entry = bytes([0, 0, 2, 0, 0xEE if sys.argv[2] == "gpt" else 0x83, 255, 255, 255, 1, 0, 0, 0]) + \
    (size // 512 - 1).to_bytes(4, "little")
os.pwrite(fd, bytes([0xEB] * 446) + entry + bytes(48) + b"\x55\xAA", 0)
if sys.argv[2] == "gpt":
    table = b"EFI PART" + bytes([0x5A] * 504) + bytes([0xA5] * 32 * 512)
    os.pwrite(fd, table, 512)
    os.pwrite(fd, table[512:] + table[:512], size - len(table))
os.fsync(fd)
PYTHON
}

for DEVICE_KIND in loop image; do
  new_fs 600M -L 'archive 2' -U $uuid
  mount_fs
  for i in 1 2 3 4 5 6 7 8; do head -c $((i * 70000)) /dev/urandom >"$MNT/$i"; done
  (cd "$MNT" && sha256sum ./*) >"$WORK/sums"
  unmount_fs
  cp --sparse=always "$IMAGE" "$WORK/whole"

  zeros 0 4 1; survives "4 bytes of zeros at 0"
  zeros 0 4096 1; survives "a block of zeros at 0"
  zeros 0 65536 1; survives "64 KiB of zeros at 0"
  back
  zeros 16 4096 1; survives "a block of zeros at 64 KiB"
  if [[ $DEVICE_KIND == loop ]]; then
    back
    zeros 0 1M 1; survives "the first MiB of zeros"
    back
    partition gpt; survives "a partition table (GPT)"
  fi
  back
  partition dos; survives "a partition table (DOS)"
  back
  mkswap -f "$DEVICE" >/dev/null 2>&1 || fail "mkswap"
  survives "mkswap"
  back
  wipefs -a -f "$DEVICE" >/dev/null || fail "wipefs"
  survives "wipefs -a"
  rm -f "$WORK/whole"
done

say "names"
DEVICE_KIND=loop
new_fs 600M -L 'archive 2' -U $uuid
lazyfs-id "$DEVICE" >"$WORK/properties" || fail "lazyfs-id"
cat >"$WORK/expected" <<END
ID_FS_TYPE=lazyfs
ID_FS_USAGE=filesystem
ID_FS_VERSION=1
ID_FS_UUID=$uuid
ID_FS_UUID_ENC=$uuid
ID_FS_LABEL=archive_2
ID_FS_LABEL_ENC=archive\\x202
END
diff "$WORK/expected" "$WORK/properties" || fail "lazyfs-id prints other properties"
says lazyfs-id /dev/null
((STATUS == 2)) || fail "lazyfs-id /dev/null has status $STATUS"
says lazyfs-id "$WORK/nowhere"
((STATUS == 1)) || fail "lazyfs-id of a missing device has status $STATUS"
says lazyfs-id
((STATUS == 2)) || fail "lazyfs-id without an argument has status $STATUS"
file -s -m "$TOP/contrib/file/lazyfs.magic" "$DEVICE" | grep -q "lazyfs filesystem.*$uuid" ||
  fail "file: $(file -s -m "$TOP/contrib/file/lazyfs.magic" "$DEVICE")"
rule=$TOP/contrib/udev/61-lazyfs.rules.in
if udevadm verify --help >/dev/null 2>&1; then
  sed "s:@[A-Z_]*@:$BIN:" "$rule" >"$WORK/61-lazyfs.rules"
  udevadm verify --resolve-names=never "$WORK/61-lazyfs.rules" || fail "udevadm verify"
else
  say "no udevadm that verifies rules"
fi

# field NAME: of lazyfsctl info.
field() {
  lazyfsctl info --json "$1" >"$WORK/info.json" || fail "lazyfsctl info $1"
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' \
    "$WORK/info.json" "$2"
}
[[ $(field "$DEVICE" state) == clean && $(field "$DEVICE" mounts) == 0 ]] || fail "info: a new one"
[[ $(field "$DEVICE" label) == 'archive 2' ]] || fail "info: the label"
mount_fs commit=3
touch "$MNT/x"
for path in "$DEVICE" "$MNT" "$MNT/x"; do
  [[ $(field "$path" uuid) == "$uuid" && $(field "$path" state) == writable ]] || fail "info $path"
  [[ $(field "$path" options) == *commit=3,* ]] || fail "info $path: $(field "$path" options)"
  [[ $(field "$path" mounted_on) == "$MNT" ]] || fail "info $path: $(field "$path" mounted_on)"
done
[[ $(field "$DEVICE" mounts) == 1 ]] || fail "info: mounts"
lazyfsctl info "$MNT" | grep -q '^Mounted  *[0-9].*, 1 time$' ||
  fail "info: $(lazyfsctl info "$MNT")"
lazyfsctl list | grep -q "^$DEVICE on $MNT (writable) label archive 2 UUID $uuid$" ||
  fail "list: $(lazyfsctl list)"
# FS_IOC_GETFSLABEL and FS_IOC_GETFSUUID. Linux from 6.9 on answers the second one itself.
python3 - "$MNT" "archive 2" $uuid <<'PYTHON' || fail "ioctls"
import errno, fcntl, os, sys, uuid
fd = os.open(sys.argv[1], os.O_RDONLY)
label = bytearray(256)
fcntl.ioctl(fd, 0x81009431, label)
assert label.rstrip(b"\0").decode() == sys.argv[2], label
answer = bytearray(17)
try:
    fcntl.ioctl(fd, 0x80111500, answer)
    assert answer[0] == 16 and uuid.UUID(bytes=bytes(answer[1:])) == uuid.UUID(sys.argv[3])
except OSError as error:
    assert error.errno == errno.ENOTTY, error
PYTHON
for path in "$DEVICE" "$MNT/x"; do
  lazyfsctl stats --all "$path" >"$WORK/stats" || fail "stats $path"
  grep -q '^state  *writable' "$WORK/stats" || fail "stats $path: $(head -n 3 "$WORK/stats")"
  lazyfsctl sync "$path" || fail "sync $path"
done
says lazyfsctl label "$DEVICE" other
((STATUS == 1)) || fail "a mounted volume gets a label"
says lazyfsctl uuid "$DEVICE" random
((STATUS == 1)) || fail "a mounted volume gets a UUID"
kill_fs
says lazyfsctl label "$DEVICE" other
((STATUS == 1)) || fail "a volume that has not ended cleanly gets a label"
mount_fs
unmount_fs
lazyfsctl label "$DEVICE" "$(printf 'x%.0s' {1..63})" || fail "label"
says lazyfsctl label "$DEVICE" "$(printf 'x%.0s' {1..64})"
((STATUS == 1)) || fail "a label of 64 bytes is accepted"
[[ $(lazyfsctl label "$DEVICE") == xxxxxxx* ]] || fail "the new label"
lazyfs-id "$DEVICE" | grep -q ^ID_FS_LABEL=xxxx || fail "lazyfs-id does not know the new label"
lazyfsctl label "$DEVICE" '' || fail "label removed"
! lazyfs-id "$DEVICE" | grep LABEL || fail "the label is still in the identification"
says lazyfsctl uuid "$DEVICE" 123
((STATUS == 1)) || fail "123 is accepted as a UUID"
lazyfsctl uuid "$DEVICE" random || fail "uuid"
new=$(lazyfsctl uuid "$DEVICE")
[[ $new != "$uuid" ]] || fail "the UUID is the old one"
lazyfs-id "$DEVICE" | grep -q "^ID_FS_UUID=$new$" || fail "lazyfs-id does not know the new UUID"
fsck_fs
say "a change of the label that a power cut has interrupted"
dd if="$DEVICE" of="$WORK/first" bs=1M count=1 status=none
dd if="$DEVICE" of="$WORK/last" bs=1M skip=599 status=none
lazyfsctl label "$DEVICE" later || fail "label"
dd if="$WORK/first" of="$DEVICE" conv=notrunc,fsync status=none
dd if="$WORK/last" of="$DEVICE" bs=1M seek=599 conv=notrunc,fsync status=none
says fsck.lazyfs -n "$DEVICE"
((STATUS == 4)) || fail "fsck.lazyfs -n has status $STATUS: $(cat "$WORK/says")"
says fsck.lazyfs -y "$DEVICE"
((STATUS == 1)) || fail "fsck.lazyfs -y has status $STATUS: $(cat "$WORK/says")"
fsck_fs
[[ -z $(lazyfsctl label "$DEVICE") ]] || fail "the label differs from the identification block"
mount_fs
[[ -e $MNT/x && $(field "$MNT" uuid) == "$new" ]] || fail "mounted with the new UUID"
unmount_fs
fsck_fs
