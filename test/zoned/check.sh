#!/usr/bin/env bash
# Runs lazyfs on zoned devices of three kinds in a QEMU guest (make check-zoned).
#   check.sh [CASE]...      contract files tools full rewrite failing refused cuts; default: all
# CUTS: how many power cuts (200). LAZYFS_BIN: the programs (build/bin).
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
REPO=$(readlink -f "$HERE/../..")
export LAZYFS_BIN=${LAZYFS_BIN:-$REPO/build/bin}
CUTS=${CUTS:-200}
SOURCE=/usr/src/linux-source-6.1.tar.xz

if ! command -v qemu-system-x86_64 >/dev/null; then
  echo "check-zoned: skipped: qemu-system-x86_64 is missing (./packages.sh zoned installs it)"
  exit 77
fi
"$HERE/zoned-vm" run --device none -- true 2>/dev/null || "$HERE/zoned-vm" setup
SHARE=$(mktemp -d)
trap 'rm -rf "$SHARE"' EXIT
failed=0

# guest CASE TITLE OPTION...
guest() {
  local case=$1 title=$2 began=$SECONDS
  shift 2
  printf '%-9s %-44s ' "$case" "$title"
  if "$HERE/zoned-vm" run --host-root --share "$SHARE" "$@" -- \
      "mkdir /tmp/share; mount --bind /share /tmp/share;" \
      "mount --rbind /tmp /host/tmp;" \
      "export LAZYFS_BIN=$LAZYFS_BIN CUTS=$CUTS;" \
      "chroot /host bash $HERE/guest.sh $case" >"$SHARE/output" 2>&1; then
    echo "ok, $((SECONDS - began)) s"
  else
    echo "FAILED"
    failed=1
  fi
  sed 's/^/    /' "$SHARE/output"
}

small=(--zone-size 8 --zones 12)
medium=(--zone-size 16 --zones 64)

run_contract() {
  local bytes conventional
  for bytes in 512 4096; do
    for conventional in 0 1; do
      guest contract "null_blk, $bytes bytes, $conventional conventional" --device null_blk \
        "${small[@]}" --block-size $bytes --conventional $conventional --max-open 6
      guest contract "scsi_debug, $bytes bytes, $conventional conventional" --device scsi_debug \
        "${small[@]}" --block-size $bytes --conventional $conventional --max-open 8
    done
    guest contract "nvme-zns, $bytes bytes" --device nvme-zns "${small[@]}" --block-size $bytes \
      --max-open 14
  done
}
run_files() {
  [[ -e $SOURCE ]] || { echo "check-zoned: files: no $SOURCE (package linux-source-6.1)"; return; }
  mkdir "$SHARE/tree"
  tar -C "$SHARE/tree" -xf "$SOURCE" --wildcards --strip-components=1 'linux-source-6.1/fs/*' \
    'linux-source-6.1/include/linux/*'
  tar -C "$SHARE/tree" -cf "$SHARE/tree.tar" .
  rm -rf "$SHARE/tree"
  guest files "nvme-zns, 6 open, 8 active, capacity 12 of 16" --device nvme-zns "${medium[@]}" \
    --max-open 6 --max-active 8 --capacity 12
  guest files "scsi_debug, 512 bytes, 3 conventional, 128 open" --device scsi_debug \
    "${medium[@]}" --conventional 3 --block-size 512 --max-open 128
  guest files "null_blk, 512 bytes, 8 active" --device null_blk "${medium[@]}" --block-size 512 \
    --max-active 8
  rm "$SHARE/tree.tar"
}
run_tools() {
  guest tools "nvme-zns, capacity 12 of 16" --device nvme-zns "${medium[@]}" --max-open 14 \
    --capacity 12
  guest tools "null_blk, 512 bytes, 2 conventional" --device null_blk "${medium[@]}" \
    --block-size 512 --conventional 2 --max-open 14
}
run_full() {
  guest full "nvme-zns, 14 active, capacity 8 of 16" --device nvme-zns "${medium[@]}" \
    --max-open 14 --max-active 14 --capacity 8
}
run_rewrite() {
  guest rewrite "nvme-zns, 6 open" --device nvme-zns "${medium[@]}" --max-open 6 --timeout 3600
  guest rewrite "null_blk, 14 open, 2 conventional" --device null_blk "${medium[@]}" \
    --max-open 14 --conventional 2 --timeout 3600
}
run_failing() { guest failing "null_blk" --device null_blk "${medium[@]}" --max-open 14; }
run_refused() { guest refused "null_blk, 5 open" --device null_blk "${small[@]}" --max-open 5; }
run_cuts() {
  guest cuts "nvme-zns, 8 open, $CUTS cuts" --device nvme-zns "${medium[@]}" --max-open 8 \
    --boots $((CUTS + 1)) --timeout $((60 + CUTS * 60))
}

(($#)) || set -- contract files tools full rewrite failing refused cuts
for case in "$@"; do "run_$case"; done
exit $failed
