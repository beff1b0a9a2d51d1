#!/usr/bin/env bash
# The pjdfstest suite (POSIX semantics of names, modes, owners, times, limits and every errno) as
# root on a mount. The script builds it from its package if necessary. The suite must skip exactly
# the tests in SKIPPED.
#   PJDFSTEST       path of the program (default: below build/ of this tree)
. "$(dirname "$(readlink -f "$0")")/lib.sh"

VERSION=0.2.2
PJDFSTEST=${PJDFSTEST:-$TOP/build/pjdfstest-$VERSION}

# - link_count_max asks pathconf(3), and glibc knows no limit of links for a FUSE mount.
SKIPPED=(link::link_count_max)

install_suite() {
  [[ -x $PJDFSTEST/bin/pjdfstest ]] && return
  command -v cargo >/dev/null || skip "no cargo to build pjdfstest with"
  say "building pjdfstest $VERSION"
  # Optimizing costs more time than it saves.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
    cargo install --quiet --locked --root "$PJDFSTEST" --version "$VERSION" pjdfstest \
    >"$WORK/cargo.log" 2>&1 || skip "pjdfstest cannot be built: $(tail -n 2 "$WORK/cargo.log")"
}

# configuration REMOUNT: the first user is the owner, the second another user. The suite waits for
# naptime between a change and a look at its time: the times of writes that the kernel gathers are
# from its coarse clock, whose steps of 4 ms come late while a virtual CPU waits.
configuration() {
  cat <<END
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.05
allow_remount = $1
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
END
}

# run_suite REMOUNT [PATTERN]
run_suite() {
  local status=0
  configuration "$1" >"$WORK/config.toml"
  RUST_BACKTRACE=0 "$PJDFSTEST/bin/pjdfstest" -c "$WORK/config.toml" -p "$MNT/suite" \
    -s "$WORK/other" "${@:2}" </dev/null >"$WORK/out" 2>&1 || status=$?
  grep -A8 FAILED "$WORK/out" >&2 || true
  ((status == 0)) || fail "$(grep ^Summary "$WORK/out" || tail -n 3 "$WORK/out")"
  say "$(grep ^Summary "$WORK/out")"
}

start_test
install_suite
new_fs 1G
mount_fs
mkdir "$MNT/suite" "$WORK/other"
chmod 755 "$WORK"  # the other users go through it

run_suite false
skipped=$(sed -n 's/^\([a-z_:]*\) *skipped$/\1/p' "$WORK/out" | grep -v '::erofs_' | sort)
[[ $skipped == "$(printf '%s\n' "${SKIPPED[@]}" | sort)" ]] || fail "skipped: $skipped"

# These run alone: no filesystem can be remounted read-only while another test has files open for
# writing.
run_suite true erofs
remount_fs
unmount_fs
