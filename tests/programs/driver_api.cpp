// The driver API by itself, linked to libcuda.so.1: contexts, modules from PTX, libraries, launches
// in every form, memory of every kind, streams, events, errors.
#include "driver.h"
#include <cstring>
#include <string>
#include <vector>

static void devices(CUdevice *device) {
    int version = 0, count = 0, major = 0, warp = 0, threads = 0;
    CU(cuDriverGetVersion(&version));
    EXPECT(version >= 12000, "driver version %d", version);
    CU(cuDeviceGetCount(&count));
    EXPECT(count >= 1, "no device");
    CU(cuDeviceGet(device, 0));
    char name[100] = "";
    CU(cuDeviceGetName(name, sizeof name, *device));
    CU(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, *device));
    CU(cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, *device));
    CU(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, *device));
    EXPECT(name[0] && major >= 8 && warp == 32 && threads == 1024, "'%s': capability %d, warp %d, block %d", name, major,
           warp, threads);
    size_t bytes = 0;
    CU(cuDeviceTotalMem(&bytes, *device));
    EXPECT(bytes >= size_t(1) << 30, "%zu bytes of memory", bytes);
    EXPECT_RESULT(cuDeviceGet(device, 1000), CUDA_ERROR_INVALID_DEVICE);
    CU(cuDeviceGet(device, 0));
    fact("device and attributes right");
}

