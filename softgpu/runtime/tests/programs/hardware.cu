// What softgpu lacks or answers otherwise: arrays, IPC, peers, attributes, batches. For a real
// driver only.
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
    memset(to, 0, sizeof to);
    T(cudaMemcpyToArray(array, 8, 0, from, 200, cudaMemcpyHostToDevice));
    T(cudaMemcpyArrayToArray(second, 8, 0, array, 8, 0, 200, cudaMemcpyDeviceToDevice));
    T(cudaMemcpyFromArray(to, second, 8, 0, 200, cudaMemcpyDeviceToHost));
    V("same %d", !memcmp(from, to, 200));
    T(cudaMemcpyToArrayAsync(array, 0, 1, from, 64, cudaMemcpyHostToDevice, 0));
    T(cudaMemcpyFromArrayAsync(to, array, 0, 1, 64, cudaMemcpyDeviceToHost, 0));
    T(cudaDeviceSynchronize());
    desc = cudaCreateChannelDesc(32, 32, 32, 0, cudaChannelFormatKindFloat);
    cudaArray_t none;
    T(cudaMallocArray(&none, &desc, 8, 4));
    CLEAR();
    T(cudaFreeArray(array));
    T(cudaFreeArray(second));
    T(cudaFreeArray(NULL));
}

__global__ void sample(cudaTextureObject_t texture, float *out) { out[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x); }
__global__ void sample_rows(cudaTextureObject_t texture, float *out) { out[threadIdx.x] = tex2D<float>(texture, threadIdx.x + 0.5f, 1.5f); }
__global__ void sample_bytes(cudaTextureObject_t texture, float *out) { out[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x); }
__global__ void write_surface(cudaSurfaceObject_t surface) { surf2Dwrite((float)threadIdx.x, surface, threadIdx.x * 4, 0); }

static void show_texture(cudaTextureObject_t texture, bool has_view) {
    cudaResourceDesc resource;
    cudaTextureDesc desc;
    cudaResourceViewDesc view;
    memset(&resource, 0, sizeof resource);
    memset(&view, 0, sizeof view);
    T(cudaGetTextureObjectResourceDesc(&resource, texture));
    V("type %d size %zu %zu %zu bits %d kind %d", resource.resType, resource.resType == cudaResourceTypeLinear ? resource.res.linear.sizeInBytes : resource.res.pitch2D.width,
      resource.resType == cudaResourceTypePitch2D ? resource.res.pitch2D.height : 0, resource.resType == cudaResourceTypePitch2D ? resource.res.pitch2D.pitchInBytes : 0, resource.res.linear.desc.x, resource.res.linear.desc.f);
    T(cudaGetTextureObjectTextureDesc(&desc, texture));
    V("address %d %d %d filter %d read %d srgb %d normalized %d anisotropy %u mipmap %d %g %g %g trilinear %d cubemap %d", desc.addressMode[0], desc.addressMode[1], desc.addressMode[2], desc.filterMode,
      desc.readMode, desc.sRGB, desc.normalizedCoords, desc.maxAnisotropy, desc.mipmapFilterMode, desc.mipmapLevelBias, desc.minMipmapLevelClamp, desc.maxMipmapLevelClamp,
      desc.disableTrilinearOptimization, desc.seamlessCubemap);
    if (!has_view) return;
    T(cudaGetTextureObjectResourceViewDesc(&view, texture));
    V("view %d %zu %zu %zu", view.format, view.width, view.height, view.depth);
    CLEAR();
}

