// unusual CASE: a program that does something unusual while it calls CUDA, and counts its own calls. The case
// runs in a child; its parent prints how it ended and how many calls of cuDriverGetVersion were made in all:
// what a trace holds of them and what it counts as lost must add up to that.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
int cuInit(unsigned);
int cuDriverGetVersion(int *);
int cuDeviceGet(int *, int);
int cuCtxCreate_v2(void **, unsigned, int);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemsetD8_v2(unsigned long long, unsigned char, size_t);
int cuCtxSynchronize(void);

static atomic_long *made;
static char *self;

static void call(int times) {
    for (int i = 0; i < times; i++) {
        int version;
        // Counted first: a call that is under way when the process dies is recorded as open.
        (*made)++;
        cuDriverGetVersion(&version);
    }
}
static void init(void) {
    int device;
    void *context;
    unsigned long long address;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device) || cuMemAlloc_v2(&address, 4096) ||
        cuMemsetD8_v2(address, 1, 4096) || cuCtxSynchronize())
        printf("CUDA does not begin\n");
}
static void *calling(void *times) { return call((int)(long)times), NULL; }
static void threads(int count, int times) {
    for (int i = 0; i < count; i += 8) {
        pthread_t all[8];
        int now = count - i < 8 ? count - i : 8;
        for (int t = 0; t < now; t++) pthread_create(&all[t], 0, calling, (void *)(long)times);
        for (int t = 0; t < now; t++) pthread_join(all[t], 0);
    }
}
static void wait_for(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    printf("child %x\n", status);
}
static volatile int hits;
static void handler(int number) {
    call(1);
    hits += number > 0;
}
static sigjmp_buf back;
static void jumper(int number) { siglongjmp(back, number); }
static void every(int microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, 0);
}
static void *until_cancelled(void *is_async) {
    int before;
    if (is_async) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    for (;;) {
        call(1);
        pthread_testcancel();
    }
}
static int in_clone(void *unused) { return call(100), unused == 0 ? 5 : 6; }
static void *slow_worker(void *unused) {
    call(10);
    usleep(50000);
    call(10);
    return unused;
}
static void allow_only(const int *numbers, int count) {
    struct sock_filter filter[32] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    for (int i = 0; i < count; i++)
        filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], count - i, 0);
    filter[1 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[2 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {3 + count, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) perror("seccomp");
}

static int run(const char *what) {
#define CASE(name) if (!strcmp(what, name))
    CASE("plain") { init(); call(1000); return 7; }
    CASE("abort") { init(); call(100); abort(); }
    CASE("segv") { init(); call(100); *(volatile int *)8 = 1; }
    CASE("kill9") { init(); call(1000); kill(getpid(), 9); }
    CASE("_exit") { init(); call(100); _exit(78); }
    CASE("fork") {
        init();
        call(10);
        for (int i = 0; i < 10; i++) {
            pid_t child = fork();
            if (!child) { call(20); threads(2, 5); _exit(5); }
            wait_for(child);
        }
        call(10);
        return 0;
    }
    CASE("vfork") {
        init();
        for (int i = 0; i < 50; i++) {
            pid_t child = vfork();
            if (!child) { call(1); _exit(3); }
            int status;
            waitpid(child, &status, 0);
            if (WEXITSTATUS(status) != 3) printf("bad %x\n", status);
            call(1);
        }
        return 0;
    }
    CASE("exec") { init(); call(5); execl(self, self, "-direct", "plain", NULL); }
    CASE("spawn") {
        init();
        call(5);
        pid_t child;
        char *words[] = {self, "-direct", "plain", 0};
        posix_spawn(&child, self, 0, 0, words, environ);
        wait_for(child);
        return 0;
    }
    CASE("clone_vm") {
        init();
        char *stack = malloc(1 << 20);
        pid_t child = clone(in_clone, stack + (1 << 20), CLONE_VM | SIGCHLD, 0);
        call(100);
        wait_for(child);
        call(100);
        return 0;
    }
    CASE("threads") { init(); threads(300, 20); return 0; }
    CASE("churn") { init(); threads(2000, 3); return 0; }
    CASE("cancel") {
        init();
        for (int i = 0; i < 10; i++) {
            pthread_t thread;
            void *result;
            // A call that is cancelled on its way in was counted by the program alone.
            pthread_create(&thread, 0, until_cancelled, 0);
            usleep(200);
            pthread_cancel(thread);
            pthread_join(thread, &result);
            if (result != PTHREAD_CANCELED) puts("bad");
        }
        return 0;
    }
    CASE("signals") {
        init();
        signal(SIGALRM, handler);
        every(200);
        while (hits < 20) call(100);
        every(0);
        return 0;
    }
    CASE("altstack") {
        init();
        stack_t stack = {.ss_sp = malloc(16384), .ss_size = 16384};
        sigaltstack(&stack, 0);
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
        sigaction(SIGALRM, &action, 0);
        every(500);
        while (hits < 20) call(100);
        every(0);
        return 0;
    }
    CASE("sigjmp") {
        init();
        signal(SIGALRM, jumper);
        static volatile int jumps;
        sigsetjmp(back, 1);
        jumps++;
        if (jumps < 300) {
            every(300);
            for (;;) { int version; cuDriverGetVersion(&version); }
        }
        every(0);
        // How many were made is not known to anybody.
        *made = -1;
        return 0;
    }
    CASE("smallstack") {
        init();
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 16384);
        for (int i = 0; i < 50; i++) {
            pthread_t thread;
            pthread_create(&thread, &attributes, calling, (void *)20L);
            pthread_join(thread, 0);
        }
        return 0;
    }
    CASE("pthread_exit") {
        pthread_t thread;
        cuInit(0);
        pthread_create(&thread, 0, slow_worker, 0);
        pthread_exit(0);
    }
    CASE("closefds") {
        for (int i = 3; i < 1024; i++) close(i);
        init();
        for (int i = 3; i < 1024; i++) close(i);
        call(20000);
        threads(20, 20);
        return 0;
    }
    CASE("nofile") {
        struct rlimit none = {0, 0};
        init();
        setrlimit(RLIMIT_NOFILE, &none);
        threads(20, 20);
        return 0;
    }
    CASE("fsize") {
        struct rlimit little = {1000, 1000};
        init();
        setrlimit(RLIMIT_FSIZE, &little);
        call(1000);
        threads(20, 20);
        return 0;
    }
    CASE("chroot") {
        init();
        if (chroot("/proc/self/fd")) puts("no chroot");
        if (chdir("/")) puts("no root");
        threads(20, 20);
        pid_t child = fork();
        if (!child) { call(20); _exit(5); }
        wait_for(child);
        return 0;
    }
    CASE("setuid") {
        init();
        if (setgid(65534) || setuid(65534)) puts("no setuid");
        threads(20, 20);
        pid_t child = fork();
        if (!child) { call(20); threads(4, 5); _exit(5); }
        wait_for(child);
        return 0;
    }
    CASE("new_pids") {
        init();
        if (unshare(CLONE_NEWPID)) puts("no namespace");
        pid_t child = fork();
        if (!child) { call(20); threads(4, 5); _exit(5); }
        wait_for(child);
        return 0;
    }
    CASE("seccomp") {
        static const int allowed[] = {SYS_write, SYS_exit_group, SYS_futex, SYS_munmap};
        init();
        call(10);
        allow_only(allowed, 4);
        call(50000);
        _exit(6);
    }
    CASE("strict_seccomp") {
        init();
        call(10);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        call(10000);
        syscall(SYS_exit, 4);
    }
    CASE("reload") {
        for (int i = 0; i < 30; i++) {
            void *library = dlopen("libcudart.so.13", RTLD_NOW);
            int version, (*get)(int *) = library ? (int (*)(int *))dlsym(library, "cudaRuntimeGetVersion") : 0;
            if (!get || get(&version)) puts("bad");
            if (library) dlclose(library);
            call(1);
        }
        return 0;
    }
    return puts("no such case"), 99;
}

int main(int count, char **words) {
    self = words[0];
    int is_direct = count > 2 && !strcmp(words[1], "-direct");
    // Inherited by whatever is started, under a number that is passed on.
    int shared = is_direct && getenv("UNUSUAL_COUNT") ? atoi(getenv("UNUSUAL_COUNT")) : memfd_create("made", 0);
    if (!is_direct && ftruncate(shared, 4096)) return 98;
    made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    if (made == MAP_FAILED) return 97;
    if (is_direct) return run(words[2]);
    char text[16];
    snprintf(text, sizeof text, "%d", shared);
    setenv("UNUSUAL_COUNT", text, 1);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        int status = run(words[1]);
        fflush(stdout);
        exit(status);
    }
    int status;
    waitpid(child, &status, 0);
    printf("ended %x\n", status);
    // So does the first process of a PID namespace.
    if (*made >= 0) call(3);
    fprintf(stderr, "made %ld\n", (long)*made);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}
