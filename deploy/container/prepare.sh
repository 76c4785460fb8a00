#!/usr/bin/env bash
# prepare.sh NVIDIA: what the build of the images needs: Debian's packages, and a CUDA toolkit
# with NCCL in the folder NVIDIA. Needs tools/run/common.sh and setup.sh of the tree only.
set -euo pipefail
nvidia="$1"
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

# shellcheck source=tools/run/common.sh
source tools/run/common.sh
# shellcheck source=tools/run/setup.sh
source tools/run/setup.sh
require build package image

deploy/container/wheels.sh "$nvidia" deploy/container/cuda.txt deploy/container/nccl.txt
# A toolkit as NVIDIA's installer leaves it.
cuda="$nvidia/nvidia/cu13"
ln -s lib "$cuda/lib64"
ln -s libcudart.so.13 "$cuda/lib/libcudart.so"
ln -s ../../nccl/include/nccl.h "$cuda/include/nccl.h"
