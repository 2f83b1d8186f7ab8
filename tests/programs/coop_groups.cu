// Cooperative groups inside a block: tiles, groups of the threads that came the same way, and their
// collectives.
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

constexpr int BLOCK = 96;

struct Seen {
    int blockRank, tileRank, tileSum, tileScan, tileFirst, groupSize, groupRank, labelled;
};

__global__ void groups(Seen *seen) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    Seen &mine = seen[block.group_index().x * BLOCK + block.thread_rank()];
    int value = block.thread_rank() * 3 + 1;
    mine.blockRank = block.thread_rank();
    mine.tileRank = tile.thread_rank();
    mine.tileSum = cg::reduce(tile, value, cg::plus<int>());
    mine.tileScan = cg::inclusive_scan(tile, value);
    mine.tileFirst = tile.shfl(value, 0);
    mine.groupSize = mine.groupRank = -1;
    if (block.thread_rank() % 3 == 0) {
        cg::coalesced_group group = cg::coalesced_threads();
        mine.groupSize = group.size();
        mine.groupRank = group.thread_rank();
    }
    block.sync();
    auto warp = cg::tiled_partition<32>(block);
    mine.labelled = cg::labeled_partition(warp, block.thread_rank() % 5).size();
}

int main() {
    constexpr int BLOCKS = 2, N = BLOCKS * BLOCK;
    Seen *device, seen[N];
    CUDA(cudaMalloc(&device, sizeof seen));
    groups<<<BLOCKS, BLOCK>>>(device);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(seen, device, sizeof seen, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) {
        const Seen &s = seen[i];
        int rank = i % BLOCK, first = rank / 8 * 8, sum = 0, scan = 0, labelled = 0;
        for (int k = first; k < first + 8; k++) {
            sum += k * 3 + 1;
            if (k <= rank) scan += k * 3 + 1;
        }
        for (int k = rank / 32 * 32; k < rank / 32 * 32 + 32; k++) labelled += k % 5 == rank % 5;
        EXPECT(s.blockRank == rank && s.tileRank == rank % 8, "thread %d: ranks %d, %d", i, s.blockRank, s.tileRank);
        EXPECT(s.tileSum == sum, "thread %d: tile sum %d, not %d", i, s.tileSum, sum);
        EXPECT(s.tileScan == scan, "thread %d: tile scan %d, not %d", i, s.tileScan, scan);
        EXPECT(s.tileFirst == first * 3 + 1, "thread %d: tile's first %d, not %d", i, s.tileFirst, first * 3 + 1);
        EXPECT(s.labelled == labelled, "thread %d: %d threads with its label, not %d", i, s.labelled, labelled);
        // Which threads of a branch run together is the device's choice; none is in a group it does not belong to.
        bool member = rank % 3 == 0;
        EXPECT(member ? s.groupSize >= 1 && s.groupSize <= 11 && s.groupRank >= 0 && s.groupRank < s.groupSize : s.groupSize == -1,
               "thread %d: rank %d in a group of %d", i, s.groupRank, s.groupSize);
    }
    fact("tiles, scans, reductions and partitions right in %d threads", N);
    CUDA(cudaFree(device));
    return pass("coop_groups");
}
