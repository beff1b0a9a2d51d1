#!/usr/bin/env bash
# The Debian packages of `make deb`, in a Debian of their own: installed, used through fstab(5),
# fsck(8), udev and the units of systemd, and removed. Downloads what they depend on from the mirror
# in this machine's apt configuration. Requires a network.
#   package.sh [FOLDER OF THE PACKAGES]
. "$(dirname "$(readlink -f "$0")")/lib.sh"

PACKAGES=${1:-$TOP/build/deb}
for program in debootstrap dpkg-deb cc; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
[[ -n $(find "$PACKAGES" -maxdepth 1 -name '*.deb' 2>/dev/null) ]] ||
  skip "no packages in $PACKAGES; make deb makes them"
find_debian_mirror
start_test
ROOT=$WORK/root
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C chroot "$ROOT" "$@"; }

# expect STATUS COMMAND...: runs it inside; its output is in $WORK/out.
expect() {
  local wanted=$1 status=0
  shift
  inside "$@" >"$WORK/out" 2>&1 || status=$?
  ((status == wanted)) || fail "$*: status $status, not $wanted: $(cat "$WORK/out")"
}

make_root() {
  if ! debootstrap --variant=minbase --include=udev,systemd,bash-completion,zsh "$SUITE" "$ROOT" \
      "$MIRROR" >"$WORK/debootstrap.log" 2>&1; then
    grep -q "Couldn't download\|Failed getting release\|Unable to fetch" "$WORK/debootstrap.log" &&
      skip "no packages can be fetched here: $(tail -n 1 "$WORK/debootstrap.log")"
    fail "debootstrap: $(tail -n 3 "$WORK/debootstrap.log")"
  fi
  mount -t proc proc "$ROOT/proc"
  mount -t sysfs sysfs "$ROOT/sys"
  mount -t tmpfs tmpfs "$ROOT/run"
  mount -t tmpfs tmpfs "$ROOT/dev"
  local device
  for device in null zero full random urandom tty fuse "${DEVICE#/dev/}"; do
    cp -a "/dev/$device" "$ROOT/dev/$device"
  done
  ln -s /proc/self/fd "$ROOT/dev/fd"
}

install_packages() {
  cp "$PACKAGES"/*.deb "$ROOT/tmp"
  cp -L /etc/resolv.conf "$ROOT/etc/resolv.conf"
  find /etc/apt/apt.conf.d -name '*proxy*' -exec cp -t "$ROOT/etc/apt/apt.conf.d" {} +
  inside apt-get -q update >"$WORK/apt.log" 2>&1 || skip "apt: $(tail -n 1 "$WORK/apt.log")"
  expect 0 sh -c 'apt-get -q -y install --no-install-recommends /tmp/*.deb && rm /tmp/*.deb &&
    dpkg --verify lazyfs libedi1 libedi-dev'
}

check_programs() {
  local path name
  while read -r path; do
    name=${path##*/}
    [[ -n $(find "$ROOT/usr/share/man" -name "$name.[18].gz") ]] || fail "$name has no man page"
    [[ $name != *-plot ]] || continue  # without python3
    expect 0 "$path" --version
    grep -q "0\.2\.0" "$WORK/out" || fail "$name --version: $(cat "$WORK/out")"
    expect 0 "$path" -V
    grep -q "0\.2\.0" "$WORK/out" || fail "$name -V: $(cat "$WORK/out")"
  done < <(inside dpkg -L lazyfs | grep -E '^(/usr)?/s?bin/')
}

