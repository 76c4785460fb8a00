# shellcheck shell=bash
# ./run long NAME [ARGS]: tests that take many minutes.

usage_long() {
  cat <<TXT
usage: ./run long NAME [ARGS]

Runs one test for many minutes: more of what ./run test does in short. NAME is:

  chaos [--minutes N] [--faults N] [--workers N] [--seed S]
              inflict faults on 16 workers that train and on their coordinator for N minutes
              (30; 200 faults): processes, networks, disks, clocks; print what each kind
              costs, and compare the weights with a training without faults
  chaos-cuts [--control N] [--data N] [--workers N] [--seed S]
              cut control connections (1000 times), which must end no epoch, then data
              connections (50 times), which must lose no update
  chaos-checkpoint [--kills N] [--seed S]
              kill jobs that save checkpoints at N random moments (1000); each time go on
              from what is on the disk, and compare every bit
  deaths [--stride N]
              simulate every point at which one of 3 workers may die, and of its recovery every
              Nth point (1) at which a worker or the coordinator may
  failover [--kills N]
              kill the leader of two coordinators with a journal in etcd N times (100) while a job
              trains; print how long it takes until the other one leads, and a worker resumes
  fuzz [--minutes N] [--only TARGET]
              feed each parser of bytes that others wrote (tests/fuzz), or one of them, with mutants
              of its corpus for N minutes (10); a fault prints the input
  images      run all steps of deploy/Dockerfile in bare Debians (debootstrap; as root), from the
              source tree on, and train with the images that they make
  kill-latency [--kills N] [--workers N] [--transport T] [--seed S] [--fork]
               [--fault kill | stop | cut] [--lease_ms MS]
              kill workers at N random moments (1000 of 16 workers), before Seal, while all compute
              and in steps; print how long it takes until all others know; no launcher helps;
              stop: SIGSTOP instead of SIGKILL; cut: each worker on a host of its own, made of
              namespaces, one of which loses its network; both with leases of MS (2000)
  mutants [--only NAME] [--seeds N]
              build a copy of the source tree with one seeded bug after the other
              (tests/sim/mutants), and simulate N histories (2000) of each; fails if the
              simulation does not notice one
  outage [--seconds N] [--workers N] [--compute_ms N]
              kill the coordinator of 16 workers that train, and start it again after N seconds
              (60); fails if a step failed
  recovery-times [--kills N] [--workers N] [--mib M] [--seed S]
              kill a worker of an elastic job (8 workers, a model of 64 MiB) N times (12), and
              start it again each time; print how long the others and it stand still
  sim [--seeds N]
              simulate N histories of training under faults (10000); a failure prints its seed
TXT
}

# Its cases are independent: as many programs as cores.
every_death() {
  local stride="$1" shards shard pids=() status=0
  shards="$(jobs_count)"
  for ((shard = 0; shard < shards; ++shard)); do
    LOCKSTEP_SIM_DEATH_STRIDE="$stride" GTEST_TOTAL_SHARDS="$shards" GTEST_SHARD_INDEX="$shard" \
      build/release/bin/training_sim_test --gtest_filter='*EveryDeath*' &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || status=1
  done
  return "$status"
}

