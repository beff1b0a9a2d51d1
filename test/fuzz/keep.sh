#!/usr/bin/env bash
# Replaces corpus/ by the fewest inputs that reach the same code, of its own and those of run.sh.
#   keep.sh FOLDER_OF_THE_FUZZERS [TARGET]...
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
bin=$(readlink -f "$1")
shift
targets=("$@")
((${#targets[@]})) || targets=(superblock log node items edi image)
for target in "${targets[@]}"; do
  kept=$(mktemp -d)
  "$bin/fuzz_$target" -merge=1 -max_len=8192 "$kept" "$here/corpus/$target" \
    "$bin/seeds/$target" "$bin/found/$target" >/dev/null 2>&1
  rm -rf "$here/corpus/$target"
  mv "$kept" "$here/corpus/$target"
  chmod 755 "$here/corpus/$target"
  echo "$target: $(ls "$here/corpus/$target" | wc -l) inputs," \
       "$(du -sb "$here/corpus/$target" | cut -f1) bytes"
done
