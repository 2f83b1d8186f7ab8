// CUDA arrays: creating, asking, copies of two and three dimensions. For a real driver: softgpu
// has no arrays yet.
#include "report.h"

static void arrays() {
    cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindFloat), back;
    cudaArray_t array, second;
    cudaExtent extent;
    unsigned flags = 77;
    float from[64], to[64] = {};
    for (int i = 0; i < 64; i++) from[i] = i;
    T(cudaMallocArray(&array, &desc, 8, 4));
    T(cudaMallocArray(&second, &desc, 8, 4));
    T(cudaArrayGetInfo(&back, &extent, &flags, array));
    V("%d %d %d %d %d extent %zu %zu %zu flags %u", back.x, back.y, back.z, back.w, back.f, extent.width, extent.height, extent.depth, flags);
    T(cudaGetChannelDesc(&back, array));
    T(cudaMemcpy2DToArray(array, 0, 0, from, 64, 64, 4, cudaMemcpyHostToDevice));
    T(cudaMemcpy2DArrayToArray(second, 0, 0, array, 0, 0, 64, 4, cudaMemcpyDeviceToDevice));
    T(cudaMemcpy2DFromArray(to, 64, second, 0, 0, 64, 4, cudaMemcpyDeviceToHost));
    V("same %d", !memcmp(from, to, sizeof to));
    T(cudaMemcpy2DToArray(array, 0, 0, from, 64, 64, 4, cudaMemcpyDeviceToHost));
    CLEAR();
    memset(to, 0, sizeof to);
    cudaMemcpy3DParms parms = {};
    parms.srcArray = second;
    parms.dstPtr = make_cudaPitchedPtr(to, 64, 8, 4);
    parms.extent = make_cudaExtent(8, 4, 1);
    parms.kind = cudaMemcpyDeviceToHost;
    T(cudaMemcpy3D(&parms));
    V("same %d", !memcmp(from, to, sizeof to));
    desc = cudaCreateChannelDesc(32, 32, 32, 0, cudaChannelFormatKindFloat);
    cudaArray_t none;
    T(cudaMallocArray(&none, &desc, 8, 4));
    CLEAR();
    T(cudaFreeArray(array));
    T(cudaFreeArray(second));
    T(cudaFreeArray(NULL));
}

int main() {
    open_driver();
    arrays();
    return 0;
}
