// Calls the driver in bursts with rests between them: more in all than a ring holds.
#include <dlfcn.h>
#include <unistd.h>

enum { BURSTS = 40, CALLS = 1000 };

int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*launch)(void *, int, int, int, int, int, int, int, void *, void **, void **) =
        library ? dlsym(library, "cuLaunchKernel") : 0;
    if (!launch) return 1;
    for (int burst = 0; burst < BURSTS; burst++) {
        for (int call = 0; call < CALLS; call++) launch(0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
        usleep(20000);
    }
    return 0;
}
