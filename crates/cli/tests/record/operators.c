// A program with operators: loads the library that is its argument, as Python loads PyTorch, and runs some. With a driver
// (softgpu's), each sets memory on the GPU.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long long memory;
static int (*set)(unsigned long long, unsigned char, size_t);

static void inside(void) {
    if (set(memory, 1, 4096)) abort();
}

int main(int argc, char **argv) {
    void *torch = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!torch) return fprintf(stderr, "%s\n", dlerror()), 2;
    void (*run)(int, void (*)(void)) = (void (*)(int, void (*)(void)))dlsym(torch, "run_operators");
    int steps = atoi(argv[2]);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda) {
        int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
        int (*retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
        int (*current)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
        int (*alloc)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))dlsym(cuda, "cuMemAlloc_v2");
        int (*wait)(void) = (int (*)(void))dlsym(cuda, "cuCtxSynchronize");
        set = (int (*)(unsigned long long, unsigned char, size_t))dlsym(cuda, "cuMemsetD8_v2");
        void *context;
        if (init(0) || retain(&context, 0) || current(context) || alloc(&memory, 4096)) return 3;
        run(steps, inside);
        if (wait()) return 4;
    } else {
        run(steps, 0);
    }
    if (argc > 3) {  // A worker, as DataLoader has.
        pid_t child = fork();
        if (child == 0) {
            run(1, 0);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
    }
    puts("done");
    return 0;
}
