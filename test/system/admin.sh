#!/usr/bin/env bash
# What administrators and their monitors rely on: exit statuses, waiting, output that cannot be
# written, logging of requests.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_fs 256M

# expect STATUS COMMAND...: its output is in $WORK/out and $WORK/err.
expect() {
  local wanted=$1 status=0
  shift
  "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
  ((status == wanted)) || fail "$*: status $status, not $wanted: $(cat "$WORK/out" "$WORK/err")"
}
# expect_full STATUS COMMAND...: the disk that standard output goes to is full.
expect_full() {
  local wanted=$1 status=0
  shift
  "$@" >/dev/full 2>"$WORK/err" || status=$?
  ((status == wanted)) || fail "$* >/dev/full: status $status, not $wanted"
  grep -q "^${1##*/}: standard output: cannot be written" "$WORK/err" ||
    fail "$* >/dev/full: $(cat "$WORK/err")"
}

say "output that cannot be written"
mount_fs
for command in stats "stats --json" info list health; do
  arguments=("$MNT")
  if [[ $command == list ]]; then arguments=(); fi
  # shellcheck disable=SC2086
  expect_full 1 lazyfsctl $command "${arguments[@]}"
done
expect_full 1 lazyfsctl scrub "$MNT"
unmount_fs
expect_full 1 edistats "$DEVICE"
expect_full 1 edistats --json "$DEVICE"
expect_full 1 edistats --html - "$DEVICE"
expect_full 1 edidump "$DEVICE"
expect_full 1 edidump --json "$DEVICE"
expect_full 8 fsck.lazyfs -n "$DEVICE"
expect_full 8 fsck.lazyfs -n --json "$DEVICE"
for program in edistats edidump lazyfsctl mkfs.lazyfs lazyfs edicreate lazyfs-id; do
  expect_full 2 "$program" --help
done
expect_full 16 fsck.lazyfs --help

say "words"
expect 0 lazyfs -o help
grep -qx "commit=VALUE" "$WORK/out" || fail "-o help: $(cat "$WORK/out")"
for command in "edidump $WORK" "edistats $WORK" "lazyfs $WORK $MNT" "mkfs.lazyfs $WORK"; do
  # shellcheck disable=SC2086
  expect 1 $command
  grep -q "^${command%% *}: $WORK: is a directory" "$WORK/err" ||
    fail "$command: $(cat "$WORK/err")"
done
for command in "edidump /dev/null" "edistats /dev/null" "lazyfs /dev/null $MNT" \
    "mkfs.lazyfs /dev/null" "lazyfsctl info /dev/null"; do
  # shellcheck disable=SC2086
  expect 1 $command
  grep -q "^${command%% *}: /dev/null: is neither a block device nor a file" "$WORK/err" ||
    fail "$command: $(cat "$WORK/err")"
done
expect 0 mkfs.lazyfs -q "$WORK/new.edi" 64MiB
rm "$WORK/new.edi"

say "mkfs does not give its claim up before its end"
# take_image FILE BYTES: takes the image as soon as it has another size and is not claimed.
take_image() {
  exec python3 -c 'import fcntl, os, sys, time
path, size = sys.argv[1], int(sys.argv[2])
while not os.path.exists(path) or os.path.getsize(path) == size:
    pass
file = os.open(path, os.O_RDONLY)
while True:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(60)
    except BlockingIOError:
        pass' "$1" "$2"
}
for size in 0 0 0 4096 4096 4096; do
  rm -f "$WORK/new.edi"
  if ((size > 0)); then truncate -s $size "$WORK/new.edi"; fi
  take_image "$WORK/new.edi" $size &
  taker=$!
  sleep 0.2
  expect 0 mkfs.lazyfs -q -f "$WORK/new.edi" 64M
  kill "$taker"
  wait "$taker" 2>/dev/null || true
done
rm "$WORK/new.edi"

say "commands claim a block device as long as they write to it"
# keeps_claim STATUS COMMAND...: the command, which writes to $LOOP, ends with that status.
keeps_claim() {
  local status=0
  python3 "$HERE/claims.py" "$LOOP" "${@:2}" >"$WORK/out" 2>"$WORK/err" || status=$?
  ((status == $1)) || fail "${*:2}: status $status: $(cat "$WORK/out" "$WORK/err")"
}
truncate -s 64M "$WORK/claimed.img"
attach "$WORK/claimed.img"
if ! strace -o /dev/null true; then
  say "skipped: strace may not trace here"
else
  keeps_claim 0 mkfs.lazyfs -q "$LOOP"
  keeps_claim 0 lazyfsctl label "$LOOP" claimed
  keeps_claim 0 lazyfsctl uuid "$LOOP" random
  truncate -s 128M "$WORK/claimed.img"
  losetup -c "$LOOP"
  keeps_claim 0 lazyfsctl grow "$LOOP"
  dd if=/dev/zero of="$LOOP" bs=4096 seek=16 count=1 status=none  # the identification block
  blockdev --setro "$LOOP"
  expect 8 fsck.lazyfs -y -z "$WORK/undo" --losses "$WORK/losses" "$LOOP"
  [[ ! -e $WORK/undo && ! -e $WORK/losses ]] || fail "files of a repair that has not begun remain"
  blockdev --setrw "$LOOP"
  keeps_claim 1 fsck.lazyfs -y -z "$WORK/undo" "$LOOP"
  keeps_claim 1 fsck.lazyfs --undo "$WORK/undo" "$LOOP"
