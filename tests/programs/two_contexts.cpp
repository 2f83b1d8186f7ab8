// Two contexts on one device: the stack of current contexts, a module loaded into each with symbols
// of the same name that stay apart, and one context that outlives the other.
#include "driver.h"
#include <thread>

static CUcontext current() {
    CUcontext context = nullptr;
    CU(cuCtxGetCurrent(&context));
    return context;
}

static int counterOf(CUmodule module) {
    CUdeviceptr counter;
    size_t bytes;
    int value = 0;
    CU(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
    CU(cuMemcpyDtoH(&value, counter, sizeof value));
    return value;
}

static void countIn(CUmodule module, int by, unsigned threads) {
    CUfunction count;
    CU(cuModuleGetFunction(&count, module, "count"));
    void *arguments[] = {&by};
    CU(cuLaunchKernel(count, 1, 1, 1, threads, 1, 1, 0, nullptr, arguments, nullptr));
}

int main() {
    CU(cuInit(0));
    CUdevice device;
    CU(cuDeviceGet(&device, 0));
    EXPECT(current() == nullptr, "a context is current before any was made");
    CUcontext a, b, popped;
    CU(cuCtxCreate(&a, nullptr, 0, device));
    CU(cuCtxCreate(&b, nullptr, 0, device));
    EXPECT(a != b && current() == b, "the newest context is not current");
    CU(cuCtxPopCurrent(&popped));
    EXPECT(popped == b && current() == a, "popping did not uncover the older context");
    CU(cuCtxPopCurrent(&popped));
    EXPECT(popped == a && current() == nullptr, "the stack is not empty");
    EXPECT_RESULT(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
    CUdeviceptr memory;
    EXPECT_RESULT(cuMemAlloc(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
    fact("the stack of contexts pushes and pops");

    CUmodule inA, inB;
    CU(cuCtxPushCurrent(a));
    CU(cuModuleLoadData(&inA, driver_kernels_ptx));
    countIn(inA, 10, 4);
    CU(cuCtxPushCurrent(b));
    CU(cuModuleLoadData(&inB, driver_kernels_ptx));
    countIn(inB, -1, 7);
    EXPECT(counterOf(inB) == -2, "the second context's counter is %d, not -2", counterOf(inB));
    CU(cuCtxSetCurrent(a));
    EXPECT(counterOf(inA) == 45, "the first context's counter is %d, not 45", counterOf(inA));
    fact("the same symbol is another variable in each context");

    // What belongs to one context cannot be used in the other.
    CUstream streamOfA;
    CU(cuStreamCreate(&streamOfA, CU_STREAM_DEFAULT));
    CUfunction count;
    CU(cuModuleGetFunction(&count, inA, "count"));
    int by = 1;
    void *arguments[] = {&by};
    CU(cuCtxSetCurrent(b));
    CUresult foreign = cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
    EXPECT(foreign != CUDA_SUCCESS, "a kernel of the first context ran in the second");
    CU(cuCtxSynchronize());
    fact("a kernel of the other context is refused");

    // Another thread has a stack of its own.
    std::thread([&] {
        EXPECT(current() == nullptr, "a new thread has a current context");
        CU(cuCtxSetCurrent(a));
        countIn(inA, 5, 1);
        CU(cuCtxSynchronize());
        EXPECT(counterOf(inA) == 50, "the counter is %d, not 50", counterOf(inA));
    }).join();
    EXPECT(current() == b, "the other thread changed this thread's context");
    fact("each thread has its own current context");

    CU(cuCtxDestroy(b));
    EXPECT(current() != b, "a destroyed context is current");
    CU(cuCtxSetCurrent(a));
    EXPECT(counterOf(inA) == 50, "the counter is %d after the other context's end", counterOf(inA));
    countIn(inA, 1, 32);
    EXPECT(counterOf(inA) == 82, "the counter is %d, not 82", counterOf(inA));
    CU(cuStreamDestroy(streamOfA));
    CU(cuModuleUnload(inA));
    CU(cuCtxDestroy(a));
    fact("one context outlives the other");

    // The primary context is one for the whole process.
    CUcontext primary, again;
    CU(cuDevicePrimaryCtxRetain(&primary, device));
    CU(cuDevicePrimaryCtxRetain(&again, device));
    EXPECT(primary == again && primary != nullptr, "two primary contexts");
    unsigned flags = 0;
    int active = 0;
    CU(cuDevicePrimaryCtxGetState(device, &flags, &active));
    EXPECT(active == 1, "the retained primary context is not active");
    CU(cuDevicePrimaryCtxRelease(device));
    CU(cuDevicePrimaryCtxRelease(device));
    CU(cuDevicePrimaryCtxGetState(device, &flags, &active));
    EXPECT(active == 0, "the released primary context is active");
    fact("the primary context is retained and released");
    return pass("two_contexts");
}
