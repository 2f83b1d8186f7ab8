// Device printf, checked by reading back what the program itself printed, and device assert, whose
// error ends the context's life and therefore comes last.
#include "check.h"
#include <algorithm>
#include <cassert>
#include <string>
#include <unistd.h>
#include <vector>

__global__ void speak(int *returned) {
    int block = blockIdx.x, thread = threadIdx.x;
    int count = printf("block %d thread %2u: %5.2f|%x|%s|%c|%lld|%%|%-4d|\n", block, thread, thread * 1.5f, 0xbeef + thread,
                       thread % 2 ? "odd" : "even", 'a' + thread, -5000000000ll * (block + 1), thread);
    if (block == 0 && thread == 0) *returned = count;
}

__global__ void quiet() { printf("no values\n"); }

__global__ void demand(int limit) {
    int value = threadIdx.x;
    assert(value < limit);
}

// What a piece of code writes to a file descriptor.
template <typename Code> static std::string written(int descriptor, FILE *stream, Code code) {
    FILE *file = tmpfile();
    EXPECT(file, "no temporary file");
    fflush(stream);
    int before = dup(descriptor);
    EXPECT(before >= 0 && dup2(fileno(file), descriptor) >= 0, "cannot redirect %d", descriptor);
    code();
    fflush(stream);
    EXPECT(dup2(before, descriptor) >= 0, "cannot restore %d", descriptor);
    close(before);
    std::string text;
    rewind(file);
    for (int c; (c = fgetc(file)) != EOF;) text += char(c);
    fclose(file);
    return text;
}

int main() {
    constexpr int BLOCKS = 3, THREADS = 4;
    int *returned, count = -1;
    CUDA(cudaMalloc(&returned, sizeof *returned));
    cudaError_t status = cudaSuccess;
    std::string text = written(1, stdout, [&] {
        speak<<<BLOCKS, THREADS>>>(returned);
        status = cudaDeviceSynchronize();
    });
    CUDA(status);
    std::vector<std::string> lines, expected;
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        lines.push_back(text.substr(at, end + 1 - at));
    for (int block = 0; block < BLOCKS; block++)
        for (int thread = 0; thread < THREADS; thread++) {
            char line[200];
            snprintf(line, sizeof line, "block %d thread %2u: %5.2f|%x|%s|%c|%lld|%%|%-4d|\n", block, unsigned(thread),
                     thread * 1.5, 0xbeef + thread, thread % 2 ? "odd" : "even", 'a' + thread,
                     -5000000000ll * (block + 1), thread);
            expected.push_back(line);
        }
    // Which block speaks first is not defined.
    std::sort(lines.begin(), lines.end());
    std::sort(expected.begin(), expected.end());
    EXPECT(lines == expected, "%zu lines, wrong text:\n%s", lines.size(), text.c_str());
    CUDA(cudaMemcpy(&count, returned, sizeof count, cudaMemcpyDeviceToHost));
    EXPECT(count == 8, "printf returned %d, not its 8 values", count);
    fact("%zu lines printed by the device right", lines.size());

    text = written(1, stdout, [&] {
        quiet<<<1, 33>>>();
        status = cudaDeviceSynchronize();
    });
    CUDA(status);
    std::string plain;
    for (int i = 0; i < 33; i++) plain += "no values\n";
    EXPECT(text == plain, "33 plain lines, wrong text:\n%s", text.c_str());
    fact("printf without values right");

    demand<<<2, 32>>>(32);
    CUDA(cudaDeviceSynchronize());
    fact("an assertion that holds is silent");
    text = written(2, stderr, [&] {
        demand<<<1, 32>>>(31);
        status = cudaDeviceSynchronize();
    });
    EXPECT(status == cudaErrorAssert, "a failed assertion gave %s", cudaGetErrorName(status));
    EXPECT(text.find("Assertion `value < limit` failed.") != std::string::npos &&
               text.find("printf_assert.cu:") != std::string::npos && text.find("thread: [31,0,0]") != std::string::npos &&
               text.find("block: [0,0,0]") != std::string::npos && text.find("thread: [30,") == std::string::npos,
           "the assertion said: %s", text.c_str());
    fact("a failed assertion says where and is an error");
    EXPECT_ERROR(cudaDeviceSynchronize(), cudaErrorAssert);
    fact("the error is sticky");
    return pass("printf_assert");
}
