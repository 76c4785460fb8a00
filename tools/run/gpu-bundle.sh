# shellcheck shell=bash
# ./run gpu-bundle

usage_gpu-bundle() {
  cat <<TXT
usage: ./run gpu-bundle

Builds the programs that need a GPU and puts them, with the shared libraries they need,
into build/gpu-bundle: it runs on another x86-64 Linux with an NVIDIA driver. The
demonstration goes there too: build/gpu-bundle/run demo is ./run demo --device cuda, and
demo-pipe the same with pipelines.
build/gpu-bundle/run --list names the programs, build/gpu-bundle/run runs them, and
with --strict fails if one was skipped. It keeps what they say in build/gpu-bundle/results.
Left out are libc, libstdc++, the driver and NCCL, which that machine must have; an NCCL
that came with PyTorch is found by itself.
Needs the CUDA toolkit here, but no GPU.
TXT
}

readonly gpu_bundle=build/gpu-bundle

run_gpu-bundle() {
  [[ $# -eq 0 ]] || refuse "gpu-bundle takes no argument, got '$1'"
  make_gpu_bundle
}

make_gpu_bundle() {
  require build
  configure release
  [[ -s build/release/gpu_programs.txt ]] ||
    fail "the CUDA toolkit was not found: nothing that needs a GPU is built"
  local programs demo=()
  mapfile -t programs <build/release/gpu_programs.txt
  # Without nccl.h there is no demonstration.
  [[ ! -s build/release/gpu_demo.txt ]] || mapfile -t demo <build/release/gpu_demo.txt
  compile release "${programs[@]##*/}" "${demo[@]##*/}"
  rm -rf "$gpu_bundle"
  mkdir -p "$gpu_bundle/lib" "$gpu_bundle/lib-verbs"
  copy_programs "$gpu_bundle/bin" "${programs[@]}"
  copy_programs "$gpu_bundle/demo" "${demo[@]}"
  name_demo_programs "$gpu_bundle/demo"
  install -m 755 tools/run/gpu_bundle_run.sh "$gpu_bundle/run"
  say "$gpu_bundle: $(du -sm "$gpu_bundle" | cut -f1) MiB, $("$gpu_bundle/run" --list | wc -l) programs," \
    "for machines with $(needed GLIBC), $(needed GLIBCXX)"
}

# The newest version of these symbols that a file of the bundle requires.
needed() {
  find "$gpu_bundle" -type f -exec objdump -T {} + 2>/dev/null | grep -oE "\b$1_[0-9.]+" | sort -uV | tail -1
}

copy_programs() {
  local folder="$1" program
  shift
  for program in "$@"; do
    mkdir -p "$folder"
    strip -o "$folder/${program##*/}" "$program"
    copy_libraries "$program"
  done
}

# The demonstration's programs are one file (examples/digits/programs.cc): each
# name is a script, which scp copies as it is.
name_demo_programs() {
  local folder="$1" program
  [[ -e "$folder/digits-programs" ]] || return 0
  for program in digits digits_local digits_pipe lockstep-demo; do
    # shellcheck disable=SC2016  # expanded by the script
    printf '#!/bin/sh\nexec "${0%%/*}/digits-programs" %s "$@"\n' "$program" >"$folder/$program"
    chmod 755 "$folder/$program"
  done
}

# Copies the libraries that the program loads, except those that the target
# machine provides. Libraries for network adapters are in a folder of their own:
# they are used only where the target machine lacks them.
copy_libraries() {
  local library folder
  local verbs='/(libibverbs|librdmacm|libmlx[0-9]+|libefa|libnl-3|libnl-route-3)[.]so'
  local not_these='/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcuda|libnccl)[.]so'
  ldd "$1" | awk -v not="$not_these" '$2 == "=>" && $3 !~ not { print $3 }' |
    while read -r library; do
      folder="$gpu_bundle/lib"
      [[ ! "$library" =~ $verbs ]] || folder+=-verbs
      install -m 755 "$library" "$folder/"
      strip "$folder/${library##*/}"
    done
}
