// A loop of nothing but launches, with a wait now and then. Prints what one takes, and how fast the processor was:
//   launches COUNT      ns 4012.5 spin 1.02
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char text[] = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static double spin(void) {
    double begin = now();
    volatile unsigned total = 0;
    for (unsigned i = 0; i < 10000000; i++) total = total + (i & 7);
    return (now() - begin) / 1e7;
}

int main(int count, char **words) {
    long launches = count > 1 ? atol(words[1]) : 1000000;
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module, *function;
    if (!library) return 2;
    int (*init)(unsigned) = dlsym(library, "cuInit");
    int (*retain)(void **, int) = dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*set_current)(void *) = dlsym(library, "cuCtxSetCurrent");
    int (*load)(void **, const void *) = dlsym(library, "cuModuleLoadData");
    int (*get)(void **, void *, const char *) = dlsym(library, "cuModuleGetFunction");
    int (*wait)(void) = dlsym(library, "cuCtxSynchronize");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **) = dlsym(library, "cuLaunchKernel");
    if (init(0) || retain(&context, 0) || set_current(context) || load(&module, text)) return 3;
    if (get(&function, module, "nothing")) return 4;
    for (int i = 0; i < 10000; i++) launch(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
    wait();
    double before = spin(), begin = now();
    for (long i = 0; i < launches; i++) {
        if (launch(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)) return 5;
        if (i % 64 == 0) wait();
    }
    wait();
    double each = (now() - begin) / launches;
    printf("ns %.1f spin %.3f\n", each, (before + spin()) / 2);
    return 0;
}
