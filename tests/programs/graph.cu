// CUDA graphs: one captured from two streams, one built node by node; both launched several times.
#include "check.h"
#include <vector>

constexpr int N = 10000, LAUNCHES = 4;

__global__ void scale(const int *in, int *out, int factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor;
}

__global__ void add(const int *a, const int *b, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

__global__ void addIndexed(int *data, const int *offset, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += *offset + i;
}

// copy in → (scale by 2 | scale by 3 in the other stream) → add → copy out
static void captured() {
    cudaStream_t main, side;
    cudaEvent_t fork, join;
    CUDA(cudaStreamCreate(&main));
    CUDA(cudaStreamCreate(&side));
    CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    int *host, *result, *in, *left, *right;
    size_t bytes = N * sizeof(int);
    CUDA(cudaMallocHost(&host, bytes));
    CUDA(cudaMallocHost(&result, bytes));
    CUDA(cudaMalloc(&in, bytes));
    CUDA(cudaMalloc(&left, bytes));
    CUDA(cudaMalloc(&right, bytes));
    for (int i = 0; i < N; i++) result[i] = -1;

    int grid = (N + 127) / 128;
    CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
    CUDA(cudaMemcpyAsync(in, host, bytes, cudaMemcpyHostToDevice, main));
    CUDA(cudaEventRecord(fork, main));
    CUDA(cudaStreamWaitEvent(side, fork, 0));
    scale<<<grid, 128, 0, main>>>(in, left, 2, N);
    scale<<<grid, 128, 0, side>>>(in, right, 3, N);
    CUDA(cudaEventRecord(join, side));
    CUDA(cudaStreamWaitEvent(main, join, 0));
    add<<<grid, 128, 0, main>>>(left, right, left, N);
    CUDA(cudaMemcpyAsync(result, left, bytes, cudaMemcpyDeviceToHost, main));
    cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(side, &status));
    EXPECT(status == cudaStreamCaptureStatusActive, "the forked stream does not capture");
    cudaGraph_t graph;
    CUDA(cudaStreamEndCapture(main, &graph));
    CUDA(cudaStreamIsCapturing(main, &status));
    EXPECT(status == cudaStreamCaptureStatusNone, "the stream still captures");
    CUDA(cudaDeviceSynchronize());
    EXPECT(result[0] == -1, "capturing ran the work");
    size_t nodes = 0;
    CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT(nodes == 5, "captured %zu nodes, not 5", nodes);
    fact("captured 5 nodes from two streams without running them");

    cudaGraphExec_t exec;
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < LAUNCHES; launch++) {
        for (int i = 0; i < N; i++) host[i] = i * (launch + 1) - 7;
        CUDA(cudaGraphLaunch(exec, main));
        CUDA(cudaStreamSynchronize(main));
        for (int i = 0; i < N; i++)
            EXPECT(result[i] == 5 * host[i], "launch %d, element %d: %d, not %d", launch, i, result[i], 5 * host[i]);
    }
    fact("%d launches of the captured graph right", LAUNCHES);
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(main));
    CUDA(cudaStreamDestroy(side));
    CUDA(cudaEventDestroy(fork));
    CUDA(cudaEventDestroy(join));
    CUDA(cudaFreeHost(host));
    CUDA(cudaFreeHost(result));
    CUDA(cudaFree(in));
    CUDA(cudaFree(left));
    CUDA(cudaFree(right));
}

struct Seen {
    int calls;
    const int *result;
    int last;
};

static void CUDART_CB look(void *data) {
    Seen *seen = static_cast<Seen *>(data);
    seen->calls++;
    seen->last = seen->result[N - 1];
}

// (memset data, copy offset in) → kernel → copy out → host function
static void built() {
    int *data, *offset, *result;
    int hostOffset = 0;
    CUDA(cudaMalloc(&data, N * sizeof(int)));
    CUDA(cudaMalloc(&offset, sizeof(int)));
    CUDA(cudaMallocHost(&result, N * sizeof(int)));
    cudaGraph_t graph;
    CUDA(cudaGraphCreate(&graph, 0));

    cudaMemsetParams clearing = {};
    clearing.dst = data;
    clearing.value = 100;
    clearing.elementSize = 4;
    clearing.width = N;
    clearing.height = 1;
    cudaGraphNode_t clear, copyIn, kernel, copyOut, host;
    CUDA(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &clearing));

    cudaMemcpy3DParms copying = {};
    copying.srcPtr = make_cudaPitchedPtr(&hostOffset, sizeof(int), sizeof(int), 1);
    copying.dstPtr = make_cudaPitchedPtr(offset, sizeof(int), sizeof(int), 1);
    copying.extent = make_cudaExtent(sizeof(int), 1, 1);
    copying.kind = cudaMemcpyHostToDevice;
    CUDA(cudaGraphAddMemcpyNode(&copyIn, graph, nullptr, 0, &copying));

    int n = N;
    void *arguments[] = {&data, &offset, &n};
    cudaKernelNodeParams launching = {};
    launching.func = (void *)addIndexed;
    launching.gridDim = dim3((N + 255) / 256);
    launching.blockDim = dim3(256);
    launching.kernelParams = arguments;
    cudaGraphNode_t both[] = {clear, copyIn};
    CUDA(cudaGraphAddKernelNode(&kernel, graph, both, 2, &launching));
    CUDA(cudaGraphAddMemcpyNode1D(&copyOut, graph, &kernel, 1, result, data, N * sizeof(int), cudaMemcpyDeviceToHost));
    Seen seen = {0, result, 0};
    cudaHostNodeParams calling = {look, &seen};
    CUDA(cudaGraphAddHostNode(&host, graph, &copyOut, 1, &calling));

    std::vector<cudaGraphNode_t> nodes(8);
    size_t count = nodes.size();
    CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
    EXPECT(count == 5, "the graph has %zu nodes, not 5", count);
    int kinds[16] = {};
    for (size_t i = 0; i < count; i++) {
        cudaGraphNodeType type;
        CUDA(cudaGraphNodeGetType(nodes[i], &type));
        if (type >= 0 && type < 16) kinds[type]++;
    }
    EXPECT(kinds[cudaGraphNodeTypeKernel] == 1 && kinds[cudaGraphNodeTypeMemcpy] == 2 &&
               kinds[cudaGraphNodeTypeMemset] == 1 && kinds[cudaGraphNodeTypeHost] == 1,
           "the nodes' types are wrong");
    fact("built a graph of 5 nodes of 4 types");

    cudaGraphExec_t exec;
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < LAUNCHES; launch++) {
        hostOffset = 1000 * launch;
        CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaStreamSynchronize(stream));
        for (int i = 0; i < N; i++)
            EXPECT(result[i] == 100 + hostOffset + i, "launch %d, element %d: %d", launch, i, result[i]);
        EXPECT(seen.calls == launch + 1, "the host function ran %d times in %d launches", seen.calls, launch + 1);
        EXPECT(seen.last == result[N - 1], "the host function ran before the copy");
    }
    fact("%d launches of the built graph right, host function called in each", LAUNCHES);
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFree(data));
    CUDA(cudaFree(offset));
    CUDA(cudaFreeHost(result));
}

int main() {
    captured();
    built();
    return pass("graph");
}
