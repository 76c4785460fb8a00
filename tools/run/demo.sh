# shellcheck shell=bash
# ./run demo [FLAGS]: builds what the demonstration needs and becomes it.

usage_demo() {
  cat <<TXT
usage: ./run demo [--workers N | --mesh M [--schedule S]] [--steps N] [--seed N]
                  [--sync MODE] [--transport T | --device D] [--hold]

Starts a coordinator and the workers (4), trains the digits example in step, trains the
same model in one process on the same samples, and compares the two. The last line is
'demo: PASS' (exit 0) or 'demo: FAIL' (exit 1). Where --device cuda finds no GPU it says
why and exits with 77.

  --workers N   worker processes (4)
  --mesh M      data=N, or data=N,pipe=P: N replicas of a pipeline of P workers
  --schedule S  of the pipeline: gpipe, 1f1b, interleaved, zb-h1 or zb-v
  --steps N     training steps
  --seed N      of weights and samples
  --sync MODE   static (the plan decides when a gradient moves) or negotiated (the
                coordinator does, pass by pass)
  --transport T gloo (TCP), shm (shared memory), or auto: what suits where the workers run
  --device D    cpu, or cuda: the workers train on this machine's GPUs, over NCCL; more workers
                than GPUs share them
  --hold        train until interrupted; prints 'coordinator: HOST:PORT' and 'job: digits'
TXT
}

run_demo() {
  refuse_unknown_demo_flags "$@"
  require build
  configure release
  compile release lockstepd lockstepctl digits digits_pipe lockstep-demo
  exec build/release/bin/lockstep-demo "$@"
}

# Before minutes of building, not after; the values are the program's to judge.
refuse_unknown_demo_flags() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --workers | --steps | --seed)
        [[ $# -ge 2 ]] || refuse "demo: $1 wants a number"
        shift 2
        ;;
      --workers=* | --steps=* | --seed=* | --hold) shift ;;
      --sync)
        [[ $# -ge 2 ]] || refuse "demo: --sync wants static or negotiated"
        shift 2
        ;;
      --transport)
        [[ $# -ge 2 ]] || refuse "demo: --transport wants auto, gloo or shm"
        shift 2
        ;;
      --device)
        [[ $# -ge 2 ]] || refuse "demo: --device wants cpu or cuda"
        shift 2
        ;;
      --mesh)
        [[ $# -ge 2 ]] || refuse "demo: --mesh wants axes such as data=2,pipe=2"
        shift 2
        ;;
      --schedule)
        [[ $# -ge 2 ]] || refuse "demo: --schedule wants the name of a schedule"
        shift 2
        ;;
      --sync=* | --transport=* | --mesh=* | --schedule=* | --device=*) shift ;;
      *) refuse "demo: unknown argument '$1'; see ./run demo --help" ;;
    esac
  done
}
