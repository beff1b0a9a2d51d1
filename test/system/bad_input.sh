#!/usr/bin/env bash
# Bad input: each command fails with a message of the form `PROGRAM: what: why` and a status other
# than 0, and leaves nothing behind. A full disk gives ENOSPC and loses no data.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test

# refuses PATTERN COMMAND...: the command must fail at once. Its message must begin with its name
# and match PATTERN (an extended regular expression).
refuses() {
  local pattern=$1 program status=0
  shift
  program=$(basename "$1")
  timeout -k 1 30 "$@" </dev/null >"$WORK/out" 2>"$WORK/err" || status=$?
  ((status != 0)) || fail "'$*' succeeds"
  ((status != 124 && status != 137)) || fail "'$*' hangs"
  ((status < 128)) || fail "'$*' dies with status $status: $(cat "$WORK/err")"
  grep -qE "^$program: .*: " "$WORK/err" ||
    fail "'$*' prints, not in the form PROGRAM: what: why: $(cat "$WORK/err" "$WORK/out")"
  grep -qiE "$pattern" "$WORK/err" || fail "'$*' does not print '$pattern': $(cat "$WORK/err")"
  ! mountpoint -q "$MNT" || fail "'$*' leaves a mount"
  say "refused: $(head -n 1 "$WORK/err")"
}

# Invalid options: the option parser's own message is enough.
refuses_usage() {
  local status=0
  timeout -k 1 30 "$@" </dev/null >"$WORK/out" 2>"$WORK/err" || status=$?
  ((status != 0 && status < 124)) || fail "'$*': status $status"
  [[ -s $WORK/err ]] || fail "'$*' fails without a message"
}

unchanged() { sha256sum "$IMAGE" | cut -d' ' -f1; }

# ---- devices ---------------------------------------------------------------------------------

say "no such device"
refuses 'no such file' lazyfs "$WORK/nowhere" "$MNT"
refuses 'no such file' fsck.lazyfs -n "$WORK/nowhere"
refuses 'no such file' edidump "$WORK/nowhere"
refuses 'no such file' edistats "$WORK/nowhere"
refuses 'no such file|no size' mkfs.lazyfs "$WORK/nowhere"

say "not an EDI"
head -c 1M /dev/urandom >"$WORK/noise"
: >"$WORK/empty"
for file in noise empty; do
  refuses 'not|no ' lazyfs "$WORK/$file" "$MNT"
  refuses 'not|no ' fsck.lazyfs -n "$WORK/$file"
  refuses 'not|no ' edidump "$WORK/$file"
  refuses 'not|no ' edistats "$WORK/$file"
done
refuses 'directory|not' lazyfs "$WORK" "$MNT"
refuses 'directory|not|no file' mkfs.lazyfs "$WORK" 64M

say "a remount of another filesystem"
refuses 'no lazyfs is mounted there' lazyfs -o remount "$WORK/noise" "$MNT"

say "a file that appears while mkfs runs"
ln -s nowhere "$WORK/link"
refuses 'exists' mkfs.lazyfs "$WORK/link" 64M
[[ -L $WORK/link ]] || fail "mkfs.lazyfs removes a link that it has not made"
rm "$WORK/link"
# The first open() of mkfs.lazyfs does not find the file, as if another program made it just then.
# LeakSanitizer cannot trace a program that strace traces.
refuses_late() {
  ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -o /dev/null \
    -P "$WORK/late" -e inject=openat:error=ENOENT:when=1 \
    mkfs.lazyfs "$WORK/late" 64M >"$WORK/out" 2>"$WORK/err" 7>&- && fail "mkfs.lazyfs succeeds"
  grep -q "late: the file already exists" "$WORK/err" || fail "mkfs.lazyfs: $(cat "$WORK/err")"
  [[ $(cat "$WORK/late") == precious ]] || fail "mkfs.lazyfs harms a file that it has not made"
}
if ! strace -o /dev/null true; then
  say "skipped: strace may not trace here"
else
  echo precious >"$WORK/late"
  refuses_late
  exec 7<"$WORK/late"
  flock 7
  refuses_late
  exec 7<&-
fi

say "a new file that cannot be opened twice"
for limit in 4 5 6 7; do
  if (ulimit -n "$limit"; mkfs.lazyfs -q "$WORK/few" 64M) &>"$WORK/err"; then break; fi
  [[ ! -e $WORK/few ]] || fail "with $limit open files mkfs.lazyfs leaves a file: $(<"$WORK/err")"
