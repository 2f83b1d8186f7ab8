// The kernels of the driver-API programs, which carry them as PTX text.

extern "C" __device__ int counter = 5;
extern "C" __constant__ float weights[4] = {1, 1, 1, 1};

extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void weigh(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * weights[i % 4];
}

extern "C" __global__ void count(int by) { atomicAdd(&counter, by); }

extern "C" __global__ void __launch_bounds__(128) sumBlock(const int *in, int *out) {
    extern __shared__ int values[];
    values[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = values[0];
}

// Mixed sizes, so that the argument buffer has holes.
struct Mixed {
    char a;
    double b;
    short c;
};
extern "C" __global__ void mixed(char a, double b, short c, Mixed d, long long *out) {
    out[0] = a;
    out[1] = (long long)(b * 8);
    out[2] = c;
    out[3] = d.a;
    out[4] = (long long)(d.b * 8);
    out[5] = d.c;
}
