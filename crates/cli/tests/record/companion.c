// Calls the driver from four threads, and the allocator. With an argument, also uses memory after it
// was freed.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*count)(int *);

static void *work(void *nothing) {
    for (int i = 0; i < 100; i++) {
        int found;
        char *memory = malloc(100 + i);
        memset(memory, i, 100);
        count(&found);
        free(memory);
    }
    return nothing;
}

#ifdef OWN_OPTIONS
const char *__asan_default_options(void) { return "exitcode=77"; }
#endif

int main(int arguments, char **words) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return puts(dlerror()), 9;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    count = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    printf("init %d\n", init(0));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    puts("done");
    fflush(stdout);
    if (arguments > 1) {
        volatile char *memory = malloc(10);
        free((void *)memory);
        return memory[3];
    }
    return 3;
}
