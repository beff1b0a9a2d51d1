#!/usr/bin/env bash
# debootstrap installs a complete Debian into a root directory on the mount. Its programs run there,
# and every file of every package equals the package's checksums, also after mounting again.
#   debootstrap.sh [SUITE]     (that of this machine)
# Downloads the packages from the mirror in this machine's apt configuration. Requires a network.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

command -v debootstrap >/dev/null || skip "debootstrap is not installed"
find_debian_mirror "$@"
start_test
new_fs 2G
mount_fs

say "debootstrap $SUITE"
TALE=$WORK/debootstrap.log
if ! debootstrap --variant=minbase "$SUITE" "$MNT/root" "$MIRROR" >"$TALE" 2>&1; then
  grep -q "Couldn't download\|Failed getting release\|Unable to fetch" "$TALE" &&
    skip "no packages can be fetched here: $(tail -n 1 "$TALE")"
  fail "debootstrap: $(tail -n 3 "$TALE")"
fi

check_root() {
  chroot "$MNT/root" dpkg --audit >"$WORK/audit" || fail "dpkg --audit"
  [[ ! -s $WORK/audit ]] || fail "dpkg --audit: $(head -n 3 "$WORK/audit")"
  # dpkg prints a line for each file that differs from its package; c marks configuration files.
  chroot "$MNT/root" dpkg --verify >"$WORK/verify" || true
  grep -v ' c /' "$WORK/verify" >"$WORK/wrong" && fail "dpkg --verify: $(head -n 3 "$WORK/wrong")"
  chroot "$MNT/root" perl -e 'print "alive\n"' | grep -q alive || fail "perl does not run"
}

check_root
say "$(chroot "$MNT/root" dpkg-query -f '.\n' -W | wc -l) packages," \
  "$(find "$MNT/root" -xdev | wc -l) files"
remount_fs
check_root
unmount_fs
fsck_fs --data
