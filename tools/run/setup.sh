# shellcheck shell=bash
# The Debian 12 packages that the commands of ./run need. Neither they nor their
# dependencies start a daemon; recommended packages are not installed.

# shellcheck disable=SC2034  # read by name in require
{
  readonly packages_build=(
    g++ cmake ninja-build make ccache pkg-config python3 # make: CMake's default elsewhere
    libgrpc++-dev libssl-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
    libgloo-dev libyaml-cpp-dev nlohmann-json3-dev libspdlog-dev libhwy-dev libcli11-dev
    libxxhash-dev libsqlite3-dev libpng-dev libgtest-dev libgmock-dev libbenchmark-dev
  )
  # util-linux, iproute2, nftables: namespaces and networks of the chaos tests
  readonly packages_test=(python3-venv git util-linux iproute2 nftables)
  readonly packages_mpi=(mpich libmpich-dev openmpi-bin libopenmpi-dev) # bench data-plane
  readonly packages_torch=(python3-torch)                               # bench training-step
  readonly packages_fuzz=(clang-19 libclang-rt-19-dev)                   # long fuzz
  readonly packages_lint=(git python3 clang-format-14 shellcheck)
}

# require GROUP ...: reports and installs the missing packages of packages_<GROUP>.
require() {
  local wanted=() missing=() group
  for group in "$@"; do
    local -n packages="packages_$group"
    wanted+=("${packages[@]}")
  done
  command -v dpkg-query >/dev/null ||
    {
      say "not a Debian: these packages are taken to be there: ${wanted[*]}"
      return 0
    }
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  install_packages "${missing[@]}"
}

missing_packages() {
  local there package
  there="$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)"
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$there" || printf '%s\n' "$package"
  done
}

install_packages() {
  local as_root=(env DEBIAN_FRONTEND=noninteractive)
  say "to be installed with apt-get: $*"
  if [[ "$(id -u)" -ne 0 ]]; then
    command -v sudo >/dev/null ||
      fail "not root, and no sudo: as root, run  apt-get install --no-install-recommends $*"
    as_root=(sudo "${as_root[@]}")
  fi
  "${as_root[@]}" apt-get update -q ||
    say "apt-get update reported errors; going on with the package lists that are there"
  "${as_root[@]}" apt-get install -q -y --no-install-recommends \
    -oDPkg::Lock::Timeout=120 "$@"
}
