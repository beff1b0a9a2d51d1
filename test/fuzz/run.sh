#!/usr/bin/env bash
# Runs the fuzzers one after the other, on test/fuzz/corpus and on new seeds.
#   run.sh FOLDER_OF_THE_FUZZERS SECONDS_OF_EACH [TARGET]...
# Inputs that reach new code, and those that fail, are in FOLDER/found/TARGET afterwards; `keep.sh`
# takes the fewest that matter into the repository. Exit status: 0 when no input failed.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
bin=$(readlink -f "$1")
seconds=$2
shift 2
targets=("$@")
((${#targets[@]})) || targets=(superblock log node items edi image)
found=$bin/found
"$bin/fuzz_seeds" "$bin/seeds"
export ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

status=0
for target in "${targets[@]}"; do
  mkdir -p "$found/$target" "$found/broken/$target"
  "$bin/fuzz_$target" -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=2048 \
    -use_value_profile=1 -print_final_stats=1 -artifact_prefix="$found/broken/$target/" \
    "$found/$target" "$here/corpus/$target" "$bin/seeds/$target" >"$found/$target.log" 2>&1 || {
    status=1
    echo "$target: FAILED:"
    tail -n 40 "$found/$target.log"
  }
  echo "$target: $(grep -E 'number_of_executed_units' "$found/$target.log" | tr -s ' ')," \
       "$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$found/$target.log" | tail -n 1)"
done
exit $status