# number_option TEST FLAG DEFAULT [ARGS]: prints the number; there are no other arguments.
number_option() {
  local test="$1" flag="$2" number="$3"
  shift 3
  if [[ "${1:-}" == "$flag" ]]; then
    number="${2:-}"
    [[ "$number" =~ ^[1-9][0-9]{0,8}$ ]] || refuse "$flag wants a number, got '$number'"
    shift 2
  fi
  [[ $# -eq 0 ]] || refuse "long $test: unknown argument '$1'"
  echo "$number"
}

fuzz_names() { find tests/fuzz/corpus -mindepth 1 -maxdepth 1 -printf '%f\n' | sort; }

# fuzz_targets [--minutes N] [--only TARGET]
fuzz_targets() {
  local minutes=10 targets=()
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --minutes) minutes="$(number_option fuzz --minutes 10 "$1" "${2:-}")" || exit $? ;;
      --only)
        [[ -d "tests/fuzz/corpus/${2:-}" && "${2:-}" =~ ^[a-z_]+$ ]] ||
          refuse "long fuzz: no target '${2:-}'; there are: $(fuzz_names | tr '\n' ' ')"
        targets=("$2")
        ;;
      *) refuse "long fuzz: unknown argument '$1'" ;;
    esac
    shift 2
  done
  require build fuzz
  configure_once fuzz
  local names=("${targets[@]}") name programs=()
  [[ ${#names[@]} -gt 0 ]] || mapfile -t names < <(fuzz_names)
  for name in "${names[@]}"; do
    programs+=("${name}_fuzz")
  done
  compile fuzz "${programs[@]}"
  exec python3 tests/fuzz/run_fuzz.py build/fuzz/bin --seconds $((minutes * 60)) "${targets[@]}"
}

run_long() {
  local name="${1:-}"
  refuse_flag long "$name"
  case "$name" in
    chaos | chaos-cuts)
      shift
      require build test
      configure_once release
      compile release moved_clock chaos_worker chaos_replay lockstepctl lockstepd
      local what=(mix --minutes 30 --workers 16)
      [[ "$name" == chaos ]] || what=(cuts --control 1000 --data 50 --workers 16)
      exec python3 tests/chaos/chaos_test.py build/release/bin "${what[@]}" "$@"
      ;;
    chaos-checkpoint)
      shift
      require build
      configure_once release
      compile release checkpoint_worker lockstepctl lockstepd
      exec python3 tests/e2e/chaos_checkpoint_test.py build/release/bin \
        --kills 1000 "$@"
      ;;
    deaths)
      shift
      local stride
      stride="$(number_option deaths --stride 1 "$@")" || exit $?
      require build
      configure_once release
      compile release training_sim_test
      every_death "$stride"
      ;;
    failover)
      shift
      require build
      unpack etcd-server etcd
      configure_once release
      compile release recovering lockstepctl lockstepd
      exec python3 tests/e2e/failover_test.py build/release/bin "$(unpacked etcd)" --kills 100 "$@"
      ;;
    fuzz)
      shift
      fuzz_targets "$@"
      ;;
    images)
      [[ $# -eq 1 ]] || refuse "long images takes no argument, got '$2'"
      require build image test
      exec python3 -B tests/deploy/images_test.py
      ;;
    kill-latency)
      shift
      require build
      configure_once release
      compile release watched_worker lockstepd
      exec python3 tests/e2e/kill_latency_test.py build/release/bin \
        --kills 1000 --workers 16 "$@"
      ;;
    mutants)
      shift
      require build
      exec python3 tests/sim/mutants/mutants.py run "$@"
      ;;
    outage)
      shift
      require build
      configure_once release
      compile release trouble_worker lockstepctl lockstepd
      exec python3 tests/e2e/outage_test.py build/release/bin --seconds 60 --workers 16 "$@"
      ;;
    recovery-times)
      shift
      require build
      configure_once release
      compile release timed_worker lockstepd
      exec python3 tests/e2e/recovery_times_test.py build/release/bin \
        --kills 12 --workers 8 --mib 64 "$@"
      ;;
    sim)
      shift
      local seeds
      seeds="$(number_option sim --seeds 10000 "$@")" || exit $?
      require build
      configure_once release
      compile release training_sim_test
      LOCKSTEP_SIM_SEEDS="$seeds" exec build/release/bin/training_sim_test \
        --gtest_filter='TrainingSimTest.*'
      ;;
    '') refuse "long wants a NAME; see ./run long --help" ;;
    *) refuse "long: unknown name '$name'; see ./run long --help" ;;
  esac
}
