#!/usr/bin/env bash
# Adds the probe for lazyfs to a source tree of util-linux (2.39 or later), so that blkid, lsblk,
# mount, wipefs and udev's builtin recognise a volume without the rule of contrib/udev.
#   add_to_util_linux.sh SOURCE
# Each change is one line in a list of probes. A second run changes nothing.
set -euo pipefail

fail() { printf 'add_to_util_linux.sh: %s\n' "$*" >&2; exit 1; }

(($# == 1)) || { echo "usage: add_to_util_linux.sh SOURCE" >&2; exit 2; }
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
probes=$1/libblkid/src/superblocks
[[ -e $probes/superblocks.h ]] || fail "$1: not a source tree of util-linux"

# add FILE PATTERN: after the last line that matches PATTERN adds that line for lazyfs.
add() {
  local file=$1 pattern=$2
  [[ -e $file ]] || return 0  # one of the two build systems may be missing
  if grep -q lazyfs "$file"; then return 0; fi
  grep -q "$pattern" "$file" || fail "$file: no line '$pattern' to stand beside"
  awk -v pattern="$pattern" '
    { lines[NR] = $0; if ($0 ~ pattern) last = NR }
    END {
      for (i = 1; i <= NR; ++i) {
        print lines[i]
        if (i == last) { sub(/zonefs/, "lazyfs", lines[i]); print lines[i] }
      }
    }' "$file" >"$file.new"
  mv "$file.new" "$file"
}

cp "$here/lazyfs.c" "$probes/lazyfs.c"
add "$probes/superblocks.h" 'zonefs_idinfo;'
add "$probes/superblocks.c" '&zonefs_idinfo,'
add "$1/libblkid/src/Makemodule.am" 'superblocks/zonefs[.]c'
add "$1/libblkid/meson.build" 'superblocks/zonefs[.]c'
