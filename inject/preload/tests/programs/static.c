// A program with the runtime's functions linked in, as with libcudart_static.a, and one of its own
// that only sounds like it.
#include <stdio.h>
#include <unistd.h>

__attribute__((noinline)) static int cudaFree(void *pointer) { return pointer ? 0 : 1; }
__attribute__((noinline)) int cudaMalloc(void **pointer, unsigned long bytes) {
    *pointer = (void *)(bytes << 12);
    return 0;
}
__attribute__((noinline)) int cudaCheckMyself(int result) {
    __asm__ volatile("");
    return result;
}
__attribute__((constructor)) static void early(void) {
    void *pointer;
    cudaMalloc(&pointer, 1);
}

int main(void) {
    for (int i = 0; i < 10; i++) {
        void *pointer;
        cudaCheckMyself(cudaMalloc(&pointer, i + 1));
        cudaFree(pointer);
    }
    printf("expect %d cudaMalloc 11\nexpect %d cudaFree 10\n", getpid(), getpid());
    return 0;
}
