#!/usr/bin/env bash
# profiler: it passes everything to the backing folder, what it counts, SIGUSR1, JSON, plots.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
BACKING=$WORK/backing PROFILE=$WORK/profile.txt PROFILER=''
mkdir "$BACKING"
chmod 755 "$WORK"  # another user goes through it

begin() {  # OPTION...
  profiler -f -o "$PROFILE" "$@" "$MNT" "$BACKING" &
  PROFILER=$!
  until_true "no mount" mountpoint -q "$MNT"
}

end() {
  umount "$MNT"
  wait "$PROFILER" || fail "profiler ended with $?"
  PROFILER=''
}

sections() { [[ -e $PROFILE ]] && (($(grep -c '^Section\|"section"' "$PROFILE") == $1)); }

dump() {  # NUMBER: writes the section of this number
  kill -USR1 "$PROFILER"
  until_true "no section $1" sections "$1"
}

# calls NAME SECTION: how often the section has the call.
calls() {
  awk -v s="$2" -v n="$1" '/^Section/ { at = $2 + 0 } at == s && $1 == n { print $2 }' "$PROFILE"
}

expect_calls() {  # SECTION NAME=COUNT...
  local section=$1 pair found
  shift
  for pair in "$@"; do
    found=$(calls "${pair%=*}" "$section")
    [[ ${found:-0} == "${pair#*=}" ]] || fail "${pair%=*}: ${found:-0}, not ${pair#*=}"
  done
}

trap 'status=$?; umount -q "$MNT" || true; end_test $status' EXIT  # also ends the daemon

say "the semantics of POSIX"
for options in writeback nowriteback; do
  if [[ $options == writeback ]]; then begin; else begin --classic; fi
  python3 "$HERE/semantics.py" "$MNT" "$options" Names 2>&1 || fail "see above"
  python3 "$HERE/direct.py" "$MNT" 10 2>&1 || fail "see above"
  end
done

say "contents, owners, attributes, links and deleted files"
begin
cp -a "$TOP/src" "$MNT/src"
diff -r "$TOP/src" "$BACKING/src" || fail "the contents differ"
setfattr -n user.colour -v blue "$MNT/src"
ln "$MNT/src/CMakeLists.txt" "$MNT/second"
ln -s nowhere "$MNT/link"
mknod "$MNT/null" c 1 3
echo lost >"$MNT/null"
chmod 777 "$MNT"
(umask 027; setpriv --reuid 65534 --regid 65534 --clear-groups mkdir "$MNT/theirs")
setfacl -d -m u:1:rwx "$MNT/theirs"
touch "$MNT/theirs/inherits"
exec 5<>"$MNT/deleted"
rm "$MNT/deleted"
echo alive >&5
[[ $(cat /proc/self/fd/5) == alive ]] || fail "a deleted file lost its contents"
exec 5>&-
fallocate -l 1M "$MNT/allocated"
[[ $(stat -f -c %b "$MNT") == $(stat -f -c %b "$BACKING") ]] || fail "statfs"
[[ $(getfattr --only-values -n user.colour "$BACKING/src") == blue ]] || fail "attributes"
[[ $(stat -c %h "$BACKING/second") == 2 && $(readlink "$BACKING/link") == nowhere ]] || fail "links"
[[ $(stat -c '%a %u %g' "$BACKING/theirs") == "750 65534 65534" ]] || fail "owner or umask"
getfacl -cp "$BACKING/theirs/inherits" | grep -q '^user:daemon:rwx\|^user:1:rwx' || fail "no ACL"
[[ $(stat -c %b "$BACKING/allocated") == 2048 ]] || fail "fallocate"
rm -rf "${MNT:?}"/*
[[ -z $(ls -A "$BACKING") ]] || fail "names remain"
end

say "as in 2012: what is counted"
begin --classic
ls "$MNT" >/dev/null
dump 1
dd if=/dev/zero of="$MNT/file" bs=1M count=1 status=none
dump 2
expect_calls 2 mknod=1 open=1 write=8 create=0
grep -q '^Bytes of writes: 1048576$' "$PROFILE" || fail "bytes"
[[ $(grep -c '^  writes   up to 128 KiB *8$' "$PROFILE") == 1 ]] || fail "sizes of the writes"
chmod 600 "$MNT/file"
touch -d 2001-01-01 "$MNT/file"
mv "$MNT/file" "$MNT/renamed"
cat "$MNT/renamed" >"$WORK/copy"
dump 3
expect_calls 3 chmod=1 utime=1 rename=1 write=0 mknod=0
grep -q '^Bytes of reads: 1048576$' "$PROFILE" || fail "bytes"
end
sections 4 || fail "no section at the unmount"
# The kernel sends a RELEASE at some time after close(2).
opens=0 releases=0
for section in 1 2 3 4; do
  opened=$(calls open $section) released=$(calls release $section)
  opens=$((opens + ${opened:-0})) releases=$((releases + ${released:-0}))
done
((opens > 1 && opens == releases)) || fail "$opens files opened, $releases released"
grep -q '^Section 4, .*, unmount, classic$' "$PROFILE" || fail "the last section"

say "today: fewer, larger requests"
begin --json
dd if=/dev/zero of="$MNT/file" bs=1M count=4 conv=fsync status=none
end
python3 - "$PROFILE" <<'END' || fail "see above"
import json, sys
section = json.load(open(sys.argv[1]))
assert section["calls"]["create"] == 1 and "mknod" not in section["calls"], section
assert section["writes"]["bytes"] == 4 << 20 and section["calls"]["write"] < 32, section
assert section["total_calls"] >= section["requests"] > 0, section
END

say "counting off"
rm "$PROFILE"
begin --no-counts
echo through >"$MNT/passed"
kill -USR1 "$PROFILER"
[[ $(cat "$MNT/passed" "$BACKING/passed") == through$'\n'through ]] || fail "it is not passed on"
end
[[ ! -e $PROFILE ]] || fail "a profile without counts"
begin --json
rm "$MNT/passed"
end

say "plots"
profiler plot "$PROFILE" -o "$WORK/plot.svg"
grep -q 'Workload profile: profile. Total number of calls: ' "$WORK/plot.svg" || fail "the title"
echo nothing >"$WORK/bad"
if profiler plot "$WORK/bad" -o "$WORK/plot.svg" 2>"$WORK/error"; then fail "a bad profile"; fi
grep -q "profiler: plot: $WORK/bad: not a profile" "$WORK/error" || fail "$(cat "$WORK/error")"
if profiler "$MNT" "$WORK/missing" 2>"$WORK/error"; then fail "a missing folder"; fi
grep -q "^profiler: $WORK/missing: No such file" "$WORK/error" || fail "$(cat "$WORK/error")"
