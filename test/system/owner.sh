#!/usr/bin/env bash
# An ordinary user who has mounted an image may sync, clean and scrub it; other users may not, and
# what concerns the device or the mount is root's.
# In a mount namespace of its own, where every user may open /dev/fuse.
[[ ${1:-} == inside ]] || exec unshare -m "$0" inside
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
command -v fusermount3 >/dev/null && command -v setpriv >/dev/null || skip "no fusermount3"
mknod -m 666 "$WORK/fuse" c 10 229
mount --bind "$WORK/fuse" /dev/fuse
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups env PATH="$PATH" "$@"; }
as_user test -x "$(command -v lazyfs)" || skip "other users cannot reach $(command -v lazyfs)"
DEVICE_KIND=image
new_fs 128M
chown 65534:65534 "$DEVICE" "$MNT"
chmod 711 "$WORK"

say "the user's own mount"
as_user lazyfs "$DEVICE" "$MNT" || fail "an ordinary user cannot mount"
as_user lazyfsctl sync "$MNT" || fail "sync by the owner"
as_user lazyfsctl gc "$MNT" >/dev/null || fail "gc by the owner"
as_user lazyfsctl scrub "$MNT" >/dev/null || fail "scrub by the owner"
as_user lazyfsctl health "$MNT" >/dev/null || fail "health by the owner"
if as_user lazyfsctl shutdown "$MNT" 2>/dev/null; then fail "the owner can shut down"; fi
as_user fusermount3 -u "$MNT" || fail "fusermount3 -u"
lazyfsctl wait --timeout 60 "$DEVICE" || fail "the user's daemon does not end"

say "a mount of root"
mount_fs
for command in gc scrub; do
  if as_user lazyfsctl "$command" "$MNT" 2>"$WORK/err"; then fail "$command by another user"; fi
  grep -q "only root and the owner" "$WORK/err" || fail "$command: $(cat "$WORK/err")"
done
unmount_fs
fsck_fs
umount -l /dev/fuse  # the kernel keeps the files of a ring for a moment
