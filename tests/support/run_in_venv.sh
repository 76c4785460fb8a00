#!/usr/bin/env bash
# run_in_venv.sh PYTHON VENV SCRIPT ARGS...: runs SCRIPT with the packages pinned by the
# requirements.txt beside it. The venv is made once, and again when the pins change.
set -euo pipefail
python="$1" venv="$2" script="$3"
shift 3
cd "$(dirname "$script")"

if ! cmp -s requirements.txt "$venv/requirements.txt"; then
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
    -r requirements.txt
  cp requirements.txt "$venv/requirements.txt"
fi
exec "$venv/bin/python" -B "$script" "$@"
