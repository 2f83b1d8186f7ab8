// cudaDeviceReset while another thread holds the primary context.
#include "report.h"
#include <pthread.h>

__device__ int counter = 3;
__global__ void fill(int *x, int value) { x[threadIdx.x] = value + threadIdx.x; }
__global__ void bump() { counter += 1; }

static bool works(int value) {
    int *d = NULL, back[32] = {};
    if (cudaMalloc(&d, sizeof back)) return false;
    fill<<<1, 32>>>(d, value);
    if (cudaMemcpy(back, d, sizeof back, cudaMemcpyDeviceToHost)) return false;
    return !cudaFree(d) && back[0] == value && back[31] == value + 31;
}

static pthread_barrier_t barrier;

static void *other(void *argument) {
    bool *worked = (bool *)argument;
    worked[0] = works(1);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    worked[1] = works(2);
    return NULL;
}

int main() {
    open_driver();
    int value = 0;
    bool worked[2] = {};
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    T(cudaSetDevice(0));
    T(works(10) ? 0 : 1);
    bump<<<1, 1>>>();
    T(cudaMemcpyFromSymbol(&value, counter, 4));
    V("counter %d", value);
    pthread_create(&thread, NULL, other, worked);
    pthread_barrier_wait(&barrier);
    T(cudaDeviceReset());
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    V("before %d after %d", worked[0], worked[1]);
    T(works(11) ? 0 : 1);
    T(cudaMemcpyFromSymbol(&value, counter, 4));
    V("counter %d", value);
    T(cudaDeviceReset());
    T(cudaDeviceReset());
    T(cudaDeviceSynchronize());
    T(works(12) ? 0 : 1);
    return 0;
}
