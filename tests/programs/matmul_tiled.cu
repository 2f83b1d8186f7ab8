// C = A B through 16 x 16 tiles in shared memory; sizes need not be multiples of the tile.
// matmul_tiled [n]
#include "check.h"
#include <vector>

constexpr int TILE = 16;

__global__ void matmulTiled(const float *a, const float *b, float *c, int rows, int columns, int inner) {
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < inner; start += TILE) {
        int ka = start + threadIdx.x, kb = start + threadIdx.y;
        tileA[threadIdx.y][threadIdx.x] = row < rows && ka < inner ? a[row * inner + ka] : 0.0f;
        tileB[threadIdx.y][threadIdx.x] = kb < inner && column < columns ? b[kb * columns + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += tileA[threadIdx.y][k] * tileB[k][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

// The inputs are small whole numbers, so that every sum is exact in any order.
static void multiply(int rows, int columns, int inner) {
    std::vector<float> a(rows * inner), b(inner * columns), c(rows * columns), expected(rows * columns);
    Random random(rows + columns);
    for (float &value : a) value = random.below(17) - 8;
    for (float &value : b) value = random.below(17) - 8;
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < inner; k++)
            for (int j = 0; j < columns; j++) expected[i * columns + j] += a[i * inner + k] * b[k * columns + j];

    float *da, *db, *dc;
    CUDA(cudaMalloc(&da, a.size() * sizeof(float)));
    CUDA(cudaMalloc(&db, b.size() * sizeof(float)));
    CUDA(cudaMalloc(&dc, c.size() * sizeof(float)));
    CUDA(cudaMemcpy(da, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(db, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
    dim3 block(TILE, TILE), grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    matmulTiled<<<grid, block>>>(da, db, dc, rows, columns, inner);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < rows * columns; i++)
        EXPECT(c[i] == expected[i], "element (%d, %d) is %g, not %g", i / columns, i % columns, c[i], expected[i]);
    fact("%d x %d x %d right", rows, columns, inner);
    CUDA(cudaFree(da));
    CUDA(cudaFree(db));
    CUDA(cudaFree(dc));
}

int main(int argc, char **argv) {
    int n = int(argument(argc, argv, 1, 256));
    multiply(n, n, n);
    multiply(37, 50, 21);
    return pass("matmul_tiled");
}
