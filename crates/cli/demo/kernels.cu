// The demo's kernels: one step of a very small language model. kernels.ptx is made of this by
// ./generate and committed, so that building cutrace needs no nvcc.

// x = the embedding of a token plus what was there before, scaled to a length of one.
extern "C" __global__ void embed(const float *table, const int *token, float *x, int width) {
    __shared__ float sums[256];
    int i = threadIdx.x;
    float value = table[*token * width + i] + 0.5f * x[i];
    sums[i] = value * value;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (i < half) sums[i] += sums[i + half];
        __syncthreads();
    }
    x[i] = value * rsqrtf(sums[0] / width + 1e-6f);
}

// y = W × x, one warp a row.
extern "C" __global__ void project(const float *weights, const float *x, float *y, int rows, int width) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int k = lane; k < width; k += 32) sum += weights[row * width + k] * x[k];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (lane == 0) y[row] = sum;
}

// x = x + y / (1 + |y|): the layer's result joins what came in.
extern "C" __global__ void join(float *x, const float *y, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width) x[i] += y[i] / (1 + fabsf(y[i]));
}

// The most likely next token: where the scores are highest, the first of equals.
extern "C" __global__ void choose(const float *scores, int count, int *token) {
    __shared__ float best[256];
    __shared__ int place[256];
    int i = threadIdx.x;
    best[i] = -1e30f;
    place[i] = 0;
    for (int k = i; k < count; k += blockDim.x)
        if (scores[k] > best[i]) best[i] = scores[k], place[i] = k;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (i < half && (best[i + half] > best[i] || (best[i + half] == best[i] && place[i + half] < place[i])))
            best[i] = best[i + half], place[i] = place[i + half];
        __syncthreads();
    }
    if (i == 0) *token = place[0];
}