done
rm -f "$WORK/few"

say "an EDI without a filesystem"
edicreate -s4096 -b256 -c128 -f"$WORK/bare.edi"
refuses 'no (lazyfs )?(file ?system|superblock)|holds no|no lazyfs' lazyfs "$WORK/bare.edi" "$MNT"
refuses 'no (lazyfs )?(file ?system|superblock)|holds no|no lazyfs' fsck.lazyfs -n "$WORK/bare.edi"
edidump "$WORK/bare.edi" >/dev/null || fail "edidump of a bare EDI"

say "an EDI on a block device that holds something"
truncate -s 64M "$WORK/ext4"
mkfs.ext4 -q "$WORK/ext4"
cp "$WORK/ext4" "$WORK/ext4.before"
attach "$WORK/ext4"
refuses 'holds an ext4 filesystem already .--force' edicreate -s4096 -b16 -c16 -f"$LOOP"
python3 - "$LOOP" <<'PYTHON' || fail "edicreate looks at a device that another program claims"
import os, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL)
for force in [], ["--force"]:
    made = subprocess.run(["edicreate", "-b16", "-c16", "-f" + sys.argv[1], *force],
                          capture_output=True, text=True)
    assert made.returncode == 1 and "in use or mounted" in made.stderr, made
PYTHON
cmp "$LOOP" "$WORK/ext4.before" || fail "edicreate writes over an ext4"
edicreate --force -s4096 -b16 -c16 -f"$LOOP" || fail "edicreate --force"
refuses 'already .--force' edicreate -s4096 -b16 -c16 -f"$LOOP"
mkfs.lazyfs -q -f -L former "$LOOP"
refuses 'holds a lazyfs or an Emulated Disk Image.*--force' edicreate -s4096 -b16 -c16 -f"$LOOP"
edicreate --force -s4096 -b16 -c16 -f"$LOOP" || fail "edicreate --force over a lazyfs"
lazyfs-id "$LOOP" >"$WORK/out" 2>&1 && fail "the former volume is still found: $(<"$WORK/out")"
detach "$LOOP"
rm "$WORK/ext4" "$WORK/ext4.before"

say "an image cut short"
DEVICE_KIND=image new_fs 64M
cp --sparse=always "$IMAGE" "$WORK/cut"
truncate -s 32M "$WORK/cut"
refuses 'short|cut|trunc|small|size|end' lazyfs "$WORK/cut" "$MNT"
refuses 'short|cut|trunc|small|size|end' fsck.lazyfs -n "$WORK/cut"
truncate -s 1000 "$WORK/cut"
refuses 'short|cut|trunc|small|size|end|not|no ' lazyfs "$WORK/cut" "$MNT"

say "a loop device over an image file"
DEVICE_KIND=image new_fs 64M
attach "$IMAGE"
for command in "lazyfs $LOOP $MNT" "fsck.lazyfs -n $LOOP" "lazyfsctl info $LOOP" \
    "edistats $LOOP"; do
  # shellcheck disable=SC2086
  refuses 'use the image file itself' $command
done
detach "$LOOP"
mount_fs
unmount_fs

say "an image that was copied onto a device"
truncate -s 80M "$WORK/copies"
LOOP=$(losetup --find --show --offset 1M "$WORK/copies") && LOOPS+=("$LOOP")
dd if="$IMAGE" of="$LOOP" bs=1M conv=fsync status=none
refuses 'copy it to a file' lazyfs "$LOOP" "$MNT"
rm "$IMAGE"
cp --sparse=always "$LOOP" "$IMAGE"
fsck_fs
mount_fs
unmount_fs
detach "$LOOP"

# ---- superblocks -----------------------------------------------------------------------------