static void textures() {
    float from[64], to[32] = {}, *memory, *out;
    cudaTextureObject_t texture = 0;
    cudaSurfaceObject_t surface = 0;
    cudaResourceDesc resource;
    cudaTextureDesc desc;
    size_t pitch = 0;
    float *rows;
    for (int i = 0; i < 64; i++) from[i] = i * 2;
    CLEAR();
    T(cudaMalloc(&memory, sizeof from));
    T(cudaMalloc(&out, sizeof to));
    T(cudaMemcpy(memory, from, sizeof from, cudaMemcpyHostToDevice));
    memset(&resource, 0, sizeof resource);
    memset(&desc, 0, sizeof desc);
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = sizeof from;
    desc.readMode = cudaReadModeElementType;
    T(cudaCreateTextureObject(&texture, &resource, &desc, NULL));
    T((sample<<<1, 32>>>(texture, out), 0));
    T(cudaMemcpy(to, out, sizeof to, cudaMemcpyDeviceToHost));
    V("%g %g", to[1], to[31]);
    show_texture(texture, false);
    T(cudaDestroyTextureObject(texture));
    T(cudaMallocPitch(&rows, &pitch, 128, 2));
    T(cudaMemcpy2D(rows, pitch, from, 128, 128, 2, cudaMemcpyHostToDevice));
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = rows;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    resource.res.pitch2D.width = 32;
    resource.res.pitch2D.height = 2;
    resource.res.pitch2D.pitchInBytes = pitch;
    desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeBorder;
    desc.filterMode = cudaFilterModeLinear;
    desc.borderColor[1] = 0.5f;
    T(cudaCreateTextureObject(&texture, &resource, &desc, NULL));
    T((sample_rows<<<1, 32>>>(texture, out), 0));
    T(cudaMemcpy(to, out, sizeof to, cudaMemcpyDeviceToHost));
    V("%g %g", to[1], to[31]);
    show_texture(texture, false);
    T(cudaDestroyTextureObject(texture));
    memset(&desc, 0, sizeof desc);
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = cudaCreateChannelDesc<unsigned char>();
    resource.res.linear.sizeInBytes = sizeof from;
    desc.readMode = cudaReadModeNormalizedFloat;
    T(cudaMemset(memory, 51, sizeof from));
    T(cudaCreateTextureObject(&texture, &resource, &desc, NULL));
    T((sample_bytes<<<1, 32>>>(texture, out), 0));
    T(cudaMemcpy(to, out, sizeof to, cudaMemcpyDeviceToHost));
    V("%g %g", to[1], to[31]);
    show_texture(texture, false);
    T(cudaDestroyTextureObject(texture));
    T(cudaDestroyTextureObject(0));
    CLEAR();
    resource.res.linear.desc = cudaCreateChannelDesc(24, 0, 0, 0, cudaChannelFormatKindFloat);
    T(cudaCreateTextureObject(&texture, &resource, &desc, NULL));
    T(cudaCreateTextureObject(&texture, NULL, &desc, NULL));
    CLEAR();
    cudaArray_t array;
    cudaChannelFormatDesc channel = cudaCreateChannelDesc<float>();
    T(cudaMallocArray(&array, &channel, 32, 2, cudaArraySurfaceLoadStore));
    memset(&resource, 0, sizeof resource);
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    T(cudaCreateSurfaceObject(&surface, &resource));
    T((write_surface<<<1, 32>>>(surface), 0));
    T(cudaMemcpy2DFromArray(to, 128, array, 0, 0, 128, 1, cudaMemcpyDeviceToHost));
    V("%g %g", to[1], to[31]);
    memset(&resource, 0, sizeof resource);
    T(cudaGetSurfaceObjectResourceDesc(&resource, surface));
    V("type %d same %d", resource.resType, resource.res.array.array == array);
    T(cudaDestroySurfaceObject(surface));
    memset(&desc, 0, sizeof desc);
    cudaResourceViewDesc view;
    memset(&view, 0, sizeof view);
    view.format = cudaResViewFormatFloat1;
    view.width = 32;
    view.height = 2;
    T(cudaCreateTextureObject(&texture, &resource, &desc, &view));
    show_texture(texture, true);
    T(cudaDestroyTextureObject(texture));
    T(cudaFreeArray(array));
    cudaExternalMemory_t memory_of_others;
    cudaExternalMemoryHandleDesc handle;
    memset(&handle, 0, sizeof handle);
    handle.type = cudaExternalMemoryHandleTypeOpaqueFd;
    handle.handle.fd = -1;
    handle.size = 4096;
    T(cudaImportExternalMemory(&memory_of_others, &handle));
    CLEAR();
    cudaExternalSemaphore_t semaphore;
    cudaExternalSemaphoreHandleDesc semaphore_handle;
    memset(&semaphore_handle, 0, sizeof semaphore_handle);
    semaphore_handle.type = cudaExternalSemaphoreHandleTypeOpaqueFd;
    semaphore_handle.handle.fd = -1;
    T(cudaImportExternalSemaphore(&semaphore, &semaphore_handle));
    CLEAR();
}

__managed__ int shared_by_both = 5;
__global__ void bump() { shared_by_both += 1; }

