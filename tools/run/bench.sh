# shellcheck shell=bash
# ./run bench [NAME [ARGS]]

usage_bench() {
  cat <<TXT
usage: ./run bench [NAME [ARGS...]]

Builds release and runs its benchmarks (build/release/bin/*_bench), or the one called
NAME (with or without _bench, with - for _), with ARGS. An unknown NAME lists the names.
What needs a GPU says so and is passed over where there is none. data-plane also installs
MPICH and Open MPI, which it measures beside our own, and writes bench/results/;
training-step does so with PyTorch.
TXT
}

run_bench() {
  local wanted="${1:-}" names name
  refuse_flag bench "$wanted"
  require build
  configure release
  mapfile -t names < <(bench_names)
  [[ ${#names[@]} -gt 0 ]] || fail "there is no benchmark in bench/"
  if [[ -n "$wanted" ]]; then
    shift
    wanted="${wanted//-/_}"
    wanted="${wanted%_bench}_bench"
    is_one_of "$wanted" "${names[@]}" ||
      refuse "bench: unknown name '${wanted%_bench}'; there are: ${names[*]%_bench}"
    names=("$wanted")
  fi
  if is_one_of data_plane_bench "${names[@]}" || is_one_of small_messages_bench "${names[@]}"; then
    require mpi
    configure release # detects the MPIs' compilers
  fi
  if is_one_of training_step_bench "${names[@]}"; then require torch; fi
  compile release "${names[@]}"
  for name in "${names[@]}"; do
    say "${name%_bench}"
    local status=0
    "build/release/bin/$name" "$@" || status=$?
    [[ $status -eq 0 || $status -eq 77 ]] || exit "$status" # 77: it cannot run here, and says why
  done
}

bench_names() {
  cmake --build --preset release --target help | sed -n 's/^\([a-z0-9_]*_bench\): phony$/\1/p'
}
