// Leaks on purpose: device buffers, pinned memory, a stream and an event are never given back.
// The run itself succeeds; finding the leak is the tracer's work.  leak [buffers] [kept]
#include "check.h"
#include <vector>

constexpr size_t BYTES = 4 << 20;

int main(int argc, char **argv) {
    size_t buffers = argument(argc, argv, 1, 8), kept = argument(argc, argv, 2, 3);
    EXPECT(kept <= buffers, "cannot leak %zu of %zu buffers", kept, buffers);
    size_t before, after, total;
    CUDA(cudaMemGetInfo(&before, &total));
    std::vector<void *> pointers(buffers);
    for (size_t i = 0; i < buffers; i++) {
        CUDA(cudaMalloc(&pointers[i], BYTES));
        CUDA(cudaMemset(pointers[i], int(i), BYTES));
    }
    for (size_t i = kept; i < buffers; i++) CUDA(cudaFree(pointers[i]));
    CUDA(cudaMemGetInfo(&after, &total));
    EXPECT(before >= after + kept * BYTES, "free memory went from %zu to %zu", before, after);
    void *pinned;
    cudaStream_t stream;
    cudaEvent_t event;
    CUDA(cudaMallocHost(&pinned, 1 << 16));
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaEventCreate(&event));
    CUDA(cudaEventRecord(event, stream));
    CUDA(cudaDeviceSynchronize());
    fact("allocated %zu device buffers, %zu bytes", buffers, buffers * BYTES);
    fact("leaked %zu device buffers, %zu bytes", kept, kept * BYTES);
    fact("leaked 1 pinned buffer, 65536 bytes, 1 stream, 1 event");
    return pass("leak");
}