say "superblocks with flipped bits"
new_fs 128M
mount_fs
echo precious >"$MNT/precious"
unmount_fs
# flip FIRST|SECOND: inverts a bit in every record of that copy. A record is recognised by its magic
# number. The two bands are far apart.
flip() {
  python3 - "$IMAGE" "$1" <<'PYTHON'
import sys
image, which = sys.argv[1:]
with open(image, "r+b") as file:
    data = file.read()
    places = [at for at in range(0, len(data), 4096) if data[at:at + 4] == b"LZSB"]
    if len(places) < 2:
        sys.exit(f"{len(places)} superblock records")
    gaps = [b - a for a, b in zip(places, places[1:])]
    second = places[gaps.index(max(gaps)) + 1]
    for at in places:
        if (at >= second) == (which == "second"):
            file.seek(at + 40)
            file.write(bytes([data[at + 40] ^ 1]))
PYTHON
}
for copy in first second; do
  cp --sparse=always "$IMAGE" "$WORK/whole"
  flip "$copy" || fail "no superblocks to flip"
  blockdev --setro "$DEVICE"
  fsck.lazyfs -p "$DEVICE" >"$WORK/out" 2>&1 || fail "fsck -p, read-only: $? $(cat "$WORK/out")"
  grep -q "other copy is good" "$WORK/out" || fail "fsck -p, read-only: $(cat "$WORK/out")"
  blockdev --setrw "$DEVICE"
  mount_fs
  [[ $(cat "$MNT/precious") == precious ]] || fail "the file is lost with the $copy superblock"
  unmount_fs
  say "the other copy works when the $copy one is damaged"
  cp --sparse=always "$WORK/whole" "$WORK/next"
  dd if="$WORK/next" of="$IMAGE" bs=1M conv=notrunc,fsync status=none
done
flip first
flip second
refuses 'superblock|file ?system' lazyfs "$DEVICE" "$MNT"
refuses 'superblock|file ?system' fsck.lazyfs -n "$DEVICE"
dd if="$WORK/whole" of="$IMAGE" bs=1M conv=notrunc,fsync status=none

# ---- mounting --------------------------------------------------------------------------------

say "mounted already"
mount_fs
mkdir "$WORK/other"
refuse_second() {
  local status=0
  timeout -k 1 30 "$@" </dev/null >"$WORK/out" 2>"$WORK/err" || status=$?
  ((status != 0)) || fail "'$*' succeeds on a mounted device"
  grep -qE "^$(basename "$1"): .*: " "$WORK/err" || fail "'$*' says: $(cat "$WORK/err")"
  say "refused: $(head -n 1 "$WORK/err")"
}
refuse_second lazyfs "$DEVICE" "$WORK/other"
! mountpoint -q "$WORK/other" || fail "mounted twice"
refuse_second mkfs.lazyfs -f "$DEVICE"
refuse_second fsck.lazyfs -y "$DEVICE"
[[ $(cat "$MNT/precious") == precious ]] || fail "harmed by a second mount"
unmount_fs
fsck_fs

say "write-protected"
blockdev --setro "$DEVICE"
refuses 'read-only' lazyfs "$DEVICE" "$MNT"
refuses 'read-only' mkfs.lazyfs -f "$DEVICE"
fsck_fs
mount_fs ro
[[ $(cat "$MNT/precious") == precious ]] || fail "the file is missing on a write-protected device"
! touch "$MNT/new" 2>/dev/null || fail "a file is made on a write-protected device"
umount "$MNT" && wait "$DAEMON" && DAEMON='' || fail "umount of a write-protected device"
blockdev --setrw "$DEVICE"

say "mkfs over a filesystem takes -f"
sum=$(unchanged)
refuses 'already|-f' mkfs.lazyfs "$DEVICE"
[[ $(unchanged) == "$sum" ]] || fail "a refused mkfs has written"

say "mount points"
touch "$WORK/file"
refuses 'not a directory' lazyfs "$DEVICE" "$WORK/file"
refuses 'no such file' lazyfs "$DEVICE" "$WORK/missing"
refuses 'option' lazyfs -o no-such-option "$DEVICE" "$MNT"
refuses 'commit' lazyfs -o commit=soon "$DEVICE" "$MNT"
refuses 'dirty' lazyfs -o dirty=1X "$DEVICE" "$MNT"
refuses 'placement' lazyfs -o placement=worst "$DEVICE" "$MNT"
refuses_usage lazyfsctl frobnicate "$MNT"
grep -q "frobnicate is no subcommand" "$WORK/err" || fail "no subcommand: $(cat "$WORK/err")"
refuses_usage lazyfs
refuses_usage lazyfs "$DEVICE"
refuses 'lazyfs' lazyfsctl stats "$WORK"
refuses 'no such file' lazyfsctl wait "$WORK/nowhere"
fsck_fs

