#!/usr/bin/env bash
# chattr and lsattr: immutable and append-only files and directories, by each way a mount writes.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
command -v chattr >/dev/null || skip "no chattr"
chmod 711 "$WORK"  # for another user
new_fs 128M

# refuses COMMAND...: it must fail with EPERM.
refuses() {
  if "$@" >"$WORK/out" 2>"$WORK/err"; then fail "succeeds: $*"; fi
  grep -q "Operation not permitted" "$WORK/err" || fail "$*: $(cat "$WORK/err")"
}
flags_of() { lsattr -d "$1" | cut -d' ' -f1 | tr -d -; }
expect_flags() {
  local flags
  flags=$(flags_of "$1")
  [[ $flags == "$2" ]] || fail "$1 has the flags '$flags' instead of '$2'"
}

immutable_file() {
  echo text >"$1/file"
  echo source >"$1/source"
  setfattr -n user.a -v b "$1/file"
  chattr +i "$1/file"
  expect_flags "$1/file" i
  refuses bash -c "echo more >>'$1/file'"
  refuses bash -c "echo more >'$1/file'"
  refuses dd if=/dev/zero of="$1/file" bs=1 count=1 conv=notrunc status=none
  refuses truncate -s 0 "$1/file"
  refuses fallocate --punch-hole -o 0 -l 1 "$1/file"
  refuses rm -f "$1/file"
  refuses mv "$1/file" "$1/other"
  refuses mv -f "$1/source" "$1/file"
  refuses ln "$1/file" "$1/link"
  refuses chmod 600 "$1/file"
  refuses chown 5 "$1/file"
  refuses touch "$1/file"
  refuses touch -d yesterday "$1/file"
  refuses setfattr -n user.a -v c "$1/file"
  refuses setfattr -x user.a "$1/file"
  [[ $(cat "$1/file") == text ]] || fail "an immutable file has changed"
  sync -f "$1/file"
  if getfattr -n security.capability "$1/file" 2>"$WORK/err"; then
    fail "an immutable file has capabilities"
  fi
  grep -q "No such attribute" "$WORK/err" || fail "capabilities: $(cat "$WORK/err")"
  cp -a "$1/file" "$1/copy" || fail "an immutable file cannot be copied"
}

# What the kernel still has to write when the flag is set is not lost.
dirty_file() {
  head -c 3000000 /dev/urandom | tee "$1/late" >"$WORK/late"
  chattr +i "$1/late"
  sync -f "$1/late" || fail "sync of an immutable file"
  echo 3 >/proc/sys/vm/drop_caches
  cmp "$WORK/late" "$1/late" || fail "an immutable file has lost what was written before"
  chattr -i "$1/late"
  echo more >>"$1/late" || fail "a file that is no longer immutable"
}

append_only_file() {
  echo one >"$1/log"
  chattr +a "$1/log"
  expect_flags "$1/log" a
  echo two >>"$1/log" || fail "appending to an append-only file"
  refuses bash -c "echo more >'$1/log'"
  refuses truncate -s 0 "$1/log"
  refuses truncate -s 100 "$1/log"
  refuses rm -f "$1/log"
  refuses mv "$1/log" "$1/other"
  refuses chmod 600 "$1/log"
  refuses setfattr -n user.a -v c "$1/log"
  touch "$1/log" || fail "touch of an append-only file"
  head -c 5000000 /dev/zero | tr '\0' x | tee -a "$1/log" >"$WORK/more"
  printf 'one\ntwo\n' | cat - "$WORK/more" >"$WORK/log"
  sync "$1/log" || fail "fsync of an append-only file"
  # The option `opens` refuses the file's opening, direct writes are refused, cached ones dropped.
  dd if=/dev/zero of="$1/log" bs=3 count=1 conv=notrunc,fsync status=none 2>"$WORK/err" &&
    fail "an append-only file is overwritten"
  sync -f "$1/log" 2>/dev/null || true  # reports the late error once more
  cmp "$WORK/log" "$1/log" || fail "readers see another append-only file"
  echo 3 >/proc/sys/vm/drop_caches
  cmp "$WORK/log" "$1/log" || fail "an append-only file has changed"
}

directories() {
  mkdir "$1/still" "$1/growing"
  touch "$1/still/old" "$1/growing/old"
  chattr +i "$1/still"
  chattr +a "$1/growing"
  refuses touch "$1/still/new"
  refuses rm "$1/still/old"
  refuses mv "$1/still/old" "$1/still/new"
  refuses rmdir "$1/still"
  echo text >"$1/still/old" || fail "a file of an immutable directory"
  touch "$1/growing/new" || fail "a new file in an append-only directory"
  refuses rm "$1/growing/old"
  refuses mv "$1/growing/old" "$1/growing/other"
}

# Only who has CAP_LINUX_IMMUTABLE changes i and a; the owner changes the others.
rights() {
  command -v setpriv >/dev/null || return 0
  as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
  echo text >"$1/mine"
  echo text >"$1/theirs"
  chown 65534:65534 "$1/mine" "$1"
  as_user chattr +dA "$1/mine" || fail "the owner cannot set flags"
  expect_flags "$1/mine" dA
  refuses as_user chattr +i "$1/mine"
  refuses as_user chattr +a "$1/mine"
  refuses as_user chattr +d "$1/theirs"
  refuses setpriv --bounding-set -linux_immutable --inh-caps -linux_immutable chattr +i "$1/mine"
  chattr +i "$1/mine"
  refuses as_user chattr -i "$1/mine"
  refuses as_user rm -f "$1/mine"
  if chattr +c "$1/theirs" 2>/dev/null; then fail "a flag that does not exist is taken"; fi
}

inherited() {
  mkdir "$1/parent"
  chattr +dA "$1/parent"
  mkdir "$1/parent/child"
  expect_flags "$1/parent/child" dA
}

all() {
  mkdir "$1"
  immutable_file "$1"
  dirty_file "$1"
  append_only_file "$1"
  directories "$1"
  inherited "$1"
  rights "$1"
}

for options in writeback nowriteback opens; do
  say "mounted with $options"
  mount_fs "$options"
  all "$MNT/$options"
  unmount_fs
  fsck_fs
done

say "after further mounts"
mount_fs opens
expect_flags "$MNT/writeback/file" i
refuses bash -c "exec 3<>'$MNT/writeback/file'"
refuses bash -c "exec 3<>'$MNT/writeback/log'"
exec 3>>"$MNT/writeback/log"
exec 3>&-
unmount_fs
mount_fs
expect_flags "$MNT/writeback/log" a
chattr -R -ia "$MNT" || fail "flags cannot be taken off"
rm -r "$MNT"/*back "$MNT/opens"
unmount_fs
fsck_fs