fi
detach "$LOOP"
rm "$WORK/claimed.img"

say "- is standard output"
cd "$WORK"
expect 0 edistats --html - "$DEVICE"
grep -q '</html>' "$WORK/out" || fail "--html - does not print the picture"
if grep -q '^EDI Image' <(tail -n 1 "$WORK/out"); then fail "--html - prints the report too"; fi
expect 0 edistats --svg - "$DEVICE" "$WORK/report"
grep -q '</svg>' "$WORK/out" || fail "--svg - does not print the picture"
grep -q '^EDI Image' "$WORK/report" || fail "the report is not in its file"
expect 0 edistats "$DEVICE" -
grep -q '^EDI Image' "$WORK/out" || fail "the output file - is not standard output"
expect 0 edistats "$DEVICE" "$WORK/unshingled" "$WORK/thesis"
diff <(grep -v Time "$WORK/thesis") <(edistats "$DEVICE" | grep -v Time) ||
  fail "edistats with the thesis' arguments"
[[ ! -e $WORK/unshingled ]] || fail "edistats wrote to the thesis' unshingled partition"
expect 2 edistats "$DEVICE" a b c
expect 2 edistats --zoom 1 "$DEVICE"
expect 2 edistats --html - --svg - "$DEVICE"
[[ ! -e - ]] || fail "edistats made a file named -"
cd /

say "help for a terminal of 80 columns"
for program in edicreate edidump edistats fsck.lazyfs lazyfs lazyfs-debug lazyfs-id lazyfsctl \
  mkfs.lazyfs profiler smrdisk smrsim; do
  expect 0 "$program" --help
  awk 'length > 80' "$WORK/out" >"$WORK/long"
  [[ ! -s $WORK/long ]] || fail "$program --help: $(cat "$WORK/long")"
done
for command in gc scrub grow stats wait; do
  expect 0 lazyfsctl "$command" --help
  ! grep -q '^.\{81\}' "$WORK/out" || fail "lazyfsctl $command --help: $(cat "$WORK/out")"
  ! grep -q 'FLOAT in' "$WORK/out" || fail "lazyfsctl $command --help: $(cat "$WORK/out")"
done

say "wait"
mount_fs
expect 1 lazyfsctl wait --timeout 0.3 "$MNT"
grep -q "still in use" "$WORK/err" || fail "wait --timeout: $(cat "$WORK/err")"
expect 1 lazyfsctl wait --timeout 0.3 "$DEVICE"
expect 1 lazyfsctl wait --timeout 0.3 "$WORK"
grep -q "no lazyfs is mounted there" "$WORK/err" || fail "wait: $(cat "$WORK/err")"
for timeout in inf 1e300; do
  expect 124 timeout 0.5 lazyfsctl wait --timeout $timeout "$DEVICE"
  expect 0 timeout 60 lazyfsctl health --timeout $timeout "$MNT"
done
expect 2 lazyfsctl wait --timeout nan "$DEVICE"
expect 2 lazyfsctl top --interval nan "$MNT"
mkdir "$MNT/d"
lazyfsctl wait "$MNT/d" &
waiter=$!
sleep 0.5
kill -0 "$waiter" 2>/dev/null || fail "wait has not waited for a live mount"
unmount_fs
wait "$waiter" || fail "wait: status $?"
expect 0 lazyfsctl wait "$DEVICE"
expect 0 lazyfsctl wait --timeout 5 "$DEVICE"

say "health"
mount_fs
expect 0 lazyfsctl health "$MNT"
grep -q "healthy, writable" "$WORK/out" || fail "health: $(cat "$WORK/out")"
expect 0 lazyfsctl health --json "$MNT"
grep -q '"healthy": true' "$WORK/out" || fail "health --json: $(cat "$WORK/out")"
stop_daemon
expect 4 lazyfsctl health --timeout 1 "$MNT"
grep -q "has not answered within 1 s" "$WORK/out" || fail "health: $(cat "$WORK/out")"
expect 4 lazyfsctl health --json --timeout 1 "$MNT"
[[ $(figure state <"$WORK/out") == "does not answer" ]] || fail "health: $(cat "$WORK/out")"
kill -CONT "$DAEMON"
lazyfsctl shutdown "$MNT"
expect 4 lazyfsctl health "$MNT"
grep -q "it is shut down" "$WORK/out" || fail "health after a shutdown: $(cat "$WORK/out")"
expect 4 lazyfsctl health --json "$MNT"
expect 2 ls "$MNT"  # from now on fstat() of the mount fails, too
for command in stats "stats --all" info; do
  # shellcheck disable=SC2086
  expect 0 lazyfsctl $command "$MNT"
  grep -qi 'state  *shut down' "$WORK/out" || fail "$command after a shutdown: $(cat "$WORK/out")"