static void managed() {
    int *p = NULL, value = 5;
    bump<<<1, 1>>>();
    T(cudaDeviceSynchronize());
    V("managed %d", shared_by_both);
    T(cudaGetSymbolSize((size_t *)calls, shared_by_both));
    T(cudaMallocManaged(&p, 4096));
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
#if CUDART_VERSION >= 13000
    T(cudaMemAdvise(p, 4096, cudaMemAdviseSetReadMostly, here));
    size_t size = 4096, index = 0;
    T(cudaMemPrefetchBatchAsync((void **)&p, &size, 1, &here, &index, 1, 0, cudaStreamPerThread));
    T(cudaMemDiscardBatchAsync((void **)&p, &size, 1, 0, cudaStreamPerThread));
#else
    (void)here;
    T(cudaMemAdvise(p, 4096, cudaMemAdviseSetReadMostly, 0));
#endif
    T(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p, 4096));
    V("read mostly %d", value);
    void *data[2] = {&value, calls};
    size_t sizes[2] = {4, 4};
    cudaMemRangeAttribute wanted[2] = {cudaMemRangeAttributeReadMostly, cudaMemRangeAttributePreferredLocation};
    T(cudaMemRangeGetAttributes(data, sizes, wanted, 2, p, 4096));
    V("%d %d", value, *(int *)calls);
    calls[0] = 0;
    T(cudaFree(p));
    T(cudaDeviceReset());
    V("managed %d", shared_by_both);
    CLEAR();
}

static void copies() {
    char *d, *e, host[256] = "abc", back[256] = "";
    cudaPitchedPtr cube;
    CLEAR();
    T(cudaMalloc(&d, 256));
    T(cudaMalloc(&e, 256));
    T(cudaMemcpy(d, host, 256, cudaMemcpyHostToDevice));
    T(cudaMemcpyPeerAsync(e, 0, d, 0, 256, 0));
    T(cudaMemcpyPeerAsync(e, 0, d, -1, 256, 0));
    CLEAR();
    T(cudaMemcpy(back, e, 256, cudaMemcpyDeviceToHost));
    V("same %d", !memcmp(host, back, 256));
    T(cudaMalloc3D(&cube, make_cudaExtent(16, 4, 4)));
    T(cudaMemset3DAsync(cube, 1, make_cudaExtent(16, 2, 4), 0));
    cudaMemcpy3DPeerParms peer = {};
    peer.srcPtr = cube;
    peer.dstPtr = make_cudaPitchedPtr(e, 16, 16, 4);
    peer.extent = make_cudaExtent(16, 4, 4);
    T(cudaMemcpy3DPeer(&peer));
    T(cudaMemcpy3DPeerAsync(&peer, 0));
    T(cudaMemcpy(back, e, 256, cudaMemcpyDeviceToHost));
    V("%d %d %d", back[0], back[31], back[64]);
#if CUDART_VERSION >= 12080
    void *dsts[1] = {e};
    void *srcs[1] = {d};
    size_t sizes[1] = {64}, first[1] = {0};
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    cudaStream_t s;
    T(cudaStreamCreate(&s));
#if CUDART_VERSION >= 13000
    T(cudaMemcpyBatchAsync(dsts, (const void **)srcs, sizes, 1, &attributes, first, 1, s));
#else
    T(cudaMemcpyBatchAsync(dsts, srcs, sizes, 1, &attributes, first, 1, NULL, s));
#endif
    T(cudaStreamSynchronize(s));
#endif
    cudaIpcMemHandle_t handle;
    T(cudaIpcGetMemHandle(&handle, NULL));
    CLEAR();
    T(cudaIpcGetMemHandle(&handle, d));
    CLEAR();
    cudaStreamAttrValue attribute;
    memset(&attribute, 0, sizeof attribute);
    T(cudaStreamSetAttribute(0, cudaLaunchAttributeSynchronizationPolicy, &attribute));
    CLEAR();
}