# ---- sizes -----------------------------------------------------------------------------------

say "impossible sizes"
for size in 0 1 4095 -1 12X 99999999999999999999 1.5.5G; do
  refuses_usage mkfs.lazyfs "$WORK/new.img" "$size"
  [[ ! -s $WORK/new.img ]] || fail "mkfs.lazyfs IMAGE $size leaves an image"
  rm -f "$WORK/new.img"
done
for size in 0 1 3000 1T 4097; do
  refuses_usage mkfs.lazyfs --band-size "$size" "$WORK/new.img" 64M
  rm -f "$WORK/new.img"
done
truncate -s 14M "$WORK/short"
attach "$WORK/short"
refuses 'too few bands .*: 12, but at least 13 of' mkfs.lazyfs --band-size 1M "$LOOP"
for options in "-s0 -b256 -c128" "-s4096 -b0 -c128" "-s4096 -b256 -c0" "-s1000 -b256 -c128" \
               "-s4096 -b99999999999 -c99999999999" "-s-1 -b1 -c1" "-sx -b1 -c1"; do
  # shellcheck disable=SC2086  # the options are words
  refuses_usage edicreate $options -f"$WORK/new.edi"
  [[ ! -s $WORK/new.edi ]] || fail "edicreate $options leaves an image"
  rm -f "$WORK/new.edi"
done

# ---- names and space -------------------------------------------------------------------------

say "names"
mount_fs
long=$(printf 'x%.0s' {1..255})
touch "$MNT/$long" || fail "a name of 255 bytes"
status=0
touch "$MNT/${long}x" 2>"$WORK/err" || status=$?
((status != 0)) || fail "a name of 256 bytes is accepted"
grep -q 'File name too long' "$WORK/err" || fail "a name of 256 bytes: $(cat "$WORK/err")"
status=0
mkdir "$MNT/${long}x" 2>"$WORK/err" || status=$?
grep -q 'File name too long' "$WORK/err" || fail "mkdir of 256 bytes: $(cat "$WORK/err")"
[[ $(ls "$MNT" | wc -l) == 2 ]] || fail "names: $(ls "$MNT")"
unmount_fs
fsck_fs

say "a full disk"
new_fs 96M
mount_fs
mkdir "$MNT/kept"
for i in {1..20}; do head -c $((i * 10000)) /dev/urandom >"$MNT/kept/$i"; done
(cd "$MNT/kept" && sha256sum ./*) >"$WORK/sums"
lazyfsctl sync "$MNT"
available=$(df --output=avail -B1 "$MNT" | tail -n 1)
fill() {
  local name=$1 status=0
  dd if=/dev/urandom of="$MNT/$name" bs=256K count=1000 oflag=direct status=none 2>"$WORK/err" ||
    status=$?
  ((status != 0)) || fail "1000 pieces of 256 KiB fit on 96 MiB"
  grep -q 'No space left on device' "$WORK/err" || fail "a full disk says: $(cat "$WORK/err")"
}
fill big
size=$(stat -c %s "$MNT/big")
say "$size bytes were accepted, $available were promised"
((size * 100 >= available * 95)) || fail "statfs promised $available bytes, $size were accepted"
for i in {1..2000}; do echo "$i" >"$MNT/small-$i" 2>/dev/null || break; done
lazyfsctl sync "$MNT" 2>/dev/null || true  # reports once what the kernel could not write
lazyfsctl sync "$MNT" || fail "sync of a full disk"
(cd "$MNT/kept" && sha256sum --quiet -c "$WORK/sums") || fail "files are damaged on a full disk"
rm "$MNT/big" || fail "rm on a full disk"
rm -f "$MNT"/small-*
lazyfsctl sync "$MNT"
after=$(df --output=avail -B1 "$MNT" | tail -n 1)
say "rm gave space back: $after bytes are available again, of $available"
((after * 100 >= available * 90)) || fail "rm gave back too little"
fill again
again=$(stat -c %s "$MNT/again")
((again * 100 >= size * 90)) || fail "the second time only $again bytes were accepted, not $size"
remount_fs
(cd "$MNT/kept" && sha256sum --quiet -c "$WORK/sums") || fail "files are damaged after remounting"
[[ $(stat -c %s "$MNT/again") == "$again" ]] || fail "the accepted bytes are missing"
unmount_fs
fsck_fs
