// Makes calls where it is hard to record any, counts them itself and says so: "made N".  losses CASE [N]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int (*get_current)(void **);
// Shared with children.
static volatile unsigned long *made;
static pthread_barrier_t all_there;
static pthread_attr_t small;

static void calls(int count) {
    void *context;
    for (int call = 0; call < count; call++) get_current(&context);
    __atomic_fetch_add(made, count, __ATOMIC_RELAXED);
}

// Takes all room of the file system that the session's folder is in, but for so many bytes.
static void fill(long but) {
    static char page[4096];
    FILE *file = fopen("/dev/shm/filled", "w");
    setvbuf(file, NULL, _IONBF, 0);
    long bytes = 0;
    while (fwrite(page, 1, sizeof page, file) == sizeof page) bytes += sizeof page;
    if (ftruncate(fileno(file), bytes - but)) exit(8);
    fclose(file);
}

static void load(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    get_current = driver ? (int (*)(void **))dlsym(driver, "cuCtxGetCurrent") : 0;
    if (!get_current) exit(3);
}

static void *few(void *unused) {
    calls(5);
    return unused;
}

static void *held(void *unused) {
    calls(5);
    pthread_barrier_wait(&all_there);
    calls(1);
    return unused;
}

static void *hundred(void *unused) {
    calls(100);
    return unused;
}

static void at_once(int count, void *(*work)(void *)) {
    pthread_t *threads = malloc(count * sizeof *threads);
    pthread_barrier_init(&all_there, 0, count);
    for (int number = 0; number < count; number++)
        if (pthread_create(threads + number, &small, work, 0)) exit(4);
    for (int number = 0; number < count; number++) pthread_join(threads[number], 0);
    free(threads);
}

static void in_child(void (*work)(int), int count) {
    pid_t child = fork();
    if (child == 0) {
        work(count);
        _exit(5);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5) exit(6);
}

static sigjmp_buf back;
static volatile int jumped;

static void jump(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

// Out of signal handlers that interrupt calls: what was interrupted may have been made or not.
static void jumps(int count) {
    struct itimerval soon = {{0, 0}, {0, 150}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, jump);
    if (sigsetjmp(back, 1)) jumped++;
    if (jumped < count) {
        setitimer(ITIMER_REAL, &soon, 0);
        for (;;) calls(1);
    }
    setitimer(ITIMER_REAL, &never, 0);
    calls(10);
}

static void hold(int count) { at_once(count, held); }

static void threads_and_calls(int count) {
    calls(10);
    at_once(count, hundred);
}

static void limit(int what, rlim_t most) {
    struct rlimit both = {most, most};
    if (setrlimit(what, &both)) exit(7);
}

int main(int count, char **words) {
    if (count < 2) return 2;
    const char *which = words[1];
    int number = count > 2 ? atoi(words[2]) : 10;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    if (!strcmp(which, "fsize")) limit(RLIMIT_FSIZE, 1000);
    load();
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (!strcmp(which, "held")) hold(number);
    else if (!strcmp(which, "held-in-child")) in_child(hold, number);
    else if (!strcmp(which, "short"))
        for (int done = 0; done < number; done += 8) at_once(8, few);
    else if (!strcmp(which, "many")) {
        if (getenv("FILL")) fill(atol(getenv("FILL")));
        calls(number);
    }
    else if (!strcmp(which, "jumps")) jumps(number);
    else {
        calls(10);
        if (!strcmp(which, "setuid")) { if (setgid(65534) || setuid(65534)) return 8; }
        else if (!strcmp(which, "chroot")) { if (chroot(words[2]) || chdir("/")) return 8; number = 10; }
        else if (!strcmp(which, "nofile")) limit(RLIMIT_NOFILE, 0);
        else if (!strcmp(which, "pidns")) { if (unshare(CLONE_NEWPID)) return 8; }
        else if (strcmp(which, "fsize")) return 9;
        // A process whose children are in another namespace has no more threads.
        if (strcmp(which, "pidns")) threads_and_calls(number);
        in_child(threads_and_calls, number);
        if (strcmp(which, "pidns")) in_child(threads_and_calls, number);
        calls(10);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9;
    printf("made %lu seconds %.4f files %lu jumped %d\n", *made, seconds, (unsigned long)files.rlim_cur, jumped);
    return 0;
}
