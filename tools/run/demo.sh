# shellcheck shell=bash
# ./run demo [FLAGS]: builds the demonstration and executes it.

usage_demo() {
  cat <<TXT
usage: ./run demo [--workers N | --mesh M [--schedule S]] [--steps N] [--seed N]
                  [--sync MODE] [--transport T | --device D]
                  [--wire-dtype H [--error-feedback]] [--leaves N] [--run-ahead N] [--hold]
                  [--no-halo]
                  [--state DIR [--save-every N] [--kill-all | --resume]]
                  [--kill-worker R [--no-replacement | --late-replacement]]
                  [--kill-coordinator | --ha [--etcd PROGRAM]] [--at-step N] [--tls]

Starts a coordinator and the workers (4), trains the digits example in step, trains the
same model in one process on the same samples, and compares the two. The last line is
'demo: PASS' (exit 0) or 'demo: FAIL' (exit 1), or 'demo: ENDED by an operator' (exit 0) of
a job that lockstepctl stop or drain ended, or 'demo: KILLED ...' (exit 3) of --kill-all.
Where --device cuda finds no GPU it says why and exits with 77.

  --workers N   worker processes (4)
  --mesh M      data=N, or data=N,pipe=P: N replicas of a pipeline of P workers; or
                data=N,pipe=P,domain=2: images are cut over rows, and halos move as well
  --schedule S  of the pipeline: gpipe, 1f1b, interleaved, zb-h1 or zb-v
  --steps N     training steps (400); after fewer than 150 the accuracy is not judged
  --seed N      of weights and samples
  --sync MODE   static (the plan decides when a gradient moves), negotiated (the
                coordinator does, pass by pass), or reduce_scatter (the plan, and each
                worker updates a slice of the weights)
  --transport T gloo (TCP), shm (shared memory), or auto: what suits where the workers run
  --device D    cpu, or cuda: the workers train on this machine's GPUs, over NCCL; more workers
                than GPUs share them
  --wire-dtype H   what gradients are cast to on their way: none, bf16 or f16
  --error-feedback add what the cast took to the next step's gradients
  --leaves N    sums whose bits do not depend on the number of workers, of N parts of each batch
  --run-ahead N with --device cuda: steps (1 or 2) that a worker enqueues before its host has seen
                the verdict of the one before them
  --state DIR   save checkpoints in DIR, every --save-every N steps (10)
  --kill-all    kill the workers and the coordinator after --at-step N steps (20)
  --kill-worker R  kill worker R after --at-step N steps (20), and start it again: the others
                recover, and it receives the state from them
  --no-replacement    do not start worker R again: the job goes on with the others
  --late-replacement  start worker R again when the others have done ten steps without it: the
                job shrinks, and grows
  --kill-coordinator  kill the coordinator after --at-step N steps, and start it again with its
                journal: the training goes on meanwhile
  --ha          three coordinators with their journal in etcd, which this fetches and unpacks: the one
                that leads is killed after --at-step N steps, the next one when all workers have
                resumed there; the training, which is slowed down to 10 s, goes on meanwhile
  --etcd PROGRAM   the etcd to start instead
  --tls         encrypt and authenticate what the coordinator and the workers tell each other
  --resume      go on from the newest checkpoint in DIR; compares also with the training that
                was not interrupted: bit for bit, on another number of workers with --leaves
  --no-halo     with domain: leave out the neighbours' rows; it must end with 'demo: FAIL'
  --hold        train until interrupted or ended by an operator; prints
                'coordinator: HOST:PORT' and 'job: digits'
TXT
}

# The options of lockstep-demo; tests/docs/commands_test.py compares them.
readonly demo_options=(--workers --mesh --schedule --steps --seed --sync --transport --device
  --wire-dtype --leaves --run-ahead --state --save-every --at-step --kill-worker --etcd)
readonly demo_switches=(--error-feedback --hold --no-halo --resume --kill-all --kill-coordinator
  --no-replacement --late-replacement --ha --tls)

run_demo() {
  local preset="${LOCKSTEP_PRESET:-user}"
  refuse_unknown_demo_flags "$@"
  require build
  configure_once "$preset"
  local targets=(lockstep-demo)
  # lockstepctl is needed only if the job keeps running.
  ! is_one_of --hold "$@" || targets+=(lockstepctl)
  compile "$preset" "${targets[@]}"
  local etcd=()
  if is_one_of --ha "$@" && ! names_etcd "$@"; then
    unpack etcd-server etcd
    etcd=(--etcd "$(unpacked etcd)")
  fi
  exec "build/$preset/bin/lockstep-demo" "$@" "${etcd[@]}"
}

names_etcd() {
  local word
  for word in "$@"; do
    [[ "${word%%=*}" != --etcd ]] || return 0
  done
  return 1
}

# Checked before the build, which takes minutes; the program checks the values.
refuse_unknown_demo_flags() {
  local name
  while [[ $# -gt 0 ]]; do
    name="${1%%=*}"
    if is_one_of "$name" "${demo_options[@]}"; then
      [[ "$1" == *=* || $# -ge 2 ]] || refuse "demo: $name wants a value; see ./run demo --help"
      [[ "$1" == *=* ]] || shift
    elif ! is_one_of "$1" "${demo_switches[@]}"; then
      refuse "demo: unknown argument '$1'; see ./run demo --help"
    fi
    shift
  done
}
