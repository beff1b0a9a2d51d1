#!/usr/bin/env bash
# Exports a mount by the NFS server NFS-Ganesha. Like the kernel's server, it finds every file by
# the handle that the kernel returns. Handles remain valid when caches are dropped, when the server
# restarts, and when the filesystem is mounted again. Debian's packages are nfs-ganesha-vfs and
# libnfs-utils. The test does not install them, because they start a server.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

for program in ganesha.nfsd nfs-ls nfs-cat nfs-cp; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
start_test
new_fs 1G
mount_fs
SERVER='' PORT=$((20490 + RANDOM % 4000))
trap 'status=$?; stop_server; end_test $status' EXIT

start_server() {
  mkdir -p "$WORK/recovery"
  cat >"$WORK/ganesha.conf" <<C
NFS_CORE_PARAM { Protocols = 4; NFS_Port = $PORT; Bind_addr = 127.0.0.1; Enable_NLM = false;
                 Enable_RQUOTA = false; Enable_UDP = false; }
NFSv4 { Graceless = true; RecoveryBackend = fs; RecoveryRoot = $WORK/recovery; }
EXPORT { Export_Id = 7; Path = $MNT; Pseudo = /lazyfs; Access_Type = RW; Squash = None;
         SecType = sys; Protocols = 4; Filesystem_Id = 77.77; FSAL { Name = VFS; } }
C
  ganesha.nfsd -F -L "$WORK/ganesha.log" -f "$WORK/ganesha.conf" -p "$WORK/ganesha.pid" &
  SERVER=$!
  until_true "the server does not answer" answers
}
stop_server() {
  [[ -z $SERVER ]] || kill -KILL "$SERVER" 2>/dev/null || true
  wait "$SERVER" 2>/dev/null || true
  SERVER=''
}
answers() { kill -0 "$SERVER" && nfs-ls "$(url)" >/dev/null 2>&1; }
url()     { echo "nfs://127.0.0.1/lazyfs/${1:-}?version=4&nfsport=$PORT&uid=0&gid=0"; }
drop()    { lazyfsctl sync "$MNT" && echo 3 >/proc/sys/vm/drop_caches; }

mkdir "$MNT/folder"
head -c 20M /dev/urandom >"$WORK/data"
cp "$WORK/data" "$MNT/folder/data"
python3 "$HERE/handles.py" take "$MNT" "$WORK/handles"
start_server

say "reading, while caches are dropped"
for ((i = 0; i < 3; i++)); do
  nfs-cat "$(url folder/data)" >"$WORK/read" &
  reader=$!
  drop
  wait "$reader" || fail "nfs-cat"
  cmp "$WORK/data" "$WORK/read" || fail "the data differs"
done
say "writing"
# Small files: this client's large writes fail on any server.
for ((i = 0; i < 30; i++)); do
  head -c $((60 * i + 1)) /dev/urandom >"$WORK/small-$i"
  nfs-cp "$WORK/small-$i" "$(url "folder/small-$i")" >"$WORK/cp.log" 2>&1 ||
    fail "nfs-cp: $(cat "$WORK/cp.log")"
  ((i % 10 != 5)) || drop
done
drop
for ((i = 0; i < 30; i++)); do
  cmp "$WORK/small-$i" "$MNT/folder/small-$i" || fail "the written data differs"
done
(($(nfs-ls "$(url folder)" | wc -l) == 31)) || fail "the listing is wrong"
say "a restarted server"
stop_server
start_server
nfs-cat "$(url folder/small-29)" | cmp - "$WORK/small-29" || fail "the data differs"
stop_server
say "mounted again"
remount_fs
python3 "$HERE/handles.py" use "$MNT" "$WORK/handles" || fail "see above"
start_server
nfs-cat "$(url folder/data)" | cmp - "$WORK/data" || fail "the data differs"
stop_server
unmount_fs
fsck_fs --data
