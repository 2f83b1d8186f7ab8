// Loads the library it is told to when it has long been running, as libcuda loads what
// CUDA_INJECTION64_PATH names; then calls.
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

unsigned cuInit(unsigned);

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    for (int i = 0; i < 10; i++) cuInit(0);
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*start)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : 0;
    if (!start || start() != 1) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (int i = 0; i < 1000; i++)
        if (cuInit(0) != 0) return 3;
    printf("expect %d cuInit 1000\n", getpid());
    return 0;
}
