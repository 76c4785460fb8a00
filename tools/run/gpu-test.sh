# shellcheck shell=bash
# ./run gpu-test

usage_gpu-test() {
  cat <<TXT
usage: ./run gpu-test [PROGRAM...]

Makes the bundle of ./run gpu-bundle and runs it here, or those PROGRAMs of it.
TXT
}

run_gpu-test() {
  refuse_flag gpu-test "${1:-}"
  # shellcheck source=tools/run/gpu-bundle.sh
  source tools/run/gpu-bundle.sh
  make_gpu_bundle
  "$gpu_bundle/run" "$@"
}
