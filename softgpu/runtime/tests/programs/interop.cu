// Runtime calls amid driver calls and threads: whose context is current, whose error is whose.
#include "report.h"
#include <cuda.h>
#include <pthread.h>

static CUresult (*init)(unsigned);
static CUresult (*create)(CUcontext *, unsigned, CUdevice);
static CUresult (*destroy)(CUcontext);
static CUresult (*set_current)(CUcontext);
static CUresult (*get_current)(CUcontext *);
static CUresult (*push)(CUcontext);
static CUresult (*pop)(CUcontext *);
static CUresult (*retain)(CUcontext *, CUdevice);
static CUresult (*stream_wait)(CUstream);
static CUresult (*alloc)(CUdeviceptr *, size_t);

__global__ void fill(int *x, int value) { x[threadIdx.x] = value + threadIdx.x; }

static CUcontext now() {
    CUcontext context = NULL;
    get_current(&context);
    return context;
}

static bool works(int value) {
    int *d = NULL, back[32] = {};
    if (cudaMalloc(&d, sizeof back)) return false;
    fill<<<1, 32>>>(d, value);
    if (cudaMemcpy(back, d, sizeof back, cudaMemcpyDeviceToHost)) return false;
    return !cudaFree(d) && back[0] == value && back[31] == value + 31;
}

struct Job { int number; bool worked; int first, second; };

static void *thread_body(void *argument) {
    Job *job = (Job *)argument;
    job->first = cudaPeekAtLastError();
    job->worked = works(100 * job->number);
    for (int i = 0; i < 20; i++)
        job->worked = job->worked && works(i);
    if (job->number & 1)
        cudaSetDevice(99);
    job->second = cudaGetLastError();
    return NULL;
}

int main() {
    void *driver = open_driver();
#define GET(name, symbol) *(void **)&name = dlsym(driver, symbol)
    GET(init, "cuInit"); GET(create, "cuCtxCreate_v2"); GET(destroy, "cuCtxDestroy_v2");
    GET(set_current, "cuCtxSetCurrent"); GET(get_current, "cuCtxGetCurrent"); GET(push, "cuCtxPushCurrent_v2");
    GET(pop, "cuCtxPopCurrent_v2"); GET(retain, "cuDevicePrimaryCtxRetain"); GET(stream_wait, "cuStreamSynchronize");
    GET(alloc, "cuMemAlloc_v2");
    CUcontext own = NULL, primary = NULL, popped = NULL;
    CUdeviceptr from_driver = 0;
    int device = -1;
    T(init(0));
    T(create(&own, 0, 0));
    T(works(5) ? 0 : 1);
    V("own is current %d", now() == own);
    T(cudaGetDevice(&device));
    T(alloc(&from_driver, 64));
    T(cudaMemset((void *)from_driver, 1, 64));
    T(cudaFree((void *)from_driver));
    T(cudaSetDevice(0));
    T(retain(&primary, 0));
    V("primary is current %d", now() == primary);
    T(works(6) ? 0 : 1);
    T(push(own));
    T(works(7) ? 0 : 1);
    V("own is current %d", now() == own);
    T(pop(&popped));
    V("primary is current %d", now() == primary);
    T(set_current(NULL));
    T(works(8) ? 0 : 1);
    V("primary is current %d", now() == primary);
    T(set_current(NULL));
    T(cudaDeviceSynchronize());
    T(set_current(NULL));
    T(cudaGetDevice(&device));
    T(cudaStreamSynchronize(0));
    T(set_current(NULL));
    T(set_current(own));
    T(destroy(own));
    T(works(9) ? 0 : 1);
    CLEAR();
    T(cudaSetDevice(0));
    cudaStream_t stream;
    T(cudaStreamCreate(&stream));
    T(stream_wait((CUstream)stream));
    T(cudaStreamDestroy(stream));
    T(cudaSetDevice(99));
    pthread_t threads[8];
    Job jobs[8];
    for (int i = 0; i < 8; i++) {
        jobs[i].number = i;
        pthread_create(&threads[i], NULL, thread_body, &jobs[i]);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        V("thread %d worked %d errors %d %d", i, jobs[i].worked, jobs[i].first, jobs[i].second);
    }
    V("mine is still %d", (int)cudaGetLastError());
    return 0;
}