static void launches(CUmodule module) {
    constexpr int N = 5000;
    CUfunction saxpy, mixed, sumBlock, missing;
    CU(cuModuleGetFunction(&saxpy, module, "saxpy"));
    CU(cuModuleGetFunction(&mixed, module, "mixed"));
    CU(cuModuleGetFunction(&sumBlock, module, "sumBlock"));
    EXPECT_RESULT(cuModuleGetFunction(&missing, module, "sexpy"), CUDA_ERROR_NOT_FOUND);
    std::vector<float> x(N), y(N), out(N);
    for (int i = 0; i < N; i++) x[i] = float(i), y[i] = float(i % 10);
    CUdeviceptr dx, dy;
    CU(cuMemAlloc(&dx, N * sizeof(float)));
    CU(cuMemAlloc(&dy, N * sizeof(float)));
    CU(cuMemcpyHtoD(dx, x.data(), N * sizeof(float)));
    CU(cuMemcpyHtoD(dy, y.data(), N * sizeof(float)));
    float a = 2;
    int n = N;
    void *arguments[] = {&a, &dx, &dy, &n};
    CU(cuLaunchKernel(saxpy, (N + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
    CUlaunchConfig config = {};
    config.gridDimX = (N + 255) / 256;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 256;
    CU(cuLaunchKernelEx(&config, saxpy, arguments, nullptr));
    CU(cuMemcpyDtoH(out.data(), dy, N * sizeof(float)));
    for (int i = 0; i < N; i++) EXPECT(out[i] == y[i] + 4 * x[i], "saxpy element %d is %g", i, out[i]);
    CU(cuMemFree(dx));
    CU(cuMemFree(dy));
    fact("launches by argument pointers right");

    struct {
        char a;
        double b;
        short c;
        struct { char a; double b; short c; } d;
        CUdeviceptr out;
    } buffer = {};
    buffer.a = -3, buffer.b = 0.625, buffer.c = -700;
    buffer.d.a = 9, buffer.d.b = -1.5, buffer.d.c = 12345;
    CU(cuMemAlloc(&buffer.out, 6 * sizeof(long long)));
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CU(cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    long long seen[6], expected[6] = {-3, 5, -700, 9, -12, 12345};
    CU(cuMemcpyDtoH(seen, buffer.out, sizeof seen));
    EXPECT(!memcmp(seen, expected, sizeof seen), "%lld %lld %lld %lld %lld %lld", seen[0], seen[1], seen[2], seen[3], seen[4], seen[5]);
    CU(cuMemFree(buffer.out));
    fact("launch by argument buffer right");

    int registers = 0, threads = 0, blocks = 0;
    CU(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, sumBlock));
    CU(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, sumBlock));
    EXPECT(registers > 0 && threads == 128, "%d registers, %d threads a block", registers, threads);
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sumBlock, 128, 512));
    EXPECT(blocks >= 1 && blocks <= 32, "%d blocks a multiprocessor", blocks);
    int values[256], sums[2], expectedSums[2] = {};
    for (int i = 0; i < 256; i++) values[i] = i * i, expectedSums[i / 128] += i * i;
    CUdeviceptr in, sumsOut;
    CU(cuMemAlloc(&in, sizeof values));
    CU(cuMemAlloc(&sumsOut, sizeof sums));
    CU(cuMemcpyHtoD(in, values, sizeof values));
    void *sumArguments[] = {&in, &sumsOut};
    CU(cuLaunchKernel(sumBlock, 2, 1, 1, 128, 1, 1, 128 * sizeof(int), nullptr, sumArguments, nullptr));
    CU(cuMemcpyDtoH(sums, sumsOut, sizeof sums));
    EXPECT(sums[0] == expectedSums[0] && sums[1] == expectedSums[1], "sums %d, %d", sums[0], sums[1]);
    EXPECT_RESULT(cuLaunchKernel(sumBlock, 1, 1, 1, 256, 1, 1, 1024, nullptr, sumArguments, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuLaunchKernel(sumBlock, 0, 1, 1, 32, 1, 1, 1024, nullptr, sumArguments, nullptr), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemFree(in));
    CU(cuMemFree(sumsOut));
    fact("shared memory, function attributes and launch limits right");
}

static void globals(CUmodule module) {
    CUdeviceptr counter, weights;
    size_t bytes = 0;
    int value = 0;
    CU(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
    EXPECT(bytes == sizeof(int), "counter has %zu bytes", bytes);
    CUfunction count, weigh;
    CU(cuModuleGetFunction(&count, module, "count"));
    CU(cuModuleGetFunction(&weigh, module, "weigh"));
    int by = 2;
    void *arguments[] = {&by};
    CU(cuLaunchKernel(count, 3, 1, 1, 10, 1, 1, 0, nullptr, arguments, nullptr));
    CU(cuMemcpyDtoH(&value, counter, sizeof value));
    EXPECT(value == 65, "counter is %d, not 65", value);
    EXPECT_RESULT(cuModuleGetGlobal(&weights, &bytes, module, "weight"), CUDA_ERROR_NOT_FOUND);
    CU(cuModuleGetGlobal(&weights, &bytes, module, "weights"));
    float w[4] = {1, -2, 0.5, 8}, in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
    CU(cuMemcpyHtoD(weights, w, sizeof w));
    CUdeviceptr din, dout;
    CU(cuMemAlloc(&din, sizeof in));
    CU(cuMemAlloc(&dout, sizeof out));
    CU(cuMemcpyHtoD(din, in, sizeof in));
    int n = 8;
    void *weighing[] = {&din, &dout, &n};
    CU(cuLaunchKernel(weigh, 1, 1, 1, 8, 1, 1, 0, nullptr, weighing, nullptr));
    CU(cuMemcpyDtoH(out, dout, sizeof out));
    for (int i = 0; i < 8; i++) EXPECT(out[i] == in[i] * w[i % 4], "weighed element %d is %g", i, out[i]);
    CU(cuMemFree(din));
    CU(cuMemFree(dout));
    fact("module globals and constants right");
}

static void loading() {
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
    CUmodule module;
    const char *broken = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f() { frobnicate.s32 %r1, 1; ret; }\n";
    EXPECT_RESULT(cuModuleLoadDataEx(&module, broken, 2, options, values), CUDA_ERROR_INVALID_PTX);
    EXPECT(strlen(log) > 0, "no error log");
    EXPECT_RESULT(cuModuleLoad(&module, "/no/such/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    fact("broken PTX is refused with a log");

    CUlibrary library;
    CUkernel kernel;
    CU(cuLibraryLoadData(&library, driver_kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CU(cuLibraryGetKernel(&kernel, library, "count"));
    int by = -1, value = 0;
    void *arguments[] = {&by};
    CU(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 7, 1, 1, 0, nullptr, arguments, nullptr));
    CUdeviceptr counter;
    size_t bytes = 0;
    CU(cuLibraryGetGlobal(&counter, &bytes, library, "counter"));
    CU(cuMemcpyDtoH(&value, counter, sizeof value));
    EXPECT(value == -2, "the library's own counter is %d, not -2", value);
    CU(cuLibraryUnload(library));
    fact("a library loads and launches its kernel");
}

static void memory() {
    size_t free = 0, total = 0, pitch = 0;
    CU(cuMemGetInfo(&free, &total));
    EXPECT(free > 0 && free <= total, "%zu of %zu bytes free", free, total);
    CUdeviceptr rows, words, ordered, mapped;
    CU(cuMemAllocPitch(&rows, &pitch, 100, 20, 4));
    EXPECT(pitch >= 100, "pitch %zu", pitch);
    CU(cuMemsetD2D8(rows, pitch, 0x5a, 100, 20));
    unsigned char square[10 * 10];
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = rows;
    copy.srcPitch = pitch;
    copy.srcXInBytes = 90;
    copy.srcY = 10;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = square;
    copy.dstPitch = 10;
    copy.WidthInBytes = 10;
    copy.Height = 10;
    CU(cuMemcpy2D(&copy));
    for (unsigned char byte : square) EXPECT(byte == 0x5a, "a byte of the square is %02x", byte);
    CU(cuMemFree(rows));

    uint32_t read[64];
    CU(cuMemAlloc(&words, sizeof read));
    CU(cuMemsetD32(words, 0xdeadbeef, 64));
    CU(cuMemsetD16(words + 8, 0x1234, 4));
    CU(cuMemsetD8(words + 20, 7, 4));
    CU(cuMemcpyDtoD(words + 128, words, 64));
    CU(cuMemcpyDtoH(read, words, sizeof read));
    EXPECT(read[0] == 0xdeadbeef && read[2] == 0x12341234 && read[5] == 0x07070707 && read[34] == 0x12341234 && read[63] == 0xdeadbeef,
           "memsets gave %x %x %x %x %x", read[0], read[2], read[5], read[34], read[63]);
    unsigned type = 0;
    CUdeviceptr base = 0;
    size_t size = 0;
    CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, words + 4));
    CU(cuMemGetAddressRange(&base, &size, words + 100));
    EXPECT(type == CU_MEMORYTYPE_DEVICE && base == words && size == sizeof read, "type %u, base off by %lld, %zu bytes", type,
           (long long)(base - words), size);
    CU(cuMemFree(words));
    EXPECT_RESULT(cuMemFree(words), CUDA_ERROR_INVALID_VALUE);

    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocAsync(&ordered, 1 << 16, stream));
    CU(cuMemsetD32Async(ordered, 42, 1 << 14, stream));
    int *pinned;
    CU(cuMemHostAlloc(reinterpret_cast<void **>(&pinned), 1 << 16, CU_MEMHOSTALLOC_DEVICEMAP));
    CU(cuMemHostGetDevicePointer(&mapped, pinned, 0));
    CU(cuMemcpyDtoHAsync(pinned, ordered, 1 << 16, stream));
    CU(cuMemFreeAsync(ordered, stream));
    CU(cuStreamSynchronize(stream));
    EXPECT(pinned[0] == 42 && pinned[(1 << 14) - 1] == 42, "stream-ordered memory held %d", pinned[0]);
    CU(cuMemsetD32(mapped, 43, 10));
    CU(cuCtxSynchronize());
    EXPECT(pinned[9] == 43, "the mapped memory holds %d", pinned[9]);
    CU(cuMemFreeHost(pinned));
    std::vector<int> own(4096, 1);
    CU(cuMemHostRegister(own.data(), own.size() * sizeof(int), 0));
    CU(cuMemHostUnregister(own.data()));
    CUdeviceptr managed;
    CU(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    reinterpret_cast<int *>(managed)[5] = 6;
    CU(cuMemsetD32(managed, 9, 5));
    CU(cuCtxSynchronize());
    EXPECT(reinterpret_cast<int *>(managed)[4] == 9 && reinterpret_cast<int *>(managed)[5] == 6, "managed memory is wrong");
    CU(cuMemFree(managed));
    CU(cuStreamDestroy(stream));
    fact("device, pitched, stream-ordered, pinned, registered and managed memory right");
}

static void CUDA_CB note(void *data) { static_cast<std::string *>(data)->append("h"); }
static void CUDA_CB noteCallback(CUstream, CUresult status, void *data) {
    static_cast<std::string *>(data)->append(status == CUDA_SUCCESS ? "c" : "?");
}

static void streams() {
    int least = 0, greatest = 0, priority = 0;
    CU(cuCtxGetStreamPriorityRange(&least, &greatest));
    CUstream stream;
    CU(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, greatest));
    CU(cuStreamGetPriority(stream, &priority));
    EXPECT(priority == greatest && greatest <= least, "priority %d of %d..%d", priority, least, greatest);
    CUevent start, stop;
    CU(cuEventCreate(&start, CU_EVENT_DEFAULT));
    CU(cuEventCreate(&stop, CU_EVENT_DEFAULT));
    std::string order;
    CU(cuEventRecord(start, stream));
    CU(cuLaunchHostFunc(stream, note, &order));
    CU(cuStreamAddCallback(stream, noteCallback, &order, 0));
    CU(cuLaunchHostFunc(stream, note, &order));
    CU(cuEventRecord(stop, stream));
    CU(cuEventSynchronize(stop));
    CU(cuStreamQuery(stream));
    EXPECT(order == "hch", "host functions ran in the order '%s'", order.c_str());
    float milliseconds = -1;
    CU(cuEventElapsedTime(&milliseconds, start, stop));
    EXPECT(milliseconds >= 0 && milliseconds < 10000, "%g ms between the events", milliseconds);
    CU(cuEventDestroy(start));
    CU(cuEventDestroy(stop));
    CU(cuStreamDestroy(stream));
    fact("priorities, host functions, callbacks and events right");
}

int main() {
    int count = 0;
    EXPECT_RESULT(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    CU(cuInit(0));
    CUdevice device, current;
    devices(&device);
    CUcontext context;
    CUmodule module;
    EXPECT_RESULT(cuModuleLoadData(&module, driver_kernels_ptx), CUDA_ERROR_INVALID_CONTEXT);
    CU(cuCtxCreate(&context, nullptr, 0, device));
    CU(cuCtxGetDevice(&current));
    EXPECT(current == device, "the context is on device %d", current);
    CU(cuModuleLoadData(&module, driver_kernels_ptx));
    launches(module);
    globals(module);
    loading();
    memory();
    streams();
    const char *text = nullptr;
    CU(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    EXPECT(text && !strcmp(text, "out of memory"), "out of memory is called '%s'", text);
    EXPECT_RESULT(cuGetErrorName(CUresult(12345), &text), CUDA_ERROR_INVALID_VALUE);
    CU(cuModuleUnload(module));
    CU(cuCtxDestroy(context));
    return pass("driver_api");
}
