#!/usr/bin/env bash
# Runs the programs of this bundle on this machine's GPU.
#
#   run           all of them
#   run NAME...   these
#   run --list    their names
#
# Says first which NCCL, driver and device there are (gpu_facts).
# Exits with 0 if all passed, 1 if one failed, 77 if all were skipped.
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

names() {
  local program
  for program in "$here"/bin/*; do
    [[ "${program##*/}" == gpu_facts ]] || printf '%s\n' "${program##*/}"
  done
  [[ ! -d "$here/demo" ]] || printf '%s\n' demo demo-pipe
}

# The demonstration is several programs; it also trains as pipelines.
run_one() {
  case "$1" in
    demo) "$here/demo/lockstep-demo" --device cuda ;;
    demo-pipe)
      "$here/demo/lockstep-demo" --device cuda --mesh data=2,pipe=2 --schedule interleaved
      ;;
    *) "$here/bin/$1" ;;
  esac
}

if [[ "${1:-}" == --list ]]; then
  names
  exit 0
fi
if [[ "${1:-}" == -* ]]; then
  echo "usage: run [--list | NAME...]" >&2
  exit 2
fi
mapfile -t wanted < <(if [[ $# -gt 0 ]]; then printf '%s\n' "$@"; else names; fi)
for name in "${wanted[@]}"; do
  grep -qx -- "$name" < <(names) || { echo "run: no program '$name'; there are: $(names | xargs)" >&2; exit 2; }
done

export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
"$here/bin/gpu_facts" || echo "gpu_facts: cannot run here"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null ||
  echo "nvidia-smi: not here"

passed=0 failed=0 skipped=0
for name in "${wanted[@]}"; do
  echo "== $name"
  status=0
  run_one "$name" || status=$?
  case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *)
      failed=$((failed + 1))
      echo "== $name failed: exit $status"
      ;;
  esac
done
echo "== $passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]] || exit 1
[[ $passed -gt 0 ]] || exit 77
