// NVTX: ranges of a thread, nested and in a domain of their own, ranges of the process that another
// thread ends, marks, registered and wide texts, colours, payloads and categories, around work on the
// GPU. Without a tool all of it does nothing.  nvtx [rounds]
#include "check.h"
#include <nvtx3/nvToolsExt.h>
#include <thread>

__global__ void add(int *data, int n, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += value;
}

static nvtxEventAttributes_t attributes() {
    nvtxEventAttributes_t all = {};
    all.version = NVTX_VERSION;
    all.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    return all;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    constexpr int N = 1024;
    int *data, host[N];

    nvtxRangePushA("set up");
    CUDA(cudaMalloc(&data, sizeof host));
    CUDA(cudaMemset(data, 0, sizeof host));
    nvtxRangePop();

    nvtxDomainHandle_t domain = nvtxDomainCreateA("steps");
    nvtxStringHandle_t step = nvtxDomainRegisterStringA(domain, "step");
    nvtxDomainNameCategoryA(domain, 7, "arithmetic");
    for (int round = 0; round < rounds; round++) {
        nvtxEventAttributes_t all = attributes();
        all.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        all.message.registered = step;
        all.category = 7;
        all.colorType = NVTX_COLOR_ARGB;
        all.color = 0xff00ff00;
        all.payloadType = NVTX_PAYLOAD_TYPE_INT64;
        all.payload.llValue = round;
        nvtxDomainRangePushEx(domain, &all);
        nvtxRangePushW(L"wide \u00e4\u2192");
        add<<<4, 128>>>(data, N, round);
        CUDA(cudaGetLastError());
        nvtxRangePop();
        nvtxDomainRangePop(domain);
    }
    nvtxMarkA("half way");

    // 100 letters: more than fit beside a call's other words.
    nvtxRangeId_t whole = nvtxRangeStartA("a range of the process, "
        "begun here and ended by a thread of its own, under a name of one hundred and eight letters x");
    std::thread other([&] {
        nvtxRangePushA("other thread");
        CUDA(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
        nvtxRangePop();
        nvtxRangeEnd(whole);
    });
    other.join();
    nvtxRangePushA("never popped");
    CUDA(cudaFree(data));

    int expected = rounds * (rounds - 1) / 2;
    for (int i = 0; i < N; i++) EXPECT(host[i] == expected, "element %d: %d, not %d", i, host[i], expected);
    fact("%d rounds inside of ranges: right", rounds);
    return pass("nvtx");
}
