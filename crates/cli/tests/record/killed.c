// Calls the driver from four threads until it is killed, and counts the calls that have returned in
// a file that outlives it.  killed FILE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4, APART = 8 };
static volatile unsigned long *returned;
static int (*get_current)(void **);

static void *work(void *number) {
    void *context;
    for (;;) {
        get_current(&context);
        returned[APART * (long)number]++;
        for (volatile int pause = 0; pause < 20000; pause++) {}
    }
}

int main(int count, char **words) {
    if (count < 2) return 2;
    int file = open(words[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, THREADS * APART * sizeof *returned)) return 3;
    returned = mmap(0, THREADS * APART * sizeof *returned, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (returned == MAP_FAILED || !driver) return 4;
    get_current = (int (*)(void **))dlsym(driver, "cuCtxGetCurrent");
    for (long number = 0; number < THREADS; number++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, (void *)number)) return 5;
    }
    for (;;) pause();
}
