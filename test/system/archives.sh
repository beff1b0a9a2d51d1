#!/usr/bin/env bash
# Programs that copy everything a file has: rsync -aHAX, tar with attributes, ACLs and holes, cp -a,
# and dpkg, which unpacks Debian packages into a root directory on the mount.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_seed
new_fs 1G
mount_fs

# described FOLDER: prints all properties of its files, a line for each name in a fixed order.
described() {
  (cd "$1" &&
    find . -mindepth 1 -type d -printf '%p d %m %U %G %n %T@\n' | sort &&
    find . -not -type d -printf '%p %y %m %U %G %n %s %l %T@\n' | sort &&
    find . -mindepth 1 -not -type l -print0 | sort -z | xargs -0 getfattr -dhP -m - 2>/dev/null &&
    find . -mindepth 1 -not -type l -print0 | sort -z | xargs -0 getfacl -pn &&
    find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$2"
}

same() {
  described "$1" "$WORK/one"
  described "$2" "$WORK/other"
  diff "$WORK/one" "$WORK/other" >"$WORK/diff" || fail "$3: $(head -n 5 "$WORK/diff")"
}

# tree FOLDER: makes every kind of file, with every kind of property.
tree() {
  mkdir -p "$1/folder/deep" "$1/shared"
  cp -r "$TOP/src" "$1/src"
  printf 'linked' >"$1/folder/one" && ln "$1/folder/one" "$1/folder/deep/two"
  ln -s ../folder/one "$1/folder/symlink" && ln -s nowhere "$1/dangling"
  mkfifo "$1/pipe"
  mknod "$1/null" c 1 3 && mknod "$1/block" b 7 200
  truncate -s 128M "$1/sparse"
  dd if=/dev/urandom of="$1/sparse" bs=64K seek=1000 count=3 conv=notrunc status=none
  printf 'x' >"$1/program" && chown 1234:4321 "$1/program" && chmod 6755 "$1/program"
  setfattr -n user.note -v value "$1/folder/one"
  setfattr -n user.long -v "$(head -c 3000 /dev/zero | tr '\0' 'v')" "$1/src"
  setfattr -n trusted.note -v root "$1/folder"
  setcap cap_net_raw+ep "$1/program" 2>/dev/null || true
  setfacl -m u:1234:rw,g:4321:r "$1/folder/one"
  setfacl -d -m u:1234:rwx,o::- "$1/shared"
  # rsync does not correct the time of a device that differs by less than a second.
  find "$1" -depth -exec touch -h -d '2020-02-02 02:02:02.020202' {} +
  touch -d '2055-05-05 05:05:05.123456789' "$1/folder/one"
  touch -d '1931-01-01 00:00:00.5' "$1/pipe"
  touch -h -d '2001-02-03' "$1/dangling"
}

say "a tree with everything"
tree "$WORK/tree"

say "rsync -aHAX, there and back"
rsync -aHAXS --numeric-ids "$WORK/tree/" "$MNT/rsync/" || fail "rsync"
same "$WORK/tree" "$MNT/rsync" "rsync there"
rsync -aHAXS --numeric-ids "$MNT/rsync/" "$WORK/back/" || fail "rsync back"
same "$WORK/tree" "$WORK/back" "rsync back"
[[ -z $(rsync -aHAXni --numeric-ids "$WORK/tree/" "$MNT/rsync/") ]] || fail "rsync finds changes"

say "tar --xattrs --acls --sparse"
tar -C "$WORK/tree" --xattrs --xattrs-include='*' --acls --sparse --numeric-owner --format=posix \
  -cf "$MNT/tree.tar" . || fail "tar"
mkdir "$MNT/tar"
tar -C "$MNT/tar" --xattrs --xattrs-include='*' --acls --numeric-owner --warning=no-timestamp \
  -xpf "$MNT/tree.tar" || fail "tar -x"
same "$WORK/tree" "$MNT/tar" "tar"
tar -C "$MNT/tar" --sparse -cf "$WORK/again.tar" sparse || fail "tar of a sparse file"
(($(stat -c %s "$WORK/again.tar") < 1 << 20)) || fail "tar finds no holes"

say "cp -a"
cp -a --sparse=always "$MNT/rsync" "$MNT/copy" || fail "cp"
same "$WORK/tree" "$MNT/copy" "cp"
for name in rsync tar copy; do
  (($(stat -c %b "$MNT/$name/sparse") <= 3 * 64 * 2)) || fail "$name: the sparse file has no holes"
done
remount_fs
for name in rsync tar copy; do same "$WORK/tree" "$MNT/$name" "$name, mounted again"; done

say "dpkg"
mkdir "$WORK/packages"
if (cd "$WORK/packages" && apt-get -q download base-files bash coreutils dpkg tar gzip) \
  >"$WORK/apt.log" 2>&1; then
  mkdir -p "$MNT/root/var/lib/dpkg"/{info,updates,triggers}
  touch "$MNT/root/var/lib/dpkg"/{status,available}
  dpkg --root="$MNT/root" --force-depends --force-script-chrootless --unpack \
    "$WORK"/packages/*.deb >"$WORK/dpkg.log" 2>&1 || fail "dpkg: $(tail -n 3 "$WORK/dpkg.log")"
  for package in "$WORK"/packages/*.deb; do
    # Files in /etc get their names when dpkg configures the package.
    dpkg-deb --fsys-tarfile "$package" | tar -C "$MNT/root" --compare --numeric-owner \
      --exclude=./etc --warning=no-timestamp >"$WORK/compare.log" 2>&1 ||
      fail "$(basename "$package"): $(head -n 3 "$WORK/compare.log")"
  done
else
  say "no packages can be fetched here: $(tail -n 1 "$WORK/apt.log")"
fi
unmount_fs
fsck_fs --data
