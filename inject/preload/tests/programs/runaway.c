// A stand-in that leads back to what it stands in for, as none of cutrace's does: without an end to it, the
// stack ends.
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#ifdef STAND_IN
unsigned cutrace_stand_ins = 1;
void *cutrace_original_cuCtxGetCurrent;
int cutrace_instead_cuCtxGetCurrent(void **context) {
    static int (*function)(void **);
    if (!function) function = (int (*)(void **))dlsym(RTLD_DEFAULT, "cuCtxGetCurrent");
    return function(context);
}
#elif defined DRIVER
int cuInit(unsigned flags) { return flags != 0; }
int cuCtxGetCurrent(void **context) {
    *context = 0;
    return context == 0;
}
#else
int cuInit(unsigned);
int cuCtxGetCurrent(void **);

int main(void) {
    void *context = 0;
    // A ring that has grown is no less watched.
    for (int i = 0; i < 20000; i++) cuInit(0);
    int result = cuCtxGetCurrent(&context);
    for (int i = 0; i < 10; i++) result |= cuCtxGetCurrent(&context);
    printf("result %d\n", result);
    return 0;
}
#endif
