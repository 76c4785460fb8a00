# shellcheck shell=bash
# ./run test [FILTER]: several presets, one ctest run, one summary.

usage_test() {
  cat <<TXT
usage: ./run test [--list] [FILTER]

Builds release, asan and tsan and runs their tests in one ctest run, then prints the
cases that failed, and what each label took and may take (tests/budgets.txt). Fails if a test fails, or if build and
tests take more processor time than their budget.

FILTER is a label (unit, transport, demo, asan, tsan, ...) or else a regular expression on
names, which are PRESET.TEST. Only what such tests need is built. If no test matches, the
labels are listed and the exit status is 2.

  --list  print the names of such tests, one a line, and run none
TXT
}

readonly test_presets=(release asan tsan)

run_test() {
  local list=no
  if [[ "${1:-}" == --list ]]; then
    list=yes
    shift
  fi
  local filter="${1:-}" selection preset line started=$SECONDS
  refuse_flag test "$filter"
  [[ $# -le 1 ]] || refuse "test: one filter at most, got '$*'"
  require build test package
  unpack etcd-server etcd
  unpack prometheus promtool

  for preset in "${test_presets[@]}"; do
    configure "$preset"
  done
  join_presets "${test_presets[@]}"
  if [[ "$list" == yes ]]; then
    ctest_json | python3 tools/run/select_tests.py --list "$filter"
    return
  fi
  # Line 1: how ctest selects (all, label, name); then one preset per line, with targets.
  selection="$(ctest_json | python3 tools/run/select_tests.py "$filter")" || exit $?
  local lines choice=() words chosen=()
  mapfile -t lines <<<"$selection"
  case "${lines[0]}" in
    all) choice=(-LE '^again$') ;;
    label) choice=(-L "^$filter\$") ;;
    name) choice=(-R "$filter") ;;
  esac

  for line in "${lines[@]:1}"; do
    read -ra words <<<"$line"
    chosen+=("${words[0]}")
    [[ "${words[1]:-}" != - ]] || continue
    say "build $line"
    compile "${words[@]}"
  done
  join_presets "${chosen[@]}"
  run_and_report "$started" "${choice[@]}"
}

# One test tree for all presets: `ctest --test-dir build` runs all of them.
join_presets() {
  printf 'subdirs("%s")\n' "$@" >build/CTestTestfile.cmake
}

ctest_json() { ctest --test-dir build --show-only=json-v1; }

# The seconds of all children that have ended, in what `times` printed.
children_seconds() { awk -F '[ms ]' 'NR == 2 { print $1 * 60 + $2 + $4 * 60 + $5 }' "$1"; }

# run_and_report STARTED [CTEST_ARGUMENT ...]
run_and_report() {
  local started="$1" build=$((SECONDS - $1)) status=0
  shift
  rm -f build/tests.xml
  # One test more than cores: some of them wait most of their time.
  ctest --test-dir build --no-tests=error --output-on-failure --no-label-summary \
    -j $(($(jobs_count) + 1)) \
    --output-junit "$PWD/build/tests.xml" "$@" || status=$?
  times >build/times.txt  # a subshell has children of its own
  ctest_json | python3 tools/run/report_tests.py build/tests.xml tests/budgets.txt \
    "$build" $((SECONDS - started)) "$(children_seconds build/times.txt)" || status=1
  return "$status"
}
