#!/usr/bin/env bash
# edistats' page in a real browser: bars that are pointed at and clicked, the files and the history
# of a band, day and night, a disk of more bands than the picture has bars.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
[[ -x /usr/bin/chromium && -x /usr/bin/chromedriver ]] || skip "no chromium"
/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "no selenium of Debian"

# bands: prints how many bands the device has.
bands() {
  edistats --json "$DEVICE" |
    python3 -c 'import json, sys; print(len(json.load(sys.stdin)["bands"]))'
}

say "a page of 512 MiB in bands of 4 MiB"
new_fs 512M --band-size 4M
mount_fs
mkdir "$MNT/reports"
name='reports/<b>ünï & "quoted".bin'
dd if=/dev/urandom of="$MNT/$name" bs=1M count=6 status=none
dd if=/dev/urandom of="$MNT/removed" bs=1M count=2 status=none
lazyfsctl sync "$MNT"
dd if=/dev/urandom of="$MNT/$name" bs=1M count=1 seek=1 conv=notrunc status=none
rm "$MNT/removed"
lazyfsctl sync "$MNT"
band=$(lazyfsctl map --json "$MNT/$name" |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["extents"][0]["band"])')
edistats --html "$WORK/page.html" "$DEVICE" "$WORK/report"
/usr/bin/python3 "$HERE/browser.py" small "$WORK/page.html" "$(bands)" "$band" "/$name"

say "a page with the files of one band only"
edistats --html "$WORK/page.html" --zoom 0 "$DEVICE" "$WORK/report"
/usr/bin/python3 "$HERE/browser.py" unknown "$WORK/page.html" "$band"
if edistats --html "$WORK/page.html" --zoom 4096 "$DEVICE" "$WORK/report" 2>"$WORK/error"; then
  fail "a band that does not exist"
fi
grep -q 'no such band' "$WORK/error" || fail "$(cat "$WORK/error")"
unmount_fs

say "a page of 4 GiB in bands of 1 MiB"
new_fs 4G --band-size 1M
edistats --html "$WORK/page.html" "$DEVICE" "$WORK/report"
/usr/bin/python3 "$HERE/browser.py" large "$WORK/page.html" "$(bands)"
