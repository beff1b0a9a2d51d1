#!/usr/bin/env bash
# O_DSYNC, O_SYNC and the mount options sync and dirsync make a change durable before the call
# returns. After each call the test shuts the filesystem down, like a power cut.
#   durable.sh [GROUP]...     (all)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_fs 256M
sequence=0

# The long commit interval leaves it to the tested call to make the change durable.
mount_patiently() { mount_fs "commit=300${1:+,$1}"; }

end_shut_down() {
  umount "$MNT" || umount -l "$MNT" || fail "umount of a filesystem after shutdown"
  wait "$DAEMON" || true
  DAEMON=''
}

# cut_after CASE OPTIONS [REMOUNT OPTIONS]: returns 0 if the change survived the shutdown.
cut_after() {
  local folder=$MNT/$((++sequence)) status=0
  mount_patiently "$2"
  if [[ -n ${3:-} ]]; then mount.lazyfs "$DEVICE" "$MNT" -o "remount,$3" || fail "remount,$3"; fi
  mkdir "$folder"
  python3 "$HERE/durable.py" prepare "$1" "$folder" || fail "$1: see above"
  lazyfsctl sync "$MNT"
  python3 "$HERE/durable.py" act "$1" "$folder" "$MNT" || fail "$1: see above"
  end_shut_down
  mount_fs
  python3 "$HERE/durable.py" found "$1" "$folder" || status=1
  unmount_fs
  return $status
}

# all_outlive GROUP OPTIONS
all_outlive() {
  local case
  say "$1 with ${2:-no options}"
  for case in $(python3 "$HERE/durable.py" cases "$1"); do
    cut_after "$case" "$2" || fail "$case with ${2:-no options} was lost"
  done
}

if cut_after mkdir ""; then fail "a shutdown loses nothing, so the tests below prove nothing"; fi
for group in "${@:-writes names changes remount}"; do
  for one in $group; do
    case $one in
      writes) all_outlive writes "" ;;
      names) all_outlive names dirsync ;;
      changes) all_outlive names sync; all_outlive changes sync ;;
      remount)
        say "mount options that a remount sets and clears"
        cut_after mkdir "" dirsync || fail "mkdir after remount,dirsync was lost"
        cut_after chmod "" sync || fail "chmod after remount,sync was lost"
        if cut_after mkdir sync async; then fail "remount,async changes nothing"; fi ;;
      *) fail "no such group: $one" ;;
    esac
  done
done
fsck_fs
