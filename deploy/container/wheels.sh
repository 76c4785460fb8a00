#!/usr/bin/env bash
# wheels.sh FOLDER LIST ...: unpacks NVIDIA's wheels that the lists pin into FOLDER. Debian
# has neither CUDA 13 nor NCCL. Needs python3-venv.
set -euo pipefail
folder="$1"
shift

venv="$(mktemp -d)"
trap 'rm -rf "$venv"' EXIT
python3 -m venv "$venv"
lists=()
for list in "$@"; do lists+=(-r "$list"); done
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
  --require-hashes --only-binary :all: --target "$folder" "${lists[@]}"
