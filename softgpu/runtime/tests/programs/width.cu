// The less travelled parts: libraries, pools, capture details, more graph nodes.
#include "report.h"

// cuda_profiler_api.h comes in a package of its own.
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);

__device__ int counter = 7;
__global__ void add(int *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += counter; }

static void bump(void *word) { *(int *)word += 1; }

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .u32 here = 42;\n"
    ".visible .entry put(.param .u64 p) {\n .reg .b64 %rd<3>;\n .reg .b32 %r<2>;\n ld.param.u64 %rd1, [p];\n"
    " cvta.to.global.u64 %rd2, %rd1;\n mov.u32 %r1, 1234;\n st.global.u32 [%rd2], %r1;\n ret;\n}\n";

static void libraries() {
#if CUDART_VERSION >= 12080
    cudaLibrary_t library;
    cudaKernel_t kernel, all[4];
    void *address = NULL;
    size_t bytes = 0;
    unsigned count = 0;
    int *d, value = 0;
    cudaMalloc(&d, 4);
    CLEAR();
    T(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    T(cudaLibraryGetKernel(&kernel, library, "put"));
    T(cudaLibraryGetKernel(&kernel, library, "nothing"));
    CLEAR();
    T(cudaLibraryGetKernel(&kernel, library, "put"));
    T(cudaLibraryGetKernelCount(&count, library));
    V("kernels %u", count);
    T(cudaLibraryEnumerateKernels(all, 4, library));
    T(cudaLibraryGetGlobal(&address, &bytes, library, "here"));
    V("bytes %zu", bytes);
    T(cudaLibraryGetGlobal(&address, &bytes, library, "nowhere"));
    CLEAR();
    T(cudaMemcpy(&value, address, 4, cudaMemcpyDeviceToHost));
    CLEAR();
    void *args[] = {&d};
    T(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(1), args, 0, 0));
    T(cudaMemcpy(&value, d, 4, cudaMemcpyDeviceToHost));
    V("value %d", value);
    const char *name = NULL;
    T(cudaFuncGetName(&name, (const void *)kernel));
    V("%s", name ? name : "(null)");
    cudaFuncAttributes at;
    T(cudaFuncGetAttributes(&at, (const void *)kernel));
    T(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, 0));
    T(cudaLibraryUnload(library));
    cudaFree(d);
#endif
    cudaKernel_t mine = NULL;
    T(cudaGetKernel(&mine, (const void *)add));
    V("kernel %d", mine != NULL);
    T(cudaGetKernel(&mine, (const void *)&counter));
    CLEAR();
}

static void pools() {
    cudaMemPool_t pool, other;
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    unsigned long long level = 0, high = 1 << 20;
    void *p = NULL;
    T(cudaMemPoolCreate(&pool, &props));
    T(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &high));
    T(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &level));
    V("threshold %llu", level);
    T(cudaMallocFromPoolAsync(&p, 1000, pool, 0));
    T(cudaMemsetAsync(p, 0, 1000, 0));
    T(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &level));
    V("used %d", level >= 1000);
    T(cudaFreeAsync(p, 0));
    T(cudaStreamSynchronize(0));
    T(cudaMemPoolTrimTo(pool, 0));
    T(cudaDeviceGetMemPool(&other, 0));
    T(cudaDeviceSetMemPool(0, pool));
    T(cudaDeviceSetMemPool(0, other));
    T(cudaMemPoolDestroy(pool));
    T(cudaMemPoolCreate(&pool, NULL));
    CLEAR();
}

