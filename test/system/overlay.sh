#!/usr/bin/env bash
# lazyfs as the upper layer of an overlay: containers change, delete and rename files of a lower
# layer there. After a crash, and for fsck, what overlayfs leaves (whiteouts, opaque directories) is
# as it was.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || skip "no overlayfs"
new_fs 256M
OVERLAY=$WORK/overlay
mkdir "$OVERLAY" "$WORK/lower"
(
  cd "$WORK/lower"
  mkdir -p kept gone renamed/below opaque
  for file in changed deleted moved linked kept/file gone/file renamed/below/file opaque/old; do
    echo "lower $file" >"$file"
  done
)

mount_overlay() {
  mkdir -p "$MNT/upper" "$MNT/work"
  mount -t overlay overlay \
    -o "lowerdir=$WORK/lower,upperdir=$MNT/upper,workdir=$MNT/work,$1" "$OVERLAY" ||
    fail "lazyfs is refused as an upper layer: $(dmesg 2>/dev/null | tail -n 3)"
}
is_whiteout() { [[ $(stat -c '%F %t,%T' "$1") == "character special file 0,0" ]]; }
expect_tree() {
  [[ $(cat "$OVERLAY/changed") == $'lower changed\nupper' ]] || fail "$1: changed"
  [[ ! -e $OVERLAY/deleted ]] || fail "$1: a deleted file is back"
  [[ ! -e $OVERLAY/moved && $(cat "$OVERLAY/kept/moved") == "lower moved" ]] || fail "$1: moved"
  [[ ! -e $OVERLAY/gone ]] || fail "$1: a deleted directory is back"
  [[ $(cat "$OVERLAY/new-name/below/file") == "lower renamed/below/file" ]] || fail "$1: new-name"
  [[ ! -e $OVERLAY/renamed ]] || fail "$1: a directory has its old name"
  [[ $(ls "$OVERLAY/opaque") == new ]] || fail "$1: an opaque directory shows the lower one"
  [[ $(cat "$OVERLAY/replaced") == "lower linked" && ! -e $OVERLAY/linked ]] || fail "$1: replaced"
  [[ $(cat "$OVERLAY/kept/file") == "lower kept/file" ]] || fail "$1: kept"
  is_whiteout "$MNT/upper/deleted" || fail "$1: no whiteout: $(stat "$MNT/upper/deleted")"
  is_whiteout "$MNT/upper/moved" || fail "$1: no whiteout of a moved file"
}

say "changes on an overlay"
mount_fs
mount_overlay redirect_dir=on
(
  cd "$OVERLAY"
  echo upper >>changed
  rm deleted
  mv moved kept/
  rm -r gone
  mv renamed new-name
  rm -r opaque
  mkdir opaque
  echo new >opaque/new
  echo old >replaced
  mv linked replaced
)
expect_tree "at once"
find "$OVERLAY" -type f -exec cat {} + >/dev/null
umount "$OVERLAY"
remount_fs
mount_overlay redirect_dir=on
expect_tree "after a remount"

say "after a crash"
lazyfsctl sync "$MNT"
umount "$OVERLAY"
kill_fs
mount_fs
mount_overlay redirect_dir=on
expect_tree "after a crash"
for ((i = 0; i < 300; i++)); do
  echo "$i" >"$OVERLAY/kept/$i"
  mv "$OVERLAY/kept/$i" "$OVERLAY/kept/m$i"
  if ((i % 3 == 0)); then rm "$OVERLAY/kept/m$i"; fi
done
umount "$OVERLAY"
kill_fs
mount_fs
unmount_fs
fsck_fs --data

say "as fuse-overlayfs and unprivileged containers mount it: userxattr"
mount_fs
rm -r "$MNT/upper" "$MNT/work"
mount_overlay userxattr
rm "$OVERLAY/deleted"
rm -r "$OVERLAY/opaque"
mkdir "$OVERLAY/opaque"
[[ -z $(ls "$OVERLAY/opaque") ]] || fail "userxattr: an opaque directory shows the lower one"
umount "$OVERLAY"

say "RENAME_WHITEOUT itself"
python3 - "$MNT" <<'END' || fail "renameat2"
import ctypes, errno, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
os.chdir(sys.argv[1])
def rename(old, new, flags):
    if libc.renameat2(-100, old.encode(), -100, new.encode(), flags) == 0:
        return 0
    return ctypes.get_errno()
open("a", "w").close()
assert rename("a", "b", WHITEOUT) == 0
status = os.stat("a")
assert stat.S_ISCHR(status.st_mode) and status.st_rdev == 0, status
assert rename("b", "a", WHITEOUT | NOREPLACE) == errno.EEXIST
assert rename("b", "a", WHITEOUT | EXCHANGE) == errno.EINVAL
assert rename("b", "a", WHITEOUT) == 0
assert stat.S_ISREG(os.stat("a").st_mode) and stat.S_ISCHR(os.stat("b").st_mode)
END
unmount_fs
fsck_fs
