// c = a + b, one element a thread; the last block is partly idle.  vector_add [elements]
#include "check.h"
#include <vector>

__global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main(int argc, char **argv) {
    int n = int(argument(argc, argv, 1, 1000000));
    size_t bytes = n * sizeof(float);
    cudaDeviceProp device;
    CUDA(cudaGetDeviceProperties(&device, 0));
    fact("device %s", device.name);

    std::vector<float> a(n), b(n), c(n, -1.0f);
    Random random(1);
    for (int i = 0; i < n; i++) {
        a[i] = random.below(1 << 20) * 0.25f;
        b[i] = random.below(1 << 20) * -0.125f;
    }
    float *da, *db, *dc;
    CUDA(cudaMalloc(&da, bytes));
    CUDA(cudaMalloc(&db, bytes));
    CUDA(cudaMalloc(&dc, bytes));
    CUDA(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
    int block = 256, grid = (n + block - 1) / block;
    vectorAdd<<<grid, block>>>(da, db, dc, n);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        EXPECT(c[i] == a[i] + b[i], "c[%d] is %g, not %g", i, c[i], a[i] + b[i]);
    fact("%d sums right", n);
    CUDA(cudaFree(da));
    CUDA(cudaFree(db));
    CUDA(cudaFree(dc));
    return pass("vector_add");
}