static void more_graphs() {
    cudaStream_t s, t;
    cudaEvent_t e;
    cudaGraph_t g, child;
    cudaGraphExec_t x;
    cudaGraphNode_t a, b, c, d, nodes[16], from[16], to[16];
    size_t n = 16;
    int *p, word = 0, value = 0;
    cudaStreamCreate(&s); cudaStreamCreate(&t); cudaEventCreate(&e);
    cudaMalloc(&p, 256);
    CLEAR();
    T(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    T(cudaMemsetAsync(p, 0, 256, s));
    T(cudaEventRecord(e, s));
    T(cudaStreamWaitEvent(t, e, 0));
    T((add<<<1, 64, 0, t>>>(p, 64), 0));
    T(cudaLaunchHostFunc(s, bump, &word));
    T(cudaEventRecord(e, t));
    T(cudaStreamWaitEvent(s, e, 0));
    cudaStreamCaptureStatus status;
    unsigned long long id = 0;
#if CUDART_VERSION >= 13000
    T(cudaStreamGetCaptureInfo(s, &status, &id, &g, NULL, NULL, &n));
#else
    T(cudaStreamGetCaptureInfo(s, &status, &id, &g, NULL, &n));
#endif
    V("status %d dependencies %zu", status, n);
    T(cudaStreamEndCapture(s, &g));
    n = 16;
    T(cudaGraphGetNodes(g, nodes, &n));
    V("nodes %zu", n);
    n = 16;
    T(cudaGraphGetRootNodes(g, nodes, &n));
    V("roots %zu", n);
    n = 16;
#if CUDART_VERSION >= 13000
    T(cudaGraphGetEdges(g, from, to, NULL, &n));
#else
    T(cudaGraphGetEdges(g, from, to, &n));
#endif
    V("edges %zu", n);
    cudaGraphInstantiateParams ip = {};
    T(cudaGraphInstantiateWithParams(&x, g, &ip));
    V("result %d", ip.result_out);
    T(cudaGraphUpload(x, s));
    T(cudaGraphLaunch(x, s));
    T(cudaStreamSynchronize(s));
    unsigned long long flags = 9;
    T(cudaGraphExecGetFlags(x, &flags));
    V("flags %llu", flags);
    T(cudaGraphExecDestroy(x));
    child = g;
    T(cudaGraphCreate(&g, 0));
    T(cudaGraphAddChildGraphNode(&a, g, NULL, 0, child));
    T(cudaGraphAddEventRecordNode(&b, g, &a, 1, e));
    T(cudaGraphAddMemcpyNodeFromSymbol(&c, g, &b, 1, &value, counter, 4, 0, cudaMemcpyDeviceToHost));
    cudaHostNodeParams host = {bump, &word};
    T(cudaGraphAddHostNode(&d, g, NULL, 0, &host));
#if CUDART_VERSION >= 13000
    T(cudaGraphAddDependencies(g, &c, &d, NULL, 1));
    n = 16;
    T(cudaGraphNodeGetDependencies(d, nodes, NULL, &n));
    V("dependencies %zu right %d", n, nodes[0] == c);
    n = 16;
    T(cudaGraphNodeGetDependentNodes(a, nodes, NULL, &n));
    V("dependents %zu right %d", n, nodes[0] == b);
    T(cudaGraphRemoveDependencies(g, &c, &d, NULL, 1));
    T(cudaGraphAddDependencies(g, &c, &d, NULL, 1));
#else
    T(cudaGraphAddDependencies(g, &c, &d, 1));
    n = 16;
    T(cudaGraphNodeGetDependencies(d, nodes, &n));
    V("dependencies %zu right %d", n, nodes[0] == c);
    n = 16;
    T(cudaGraphNodeGetDependentNodes(a, nodes, &n));
    V("dependents %zu right %d", n, nodes[0] == b);
    T(cudaGraphRemoveDependencies(g, &c, &d, 1));
    T(cudaGraphAddDependencies(g, &c, &d, 1));
#endif
    T(cudaGraphInstantiate(&x, g, 0));
    T(cudaGraphLaunch(x, s));
    T(cudaStreamSynchronize(s));
    V("word %d value %d", word, value);
    unsigned enabled = 9;
    T(cudaGraphNodeGetEnabled(x, c, &enabled));
    V("enabled %u", enabled);
    T(cudaGraphNodeSetEnabled(x, c, 0));
    T(cudaGraphNodeGetEnabled(x, c, &enabled));
    V("enabled %u", enabled);
    T(cudaGraphExecHostNodeSetParams(x, d, &host));
    T(cudaGraphExecDestroy(x));
    cudaUserObject_t object;
    T(cudaUserObjectCreate(&object, &word, bump, 1, cudaUserObjectNoDestructorSync));
    T(cudaGraphRetainUserObject(g, object, 1, cudaGraphUserObjectMove));
    T(cudaGraphDestroyNode(d));
    T(cudaGraphDestroy(g));
    T(cudaGraphDestroy(child));
    cudaFree(p);
}

static void managed() {
    int *p = NULL;
    CLEAR();
    T(cudaMallocManaged(&p, 4096));
    p[0] = 1;
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
#if CUDART_VERSION >= 13000
    T(cudaMemAdvise(p, 4096, cudaMemAdviseSetReadMostly, here));
    T(cudaMemPrefetchAsync(p, 4096, here, 0, 0));
#else
    (void)here;
    T(cudaMemAdvise(p, 4096, cudaMemAdviseSetReadMostly, 0));
    T(cudaMemPrefetchAsync(p, 4096, 0, 0));
#endif
    T(cudaStreamAttachMemAsync(0, p, 0, cudaMemAttachGlobal));
    T(cudaStreamSynchronize(0));
    T((add<<<1, 1>>>(p, 1), 0));
    T(cudaDeviceSynchronize());
    V("value %d", p[0]);
    T(cudaFree(p));
}

static void odds() {
    int value = 0;
    T(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0));
    CLEAR();
    T(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    int devices[1] = {0};
    T(cudaSetValidDevices(devices, 1));
    devices[0] = 50;
    T(cudaSetValidDevices(devices, 1));
    CLEAR();
    unsigned long long id = 0;
    T(cudaStreamGetId(0, &id));
    cudaStreamAttrValue attribute;
    memset(&attribute, 0, sizeof attribute);
    T(cudaStreamGetAttribute(0, cudaLaunchAttributeSynchronizationPolicy, &attribute));
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    T(cudaThreadExchangeStreamCaptureMode(&mode));
    V("mode %d", mode);
    cudaSharedMemConfig config;
    T(cudaDeviceGetSharedMemConfig(&config));
    T(cudaCtxResetPersistingL2Cache());
    CLEAR();
    void *p = NULL;
    T(cudaMallocHost(&p, 0));
    T(cudaHostAlloc(&p, 64, 0x100));
    CLEAR();
    T(cudaMallocHost(&p, 64));
    unsigned flags = 77;
    T(cudaHostGetFlags(&flags, p));
    V("flags %u", flags);
    T(cudaFreeHost(p));
    T(cudaProfilerStart());
    T(cudaProfilerStop());
}


int main() {
    open_driver();
    libraries();
    pools();
    more_graphs();
    managed();
    odds();
    return 0;
}
