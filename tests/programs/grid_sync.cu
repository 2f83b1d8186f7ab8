// A cooperative launch: all blocks of the grid meet at barriers inside the kernel.  grid_sync [blocks]
#include "check.h"
#include <cooperative_groups.h>
#include <vector>

namespace cg = cooperative_groups;

constexpr int THREADS = 64, ROUNDS = 6;

// Each round, an element becomes the sum of itself and one that another block owns: a block that
// runs ahead or behind gives another number.
__global__ void rounds(unsigned *a, unsigned *b, int n) {
    cg::grid_group grid = cg::this_grid();
    int i = int(grid.thread_rank());
    for (int round = 0; round < ROUNDS; round++) {
        b[i] = a[i] + a[(i + THREADS * (round + 1) + 1) % n];
        grid.sync();
        unsigned *other = a;
        a = b;
        b = other;
    }
}

int main(int argc, char **argv) {
    int blocks = int(argument(argc, argv, 1, 8)), n = blocks * THREADS, supported = 0, resident = 0, processors = 0;
    CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
    EXPECT(supported, "the device has no cooperative launch");
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, rounds, THREADS, 0));
    CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    EXPECT(blocks <= resident * processors, "%d blocks do not fit the device at once", blocks);
    std::vector<unsigned> values(n), next(n), result(n);
    for (int i = 0; i < n; i++) values[i] = i * i + 1;
    unsigned *a, *b;
    CUDA(cudaMalloc(&a, n * sizeof(unsigned)));
    CUDA(cudaMalloc(&b, n * sizeof(unsigned)));
    CUDA(cudaMemcpy(a, values.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
    void *arguments[] = {&a, &b, &n};
    CUDA(cudaLaunchCooperativeKernel(rounds, dim3(blocks), dim3(THREADS), arguments));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(result.data(), ROUNDS % 2 ? b : a, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++) next[i] = values[i] + values[(i + THREADS * (round + 1) + 1) % n];
        values.swap(next);
    }
    for (int i = 0; i < n; i++) EXPECT(result[i] == values[i], "element %d is %u, not %u", i, result[i], values[i]);
    fact("%d blocks met %d times", blocks, ROUNDS);
    int tooMany = resident * processors + 1;
    EXPECT_ERROR(cudaLaunchCooperativeKernel(rounds, dim3(tooMany), dim3(THREADS), arguments), cudaErrorCooperativeLaunchTooLarge);
    (void)cudaGetLastError();
    fact("a grid that cannot be resident at once is refused");
    CUDA(cudaFree(a));
    CUDA(cudaFree(b));
    return pass("grid_sync");
}
