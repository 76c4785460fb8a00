# shellcheck shell=bash
# Functions that the commands of ./run share. Sourced in the repository's root.

# Reports a usage error and exits with 2.
refuse() {
  printf 'run: %s\n' "$1" >&2
  exit 2
}

# Reports any other error and exits with 1.
fail() {
  printf 'run: %s\n' "$1" >&2
  exit 1
}

say() { printf '== %s\n' "$*"; }

# is_one_of WORD CANDIDATE ...
is_one_of() {
  local word="$1" candidate
  shift
  for candidate in "$@"; do
    [[ "$candidate" == "$word" ]] && return 0
  done
  return 1
}

refuse_flag() {
  [[ "$2" != -* ]] || refuse "$1: unknown flag '$2'; see ./run $1 --help"
}

# How many compilers and tests run at once.
jobs_count() { printf '%s' "${LOCKSTEP_JOBS:-$(nproc)}"; }

presets() { cmake --list-presets | sed -n 's/^ *"\([^"]*\)".*/\1/p'; }

# configure PRESET: prints notices and errors only.
configure() { cmake --preset "$1" --log-level=NOTICE >/dev/null; }

# As above, unless it is configured already: the build detects later changes.
configure_once() {
  [[ "build/$1/build.ninja" -nt CMakePresets.json ]] || configure "$1"
}

# compile PRESET [TARGET ...]: the preset must be configured.
compile() {
  local preset="$1"
  shift
  local targets=()
  [[ $# -eq 0 ]] || targets=(--target "$@")
  cmake --build --preset "$preset" -j "$(jobs_count)" "${targets[@]}"
}
