// Parameters of graph nodes: set, read back, changed in graphs and in executable graphs.
#include "report.h"

__device__ int box[4] = {1, 2, 3, 4};
__global__ void add(int *x, int n, int by) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += by; }
__global__ void twice(int *x, int n, int by) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 2 * x[i] + by; }

static void one(void *word) { *(int *)word += 1; }
static void ten(void *word) { *(int *)word += 10; }

int main() {
    open_driver();
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaGraphNode_t set, kernel, out, host, to, from, wait, note;
    cudaEvent_t e, f, got_event;
    int *d, *other, back[64] = {}, four[4] = {}, five[4] = {5, 6, 7, 8}, word = 0;
    T(cudaStreamCreate(&s));
    T(cudaEventCreate(&e));
    T(cudaEventCreate(&f));
    T(cudaMalloc(&d, sizeof back));
    T(cudaMalloc(&other, sizeof back));
    T(cudaMemset(other, 0, sizeof back));
    T(cudaGraphCreate(&g, 0));
    cudaMemsetParams fill = {}, fill_back = {};
    fill.dst = d; fill.value = 1; fill.elementSize = 4; fill.width = 64; fill.height = 1;
    T(cudaGraphAddMemsetNode(&set, g, NULL, 0, &fill));
    fill.value = 3;
    T(cudaGraphMemsetNodeSetParams(set, &fill));
    T(cudaGraphMemsetNodeGetParams(set, &fill_back));
    V("value %u element %u width %zu height %zu same %d", fill_back.value, fill_back.elementSize, fill_back.width, fill_back.height, fill_back.dst == d);
    int n = 64, by = 4;
    void *args[] = {&d, &n, &by};
    cudaKernelNodeParams params = {}, params_back = {};
    params.func = (void *)add; params.gridDim = dim3(2); params.blockDim = dim3(32); params.kernelParams = args;
    T(cudaGraphAddKernelNode(&kernel, g, &set, 1, &params));
    params.func = (void *)twice;
    T(cudaGraphKernelNodeSetParams(kernel, &params));
    T(cudaGraphKernelNodeGetParams(kernel, &params_back));
    V("twice %d grid %u block %u shared %u", params_back.func == (void *)twice, params_back.gridDim.x, params_back.blockDim.x, params_back.sharedMemBytes);
    params.func = (void *)&word;
    T(cudaGraphKernelNodeSetParams(kernel, &params));
    CLEAR();
    cudaKernelNodeAttrValue attribute;
    memset(&attribute, 0, sizeof attribute);
    T(cudaGraphKernelNodeGetAttribute(kernel, cudaLaunchAttributeCooperative, &attribute));
    V("cooperative %d", attribute.cooperative);
    T(cudaGraphAddMemcpyNode1D(&out, g, &kernel, 1, back, other, sizeof back, cudaMemcpyDeviceToHost));
    T(cudaGraphMemcpyNodeSetParams1D(out, back, d, sizeof back, cudaMemcpyDeviceToHost));
    T(cudaGraphMemcpyNodeSetParams1D(out, back, d, sizeof back, (cudaMemcpyKind)9));
    CLEAR();
    cudaMemcpy3DParms copy = {};
    T(cudaGraphMemcpyNodeGetParams(out, &copy));
    V("%zu %zu %zu kind %d same %d %d", copy.extent.width, copy.extent.height, copy.extent.depth, copy.kind, copy.srcPtr.ptr == d, copy.dstPtr.ptr == back);
    T(cudaGraphMemcpyNodeSetParams(out, &copy));
    T(cudaGraphAddMemcpyNodeToSymbol(&to, g, NULL, 0, box, five, 8, 8, cudaMemcpyHostToDevice));
    T(cudaGraphAddMemcpyNodeToSymbol(&to, g, NULL, 0, box, five, 8, 12, cudaMemcpyHostToDevice));
    CLEAR();
    T(cudaGraphAddMemcpyNodeFromSymbol(&from, g, &to, 1, four, box, 16, 0, cudaMemcpyDeviceToHost));
    T(cudaGraphMemcpyNodeSetParamsToSymbol(to, box, five, 8, 0, cudaMemcpyHostToDevice));
    T(cudaGraphMemcpyNodeSetParamsFromSymbol(from, four, box, 12, 4, cudaMemcpyDeviceToHost));
    cudaHostNodeParams call = {one, &word}, call_back = {};
    T(cudaGraphAddHostNode(&host, g, &out, 1, &call));
    T(cudaGraphHostNodeGetParams(host, &call_back));
    V("one %d word %d", call_back.fn == one, call_back.userData == &word);
    call.fn = ten;
    T(cudaGraphHostNodeSetParams(host, &call));
    T(cudaGraphAddEventRecordNode(&note, g, &host, 1, e));
    T(cudaGraphEventRecordNodeGetEvent(note, &got_event));
    V("same %d", got_event == e);
    T(cudaGraphEventRecordNodeSetEvent(note, f));
    T(cudaGraphAddEventWaitNode(&wait, g, &note, 1, f));
    T(cudaGraphEventWaitNodeGetEvent(wait, &got_event));
    V("same %d", got_event == f);
    T(cudaGraphEventWaitNodeSetEvent(wait, f));
    T(cudaGraphInstantiate(&x, g, 0));
    T(cudaGraphLaunch(x, s));
    T(cudaStreamSynchronize(s));
    V("back %d %d four %d %d %d %d word %d", back[0], back[63], four[0], four[1], four[2], four[3], word);
    params.func = (void *)add;
    by = 100;
    T(cudaGraphExecKernelNodeSetParams(x, kernel, &params));
    fill.value = 7;
    T(cudaGraphExecMemsetNodeSetParams(x, set, &fill));
    T(cudaGraphExecMemcpyNodeSetParams1D(x, out, back, d, 128, cudaMemcpyDeviceToHost));
    T(cudaGraphExecMemcpyNodeSetParamsToSymbol(x, to, box, five, 8, 8, cudaMemcpyHostToDevice));
    T(cudaGraphExecMemcpyNodeSetParamsFromSymbol(x, from, four, box, 16, 0, cudaMemcpyDeviceToHost));
    CLEAR();
    call.fn = one;
    T(cudaGraphExecHostNodeSetParams(x, host, &call));
    T(cudaGraphExecEventRecordNodeSetEvent(x, note, f));
    T(cudaGraphExecEventWaitNodeSetEvent(x, wait, f));
    T(cudaGraphLaunch(x, s));
    T(cudaStreamSynchronize(s));
    V("back %d %d word %d", back[0], back[63], word);
    cudaGraphNodeParams any = {};
    any.type = cudaGraphNodeTypeMemset;
    any.memset.dst = d; any.memset.value = 9; any.memset.elementSize = 4; any.memset.width = 64; any.memset.height = 1;
    T(cudaGraphNodeSetParams(set, &any));
    T(cudaGraphExecNodeSetParams(x, set, &any));
    T(cudaGraphLaunch(x, s));
    T(cudaStreamSynchronize(s));
    V("back %d %d", back[0], back[63]);
    cudaGraphExecUpdateResultInfo info = {};
    T(cudaGraphDestroyNode(wait));
    T(cudaGraphExecUpdate(x, g, &info));
    V("result %d", info.result);
    CLEAR();
    T(cudaGraphExecDestroy(x));
    T(cudaGraphDestroy(g));
    return 0;
}
