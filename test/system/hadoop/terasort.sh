#!/usr/bin/env bash
# Runs Hadoop's TeraGen, TeraSort and TeraValidate with all bulk data in one folder.
#   terasort.sh FOLDER local|hdfs [SIZE]       as root; SIZE is 256M by default
#
# local  the jobs read and write file:// paths in FOLDER; no daemons
# hdfs   a NameNode and a DataNode that keep everything in FOLDER; the jobs run over HDFS
#
# Prints one line, for instance
#   mode=hdfs size=268435456 fstype=ext4 teragen_s=9.1 ... validated=yes
# Exit status 0 only if each phase succeeded, TeraValidate found no error, and its checksum equals
# that of TeraGen's rows. After a failure the script keeps the logs and prints their path.
#
# HADOOP_CACHE   folder of Maven's jars between runs (~/.cache/lazyfs-hadoop)
# TERASORT_KEEP  yes: the rows and the sorted rows remain in FOLDER
set -euo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
pom=$here/pom.xml
cache=${HADOOP_CACHE:-$HOME/.cache/lazyfs-hadoop}
tera=org.apache.hadoop.examples.terasort
pids=()
line=''
status=1

log() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }
die() { log "error: $*"; exit 1; }

(($# >= 2)) && [[ -d $1 && $2 =~ ^(local|hdfs)$ ]] ||
  { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
data=$(readlink -f "$1")
mode=$2
size=$(numfmt --from=iec "${3:-256M}") || die "size"
((EUID == 0)) || die "requires root"
command -v java >/dev/null || die "no java: install default-jdk-headless"

# ---- jars ------------------------------------------------------------------------------------

# The folder's name has the checksum of the list, so that a changed list gets a new folder.
jars=$cache/$(sha256sum <"$pom" | cut -c1-12)
fetch_jars() {
  local into
  command -v mvn >/dev/null || die "no maven"
  log "fetching Hadoop's jars into $jars"
  mkdir -p "$cache"
  into=$(mktemp -d "$cache/fetch.XXXXXX")
  mvn -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$into/lib" </dev/null >"$cache/mvn.log" 2>&1 ||
    die "maven failed, see $cache/mvn.log"
  mv -T "$into/lib" "$jars" 2>/dev/null || [[ -d $jars ]]
  rm -rf "$into"
}
[[ -d $jars ]] || fetch_jars

# ---- network namespace -----------------------------------------------------------------------

# All daemons listen in a network namespace with loopback only, where every port is free.
if [[ -z ${TERASORT_NETWORK:-} ]]; then
  TERASORT_NETWORK=own exec unshare --net "$0" "$@"
fi
ip link set lo up

# ---- folders and cleanup ---------------------------------------------------------------------

work=$(mktemp -d "${TMPDIR:-/tmp}/lazyfs-hadoop.XXXXXX")
run=$data/${work##*/}
conf=$work/conf
logs=$work/logs

stop_daemons() {
  local i tries
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null
    for ((tries = 0; tries < 100; tries++)); do
      kill -0 "${pids[i]}" 2>/dev/null || break
      sleep 0.2
    done
    kill -KILL "${pids[i]}" 2>/dev/null
  done
}

finish() {
  trap - EXIT
  trap '' INT TERM HUP
  set +e
  stop_daemons
  if ((status != 0)) || [[ ${TERASORT_KEEP:-} != yes ]]; then
    rm -rf "$run" || log "could not remove $run"
  fi
  if ((status == 0)); then rm -rf "$work"; else log "logs are in $logs"; fi
  exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$conf/webapps/hdfs" "$conf/webapps/datanode" "$logs" "$work/tmp" "$work/cwd" "$run"

# ---- configuration ---------------------------------------------------------------------------

name_node=127.0.0.1:20001

site() {  # site FILE [KEY VALUE]...
  local out=$conf/$1
  shift
  {
    echo '<configuration>'
    while (($#)); do
      printf '<property><name>%s</name><value>%s</value></property>\n' "$1" "$2"
      shift 2
    done
    echo '</configuration>'
  } >"$out"
}

default_fs=file:/// output=file://$run/job
if [[ $mode == hdfs ]]; then default_fs=hdfs://$name_node output=/terasort; fi

# Hadoop looks up its own host's name. This makes it independent of the machine's resolver.
printf '127.0.0.1 localhost\n127.0.0.1 %s\n' "$(hostname)" >"$conf/hosts"

site core-site.xml fs.defaultFS "$default_fs" hadoop.tmp.dir "$run/tmp" \
  fs.local.block.size 67108864 ipc.client.connect.max.retries 30
site hdfs-site.xml dfs.replication 1 dfs.blocksize 67108864 dfs.permissions.enabled false \
  dfs.namenode.name.dir "file://$run/name" \
  dfs.namenode.rpc-address "$name_node" \
  dfs.namenode.http-address 127.0.0.1:0 \
  dfs.namenode.datanode.registration.ip-hostname-check false \
  dfs.namenode.safemode.extension 0 \
  dfs.datanode.data.dir "file://$run/data" \
  dfs.datanode.hostname 127.0.0.1 \
  dfs.datanode.address 127.0.0.1:0 \
  dfs.datanode.ipc.address 127.0.0.1:0 \
  dfs.datanode.http.address 127.0.0.1:0 \
  dfs.datanode.du.reserved 0 \
  dfs.datanode.round-robin-volume-choosing-policy.additional-available-space 0
site mapred-site.xml mapreduce.framework.name local \
  mapreduce.cluster.local.dir "$run/mapred" \
  mapreduce.local.map.tasks.maximum 1 \
  mapreduce.local.reduce.tasks.maximum 1 \
  mapreduce.job.reduces 5 \
  mapreduce.job.maps 2 \
  mapreduce.map.speculative false \
  mapreduce.reduce.speculative false \
  mapreduce.terasort.output.replication 1 \
  mapreduce.client.submit.file.replication 1
cat >"$conf/log4j.properties" <<'END'
log4j.rootLogger=INFO,stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
END

# Java 17 closed packages that Hadoop reflects into.
jvm=(-XX:+IgnoreUnrecognizedVMOptions "-Djdk.net.hosts.file=$conf/hosts" -XX:-UsePerfData
  -Djava.net.preferIPv4Stack=true "-Djava.io.tmpdir=$work/tmp")
for package in java.lang java.lang.reflect java.io java.net java.nio java.util \
               java.util.concurrent sun.nio.ch; do
  jvm+=("--add-opens=java.base/$package=ALL-UNNAMED")
done
jvm+=(-cp "$conf:$jars/*")

# ---- daemons and jobs ------------------------------------------------------------------------

cd "$work/cwd"  # the local runner makes symlinks where it is

# daemon NAME CLASS LOG PATTERN: starts it, then waits until the log LOG has a line with PATTERN.
daemon() {
  local name=$1 class=$2 watched=$3 pattern=$4 tries
  java -Xmx512m "${jvm[@]}" "$class" </dev/null >"$logs/$name.log" 2>&1 &
  pids+=($!)
  for ((tries = 0; tries < 900; tries++)); do
    if grep -q -- "$pattern" "$logs/$watched.log"; then return; fi
    kill -0 $! 2>/dev/null || break
    sleep 0.2
  done
  tail -n 25 "$logs/$name.log" >&2
  die "$name: gave up waiting for: $pattern"
}

# job NAME CLASS ARGUMENT...: runs it in the background, so that a signal acts at once.
job() {
  local name=$1 code=0
  shift
  java -Xmx1g "${jvm[@]}" "$@" </dev/null >"$logs/$name.out" 2>"$logs/$name.log" &
  pids+=($!)
  wait $! || code=$?
  unset 'pids[-1]'
  return "$code"
}

phase() {
  local name=$1 begin took
  begin=$(date +%s%N)
  if ! job "$@"; then
    grep -E 'ERROR|Exception|Caused by' "$logs/$name.log" | tail -n 20 >&2 || true
    die "$name failed"
  fi
  took=$((($(date +%s%N) - begin) / 100000000))
  log "$name took $((took / 10)).$((took % 10)) s"
  line+=" ${name}_s=$((took / 10)).$((took % 10))"
}

if [[ $mode == hdfs ]]; then
  hdfs=org.apache.hadoop.hdfs.server
  job format $hdfs.namenode.NameNode -format -nonInteractive || die "NameNode -format"
  daemon namenode $hdfs.namenode.NameNode namenode 'NameNode RPC up at'
  daemon datanode $hdfs.datanode.DataNode namenode 'Processing first storage report'
fi
line="mode=$mode size=$size fstype=$(findmnt -no FSTYPE --target "$data" || echo unknown)"
phase teragen $tera.TeraGen $((size / 100)) "$output/input"
phase terasort $tera.TeraSort "$output/input" "$output/sorted"
phase teravalidate $tera.TeraValidate "$output/sorted" "$output/report"

# TeraValidate succeeds even if it finds errors. Without errors the report has one record: the
# checksum in hex. The low 64 bits of TeraGen's counter must equal it (in decimal).
job report org.apache.hadoop.fs.FsShell -cat "$output/report/part-r-*" || die "no report"
want=$(sed -n 's/^.*CHECKSUM=//p' "$logs/teragen.log" | tail -n 1)
got=$(awk '$1 == "checksum" { print $2 }' "$logs/report.out")
if ((${#got} > 16)); then got=${got: -16}; fi
if [[ -n $want && -n $got ]] && ((want == 16#$got)) &&
   ! grep -qv '^checksum' "$logs/report.out"; then
  status=0
  echo "$line validated=yes"
else
  log "TeraGen's checksum is '$want'; the report:"
  head -n 20 "$logs/report.out" >&2
  echo "$line validated=no"
fi
exit "$status"
