#!/usr/bin/env bash
# build.sh NVIDIA OUT: puts into the folder OUT what the images are made of: the Debian
# packages, the example digits, NCCL, and install.sh. After prepare.sh NVIDIA.
set -euo pipefail
nvidia="$1" out="$2"
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

# The kernels, though there is no GPU here: without them the configuration fails.
export CUDA_HOME="$nvidia/nvidia/cu13"
cmake --preset package -DLOCKSTEP_CUDA=ON
./run package
cmake --build --preset package --target digits

mkdir -p "$out"
cp build/package/*.deb deploy/container/install.sh "$out"
install --strip build/package/bin/digits "$out"
install -m 0644 "$nvidia/nvidia/nccl/lib/libnccl.so.2" "$out"
install -m 0644 "$nvidia"/nvidia_nccl_cu13-*.dist-info/licenses/* -t "$out/nccl-licence" -D
