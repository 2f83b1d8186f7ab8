// Does everything at once that attaching must not disturb: threads that allocate, load libraries, throw exceptions,
// fork, wait in every way, take signals, begin and end, and call CUDA's driver all the while. Every result is checked.
// Ends when its standard input does, and says what it did: "ok" and counts, or what went wrong.
//   busy LIBCUDA LIBRARY-TO-LOAD
#include <atomic>
#include <condition_variable>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdexcept>
#include <string>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<bool> over{false};
static std::atomic<long> calls{0}, loads{0}, forks{0}, throws{0}, waits{0}, signals{0}, threads{0}, allocations{0};
static std::atomic<int> failures{0};
static const char *library;
static int (*get_version)(int *);
static int (*get_current)(void **);
static int (*mem_alloc)(unsigned long *, unsigned long);
static int (*mem_free)(unsigned long);
static int (*set_current)(void *);
static int (*fill)(unsigned long, unsigned char, unsigned long);
static int (*copy_back)(void *, unsigned long, unsigned long);
static void *context;

static void fail(const char *what, long value) {
    fprintf(stderr, "busy: %s: %ld (%s)\n", what, value, strerror(errno));
    failures++;
}

static void call_driver() {
    int version = 0;
    void *now = nullptr;
    if (get_version(&version) != 0 || version < 11000) fail("cuDriverGetVersion", version);
    if (get_current(&now) != 0 || now != context) fail("cuCtxGetCurrent", (long)now);
    unsigned long at = 0;
    if (mem_alloc(&at, 4096) != 0 || at == 0) return fail("cuMemAlloc", at);
    // Work for the GPU, which a library of cutrace's may stand in for.
    unsigned char byte = 0;
    if (fill(at, 7, 4096) != 0 || copy_back(&byte, at + 99, 1) != 0 || byte != 7) fail("cuMemsetD8", byte);
    if (mem_free(at) != 0) fail("cuMemFree", at);
    calls += 6;
}

static void keep_calling() {
    set_current(context);
    while (!over) {
        for (int i = 0; i < 50; i++) call_driver();
        if (set_current(context) != 0) fail("cuCtxSetCurrent", 0);
        usleep(200);
    }
}

static void keep_allocating() {
    std::vector<char *> held(200);
    unsigned seed = 7;
    while (!over) {
        for (int i = 0; i < 500; i++) {
            char *&one = held[rand_r(&seed) % held.size()];
            free(one);
            size_t size = 16 + rand_r(&seed) % 9000;
            one = (char *)malloc(size);
            memset(one, 1, size);
            allocations++;
        }
        usleep(300);
    }
    for (char *one : held) free(one);
}

static void keep_loading() {
    while (!over) {
        void *handle = dlopen(library, RTLD_NOW);
        if (!handle) fail("dlopen", 0);
        else if (dlclose(handle) != 0) fail("dlclose", 0);
        loads++;
        usleep(300);
    }
}

static void keep_forking() {
    while (!over) {
        pid_t child = fork();
        if (child < 0) { fail("fork", child); continue; }
        if (child == 0) {
            // Not dlopen: the parent may be in the middle of its own, which glibc does not allow for.
            free(malloc(1000));
            int version = 0;
            _exit(get_version(&version) == 0 && version >= 11000 ? 42 : 43);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child) fail("waitpid", child);
        else if (!WIFEXITED(status) || WEXITSTATUS(status) != 42) fail("a child's status", status);
        forks++;
        usleep(2000);
    }
}

static void keep_throwing() {
    while (!over) {
        try {
            throw std::runtime_error(std::string("number ") + std::to_string(throws.load()));
        } catch (const std::exception &one) {
            if (strncmp(one.what(), "number", 6) != 0) fail("an exception", 0);
        }
        throws++;
        if (throws % 64 == 0) usleep(100);
    }
}

// None of these takes a signal: nothing but what is waited for may end a wait.
static void keep_sleeping() {
    while (!over) {
        timespec wanted{0, 3000000}, left{}, begin{}, end{};
        clock_gettime(CLOCK_MONOTONIC, &begin);
        if (nanosleep(&wanted, &left) != 0) fail("nanosleep", left.tv_nsec);
        clock_gettime(CLOCK_MONOTONIC, &end);
        long took = (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
        if (took < 3000000) fail("a sleep was short", took);
        waits++;
    }
}

static void keep_polling(int kind) {
    int ends[2];
    if (pipe(ends) != 0) return fail("pipe", 0);
    int queue = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &event);
    while (!over) {
        int found = 0;
        errno = 0;
        if (kind == 0) found = epoll_wait(queue, &event, 1, 5);
        if (kind == 1) { pollfd one{ends[0], POLLIN, 0}; found = poll(&one, 1, 5); }
        if (kind == 2) { fd_set set; FD_ZERO(&set); FD_SET(ends[0], &set); timeval limit{0, 5000}; found = select(ends[0] + 1, &set, nullptr, nullptr, &limit); }
        if (kind == 3) { pollfd one{ends[0], POLLIN, 0}; timespec limit{0, 5000000}; sigset_t mask; sigfillset(&mask); found = ppoll(&one, 1, &limit, &mask); }
        if (found != 0) fail("a wait ended early", kind);
        waits++;
    }
    close(queue), close(ends[0]), close(ends[1]);
}