done
expect 0 lazyfsctl metrics "$MNT"
grep -q "^lazyfs_info.*device=\"$DEVICE\"" "$WORK/out" || fail "metrics: $(grep info "$WORK/out")"
expect 0 lazyfsctl list
grep -q "^$DEVICE on $MNT (shut down)" "$WORK/out" || fail "list: $(cat "$WORK/out")"
expect 1 lazyfsctl wait --timeout 0 "$MNT"
grep -q "still in use" "$WORK/err" || fail "wait after a shutdown: $(cat "$WORK/err")"
umount "$MNT"
wait "$DAEMON" || true
DAEMON=''
expect 1 lazyfsctl health "$MNT"
for command in health sync stats; do
  expect 1 lazyfsctl $command "$MNT"
  grep -q "$MNT: no lazyfs is mounted there" "$WORK/err" || fail "$command: $(cat "$WORK/err")"
done
mount_fs ro
expect 0 lazyfsctl health "$MNT"
grep -q "healthy, read-only$" "$WORK/out" || fail "health: $(cat "$WORK/out")"
unmount_fs
mount_fs
kill -KILL "$DAEMON"
wait "$DAEMON" 2>/dev/null || true
expect 1 lazyfsctl health "$MNT"
DAEMON=''
umount -l "$MNT"

say "a device or an image that is not mounted"
mkfs.lazyfs -q "$WORK/other.img" 64M
for path in "$DEVICE" "$WORK/other.img"; do
  for command in stats metrics top health gc scrub "scrub status" sync shutdown; do
    # shellcheck disable=SC2086
    expect 1 lazyfsctl $command "$path"
    grep -q "^lazyfsctl: $path: it is not mounted" "$WORK/err" ||
      fail "$command: $(cat "$WORK/err")"
  done
done

say "list, while a daemon does not answer"
mount_fs
mkdir "$WORK/other"
lazyfs "$WORK/other.img" "$WORK/other"
stop_daemon
expect 0 timeout 60 lazyfsctl list
grep -q "^$DEVICE on $MNT (does not answer) " "$WORK/out" || fail "list: $(cat "$WORK/out")"
grep -q "^$WORK/other.img on $WORK/other (writable) " "$WORK/out" ||
  fail "list, of another mount: $(cat "$WORK/out")"
