# shellcheck shell=bash
# ./run build [PRESET]

usage_build() {
  cat <<TXT
usage: ./run build [PRESET]

Builds PRESET (release if none is given) into build/PRESET; programs are in
build/PRESET/bin. Presets: user (no tests, no benchmarks), release, debug, asan, tsan;
see docs/environment.md.
TXT
}

run_build() {
  local preset="${1:-release}"
  refuse_flag build "$preset"
  [[ $# -le 1 ]] || refuse "build: one preset at most, got '$*'"
  require build
  local all
  mapfile -t all < <(presets)
  is_one_of "$preset" "${all[@]}" || refuse "build: unknown preset '$preset'; there are: ${all[*]}"
  configure "$preset"
  compile "$preset"
}
