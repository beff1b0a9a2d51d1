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

# A limit on processes counts all that the user has. fusermount3 wants a user with a name.
as_limited_user() {
  local limit=$1
  shift
  (ulimit -u "$limit"; exec setpriv --reuid "$LIMITED" --regid "$LIMITED" --clear-groups \
    env PATH="$PATH" "$@")
}
LIMITED=$(id -u games)
mount_fs
chmod 1777 "$MNT"
unmount_fs
touch "$WORK/limited.log"
chown "$LIMITED:$LIMITED" "$DEVICE" "$MNT" "$WORK/limited.log"
say "few processes"
mounts=0
for ((limit = 2; mounts < 3; limit++)); do
  ((limit < 40)) || fail "it cannot be mounted with $limit processes: $(<"$WORK/err")"
  if as_limited_user "$limit" lazyfs -o "threads=32,logfile=$WORK/limited.log" \
    "$DEVICE" "$MNT" 2>"$WORK/err"; then
    mounts=$((mounts + 1))
    as_limited_user 100 python3 - "$MNT" <<'END' || fail "limit $limit: it does not serve"
import concurrent.futures, os, sys
def write(i):
    fd = os.open(f"{sys.argv[1]}/{i}", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"x" * 300000)
    os.fsync(fd)
    os.close(fd)
    assert os.stat(f"{sys.argv[1]}/{i}").st_size == 300000
with concurrent.futures.ThreadPoolExecutor(16) as pool: list(pool.map(write, range(64)))
END
    as_limited_user 100 fusermount3 -u "$MNT" || fail "limit $limit: fusermount3 -u"
    lazyfsctl wait --timeout 60 "$DEVICE" || fail "limit $limit: the daemon does not end"
  else
    if grep -q "died" "$WORK/err"; then fail "limit $limit: $(<"$WORK/err")"; fi
    [[ -s $WORK/err ]] || fail "limit $limit: no word of the reason"
    if grep -q "$MNT" /proc/self/mounts; then fail "limit $limit: a dead mount remains"; fi
  fi
done
grep -q "threads do the work" "$WORK/limited.log" || fail "no word of refused threads"

say "a mount of root"
mount_fs
for command in gc scrub; do
  if as_user lazyfsctl "$command" "$MNT" 2>"$WORK/err"; then fail "$command by another user"; fi
  grep -q "only root may do that.*the owner of the mount" "$WORK/err" ||
    fail "$command: $(cat "$WORK/err")"
done
unmount_fs
fsck_fs
umount -l /dev/fuse  # the kernel keeps the files of a ring for a moment
