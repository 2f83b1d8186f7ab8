// Prints cudaDeviceProp byte for byte, and the attributes of a kernel.
#include "report.h"

__global__ void nothing(int *x) { *x = 1; }

int main() {
    cudaDeviceProp p;
    memset(&p, 0xab, sizeof p);
    T(cudaGetDeviceProperties(&p, 0));
    V("size %zu name %s", sizeof p, p.name);
    const unsigned char *bytes = (const unsigned char *)&p;
    for (size_t at = 256; at < sizeof p; at += 16) {
        printf("%4zu:", at);
        for (size_t i = at; i < at + 16 && i < sizeof p; i++)
            printf(" %02x", bytes[i]);
        printf("\n");
    }
    cudaFuncAttributes a;
    memset(&a, 0, sizeof a);
    T(cudaFuncGetAttributes(&a, nothing));
    V("%zu %zu %zu threads %d ptx %d binary %d ca %d dynamic %d carveout %d cluster %d %d %d %d %d %d", a.sharedSizeBytes,
      a.constSizeBytes, a.localSizeBytes, a.maxThreadsPerBlock, a.ptxVersion, a.binaryVersion, a.cacheModeCA,
      a.maxDynamicSharedSizeBytes, a.preferredShmemCarveout, a.clusterDimMustBeSet, a.requiredClusterWidth,
      a.requiredClusterHeight, a.requiredClusterDepth, a.clusterSchedulingPolicyPreference, a.nonPortableClusterSizeAllowed);
    return 0;
}