static void keep_reading() {
    int ends[2];
    if (pipe(ends) != 0) return fail("pipe", 0);
    std::thread writer([&] {
        while (!over) { usleep(4000); if (write(ends[1], "x", 1) != 1) fail("write", 0); }
        close(ends[1]);
    });
    for (char byte;;) {
        ssize_t got = read(ends[0], &byte, 1);
        if (got == 0) break;
        if (got != 1 || byte != 'x') fail("read", got);
        waits++;
    }
    writer.join();
    close(ends[0]);
}

static void keep_handing_over() {
    std::mutex lock;
    std::condition_variable changed;
    long given = 0, taken = 0;
    bool done = false;
    std::thread taker([&] {
        std::unique_lock<std::mutex> held(lock);
        while (!done) { changed.wait(held, [&] { return done || given > taken; }); taken = given; }
    });
    while (!over) {
        { std::lock_guard<std::mutex> held(lock); given++; }
        changed.notify_one();
        usleep(700);
        waits++;
    }
    { std::lock_guard<std::mutex> held(lock); done = true; }
    changed.notify_one();
    taker.join();
    if (taken != given) fail("handed over", given - taken);
}

static void keep_coming_and_going() {
    while (!over) {
        std::thread one([] { set_current(context); call_driver(); });
        one.join();
        threads++;
        usleep(500);
    }
}

static void on_signal(int) {
    int saved = errno;
    int version = 0;
    if (get_version(&version) != 0) fail("in a handler", version);
    timespec moment{0, 200000};
    nanosleep(&moment, nullptr);
    signals++;
    errno = saved;
}

// Takes signals, in the middle of allocating and of CUDA's calls.
static std::atomic<pid_t> taker{0};
static void keep_taking_signals() {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    set_current(context);
    taker = syscall(SYS_gettid);
    while (!over) {
        for (int i = 0; i < 20; i++) { free(malloc(100 + i * 700)); call_driver(); }
        // A handler may end this early.
        usleep(100);
    }
    taker = 0;
}

static void keep_signalling() {
    while (!over) {
        if (pid_t tid = taker) syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
        usleep(900);
    }
}

template <class F> static F find(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    if (!found) { fprintf(stderr, "busy: %s: %s\n", name, dlerror()); exit(3); }
    return (F)found;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    library = words[2];
    void *cuda = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (!cuda) { fprintf(stderr, "busy: %s\n", dlerror()); return 3; }
    auto init = find<int (*)(unsigned)>(cuda, "cuInit");
    auto create = find<int (*)(void **, unsigned, int)>(cuda, "cuCtxCreate_v2");
    get_version = find<int (*)(int *)>(cuda, "cuDriverGetVersion");
    get_current = find<int (*)(void **)>(cuda, "cuCtxGetCurrent");
    set_current = find<int (*)(void *)>(cuda, "cuCtxSetCurrent");
    mem_alloc = find<int (*)(unsigned long *, unsigned long)>(cuda, "cuMemAlloc_v2");
    fill = find<int (*)(unsigned long, unsigned char, unsigned long)>(cuda, "cuMemsetD8_v2");
    copy_back = find<int (*)(void *, unsigned long, unsigned long)>(cuda, "cuMemcpyDtoH_v2");
    mem_free = find<int (*)(unsigned long)>(cuda, "cuMemFree_v2");
    struct sigaction action{};
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, nullptr);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
    if (init(0) != 0 || create(&context, 0, 0) != 0) { fprintf(stderr, "busy: no device\n"); return 3; }
    std::vector<std::thread> all;
    all.emplace_back(keep_calling);
    all.emplace_back(keep_calling);
    all.emplace_back(keep_allocating);
    all.emplace_back(keep_loading);
    all.emplace_back(keep_forking);
    all.emplace_back(keep_throwing);
    all.emplace_back(keep_sleeping);
    for (int kind = 0; kind < 4; kind++) all.emplace_back(keep_polling, kind);
    all.emplace_back(keep_reading);
    all.emplace_back(keep_handing_over);
    all.emplace_back(keep_coming_and_going);
    all.emplace_back(keep_taking_signals);
    all.emplace_back(keep_signalling);
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (char byte; read(0, &byte, 1) > 0;) {}
    over = true;
    for (std::thread &one : all) one.join();
    printf("%s calls=%ld loads=%ld forks=%ld throws=%ld waits=%ld signals=%ld threads=%ld allocations=%ld\n",
           failures ? "FAILED" : "ok", calls.load(), loads.load(), forks.load(), throws.load(), waits.load(),
           signals.load(), threads.load(), allocations.load());
    return failures ? 1 : 0;
}
