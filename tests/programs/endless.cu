// Does not end by itself: somebody presses Ctrl-C.
//   endless [HOW] [GRID] [BLOCK] [LAUNCHES]
//     once      so many launches, and that is all
//     loop      launches vectorAdd, waits for it, and again
//     wait      so many launches; when they are done it says so, and sleeps
//     kernel    the same, but a kernel that never ends is waited for
//     handler   as wait, with a handler for Ctrl-C that ends the program with 3
//     capture   so many launches; a stream is being captured as it says so, and is after a second, when what was
//               captured is launched so many times; then it ends
#include "check.h"
#include <csignal>
#include <cstdlib>
#include <string>
#include <unistd.h>

__global__ void vectorAdd(const float *a, const float *b, float *c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}

__global__ void forever(volatile int *stop) {
    while (!*stop) {
    }
}

static void say(const char *words) {
    fact("%s", words);
    fflush(stdout);
}

int main(int argc, char **argv) {
    std::string how = argc > 1 ? argv[1] : "once";
    int grid = int(argument(argc, argv, 2, 4)), block = int(argument(argc, argv, 3, 64));
    int launches = int(argument(argc, argv, 4, 1)), n = grid * block;
    if (how == "handler") signal(SIGINT, [](int) { exit(3); });
    float *a, *b, *c;
    for (float **each : {&a, &b, &c}) {
        CUDA(cudaMalloc(each, n * sizeof(float)));
        CUDA(cudaMemset(*each, 0, n * sizeof(float)));
    }
    for (long round = 0; how == "loop"; round++) {
        vectorAdd<<<grid, block>>>(a, b, c);
        CUDA(cudaDeviceSynchronize());
        if (round == 0) say("ready");
    }
    for (int i = 0; i < launches; i++) vectorAdd<<<grid, block>>>(a, b, c);
    CUDA(cudaDeviceSynchronize());
    if (how == "once") return 0;
    if (how == "kernel") {
        int *stop;
        CUDA(cudaHostAlloc(&stop, sizeof(int), cudaHostAllocDefault));
        *stop = 0;
        forever<<<1, 1>>>(stop);
        CUDA(cudaGetLastError());
        say("ready");
        CUDA(cudaDeviceSynchronize());
    }
    if (how == "capture") {
        cudaStream_t stream;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CUDA(cudaStreamCreate(&stream));
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        vectorAdd<<<grid, block, 0, stream>>>(a, b, c);
        say("ready");
        sleep(1);
        CUDA(cudaStreamEndCapture(stream, &graph));
        CUDA(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < launches; i++) CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaStreamSynchronize(stream));
        return 0;
    }
    say("ready");
    for (;;) sleep(60);
}
