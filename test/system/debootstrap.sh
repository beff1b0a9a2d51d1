#!/usr/bin/env bash
# A whole Debian, installed by debootstrap into a root on the mount; its programs run from there,
# and every file of every package is as its package says, also after mounting again.
#   debootstrap.sh [SUITE]     (that of this machine)
# Takes the packages from where this machine's apt has its own; without a network it cannot run.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

command -v debootstrap >/dev/null || skip "debootstrap is not installed"
suite=${1:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2>/dev/null |
  awk -v suite="$suite" '$2 == suite { print $1; exit }')
[[ -n $mirror ]] || skip "apt knows no source of $suite"
start_test
new_fs 2G
mount_fs

say "debootstrap $suite"
TALE=$WORK/debootstrap.log
if ! debootstrap --variant=minbase "$suite" "$MNT/root" "$mirror" >"$TALE" 2>&1; then
  grep -q "Couldn't download\|Failed getting release\|Unable to fetch" "$TALE" &&
    skip "no packages can be fetched here: $(tail -n 1 "$TALE")"
  fail "debootstrap: $(tail -n 3 "$TALE")"
fi

check_root() {
  chroot "$MNT/root" dpkg --audit >"$WORK/audit" || fail "dpkg --audit"
  [[ ! -s $WORK/audit ]] || fail "dpkg --audit: $(head -n 3 "$WORK/audit")"
  # A line for each file that is not what its package says; c marks what was configured.
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
