#!/usr/bin/env bash
# Common programs on a mount: git, rsync, sqlite3, a C compiler, tar, cp, find.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_test
new_seed
new_fs 1G
mount_fs

say "git: a repository with history, cloned, changed, checked"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@localhost GIT_COMMITTER_NAME=t \
  GIT_COMMITTER_EMAIL=t@localhost
git init -q "$WORK/origin"
cp -r "$TOP/src" "$TOP/test" "$WORK/origin"
git -C "$WORK/origin" add -A
git -C "$WORK/origin" commit -q -m first
for i in {1..30}; do
  echo "$i" >"$WORK/origin/src/file-$i"
  git -C "$WORK/origin" add -A
  git -C "$WORK/origin" commit -q -m "change $i"
done
git clone -q --no-hardlinks "$WORK/origin" "$MNT/clone"
git -C "$MNT/clone" fsck --full --strict 2>"$WORK/err" || fail "git fsck: $(cat "$WORK/err")"
[[ $(git -C "$MNT/clone" rev-parse HEAD) == $(git -C "$WORK/origin" rev-parse HEAD) ]] ||
  fail "the clone has another head"
[[ -z $(git -C "$MNT/clone" status --porcelain) ]] || fail "a fresh clone is dirty"
git -C "$MNT/clone" checkout -q -b topic HEAD~10
echo change >>"$MNT/clone/src/file-1"
git -C "$MNT/clone" commit -qam topic
git -C "$MNT/clone" rebase -q origin/HEAD || fail "git rebase"
git -C "$MNT/clone" gc -q --aggressive
git -C "$MNT/clone" fsck --full --strict 2>"$WORK/err" || fail "git fsck: $(cat "$WORK/err")"
git clone -q --no-hardlinks "$MNT/clone" "$MNT/second"
diff -r --exclude=.git "$MNT/clone" "$MNT/second" || fail "a clone of the clone differs"

say "rsync: there and back"
mkdir "$WORK/tree"
cp -a "$WORK/origin/." "$WORK/tree"
ln -s nowhere "$WORK/tree/dangling"
ln "$WORK/tree/src/file-1" "$WORK/tree/linked"
mkfifo "$WORK/tree/fifo"
chmod 1751 "$WORK/tree/src"
chown 1234:4321 "$WORK/tree/src/file-2"
setfattr -n user.colour -v green "$WORK/tree/src/file-3"
truncate -s 100M "$WORK/tree/sparse"
touch -d '1975-05-05 05:05:05.123456789' "$WORK/tree/src/file-4"
rsync -aHXS "$WORK/tree/" "$MNT/tree/"
rsync -aHXS "$MNT/tree/" "$WORK/back/"
changes=$(rsync -aHXSci --delete "$WORK/tree/" "$WORK/back/")
[[ -z $changes ]] || fail "rsync there and back differs: $changes"
changes=$(rsync -aHXSci --delete "$WORK/tree/" "$MNT/tree/")
[[ -z $changes ]] || fail "rsync finds differences at once: $changes"
rm "$WORK/tree/src/file-5"
echo more >>"$WORK/tree/src/file-6"
rsync -aHXS --delete "$WORK/tree/" "$MNT/tree/"
diff -r --no-dereference -x fifo "$WORK/tree" "$MNT/tree" || fail "rsync --delete differs"

say "sqlite3: transactions, in three ways of keeping a journal"
for journal in delete wal truncate; do
  base=$MNT/$journal.db
  {
    echo "PRAGMA journal_mode=$journal; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, w BLOB);"
    echo "CREATE INDEX i ON t(v);"
    for ((i = 1; i <= 300; i++)); do
      echo "BEGIN; INSERT INTO t(v, w) VALUES('$((i * 7919 % 1000))', randomblob($((i * 10))));"
      echo "UPDATE t SET v = v || 'x' WHERE id % 17 = $((i % 17)); COMMIT;"
    done
    echo "DELETE FROM t WHERE id % 5 = 0; VACUUM;"
  } | sqlite3 "$base" >"$WORK/out" || fail "sqlite3 ($journal)"
  [[ $(sqlite3 "$base" 'PRAGMA integrity_check; SELECT count(*) FROM t;') == $'ok\n240' ]] ||
    fail "sqlite3's integrity_check ($journal)"
