// Where nodes of graphs come from: every kernel is added or captured by a call inside an NVTX range of its own name, and
// runs in a graph, a clone, a child graph, a conditional node's body, or after an update.
#include "check.h"
#include <nvtx3/nvToolsExt.h>

#define KERNEL(name) \
    __global__ void name(int *ran) { atomicAdd(ran, 1); }
KERNEL(outside)
KERNEL(inChild)
KERNEL(inBody)
KERNEL(inSwitch)
KERNEL(inOther)
KERNEL(outsideLater)
KERNEL(inChildLater)

static int *ran;
static int expected;

static cudaKernelNodeParams launching(void *kernel, void **arguments) {
    cudaKernelNodeParams params = {};
    params.func = kernel;
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    return params;
}

static cudaGraphNode_t add(cudaGraph_t graph, void *kernel, const char *name) {
    void *arguments[] = {&ran};
    cudaKernelNodeParams params = launching(kernel, arguments);
    cudaGraphNode_t node;
    nvtxRangePushA(name);
    CUDA(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    nvtxRangePop();
    return node;
}
#define ADD(graph, kernel) add(graph, (void *)kernel, #kernel)
#define LAUNCH(kernel, stream) \
    do { \
        nvtxRangePushA(#kernel); \
        kernel<<<1, 1, 0, stream>>>(ran); \
        nvtxRangePop(); \
    } while (0)

// A conditional node whose value is 1 in every launch; its bodies.
static cudaGraph_t *conditional(cudaGraph_t graph, cudaGraphConditionalNodeType type, unsigned size) {
    cudaGraphConditionalHandle handle;
    CUDA(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CUDA(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
#else
    CUDA(cudaGraphAddNode(&node, graph, nullptr, 0, &params));
#endif
    return params.conditional.phGraph_out;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void launch(cudaGraphExec_t exec, cudaStream_t stream, int kernels) {
    CUDA(cudaGraphLaunch(exec, stream));
    expected += kernels;
}

int main() {
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaMalloc(&ran, sizeof(int)));
    CUDA(cudaMemset(ran, 0, sizeof(int)));

    cudaGraph_t child, graph, clone;
    CUDA(cudaGraphCreate(&child, 0));
    ADD(child, inChild);
    CUDA(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t first = ADD(graph, outside), inner;
    CUDA(cudaGraphAddChildGraphNode(&inner, graph, nullptr, 0, child));
    cudaGraphExec_t plain = instantiate(graph);
    launch(plain, stream, 2);

    ADD(conditional(graph, cudaGraphCondTypeIf, 1)[0], inBody);
    int bodies = 1;
#if CUDART_VERSION >= 12080
    cudaGraph_t *cases = conditional(graph, cudaGraphCondTypeSwitch, 2);
    ADD(cases[0], inOther);
    cudaGraph_t body = cases[1];
    CUDA(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    LAUNCH(inSwitch, stream);
    CUDA(cudaStreamEndCapture(stream, &body));
    bodies++;
#endif
    cudaGraphExec_t nested = instantiate(graph);
    launch(nested, stream, 2 + bodies);
    launch(nested, stream, 2 + bodies);
    CUDA(cudaGraphClone(&clone, graph));
    cudaGraphExec_t cloned = instantiate(clone);
    launch(cloned, stream, 2 + bodies);
    fact("launched a graph with a child graph and conditional nodes, and its clone");

    // The same shape from other calls.
    cudaGraph_t childLater, later;
    CUDA(cudaGraphCreate(&childLater, 0));
    ADD(childLater, inChildLater);
    CUDA(cudaGraphCreate(&later, 0));
    ADD(later, outsideLater);
    CUDA(cudaGraphAddChildGraphNode(&inner, later, nullptr, 0, childLater));
    cudaGraphExecUpdateResultInfo result;
    CUDA(cudaGraphExecUpdate(plain, later, &result));
    EXPECT(result.result == cudaGraphExecUpdateSuccess, "the update gave %d", result.result);
    launch(plain, stream, 2);
    void *arguments[] = {&ran};
    cudaKernelNodeParams params = launching((void *)outsideLater, arguments);
    CUDA(cudaGraphExecKernelNodeSetParams(plain, first, &params));
    launch(plain, stream, 2);

    int sum = 0;
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemcpy(&sum, ran, sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(sum == expected, "%d kernels ran, not %d", sum, expected);
    fact("updated it, and changed a node of it");
    return pass("graph_origins");
}
