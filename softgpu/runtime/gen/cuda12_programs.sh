#!/bin/sh
# Builds tests/fixtures/cuda12: the test programs by an nvcc of CUDA 12, which calls the runtime
# otherwise than 13's does (cudaLaunchKernel where 13 has __cudaGetKernel and __cudaLaunchKernel).
#   gen/cuda12_programs.sh CUDA12_ROOT
# The committed ones are by nvcc 12.4.131 of Debian's package nvidia-cuda-toolkit with the
# headers of PyPI's nvidia-cuda-runtime-cu12 12.4.127 and nvidia-cuda-nvcc-cu12 12.4.131.
set -eu
root=$1
here=$(cd "$(dirname "$0")/.." && pwd)
for name in conformance interop nodes reset width; do
    "$root/bin/nvcc" -w -cudart shared -cudadevrt none -Xlinker -s \
        -gencode arch=compute_75,code=compute_75 \
        -o "$here/tests/fixtures/cuda12/$name" "$here/tests/programs/$name.cu" -lcudart
done
