#!/usr/bin/env bash
# Scrubs in the background: started, asked about, cancelled, interrupted, resumed, and limited.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_fs 256M
mount_fs
# Steps read some 32 MiB: at 8 MiB/s four seconds pass between them.
head -c 100M /dev/urandom >"$MNT/file"
lazyfsctl sync "$MNT"
STATE=(--state "$WORK/state")

# scrub STATUS WORDS...: its output is in $WORK/out and $WORK/err.
scrub() {
  local wanted=$1 status=0
  shift
  lazyfsctl scrub "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
  ((status == wanted)) || fail "scrub $*: status $status: $(cat "$WORK/out" "$WORK/err")"
}
state() { # NAME
  scrub 0 status --json "${STATE[@]}" "$MNT"
  python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1" <"$WORK/out"
}
is_done() { # WORDS: the JSON object of the last command says so.
  python3 -c 'import json, sys; sys.exit(sys.argv[1] not in json.load(sys.stdin)["done"])' "$1" \
    <"$WORK/out" || fail "the output is $(cat "$WORK/out")"
}
is_state() { [[ $(state status) == "$1" ]]; }

say "in the foreground"
scrub 0 --progress json "$MNT"
grep -q "25600 blocks read, 0 damaged" "$WORK/out" || fail "scrub: $(cat "$WORK/out")"
head -n 1 "$WORK/err" | python3 -c 'import json, sys
line = json.load(sys.stdin); sys.exit(line["stage"] != "scrub" or line["total"] < 100 << 20)' ||
  fail "progress: $(cat "$WORK/err")"
# Slow enough for a second look: the first has no rate yet.
script -qec "lazyfsctl scrub --rate 64M $MNT" /dev/null >"$WORK/terminal" </dev/null ||
  fail "on a terminal"
grep -q "scrub  *[0-9]*%, .* left" "$WORK/terminal" || fail "no progress on a terminal"
begun=$(date +%s)
scrub 0 --rate 32M "$MNT"
(($(date +%s) - begun >= 2)) || fail "a limited scrub takes $(($(date +%s) - begun)) s"

say "in the background"
scrub 1 status "${STATE[@]}" "$MNT"
grep -q "no scrub was started" "$WORK/err" || fail "status: $(cat "$WORK/err")"
scrub 1 cancel "${STATE[@]}" "$MNT"
scrub 0 start --json --rate 8M "${STATE[@]}" "$MNT"
is_done "has begun"
scrub 0 status "${STATE[@]}" "$MNT"
grep -q ": running: " "$WORK/out" || fail "status: $(cat "$WORK/out")"
scrub 1 start "${STATE[@]}" "$MNT"
grep -q "running already" "$WORK/err" || fail "a second start: $(cat "$WORK/err")"
scrub 1 resume "${STATE[@]}" "$MNT"
has_begun() { (($(state blocks) > 0)); }
until_true "the scrub reads nothing" has_begun
# The state may have the number of a process that has ended, and that another one has now.
sleep 60 &
python3 - "$WORK"/state/scrub-*.json "$!" <<'END'
import json, os, sys
path, process = sys.argv[1:]
state = json.load(open(path))
with open(path + ".other", "w") as file:
    json.dump({**state, "pid": int(process)}, file)
os.rename(path + ".other", path)
END
scrub 0 cancel --json "${STATE[@]}" "$MNT"
kill "$!" || fail "another process was ended"
is_done "cancelled: "
is_state cancelled || fail "the state is $(state status)"
read_before=$(state blocks)
((read_before < 25600)) || fail "the scrub was not limited"

say "interrupted and resumed"
scrub 0 resume --json "${STATE[@]}" "$MNT"
is_done "continues"
has_continued() { (($(state blocks) > read_before)); }
until_true "the scrub does not continue" has_continued
kill -KILL "$(state pid)"
until_true "a killed scrub is $(state status)" is_state interrupted
scrub 0 resume --rate 1G "${STATE[@]}" "$MNT"
until_true "the scrub does not end" is_state done
[[ $(state blocks) == 25600 ]] || fail "$(state blocks) of 25600 blocks were read"
scrub 1 resume "${STATE[@]}" "$MNT"
grep -q "complete" "$WORK/err" || fail "resume: $(cat "$WORK/err")"

say "wrong words"
scrub 2 stop "$MNT"
scrub 2 start "$MNT" "$MNT"
unmount_fs
fsck_fs