check_completion() {
  # shellcheck disable=SC2016
  expect 0 bash -c '. /usr/share/bash-completion/bash_completion
    for words in "lazyfsctl scr" "lazyfsctl stats --j" "fsck.lazyfs --da"; do
      COMP_LINE=$words COMP_POINT=${#words} COMPREPLY=()
      read -ra COMP_WORDS <<<"$words"
      COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
      _completion_loader "${COMP_WORDS[0]}"
      _lazyfs "${COMP_WORDS[0]}"
      echo "${COMPREPLY[*]}"
    done'
  [[ $(paste -sd' ' "$WORK/out") == "scrub --json --data" ]] ||
    fail "completion of bash: $(cat "$WORK/out")"
  # shellcheck disable=SC2016
  expect 0 zsh -c 'autoload -U compinit && compinit -u && autoload +X $_comps[lazyfsctl] &&
    echo $_comps[lazyfsctl] $_comps[fsck.lazyfs]'
  grep -q '^_lazyfs _lazyfs$' "$WORK/out" || fail "completion of zsh: $(cat "$WORK/out")"
}

# settle: has udev's rules name the device, as udevd would after mkfs has closed it.
settle() {
  rm -rf "$ROOT/dev/disk"
  inside udevadm test --action=change "/sys/block/${DEVICE#/dev/}" >"$WORK/udev.log" 2>&1 ||
    fail "udevadm test: $(tail -n 3 "$WORK/udev.log")"
}

check_fstab() {
  expect 0 mkfs.lazyfs -q -L archive "$DEVICE"
  settle
  [[ $(readlink -f "$ROOT/dev/disk/by-label/archive") == "$ROOT$DEVICE" ]] ||
    fail "no link by the label: $(tail -n 20 "$WORK/udev.log")"
  echo "LABEL=archive /srv lazyfs noatime,nofail 0 2" >"$ROOT/etc/fstab"
  expect 0 mount -a
  mountpoint -q "$ROOT/srv" || fail "mount -a has not mounted /srv"
  cp -r "$TOP/docs" "$ROOT/srv/docs"
  expect 0 umount /srv
  expect 0 mount /srv
  diff -r "$TOP/docs" "$ROOT/srv/docs" || fail "the files differ after another mount"
}

# What the instance of a unit runs for /srv.
command_of() {
  sed -n 's/^ExecStart=//p' "$ROOT/usr/lib/systemd/system/$1" | sed 's|%f|/srv|g'
}

check_units() {
  local unit command
  mkdir -p "$ROOT/var/lib/prometheus/node-exporter"
  while read -r unit; do
    expect 0 systemd-analyze verify --man=no "/usr/lib/systemd/system/${unit/@/@srv}"
    [[ $unit == *.service ]] || continue
    command=$(command_of "$unit")
    # shellcheck disable=SC2086
    expect 0 $command
  done < <(find "$ROOT/usr/lib/systemd/system" -name '*lazyfs*' -printf '%f\n')
}

# fsck at boot asks for these statuses.
check_fsck() {
  expect 0 umount /srv
  expect 0 fsck -a /srv
  # The identification block.
  dd if=/dev/zero of="$DEVICE" bs=4096 seek=16 count=1 conv=notrunc,fsync status=none
  expect 1 fsck -a /srv
  expect 0 fsck -a /srv
  local size
  size=$(blockdev --getsize64 "$DEVICE")
  # The middle, where the metadata log is.
  dd if=/dev/zero of="$DEVICE" bs=1M seek=$((size / 4 >> 20)) count=$((size / 2 >> 20)) \
    conv=notrunc,fsync status=none
  expect 4 fsck -a /srv
}

check_library() {
  cat >"$WORK/uses.c" <<'END'
#include <edi.h>
#include <stdio.h>
int main(void) {
  edi_device* disk = 0;
  return edi_open("/disk.edi", 0, &disk) == 0 ? (edi_close(disk), puts("opened"), 0) : 1;
}
END
  expect 0 edicreate -s4096 -b1024 -c8 -f/disk.edi
  cc -o "$ROOT/uses" "$WORK/uses.c" -I"$ROOT/usr/include" -L"$(dirname "$(find "$ROOT/usr/lib" \
    -name libedi.so)")" -ledi || fail "a program with libedi"
  expect 0 /uses
  rm "$ROOT/uses" "$ROOT/disk.edi"
}

check_removal() {
  local names
  mapfile -t names < <(for package in "$PACKAGES"/*.deb; do dpkg-deb -f "$package" Package; done)
  inside dpkg -L "${names[@]}" | sort -u | while read -r path; do
    if [[ -f $ROOT$path ]]; then echo "$path"; fi
  done >"$WORK/files"
  expect 0 dpkg --purge "${names[@]}"
  while read -r path; do
    [[ ! -e $ROOT$path ]] || fail "$path remains"
  done <"$WORK/files"
  say "$(wc -l <"$WORK/files") files of ${#names[@]} packages installed and removed"
}

# `make install` and `make uninstall` of the tree that the packages were made from.
check_uninstall() {
  local left
  make -C "$TOP" install DESTDIR="$WORK/dest" >"$WORK/install.log" 2>&1 ||
    fail "make install: $(tail -n 5 "$WORK/install.log")"
  [[ -n $(find "$WORK/dest" -name lazyfsctl -type f) ]] || fail "make install installs nothing"
  make -C "$TOP" uninstall DESTDIR="$WORK/dest" >"$WORK/install.log" 2>&1 ||
    fail "make uninstall: $(tail -n 5 "$WORK/install.log")"
  left=$(cd "$WORK/dest" && find . ! -type d -o -path '*/lazyfs*')
  [[ -z $left ]] || fail "make uninstall leaves $left"
}

new_device 1G
say "debootstrap $SUITE"
make_root
install_packages
say "programs, completion, the library"
check_programs
check_completion
check_library
say "fstab, units, fsck"
check_fstab
check_units
check_fsck
check_removal
say "make install, make uninstall"
check_uninstall
