#!/usr/bin/env bash
# Runs the programs of this bundle on this machine's GPU.
#
#   run                      all of them; programs that use NCCL's windows last
#   run NAME...              these only
#   run --strict [NAME...]   a program that is skipped counts as failed
#   run --list               their names
#
# NCCL is LOCKSTEP_NCCL_LIBRARY, if that is set; else the one that the loader
# finds; else the one in the packages of a Python on this machine (PyTorch's).
# The first program prints the versions of NCCL, driver and device (gpu_facts).
#
# The output of a program is kept in results/NAME.log beside this script, and
# NCCL's warnings in results/NAME.nccl.HOST.PID.log. LOCKSTEP_RESULTS sets another
# folder, NCCL_DEBUG another level than WARN.
#
# Exits with 0 if all passed, 1 if one failed, 77 if all were skipped.
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

# GradientSync's engine, eager and captured: run-ahead 0, 1 and 2, and in graphs
# that the program launches.
readonly gradients=(gradients gradients-ahead-1 gradients-ahead-2 gradients-replayed)

names() {
  local program
  for program in "$here"/bin/*; do
    [[ "${program##*/}" == gpu_facts ]] || printf '%s\n' "${program##*/}"
  done
  [[ ! -d "$here/demo" ]] || printf '%s\n' demo demo-pipe
  [[ ! -x "$here/bin/nccl_processes_test" ]] || printf '%s\n' "${gradients[@]}" windows
}

# The demonstration is several programs; it also trains as pipelines. Windows
# come last: if they hang the device, the other programs have already run.
run_one() {
  case "$1" in
    demo) "$here/demo/lockstep-demo" --device cuda ;;
    demo-pipe)
      "$here/demo/lockstep-demo" --device cuda --mesh data=2,pipe=2 --schedule interleaved
      ;;
    nccl_processes_test) "$here/bin/$1" '--gtest_filter=-*Windows*:*Gradients*' ;;
    gradients) "$here/bin/nccl_processes_test" '--gtest_filter=*Synchronise*Gradients' ;;
    gradients-ahead-1) "$here/bin/nccl_processes_test" '--gtest_filter=*OneStepAhead' ;;
    gradients-ahead-2) "$here/bin/nccl_processes_test" '--gtest_filter=*TwoStepsAhead' ;;
    gradients-replayed) "$here/bin/nccl_processes_test" '--gtest_filter=*Replay*Gradients' ;;
    windows) "$here/bin/nccl_processes_test" '--gtest_filter=*Windows*' ;;
    *) "$here/bin/$1" ;;
  esac
}

usage() {
  echo "usage: run [--list | [--strict] NAME...]" >&2
  exit 2
}

# Whether this machine's loader finds the library by itself.
loader_has() {
  local folder folders
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
  for folder in "${folders[@]}"; do
    [[ -z "$folder" || ! -e "$folder/$1" ]] || return 0
  done
  # Not through a pipe: grep -q may end first, and then ldconfig fails by SIGPIPE.
  grep -qF "$1 " <<<"$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null)"
}

# The Pythons of this machine, in order of preference.
pythons() {
  local root
  for root in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}"; do
    [[ -z "$root" || ! -x "$root/bin/python3" ]] || printf '%s\n' "$root/bin/python3"
  done
  type -ap python3 python || true
}

# The NCCL among the packages of the Python $1.
nccl_of() {
  "$1" - 2>/dev/null <<'PY'
import os, sys
paths = [os.path.join(p, "nvidia/nccl/lib/libnccl.so.2") for p in sys.path if p]
print(next(path for path in paths if os.path.isfile(path)))
PY
}

find_nccl() {
  local python library
  [[ -z "${LOCKSTEP_NCCL_LIBRARY:-}" ]] || return 0
  if loader_has libnccl.so.2; then return 0; fi
  while read -r python; do
    library="$(nccl_of "$python")" || continue
    export LOCKSTEP_NCCL_LIBRARY="$library"
    echo "NCCL of $python: $library"
    return 0
  done < <(pythons)
  echo "NCCL: in no package of $(pythons | xargs)"
}

make_results() {
  results="${LOCKSTEP_RESULTS:-$here/results}"
  mkdir -p "$results" 2>/dev/null && [[ -w "$results" ]] || results="$(mktemp -d)"
}

if [[ "${1:-}" == --list ]]; then
  names
  exit 0
fi
strict=0
if [[ "${1:-}" == --strict ]]; then
  strict=1
  shift
fi
[[ "${1:-}" != -* ]] || usage
mapfile -t wanted < <(if [[ $# -gt 0 ]]; then printf '%s\n' "$@"; else names; fi)
for name in "${wanted[@]}"; do
  grep -qx -- "$name" < <(names) || { echo "run: no program '$name'; there are: $(names | xargs)" >&2; exit 2; }
done

find_nccl
make_results
# NCCL also opens libibverbs: this machine's version, if it has one, because
# only that supports its adapters.
libraries="$here/lib"
loader_has libibverbs.so.1 || libraries+=":$here/lib-verbs"
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
"$here/bin/gpu_facts" || echo "gpu_facts: cannot run here"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null ||
  echo "nvidia-smi: not here"

passed=0 failed=0 skipped=()
for name in "${wanted[@]}"; do
  echo "== $name"
  rm -f "$results/$name".nccl.*.log
  status=0
  NCCL_DEBUG_FILE="$results/$name.nccl.%h.%p.log" run_one "$name" 2>&1 | tee "$results/$name.log" || status=$?
  find "$results" -name "$name.nccl.*.log" -empty -delete
  case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped+=("$name") ;;
    *)
      failed=$((failed + 1))
      echo "== $name failed: exit $status"
      ;;
  esac
done
echo "== results: $results"
if [[ $strict -eq 1 && ${#skipped[@]} -gt 0 ]]; then
  echo "== skipped, with --strict: ${skipped[*]}"
fi
echo "== $passed passed, $failed failed, ${#skipped[@]} skipped"
[[ $failed -eq 0 ]] || exit 1
[[ $strict -eq 0 || ${#skipped[@]} -eq 0 ]] || exit 1
[[ $passed -gt 0 ]] || exit 77