done
cp "$MNT/wal.db" "$WORK/wal.db"

say "a C program: compiled, linked, run"
mkdir "$MNT/c"
cat >"$MNT/c/part.h" <<'C'
int twice(int);
C
cat >"$MNT/c/part.c" <<'C'
#include "part.h"
int twice(int n) { return 2 * n; }
C
cat >"$MNT/c/main.c" <<'C'
#include <stdio.h>
#include "part.h"
int main(void) { printf("%d\n", twice(21)); return 0; }
C
(cd "$MNT/c" && cc -c part.c && ar rcs libpart.a part.o && cc -O2 -o main main.c -L. -lpart)
[[ $("$MNT/c/main") == 42 ]] || fail "the program prints $("$MNT/c/main")"

say "tar: sparse files and extended attributes"
mkdir "$MNT/tar"
truncate -s 50M "$MNT/tar/sparse"
echo middle | dd of="$MNT/tar/sparse" bs=1 seek=20000000 conv=notrunc status=none
setfattr -n user.note -v 'of some length' "$MNT/tar/sparse"
echo acl >"$MNT/tar/plain"
tar -C "$MNT" --xattrs --sparse -cf "$MNT/archive.tar" tar
(($(stat -c %s "$MNT/archive.tar") < 10000000)) || fail "tar sees no holes in a sparse file"
mkdir "$MNT/untarred"
tar -C "$MNT/untarred" --xattrs -xf "$MNT/archive.tar"
cmp "$MNT/tar/sparse" "$MNT/untarred/tar/sparse" || fail "tar: contents"
note=$(getfattr --absolute-names --only-values -n user.note "$MNT/untarred/tar/sparse")
[[ $note == 'of some length' ]] || fail "tar: extended attributes"
(($(du -k "$MNT/untarred/tar/sparse" | cut -f1) < 1000)) || fail "a sparse file takes all its size"

say "cp, find, sort, many processes at once"
cp -a "$MNT/tree" "$MNT/copy"
diff -r --no-dereference -x fifo "$MNT/tree" "$MNT/copy" || fail "cp -a"
for i in {1..8}; do
  (
    mkdir "$MNT/p$i"
    cp -r "$TOP/src" "$MNT/p$i"
    find "$MNT/p$i" -name '*.h' -exec cat {} + | sort >"$MNT/p$i/sorted"
    mv "$MNT/p$i/src" "$MNT/p$i/moved"
  ) &
  jobs_started[i]=$!
done
for i in {1..8}; do wait "${jobs_started[i]}" || fail "process $i"; done
for i in {2..8}; do
  diff -r "$MNT/p1/moved" "$TOP/src" >/dev/null || fail "copied at once: p$i"
  [[ $(sha256sum <"$MNT/p1/sorted") == $(sha256sum <"$MNT/p$i/sorted") ]] || fail "sorted: p$i"
done

say "all of it after mounting again"
(cd "$MNT" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$WORK/sums"
remount_fs
(cd "$MNT" && sha256sum --quiet -c "$WORK/sums") || fail "contents after mounting again"
git -C "$MNT/clone" fsck --full --strict 2>"$WORK/err" || fail "git fsck: $(cat "$WORK/err")"
for journal in delete wal truncate; do
  [[ $(sqlite3 "$MNT/$journal.db" 'PRAGMA integrity_check;') == ok ]] || fail "$journal.db"
done
changes=$(rsync -aHXSci --delete "$WORK/tree/" "$MNT/tree/")
[[ -z $changes ]] || fail "rsync finds differences after mounting again: $changes"
unmount_fs
fsck_fs