static void pools_and_graphs() {
    cudaMemPool_t pool;
    cudaMemAccessFlags access = cudaMemAccessFlagsProtNone;
    cudaMemAccessDesc desc = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
    T(cudaDeviceGetDefaultMemPool(&pool, 0));
    T(cudaMemPoolSetAccess(pool, &desc, 1));
    T(cudaMemPoolGetAccess(&access, pool, &here));
    V("access %d", access);
#if CUDART_VERSION >= 13000
    cudaMemPool_t by_place = NULL;
    T(cudaMemGetDefaultMemPool(&by_place, &here, cudaMemAllocationTypePinned));
    V("same %d", by_place == pool);
    T(cudaMemGetMemPool(&by_place, &here, cudaMemAllocationTypePinned));
    unsigned capability[1] = {};
    cudaAtomicOperation operation[1] = {cudaAtomicOperationIntegerAdd};
    T(cudaDeviceGetHostAtomicCapabilities(capability, operation, 1, 0));
    cudaLogIterator iterator;
    T(cudaLogsCurrent(&iterator, 0));
#endif
    cudaGraph_t g;
    cudaGraphNode_t a, f;
    cudaMemAllocNodeParams want = {}, got = {};
    want.poolProps.allocType = cudaMemAllocationTypePinned;
    want.poolProps.location = here;
    want.bytesize = 4096;
    void *freed = NULL;
    unsigned long long used = 77;
    T(cudaGraphCreate(&g, 0));
    T(cudaGraphAddMemAllocNode(&a, g, NULL, 0, &want));
    V("address %d", want.dptr != NULL);
    T(cudaGraphMemAllocNodeGetParams(a, &got));
    V("same %d size %zu", got.dptr == want.dptr, got.bytesize);
    T(cudaGraphAddMemFreeNode(&f, g, &a, 1, want.dptr));
    T(cudaGraphMemFreeNodeGetParams(f, &freed));
    V("same %d", freed == want.dptr);
    cudaGraphExec_t x;
    T(cudaGraphInstantiate(&x, g, 0));
    T(cudaGraphLaunch(x, 0));
    T(cudaStreamSynchronize(0));
    T(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    V("used %llu", used);
    T(cudaDeviceGraphMemTrim(0));
    T(cudaGraphExecDestroy(x));
    T(cudaGraphDestroy(g));
    cudaGraphConditionalHandle handle;
    T(cudaGraphCreate(&g, 0));
    T(cudaGraphConditionalHandleCreate(&handle, g, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams any = {};
    any.type = cudaGraphNodeTypeConditional;
    any.conditional.handle = handle;
    any.conditional.type = cudaGraphCondTypeIf;
    any.conditional.size = 1;
#if CUDART_VERSION >= 13000
    T(cudaGraphAddNode(&a, g, NULL, NULL, 0, &any));
#else
    T(cudaGraphAddNode(&a, g, NULL, 0, &any));
#endif
    V("body %d", any.conditional.phGraph_out != NULL && any.conditional.phGraph_out[0] != NULL);
    T(cudaGraphDestroy(g));
    cudaStream_t s;
    T(cudaStreamCreate(&s));
    T(cudaGraphCreate(&g, 0));
    T(cudaStreamBeginCaptureToGraph(s, g, NULL, NULL, 0, cudaStreamCaptureModeGlobal));
    T((bump<<<1, 1, 0, s>>>(), 0));
    T(cudaStreamEndCapture(s, &g));
    T(cudaGraphDestroy(g));
    int clusters = 0;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4);
    config.blockDim = dim3(32);
    cudaLaunchAttribute cluster;
    memset(&cluster, 0, sizeof cluster);
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2; cluster.val.clusterDim.y = 1; cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
    T(cudaOccupancyMaxActiveClusters(&clusters, (const void *)bump, &config));
    V("clusters %d", clusters);
    CLEAR();
    T(cudaOccupancyMaxPotentialClusterSize(&clusters, (const void *)bump, &config));
    V("size %d", clusters);
    CLEAR();
    T(cudaStreamCopyAttributes(s, s));
    CLEAR();
    size_t width = 0;
    cudaChannelFormatDesc texel = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    T(cudaDeviceGetTexture1DLinearMaxWidth(&width, &texel, 0));
    V("width %zu", width);
    T(cudaInitDevice(0, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid));
    T(cudaInitDevice(0, 0x4000, cudaInitDeviceFlagsAreValid));
    T(cudaInitDevice(0, 0, 0x10));
    CLEAR();
    T(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice, cudaFlushGPUDirectRDMAWritesToOwner));
    CLEAR();
}

int main() {
    open_driver();
    arrays();
    textures();
    copies();
    pools_and_graphs();
    managed();
    return 0;
}
