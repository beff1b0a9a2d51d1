#!/usr/bin/env bash
# The Debian packages that lazyfs needs, in one place; installs those that are missing.
#   ./packages.sh GROUP...    installs (as root) what is missing of the groups
#   ./packages.sh --list GROUP...    only prints their names
# Groups: build, deb, test, suites, suites-long, browser, hadoop, engines, bench, profile, fuzz,
# tidy, zoned.
# Silent, and no network, when nothing is missing.
set -euo pipefail

# What the suites need is newer than Debian's plain cargo.
new_cargo() {
  local version
  version=$(cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
  [[ $(printf '%s\n' 1.85 "$version" | sort -V | head -n 1) == 1.85 ]]
}

packages_of() {
  case $1 in
    build) echo cmake ninja-build g++ pkg-config libfuse3-dev fuse3 libboost-dev libspdlog-dev \
                libgtest-dev libcli11-dev nlohmann-json3-dev libisal-dev \
                libxxhash-dev liblzma-dev libblkid-dev libmount-dev libseccomp-dev libcap-ng-dev \
                liburing-dev ;;
    deb) echo debhelper dpkg-dev lintian ;;
    test) echo python3 python3-matplotlib rsync git sqlite3 fio attr acl xz-utils e2fsprogs \
               util-linux procps file strace linux-source-6.1 clang-19 ;;
    suites) new_cargo || echo cargo-web ;;
    suites-long) echo postgresql util-linux libcap2-bin debootstrap make gcc flex bison bc podman \
                      busybox-static prometheus stress-ng ;;
    browser) echo chromium chromium-driver python3-selenium ;;
    hadoop) echo default-jdk-headless maven iproute2 ;;
    engines) echo default-jdk-headless maven iproute2 python3-venv python3-matplotlib \
                  python3-boto3 e2fsprogs ;;
    bench) echo python3 python3-matplotlib e2fsprogs xz-utils linux-source-6.1 fio git postmark \
                btrfs-progs xfsprogs f2fs-tools dmsetup make gcc flex bison bc ;;
    profile) echo linux-perf; new_cargo || echo cargo-web ;;
    fuzz) echo clang-19 libclang-rt-19-dev llvm-19 ;;
    tidy) echo clang-tidy-19 ;;
    zoned) echo qemu-system-x86 seabios busybox-static cpio kmod zbd-utils util-linux \
                linux-source-6.1 ;;
    *) echo "packages.sh: $1: no such group (build, deb, test, suites, suites-long, browser," \
            "hadoop, engines, bench, profile, fuzz, tidy, zoned)" >&2
       exit 2 ;;
  esac
}

list=no
if [[ ${1:-} == --list ]]; then list=yes; shift; fi
wanted=()
for group in "$@"; do
  names=$(packages_of "$group")
  read -ra names <<<"$names"
  wanted+=("${names[@]}")
done
((${#wanted[@]})) || exit 0
if [[ $list == yes ]]; then printf '%s\n' "${wanted[@]}" | sort -u; exit 0; fi

if ! command -v dpkg-query >/dev/null; then
  echo "packages.sh: not a Debian system: install by hand what stands for: ${wanted[*]}" >&2
  exit 0
fi
missing=()
for name in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$name" 2>/dev/null || true)
  [[ $status == *' installed' ]] || missing+=("$name")
done
((${#missing[@]})) || exit 0

if ((EUID != 0)); then
  echo "packages.sh: packages are missing and only root can install them: run as root:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -q -y update </dev/null
apt-get -q -y install --no-install-recommends "${missing[@]}" </dev/null
