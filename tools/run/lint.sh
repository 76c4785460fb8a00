# shellcheck shell=bash
# ./run lint

usage_lint() {
  cat <<TXT
usage: ./run lint [RULE ...]

Checks every tracked file against the rules of the source tree, or only against RULE:
$(python3 tools/lint/lint.py --list 2>/dev/null | sed 's/^/  /')
TXT
}

run_lint() {
  local rule
  for rule in "$@"; do
    refuse_flag lint "$rule"
  done
  require lint
  python3 tools/lint/lint.py "$@"
}
