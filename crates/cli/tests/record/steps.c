// A loop as training programs have it: some kernels, a wait, a few questions, a small copy.
//   steps STEPS MICROSECONDS [WORD=N …]
// MICROSECONDS is the pause in a step. slow=N: step N pauses for a second. stuck=N: the wait of step N takes four
// seconds, for work that does not end before. oom=N: step N asks for more memory than there is. questions=N,
// launches=N: so many more a step. start=N, stop=N: cuProfilerStart and cuProfilerStop before these steps. exit=N: its
// status. kill=N: the signal that it sends itself at the end. Prints a line for each step: its number and
// CLOCK_MONOTONIC in nanoseconds.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char text[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
                           ".visible .entry setup()\n{\nret;\n}\n"
                           ".visible .entry forward()\n{\nret;\n}\n"
                           ".visible .entry layer()\n{\nret;\n}\n"
                           ".visible .entry backward()\n{\nret;\n}\n";

static int words;
static char **word;

static long option(const char *name) {
    size_t length = strlen(name);
    for (int i = 3; i < words; i++)
        if (!strncmp(word[i], name, length) && word[i][length] == '=') return atol(word[i] + length + 1);
    return -1;
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void linger(void *nothing) {
    (void)nothing;
    usleep(4000000);
}

int main(int count, char **given) {
    words = count, word = given;
    if (count < 3) return 2;
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module, *function[4];
    if (!library) return 2;
    int (*init)(unsigned) = dlsym(library, "cuInit");
    int (*retain)(void **, int) = dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*set_current)(void *) = dlsym(library, "cuCtxSetCurrent");
    int (*load)(void **, const void *) = dlsym(library, "cuModuleLoadData");
    int (*get)(void **, void *, const char *) = dlsym(library, "cuModuleGetFunction");
    int (*allocate)(unsigned long long *, size_t) = dlsym(library, "cuMemAlloc_v2");
    int (*copy)(unsigned long long, const void *, size_t) = dlsym(library, "cuMemcpyHtoD_v2");
    int (*wait)(void) = dlsym(library, "cuCtxSynchronize");
    int (*call_host)(void *, void (*)(void *), void *) = dlsym(library, "cuLaunchHostFunc");
    int (*ask)(int *) = dlsym(library, "cuDriverGetVersion");
    int (*profiler_start)(void) = dlsym(library, "cuProfilerStart");
    int (*profiler_stop)(void) = dlsym(library, "cuProfilerStop");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **) = dlsym(library, "cuLaunchKernel");
    static const char *names[] = {"setup", "forward", "layer", "backward"};
    unsigned long long memory;
    int version;
    if (init(0) || retain(&context, 0) || set_current(context) || load(&module, text)) return 3;
    for (int i = 0; i < 4; i++)
        if (get(&function[i], module, names[i])) return 4;
    if (allocate(&memory, 4096)) return 5;
    char bytes[256] = {0};
    launch(function[0], 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
    launch(function[2], 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
    long steps = atol(given[1]), pause = atol(given[2]);
    for (long step = 0; step < steps; step++) {
        if (step == option("start")) profiler_start();
        if (step == option("stop")) profiler_stop();
        printf("step %ld %lld\n", step, now());
        fflush(stdout);
        static const int order[] = {1, 2, 2, 2, 3};
        for (int i = 0; i < 5; i++)
            if (launch(function[order[i]], 1, 1, 1, 1 + step % 1000, 1, 1, 0, 0, 0, 0)) return 6;
        copy(memory, bytes, sizeof bytes);
        for (long i = 0; i < option("questions"); i++) ask(&version);
        for (long i = 0; i < option("launches"); i++)
            if (launch(function[2], 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)) return 6;
        if (step == option("oom")) {
            unsigned long long more;
            printf("asked %d\n", allocate(&more, (size_t)1 << 60));
        }
        if (step == option("stuck") && call_host(0, linger, 0)) return 7;
        wait();
        if (pause) usleep(step == option("slow") ? 1000000 : pause);
    }
    printf("ended %lld\n", now());
    fflush(stdout);
    if (option("kill") > 0) kill(getpid(), option("kill"));
    return option("exit") > 0 ? option("exit") : 0;
}
