#!/usr/bin/env bash
# Containers whose storage is on lazyfs: an image is imported, a container changes, deletes and
# renames what is in it, the result is committed as a new layer, and is right after a new mount.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# A crun of Debian 12 refuses machines that have cgroups of both versions: the newer ones are
# taken out of this test's sight.
if [[ -z ${LAZYFS_PODMAN_ALONE:-} ]]; then
  LAZYFS_PODMAN_ALONE=yes exec unshare --mount --propagation private "$0"
fi
start_test
command -v podman >/dev/null || skip "no podman"
[[ -x /bin/busybox ]] || skip "no busybox"
if mountpoint -q /sys/fs/cgroup/unified; then umount -l /sys/fs/cgroup/unified; fi

new_fs 1G --band-size 8M
mount_fs

podman_here() {
  podman --root "$MNT/storage" --runroot "$WORK/run" --storage-driver overlay \
    --cgroup-manager cgroupfs --events-backend file "$@"
}
# in_container IMAGE COMMAND [OPTION OF podman run]...
in_container() {
  local image=$1 command=$2
  shift 2
  podman_here run --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@" \
    "$image" /bin/sh -ec "$command"
}
# Podman may leave its folder mounted on itself, and then the filesystem cannot be unmounted.
leave_storage() {
  if mountpoint -q "$MNT/storage/overlay"; then umount "$MNT/storage/overlay"; fi
}

say "an image of two folders and a shell"
mkdir -p "$WORK"/root/{bin,data/old,data/gone}
cp /bin/busybox "$WORK/root/bin"
for name in sh cat mv rm mkdir ls find; do ln -s busybox "$WORK/root/bin/$name"; done
for ((i = 0; i < 50; i++)); do echo "$i" >"$WORK/root/data/old/$i"; done
echo first >"$WORK/root/data/gone/file"
tar -C "$WORK/root" -cf - . | podman_here import --quiet - lower:1 >/dev/null || fail "import"
podman_here info 2>/dev/null | grep -q 'graphDriverName: overlay' || fail "another driver"

say "a container changes it"
in_container lower:1 '
  echo changed > /data/old/7
  rm /data/old/8
  mv /data/old/9 /data/nine
  rm -r /data/gone
  mkdir /data/gone
  echo second > /data/gone/other
  mv /data/old /data/new
' --name changer || fail "run"
podman_here commit --quiet changer upper:1 >/dev/null || fail "commit"
podman_here rm changer >/dev/null

check_upper() {
  in_container upper:1 '
    [ "$(cat /data/new/7)" = changed ]
    [ ! -e /data/new/8 ] && [ ! -e /data/new/9 ] && [ ! -e /data/old ]
    [ "$(cat /data/nine)" = 9 ]
    [ "$(ls /data/gone)" = other ]
    [ "$(find /data/new -type f | while read -r file; do cat $file; done | busybox wc -l)" = 48 ]
  ' --rm || fail "$1"
}
check_upper "the new image"
in_container lower:1 '[ "$(cat /data/old/8)" = 8 ] && [ "$(ls /data/gone)" = file ]' --rm ||
  fail "the old image has changed"

say "both after a new mount"
leave_storage
remount_fs
check_upper "the new image after a mount"
podman_here rmi --all --force >/dev/null || fail "rmi"
leave_storage
unmount_fs
fsck_fs