expect 0 timeout 60 lazyfsctl list --json
state=$(python3 -c 'import json, sys
print({m["mounted_on"]: m["state"] for m in json.load(sys.stdin)["mounts"]}[sys.argv[1]])' \
  "$MNT" <"$WORK/out")
[[ $state == "does not answer" ]] || fail "list --json: $(cat "$WORK/out")"
kill -CONT "$DAEMON"
umount "$WORK/other"
lazyfsctl wait "$WORK/other.img"
unmount_fs

say "commands, while the filesystem of another mount's image hangs"
mkdir "$WORK/backing" "$WORK/hanging"
profiler -f --classic -o "$WORK/profile" "$WORK/hanging" "$WORK/backing" &
profiler=$!
until_true "no profiler is mounted" mountpoint -q "$WORK/hanging"
mkfs.lazyfs -q "$WORK/hanging/other.img" 64M
lazyfs "$WORK/hanging/other.img" "$WORK/other"
mount_fs
kill -STOP "$profiler"
sleep 1.5  # the kernel's memory of the names ends
for command in info stats health sync; do
  for path in "$MNT" "$DEVICE"; do expect 0 timeout 20 lazyfsctl $command "$path"; done
done
expect 0 timeout 20 edistats "$DEVICE"
kill -CONT "$profiler"
unmount_fs
umount "$WORK/other"
lazyfsctl wait "$WORK/hanging/other.img"
umount "$WORK/hanging"
wait "$profiler"

# The kernel cannot end a program that waits for a stopped daemon.
say "health and list, by io_uring"
if [[ -e $URING ]]; then
  with_uring mount_fs transport=io_uring
  expect 0 lazyfsctl health "$MNT"
  stop_daemon
  # Their child processes live until they get their answers, and do not keep the pipe open.
  said=$(timeout 60 bash -c 'lazyfsctl health --timeout 1 "$1" | cat' - "$MNT") ||
    fail "health's output does not end"
  [[ $said == *"has not answered within 1 s"* ]] || fail "health: $said"
  said=$(timeout 60 bash -c 'lazyfsctl list | cat') || fail "list's output does not end"
  [[ $said == *"$DEVICE on $MNT (does not answer) "* ]] || fail "list: $said"
  kill -CONT "$DAEMON"
  # The child processes keep the mount busy.
  has_no_child() { ! pgrep -f "lazyfsctl (health --timeout 1 $MNT|list)" >/dev/null; }
  until_true "a child process does not end" has_no_child
  unmount_fs
fi

say "sync, after a program was killed that waited for the kernel to send times"
new_fs 512M
mount_fs transport=read  # by io_uring no program can be killed that waits for a stopped daemon
# remove_files DIRECTORY: makes a file `begun`, and makes and removes another for ever.
remove_files() {
  mkdir "$1"
  exec python3 -c 'import os, sys
os.mknod(sys.argv[1] + "/begun")
while True:
    os.close(os.open(sys.argv[1] + "/f", os.O_CREAT | os.O_WRONLY))
    os.unlink(sys.argv[1] + "/f")' "$1"
}
start_removers() {
  local i
  REMOVERS=()
  for i in {1..8}; do remove_files "$MNT/r$1-$i" & REMOVERS+=($!); done
  for i in {1..8}; do until_true "no file is made" test -e "$MNT/r$1-$i/begun"; done
  sleep 0.1
}
one_sends_times() {
  local pid
  for pid in "${REMOVERS[@]}"; do
    if grep -q fuse_flush_time "/proc/$pid/stack"; then return 0; fi
  done
  return 1
}
was_killed=no
for ((round = 0; round < 30; round++)); do
  start_removers $round
  stop_daemon
  sleep 0.1
  if one_sends_times; then was_killed=yes; fi
  kill -KILL "${REMOVERS[@]}"
  sleep 0.1
  kill -CONT "$DAEMON"
  wait "${REMOVERS[@]}" 2>/dev/null || true
  expect 0 lazyfsctl sync "$MNT"
  [[ $was_killed == no ]] || break
done
[[ $was_killed == yes || ! -r /proc/self/stack ]] || fail "no program was killed at that point"
unmount_fs

say "stats, top, metrics"
mount_fs
echo contents >"$MNT/file"
expect 0 lazyfsctl stats "$MNT"
grep -q '^State  *writable, up ' "$WORK/out" || fail "stats: $(cat "$WORK/out")"
grep -q '^mknod ' "$WORK/out" || fail "stats have no requests: $(cat "$WORK/out")"
expect 0 lazyfsctl stats --all "$MNT"
grep -q '^operations.mknod  *1$' "$WORK/out" || fail "stats --all: $(cat "$WORK/out")"
expect 0 lazyfsctl top --interval 0.3 "$MNT"
grep -q '^Amplification' "$WORK/out" || fail "top: $(cat "$WORK/out")"
# top_of MOUNTPOINT...: `lazyfsctl top` without an argument, where no other lazyfs is mounted.
top_of() {
  # shellcheck disable=SC2016  # the inner shell's variables
  unshare --mount --propagation private bash -c '
    findmnt -nr -o TARGET -t fuse.lazyfs,fuseblk.lazyfs | while read -r mount; do
      [[ " $* " == *" $mount "* ]] || umount -l "$mount"
    done
    exec lazyfsctl top --interval 0.3' - "$@"
}
expect 0 top_of "$MNT"
grep -q "$MNT" "$WORK/out" || fail "top of the only mount: $(cat "$WORK/out")"
expect 1 top_of
grep -q "no lazyfs is mounted" "$WORK/err" || fail "top of no mount: $(cat "$WORK/err")"
mount --bind "$MNT" "$WORK/other"
expect 1 top_of "$MNT" "$WORK/other"
grep -q "name one" "$WORK/err" || fail "top of two mounts: $(cat "$WORK/err")"
umount "$WORK/other"
(sleep 2; printf 't+q') | script -qec "stty rows 20 cols 80; lazyfsctl top $MNT" /dev/null \
  >"$WORK/terminal" || fail "top on a terminal: status $?"
grep -q $'\033\\[H.*writable' "$WORK/terminal" || fail "top shows no page"
grep -q "every 4 s" "$WORK/terminal" || fail "top obeys no key"
grep -q $'\033\\[?1049l' "$WORK/terminal" || fail "top leaves its page on the terminal"
expect 0 lazyfsctl metrics "$MNT"
if command -v promtool >/dev/null; then
  promtool check metrics <"$WORK/out" >"$WORK/promtool" 2>&1 || fail "$(cat "$WORK/promtool")"
fi
mkdir "$WORK/metrics"
expect 0 lazyfsctl metrics --textfile "$WORK/metrics" "$MNT"
mapfile -t files < <(ls "$WORK/metrics")
[[ ${#files[@]} == 1 && ${files[0]} == lazyfs-*.prom ]] || fail "metrics --textfile: ${files[*]}"
grep -q '^lazyfs_state{.*state="writable"} 1$' "$WORK/metrics/${files[0]}" || fail "metrics"
expect 1 lazyfsctl metrics --textfile "$WORK/none" "$MNT"
# The dashboard asks for metrics that exist.
grep -o 'lazyfs_[a-z_]*' "$TOP/contrib/grafana/lazyfs.json" | sort -u | while read -r name; do
  grep -q "^${name}{" "$WORK/metrics/${files[0]}" || fail "the dashboard wants $name"
done
unmount_fs

say "map, owner, frag"
mount_fs
head -c 300000 /dev/urandom >"$MNT/one"
cp --reflink=auto "$MNT/one" "$MNT/two"
expect 0 lazyfsctl map "$MNT/one"
grep -q "one: inode [0-9]*, 1 run, 296 KiB$" "$WORK/out" || fail "map: $(cat "$WORK/out")"
grep -q "^ *0 .* 303104 shared$" "$WORK/out" || fail "map: $(cat "$WORK/out")"
expect 0 lazyfsctl map --json "$MNT/one"
read -r band rba < <(python3 -c 'import json, sys
extent = json.load(sys.stdin)["extents"][0]
print(extent["band"], extent["rba"])' <"$WORK/out")
for path in "$MNT" "$DEVICE"; do
  expect 0 lazyfsctl owner "$path" "$band:$rba"
  grep -q "^ *$rba  *1  *0  /one (shared)$" "$WORK/out" ||
    fail "owner of $band:$rba: $(cat "$WORK/out")"
done
expect 0 lazyfsctl owner "$MNT" 0
grep -q "^0: no file has blocks there$" "$WORK/out" || fail "owner of band 0: $(cat "$WORK/out")"
expect 0 lazyfsctl owner --json "$MNT" "$band"
grep -q '"path": "/two"' "$WORK/out" || fail "owner of band $band: $(cat "$WORK/out")"
expect 1 lazyfsctl owner "$MNT" 4000000
grep -q "4000000: no such band" "$WORK/err" || fail "owner of no band: $(cat "$WORK/err")"
expect 1 lazyfsctl owner "$MNT" "$band:99999999"
grep -q ":99999999: no such block" "$WORK/err" || fail "owner of no block: $(cat "$WORK/err")"
blocks=$(sed -n 's/.*: no such block: band [0-9]* has //p' "$WORK/err")
expect 0 lazyfsctl owner "$MNT" "$band:$((blocks - 1))"
expect 1 lazyfsctl owner "$MNT" "$band:$blocks"
for place in x "$band:" "$band:x" 5000000000; do
  expect 2 lazyfsctl owner "$MNT" "$place"
  grep -q "$place: not BAND or BAND:BLOCK" "$WORK/err" || fail "owner: $(cat "$WORK/err")"
done
expect 1 lazyfsctl map "$MNT"
expect 1 lazyfsctl map "$WORK/out"
grep -q "$WORK/out: on no mounted lazyfs" "$WORK/err" || fail "map: $(cat "$WORK/err")"
expect 0 lazyfsctl frag "$MNT/one"
expect 0 lazyfsctl frag "$MNT"
grep -q "2 files with data, 2 of them in one run; 2 runs, " "$WORK/out" ||
  fail "frag: $(cat "$WORK/out")"
expect 0 lazyfsctl frag --json "$MNT"
[[ $(figure worst <"$WORK/out") == '[]' ]] || fail "frag --json: $(cat "$WORK/out")"
# in_runs N: makes a file of N runs between holes.
in_runs() {
  local i
  for ((i = 0; i < $1; i++)); do
    dd if=/dev/urandom of="$MNT/$1 runs" bs=4K count=1 seek=$((i * 256)) conv=notrunc status=none
  done
}
for ((i = 2; i <= 13; i++)); do in_runs $i; done
expect 0 lazyfsctl map --json "$MNT/3 runs"
python3 -c 'import json, sys
sys.exit([e["offset"] for e in json.load(sys.stdin)["extents"]] != [0, 1 << 20, 2 << 20])' \
  <"$WORK/out" || fail "map --json: $(cat "$WORK/out")"
last=$(python3 -c 'import json, sys
extent = json.load(sys.stdin)["extents"][2]
print(extent["band"], extent["rba"], sep=":")' <"$WORK/out")
expect 0 lazyfsctl owner "$MNT" "$last"
grep -q " 1  *2097152  /3 runs$" "$WORK/out" || fail "owner of $last: $(cat "$WORK/out")"
expect 0 lazyfsctl frag --json "$MNT"
python3 -c 'import json, sys
worst = json.load(sys.stdin)["worst"]
expected = [(f"/{n} runs", n, 4096 * n) for n in range(13, 3, -1)]
sys.exit([(w["path"], w["runs"], w["bytes"]) for w in worst] != expected)' <"$WORK/out" ||
  fail "frag --json: $(cat "$WORK/out")"
rm "$MNT"/*runs
expect 0 lazyfsctl frag "$WORK/other.img"
grep -q "^$WORK/other.img: 0 files with data" "$WORK/out" || fail "frag: $(cat "$WORK/out")"
hostile=$MNT/$'\e[2Jx'
head -c 300000 /dev/urandom >"$hostile"
hostile_band=$(lazyfsctl map --json "$hostile" |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["extents"][0]["band"])')
for command in map frag owner; do
  arguments=("$hostile")
  if [[ $command == owner ]]; then arguments=("$MNT" "$hostile_band"); fi
  expect 0 lazyfsctl "$command" "${arguments[@]}"
  grep -qF '\033[2Jx' "$WORK/out" || fail "$command of a hostile name: $(cat -v "$WORK/out")"
  if grep -q $'\e' "$WORK/out"; then fail "$command lets a name command the terminal"; fi
done
expect 1 lazyfsctl map "$hostile/none"
if grep -q $'\e' "$WORK/err"; then fail "an error lets a name command the terminal"; fi
rm "$hostile"
unmount_fs
expect 0 lazyfsctl frag --json "$DEVICE"
expect 0 lazyfsctl owner "$DEVICE" "$band"
grep -q " /two" "$WORK/out" || fail "owner without a mount: $(cat "$WORK/out")"

say "-o debug logs requests"
: >"$LOG"
mount_fs debug
mkdir "$MNT/logged"
unmount_fs
grep -q "opcode: MKDIR" "$LOG" || fail "-o debug logs no requests: $(tail -n 5 "$LOG")"
fsck_fs

say "gc"
new_fs 512M --band-size 2M
mount_fs gc=off
for ((i = 0; i < 60; i++)); do
  dd if=/dev/urandom of="$MNT/$i" bs=2M count=1 status=none
done
lazyfsctl sync "$MNT"
# A tenth of each block range dies in most bands, and most of it in a few.
for ((i = 0; i < 40; i++)); do
  dd if=/dev/urandom of="$MNT/$i" bs=4K seek=20 count=51 conv=notrunc status=none
done
for ((i = 50; i < 60; i++)); do
  dd if=/dev/urandom of="$MNT/$i" bs=4K seek=20 count=400 conv=notrunc status=none
done
lazyfsctl sync "$MNT"
for percent in 0 101; do
  expect 2 lazyfsctl gc --dead $percent "$MNT"
  grep -q 'not in range .*1.*100' "$WORK/err" || fail "gc --dead $percent: $(cat "$WORK/err")"
done
for rate in 0 -5 abc 1kb 99999999T; do
  expect 2 lazyfsctl scrub --rate $rate "$MNT"
  grep -Eq "^lazyfsctl: --rate: $rate is not a (size|number of at least 1) " "$WORK/err" ||
    fail "scrub --rate $rate: $(cat "$WORK/err")"
done
collector_blocks() { lazyfsctl stats --json "$MNT" | figure data.collector_blocks_written; }
expect 0 lazyfsctl gc --estimate "$MNT"
grep -Eq 'bands? (is|are) at least 20% dead: up to [0-9.]+ MiB to move, to gain [0-9.]+ MiB$' \
  "$WORK/out" || fail "gc --estimate: $(cat "$WORK/out")"
(($(collector_blocks) == 0)) || fail "gc --estimate has moved blocks"
expect 0 lazyfsctl gc --estimate --json --dead 5 "$MNT"
many=$(figure estimate.bands <"$WORK/out")
expect 0 lazyfsctl gc --json "$MNT"
few=$(figure estimate.bands <"$WORK/out")
((few >= 8 && few < many / 2)) || fail "gc estimates $few bands, and $many with --dead 5"
cleaned=$(figure bands_cleaned <"$WORK/out") moved=$(figure bytes_moved <"$WORK/out")
most=$(figure estimate.move_bytes <"$WORK/out")
((cleaned >= 8 && cleaned <= few)) || fail "gc has cleaned $cleaned of $few bands"
((moved <= most && moved == 4096 * $(collector_blocks))) || fail "gc: $moved moved, not $most"
expect 0 lazyfsctl gc "$MNT"
grep -q "no band is at least 20% dead" "$WORK/out" || fail "a second gc: $(cat "$WORK/out")"
script -qec "lazyfsctl gc --dead 5 $MNT" /dev/null >"$WORK/terminal" </dev/null ||
  fail "gc on a terminal"
# A fast disk may show the first state only.
grep -q $'\rgc  *[0-9]*%, [0-9.]* [KM]*i*B of [0-9.]* MiB' "$WORK/terminal" ||
  fail "gc shows no progress: $(cat "$WORK/terminal")"
grep -Eq '[1-9][0-9]* bands? cleaned, [0-9.]+ MiB moved, [0-9]+ bands? freed' "$WORK/terminal" ||
  fail "gc does not say what it has done: $(cat "$WORK/terminal")"
unmount_fs
fsck_fs --data

say "what the log says"
new_fs 64M
mount_fs commit=300
for ((i = 0; i < 50; i++)); do echo "$i" >"$MNT/$i"; done
exec 7>"$MNT/orphan"
dd if=/dev/zero bs=1M count=4 status=none >&7
rm "$MNT/orphan"
lazyfsctl sync "$MNT"
kill_fs
exec 7>&-
: >"$LOG"
mount_fs
grep -Eq 'recovered after a crash: [0-9.]+ [KM]iB of the log read, [0-9]+ blocks' "$LOG" ||
  fail "no word of the recovery: $(cat "$LOG")"
is_orphan_finished() { grep -q '1 orphans of earlier sessions were found and finished' "$LOG"; }
until_true "the orphan is not finished: $(cat "$LOG")" is_orphan_finished
dd if=/dev/zero of="$MNT/full" bs=1M count=100 conv=fsync 2>/dev/null && fail "no end of space"
dd if=/dev/zero of="$MNT/full2" bs=1M count=20 conv=fsync 2>/dev/null && fail "no end of space"
(($(grep -c "no space is left" "$LOG") == 1)) || fail "not one line of the full disk: $(cat "$LOG")"
lazyfsctl sync "$MNT" 2>/dev/null || true  # reports what the kernel could not write
unmount_fs
: >"$LOG"
mount_fs
if grep -q "recovered" "$LOG"; then fail "a mount after a clean end talks of a crash"; fi
unmount_fs

if [[ -w /dev/kmsg ]] && dmesg >/dev/null 2>&1; then
  say "the log without /dev/log"
  # shellcheck disable=SC2016
  unshare -m sh -c 'if [ -e /dev/log ]; then mount --bind /dev/null /dev/log; fi
    lazyfs "$0" "$1" && umount "$1"' "$DEVICE" "$MNT" || fail "mount without /dev/log"
  is_in_kernel_log() { [[ $(dmesg) == *"lazyfs["*"$DEVICE is mounted on $MNT"* ]]; }
  until_true "the kernel's log has no line" is_in_kernel_log
  lazyfsctl wait "$DEVICE"
fi
fsck_fs

say "images that are copied after umount"
new_fs 128M
DEVICE=$WORK/image.edi
mkfs.lazyfs -q "$DEVICE" 256M
DESTDIR=$WORK/root cmake --install "$BIN/.." --component helpers >/dev/null || fail "helpers"
ln -sf "$BIN/lazyfs" "$BIN/lazyfsctl" "$WORK/root/sbin"
cat >"$WORK/copies.sh" <<'END'
set -e
mount -t overlay -o "lowerdir=$1:/usr/sbin" helpers /usr/sbin
for round in 1 2 3; do
  lazyfs "$2" "$3"
  for i in $(seq 100); do head -c 300000 /dev/urandom >"$3/$round-$i"; done
  umount "$3"
  cp --sparse=always "$2" "$4"
  fsck.lazyfs -n --data "$4" >"$4.log" 2>&1 || exit 3
  if grep -q superblock "$4.log"; then exit 3; fi
done
# umount(8) looks for another helper when the path is relative.
lazyfs "$2" "$3"
head -c 3000000 /dev/urandom >"$3/relative"
(cd "${3%/*}" && umount "${3##*/}")
lazyfsctl wait --timeout 0 "$2"
# A device that is not there is no error with nofail, and one without.
mount -t lazyfs -o nofail "$2.none" "$3"
if mountpoint -q "$3"; then exit 4; fi
if mount -t lazyfs "$2.none" "$3" 2>"$3.log"; then exit 5; fi
grep -q "$2.none: no such file or device" "$3.log"
# A name that findmnt(8) escapes.
odd="${2%/*}/$(printf ' a\tb\\x20\303\274 .edi')"
mkfs.lazyfs -q "$odd" 128M
lazyfs "$odd" "$3"
head -c 30000000 /dev/urandom >"$3/odd"
umount "$3"
lazyfsctl wait --timeout 0 "$odd"
# A mount that lives on elsewhere is not waited for.
lazyfs "$2" "$3"
mkdir "$3.bind"
mount --bind "$3" "$3.bind"
timeout 20 umount "$3"
mountpoint -q "$3.bind"
umount "$3.bind"
lazyfsctl wait --timeout 1 "$2"
END
unshare -m bash "$WORK/copies.sh" "$WORK/root/sbin" "$DEVICE" "$MNT" "$WORK/copy.edi" ||
  fail "copies after umount: status $?: $(tail -n 3 "$WORK/copy.edi.log")"

say "fsck on a torn copy, and on what cannot be opened"
python3 - "$WORK/copy.edi" "$(edidump --json "$WORK/copy.edi")" <<'PYTHON'
import json, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for band in json.loads(sys.argv[2])["bands"][:2]:
    if band["write_pointer"] > 0:
        os.pwrite(fd, bytes(4096), band["offset"] + (band["write_pointer"] - 1) * 4096)
PYTHON
fsck.lazyfs -n "$WORK/copy.edi" >"$WORK/fsck.log" 2>&1 || true
grep -q "newest superblock cannot be used in any band" "$WORK/fsck.log" ||
  fail "fsck of a torn copy: $(cat "$WORK/fsck.log")"
if grep -q "other copy is good" "$WORK/fsck.log"; then fail "fsck: $(cat "$WORK/fsck.log")"; fi
log_bands=$(edistats --json "$DEVICE" | python3 -c 'import json, sys
print(*(b["band"] for b in json.load(sys.stdin)["bands"] if b["state"] == "log"))')
# shellcheck disable=SC2086
python3 - "$DEVICE" "$(edidump --json "$DEVICE")" $log_bands <<'PYTHON'
import json, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
bands = json.loads(sys.argv[2])["bands"]
for number in sys.argv[3:]:
    os.pwrite(fd, bytes(bands[int(number)]["write_pointer"] * 4096), bands[int(number)]["offset"])
PYTHON
status=0
fsck.lazyfs -p "$DEVICE" >"$WORK/fsck.log" 2>&1 || status=$?
((status == 4)) || fail "fsck -p of what cannot be opened: status $status"
if grep -q "clean" "$WORK/fsck.log"; then fail "fsck -p calls it clean: $(cat "$WORK/fsck.log")"; fi
grep -q "1 problem; nothing was checked" "$WORK/fsck.log" || fail "fsck -p: $(cat "$WORK/fsck.log")"

say "fsck --losses"
DEVICE=$WORK/losses.edi
mkfs.lazyfs -q "$DEVICE" 256M
expect 0 fsck.lazyfs "$DEVICE"
grep -q "clean, 1 inode (1 directory), 0 dead and 0 live blocks" "$WORK/out" ||
  fail "fsck of an empty filesystem: $(cat "$WORK/out")"
mount_fs
python3 "$HERE/fsck.py" make "$MNT" 3000
python3 -c 'import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        os.rename(f"{folder}/{name}", f"{folder}/two\nlines\\{name}")' "$MNT"
unmount_fs
say "$(python3 "$HERE/fsck.py" damage "$DEVICE" 10 1)"
cp --sparse=always "$DEVICE" "$WORK/damaged.edi"
expect 8 fsck.lazyfs -y --losses "$WORK/none/losses" "$DEVICE"
grep -q "$WORK/none/losses: cannot be written" "$WORK/err" || fail "--losses: $(cat "$WORK/err")"
cmp "$DEVICE" "$WORK/damaged.edi" || fail "fsck repairs without a file for the losses"
ln -s "$DEVICE" "$WORK/alias"
expect 8 fsck.lazyfs -y --losses "$WORK/alias" "$DEVICE"
grep -q "$WORK/alias: this is the device that is being repaired" "$WORK/err" ||
  fail "--losses: $(cat "$WORK/err")"
cmp "$DEVICE" "$WORK/damaged.edi" || fail "fsck writes its losses over the image"
rm "$WORK/alias"
expect 1 fsck.lazyfs -y --losses "$WORK/losses" "$DEVICE"
lost=$(wc -l <"$WORK/losses")
((lost > 20)) || fail "only $lost losses"
grep -q '/two\\012lines\\134[0-9]* (inode ' "$WORK/losses" ||
  fail "names: $(head -n 3 "$WORK/losses")"
if grep -v ' (inode [0-9]*)' "$WORK/losses"; then fail "a loss is on more than one line"; fi
expect 0 fsck.lazyfs -y --losses "$WORK/losses" "$DEVICE"
(($(wc -l <"$WORK/losses") == lost)) || fail "fsck without a repair has emptied the list of losses"
cp --sparse=always "$WORK/damaged.edi" "$DEVICE"
expect 1 fsck.lazyfs -y --losses "$WORK/losses" "$DEVICE"
(($(wc -l <"$WORK/losses") == lost)) || fail "the list of losses is not replaced"
cp --sparse=always "$WORK/damaged.edi" "$DEVICE"
expect 12 fsck.lazyfs -y --losses /dev/full "$DEVICE"
grep -q "/dev/full: cannot be written" "$WORK/err" || fail "--losses: $(cat "$WORK/err")"
(($(grep -c "^$DEVICE: lost: " "$WORK/out") == lost)) || fail "not $lost losses in the output"

# The repair opens the pipe before it opens the image for writing, and waits there.
say "the image is renamed before it is repaired"
mkfifo "$WORK/pipe"
cp --sparse=always "$WORK/damaged.edi" "$DEVICE"
cp --sparse=always "$WORK/damaged.edi" "$WORK/other.edi"
fsck.lazyfs -y --losses "$WORK/pipe" "$DEVICE" >"$WORK/out" 2>"$WORK/err" &
is_open() { find "/proc/$!/fd" -lname "$DEVICE" | grep -q .; }
until_true "the image is not opened" is_open
ln "$DEVICE" "$WORK/renamed.edi"
mv "$WORK/other.edi" "$DEVICE"
timeout 20 cat "$WORK/pipe" >/dev/null || true  # it has ended already if its check comes too late
status=0
wait $! || status=$?
((status == 8)) || fail "status $status: $(cat "$WORK/err")"
grep -q "not the device any more" "$WORK/err" || fail "$(cat "$WORK/err")"
cmp "$DEVICE" "$WORK/damaged.edi" || fail "another image was repaired"
cmp "$WORK/renamed.edi" "$WORK/damaged.edi" || fail "the renamed image was changed"
rm "$WORK/renamed.edi"

# The n-th flush and all later ones fail. What was written before is on the device all the same: a
# repair whose last commit has failed, and one that was durable before the end of its session.
say "losses of a repair whose end fails"
if ! strace -o /dev/null true; then
  say "skipped: strace may not trace here"
  exit 0
fi
fails_at() { # N OPTION...
  ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 strace -o /dev/null \
    -P "$DEVICE" -e inject=fdatasync:error=EIO:when="$1+" \
    fsck.lazyfs -y "${@:2}" --losses "$WORK/late" "$DEVICE" >"$WORK/out" 2>"$WORK/err"
}
repaired=0
for ((n = 1; n < 100; n++)); do
  cp --sparse=always "$WORK/damaged.edi" "$DEVICE"
  rm -f "$WORK/late"
  status=0
  fails_at "$n" || status=$?
  ((status != 1)) || break
  ((status == 8)) || fail "flush $n fails: status $status"
  if ! fsck.lazyfs -n "$DEVICE" &>/dev/null; then continue; fi
  repaired=$((repaired + 1))
  [[ -e $WORK/late ]] || fail "flush $n fails: no list of losses of a repair that nobody can repeat"
  (($(wc -l <"$WORK/late") == lost)) || fail "flush $n fails: not $lost losses in the file"
  grep -q ": lost: .* more, in" "$WORK/out" || fail "flush $n fails: no losses in the output"
done
((repaired > 0 && n < 100)) || fail "no flush failed between the repair and its end"
for at in $((n - 1)) 1; do
  cp --sparse=always "$WORK/damaged.edi" "$DEVICE"
  fails_at "$at" --json || (($? == 8)) || fail "--json: flush $at fails: status $?"
  python3 -c 'import json, sys
answer = json.load(sys.stdin)
sys.exit(answer["clean"] or "flush" not in answer["failure"])' <"$WORK/out" ||
    fail "--json: flush $at fails: $(cut -c 1-1000 "$WORK/out")"
done
