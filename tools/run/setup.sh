# shellcheck shell=bash
# The Debian 12 packages that the commands of ./run need. Neither they nor their
# dependencies start a daemon; recommended packages are not installed.

# shellcheck disable=SC2034  # read by name in require
{
  readonly packages_build=(
    g++ cmake ninja-build make ccache pkg-config python3 # make: CMake's default elsewhere
    libgrpc++-dev libssl-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
    libgloo-dev libyaml-cpp-dev nlohmann-json3-dev libspdlog-dev libhwy-dev libcli11-dev
    libxxhash-dev libsqlite3-dev libpng-dev prometheus-cpp-dev libgtest-dev libgmock-dev libbenchmark-dev
  )
  readonly packages_package=(dpkg-dev file)
  readonly packages_image=(python3-venv) # deploy/container
  # util-linux, iproute2, nftables: namespaces and networks of the chaos tests;
  # debootstrap: the bare Debian in which packages and images are tested
  readonly packages_test=(python3-venv git util-linux iproute2 nftables debootstrap)
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

# unpack PACKAGE PROGRAM: puts the package's files into build/tools, unless PROGRAM is there or in
# PATH. For programs whose package starts a daemon when it is installed.
unpack() {
  local package="$1" program="$2" into=build/tools fetched
  if command -v "$program" >/dev/null || [[ -x "$into/usr/bin/$program" ]]; then return 0; fi
  command -v apt-get >/dev/null || fail "not a Debian: '$program' (its package $package) must be in PATH"
  say "to be fetched with apt-get: $package, into $into"
  mkdir -p "$into"
  fetched="$(mktemp -d)"
  (
    cd "$fetched"
    apt-get download -q "$package" || { update_packages && apt-get download -q "$package"; }
  ) || fail "apt-get cannot fetch $package"
  dpkg -x "$fetched/$package"_*.deb "$into"
  rm -r "$fetched"
}

# unpacked PROGRAM: its path, after unpack.
unpacked() {
  local program="$1" in_tools=build/tools/usr/bin/$1
  if [[ -x "$in_tools" ]]; then echo "$in_tools"; else command -v "$program"; fi
}

missing_packages() {
  local there package
  there="$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)"
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$there" || printf '%s\n' "$package"
  done
}

install_packages() {
  say "to be installed with apt-get: $*"
  [[ "$(id -u)" -eq 0 ]] || command -v sudo >/dev/null ||
    fail "not root, and no sudo: as root, run  apt-get install --no-install-recommends $*"
  update_packages
  as_root apt-get install -q -y --no-install-recommends -oDPkg::Lock::Timeout=120 "$@"
}

update_packages() {
  as_root apt-get update -q ||
    say "apt-get update reported errors; going on with the package lists that are there"
}

as_root() {
  local sudo=()
  [[ "$(id -u)" -eq 0 ]] || sudo=(sudo)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "$@"
}
