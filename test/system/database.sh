#!/usr/bin/env bash
# PostgreSQL on a mount: initdb and pgbench. The test kills the server and later the lazyfs daemon.
# Each time the database recovers, and has every transaction that it had reported as committed.
#   database.sh [SECONDS OF EACH LOAD]     (5)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

seconds=${1:-5}
bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
[[ -n $bin ]] || skip "no PostgreSQL"
PATH=$bin:$PATH
start_test
# The socket is outside of the mount, so that it remains after the unmount.
export PGHOST=$WORK/socket PGPORT=54329 PGUSER=postgres PGDATABASE=postgres
mkdir "$PGHOST"
chown postgres "$PGHOST"
chmod 755 "$WORK"

as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }

# kill_server PID: kills the server and all its processes; some would wait for dead ones.
kill_server() {
  local children
  kill -STOP "$1"  # it makes no new ones meanwhile
  children=$(pgrep -P "$1" | tr '\n' ' ')
  # shellcheck disable=SC2086  # some numbers
  kill -KILL "$1" $children 2>/dev/null || true
}

server() {
  as_postgres pg_ctl -D "$MNT/db" -w -t 60 -l "$PGHOST/log" \
    -o "-c unix_socket_directories=$PGHOST -c listen_addresses= -p $PGPORT" "$@" >/dev/null ||
    fail "pg_ctl $*: $(tail -n 5 "$PGHOST/log")"
}

ask() { psql -X -q -A -t -c "$1"; }

# load: while pgbench works, a client counts the commits that were reported to it.
load() {
  pgbench -n -c 4 -j 2 -T "$seconds" >"$WORK/pgbench.log" 2>&1 &
  bench=$!
  : >"$WORK/committed"
  (
    for ((i = 0; ; i++)); do
      ask "insert into journal values ($1, $i)" 2>/dev/null || break
      echo "$i" >"$WORK/committed"
    done
  ) &
  counter=$!
}

# recovered ROUND: checks that the balances agree and that no committed row is missing.
recovered() {
  local sums committed found
  sums=$(ask "select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from
    pgbench_branches) and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from
    pgbench_history)")
  [[ $sums == t ]] || fail "round $1: the balances disagree"
  committed=$(cat "$WORK/committed")
  found=$(ask "select max(i) from journal where round = $1")
  [[ -n $committed ]] || fail "round $1: nothing was committed"
  ((found >= committed)) || fail "round $1: $committed were committed, $found exist"
  say "$committed commits of round $1 and $(ask 'select count(*) from pgbench_history') of pgbench"
}

new_fs 2G
mount_fs
mkdir "$MNT/db"
chown postgres "$MNT/db"
as_postgres initdb -D "$MNT/db" -k >"$WORK/initdb.log" 2>&1 || fail "initdb"
server start
pgbench -i -q -s 5 >"$WORK/pgbench.log" 2>&1 || fail "pgbench -i: $(tail -n 2 "$WORK/pgbench.log")"
ask "create table journal (round int, i int)"

say "the server is killed"
load 1
sleep $((seconds / 2 + 1))
kill_server "$(head -n 1 "$MNT/db/postmaster.pid")"
wait "$bench" "$counter" 2>/dev/null || true
rm -f "$MNT/db/postmaster.pid" "$PGHOST"/.s.PGSQL.*
server start
recovered 1

say "the daemon is killed"
load 2
sleep $((seconds / 2 + 1))
server_pid=$(head -n 1 "$MNT/db/postmaster.pid")
kill -KILL "$DAEMON"
wait "$DAEMON" 2>/dev/null || true
DAEMON=''
kill_server "$server_pid"
wait "$bench" "$counter" 2>/dev/null || true
umount -l "$MNT"
sleep 1
mount_fs
rm -f "$MNT/db/postmaster.pid" "$PGHOST"/.s.PGSQL.*
server start
recovered 2
server stop -m fast

say "checksums of every page"
as_postgres pg_checksums -D "$MNT/db" --check >"$WORK/checksums" 2>&1 ||
  fail "$(tail -n 2 "$WORK/checksums")"
unmount_fs
fsck_fs --data
