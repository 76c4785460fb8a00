# shellcheck shell=bash
# ./run package

usage_package() {
  cat <<TXT
usage: ./run package

Builds the Debian 12 packages into build/package: lockstepd, liblockstepX.Y, liblockstep-dev,
lockstep-tools. With a CUDA toolkit they include the GPU parts. docs/operations.md installs them.
TXT
}

run_package() {
  [[ $# -eq 0 ]] || refuse "package takes no argument, got '$1'"
  require build package
  configure_once package
  compile package lockstepd lockstepctl lockstep-perf lockstep_client lockstep_client_static
  # Those of another version or name would be installed with these.
  rm -f build/package/*.deb
  # The folders in the packages get the modes of these.
  (umask 022 && cd build/package && cpack --config CPackConfig.cmake >cpack.log 2>&1) || {
    cat build/package/cpack.log >&2
    fail "cpack failed"
  }
  ls build/package/*.deb
}
