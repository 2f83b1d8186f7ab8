// What a program notices of threads that are not its own: own_threads signals | exit
// signals: a timer's handler must only ever run on the thread that there is. Status 1: it did not.
// exit: the main thread ends by itself; the process must end with the last of the others, at once.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*init)(unsigned), (*version)(int *);
static long own;
static volatile int elsewhere;
static double ended;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void handler(int signal) {
    (void)signal;
    if (syscall(SYS_gettid) != own) elsewhere++;
}

static void *worker(void *unused) {
    int number;
    (void)unused;
    version(&number);
    usleep(150000);
    puts("the last thread ends");
    ended = now();
    return 0;
}

static void at_exit(void) {
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, 0, &blocked);
    printf("exit handlers run%s%s\n", now() - ended < 0.5 ? "" : ", late",
           sigismember(&blocked, SIGTERM) ? ", without signals" : "");
    fflush(stdout);
}

int main(int count, char **arguments) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library || count < 2) return 2;
    init = dlsym(library, "cuInit");
    version = dlsym(library, "cuDriverGetVersion");
    own = syscall(SYS_gettid);
    if (!strcmp(arguments[1], "exit")) {
        pthread_t thread;
        atexit(at_exit);
        init(0);
        pthread_create(&thread, 0, worker, 0);
        pthread_exit(0);
    }
    signal(SIGALRM, handler);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, 0);
    init(0);
    for (double until = now() + 0.05; now() < until;) {}
    return elsewhere > 0;
}
