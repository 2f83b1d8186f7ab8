// Calls everything in libstress.so in every way that could go wrong, checks the results, and
// prints how many calls it made: "expect PID NAME COUNT".
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <string>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include "library.h"

static std::map<std::string, long> expected;
static int failures;
static std::atomic<long> signals;

#define CHECK(condition) \
    do { if (!(condition)) { failures++; fprintf(stderr, "line %d: %s\n", __LINE__, #condition); } } while (0)
#define CALLED(name, count) (expected[#name] += (count))

static void report() {
    for (auto &[name, count] : expected) printf("expect %d %s %ld\n", getpid(), name.c_str(), count);
    fflush(stdout);
}

static void on_alarm(int) {
    s_count(1);
    signals++;
}

static int down(int depth) { return s_nest(depth, down); }

static void arguments(int round) {
    long r = round;
    CHECK(s_eleven(r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) == r + 4 + 9 + 16 + 25 + 36 + 49 + 64 + 81 + 100 + 121);
    CHECK(s_twenty(1, 2, 4, 8, 16, 32, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, r) == ((63 ^ 13) ^ (r << 20)));
    CHECK(s_doubles(1, 2, 3, 4, 5, 6, 7, 8, 9, 2) == 2 * (1 + 4 + 9 + 16 + 25 + 36 + 49 + 64 + 81));
    CHECK(s_float(1.5f, 3) == 4.5f);
    CHECK(s_long_double(1.25L) == 2.5L);
    char text[64];
    s_variadic(text, sizeof text, "%d %.2f %s %.1f %ld", 7, 2.5, "text", 1.5, 1L << 40);
    CHECK(!strcmp(text, "7 2.50 text 1.5 1099511627776"));
    Big big = s_big({{1, 2, 3, 4, r}}, 3);
    CHECK(big.values[0] == 3 && big.values[4] == 3 * r);
    Pair pair = s_pair({1.5, r});
    CHECK(pair.x == 3 && pair.y == 3 * r);
    Two two = s_two({r, 9});
    CHECK(two.a == 9 && two.b == r);
    CHECK(s_set_errno(42) == 7 && errno == 42);
    errno = 17;
    CHECK(s_get_errno() == 17 && errno == 17);
    if (__builtin_cpu_supports("avx")) {
        double in[4] = {1, 2, 3, 4}, out[4];
        s_vectors(in, out);
        CHECK(out[3] == 8);
        CALLED(s_vectors, 1);
    }
    CALLED(s_eleven, 1), CALLED(s_twenty, 1), CALLED(s_doubles, 1), CALLED(s_float, 1), CALLED(s_long_double, 1);
    CALLED(s_variadic, 1), CALLED(s_big, 1), CALLED(s_pair, 1), CALLED(s_two, 1), CALLED(s_set_errno, 1), CALLED(s_get_errno, 1);
}

static void unwinding() {
    for (int i = 0; i < 100; i++) {
        try {
            s_throw(i);
            CHECK(!"thrown");
        } catch (int value) {
            CHECK(value == i);
        }
        static jmp_buf where;
        int value = setjmp(where);
        if (value == 0) s_jump(&where, i + 1);
        CHECK(value == i + 1);
    }
    // Through two hooked frames at once.
    try {
        s_call([]() -> int { s_throw(5); return 0; });
    } catch (int value) {
        CHECK(value == 5);
    }
    CALLED(s_throw, 101), CALLED(s_jump, 100), CALLED(s_call, 1);
    CHECK(s_nest(50, down) == 50);
    CALLED(s_nest, 51);
    void *frames[64];
    int depth = s_backtrace(frames, 64);
    CALLED(s_backtrace, 1);
    // Through the hook up to main and beyond.
    bool found = false;
    for (int i = 0; i < depth; i++) {
        Dl_info info;
        if (dladdr(frames[i], &info) && info.dli_sname && !strcmp(info.dli_sname, "main")) found = true;
    }
    CHECK(found);
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1000, threads = argc > 2 ? atol(argv[2]) : 40;
    for (int i = 0; i < 200; i++) arguments(i);
    unwinding();

    struct sigaction action = {};
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, nullptr);
    for (long i = 0; i < rounds * 100; i++) CHECK(s_count(i) == i + 1);
    itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    CALLED(s_count, rounds * 100);

    std::vector<std::thread> running;
    std::atomic<long> wrong = 0;
    for (long t = 0; t < threads; t++)
        running.emplace_back([&, t] {
            for (long i = 0; i < rounds; i++) wrong += s_eleven(t, i, 0, 0, 0, 0, 0, 0, 0, 0, 1) != t + 2 * i + 11;
        });
    for (auto &thread : running) thread.join();
    CHECK(wrong == 0);
    CALLED(s_eleven, rounds * threads);

    // A child of fork, one of a raw clone, and one that forks inside a hooked call.
    fflush(stdout);
    for (int kind = 0; kind < 3; kind++) {
        auto child = [&]() -> int {
            expected.clear();
            for (int i = 0; i < 500; i++) CHECK(s_count(i) == i + 1);
            CALLED(s_count, 500);
            report();
            _exit(failures != 0);
            return 0;
        };
        pid_t pid;
        if (kind == 0) pid = fork();
        else if (kind == 1) pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        else {
            CALLED(s_call, 1);
            pid = s_call([]() -> int { return fork(); });
        }
        if (pid == 0) child();
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    expected["s_count"] += signals;
    report();
    fprintf(stderr, "%d failures\n", failures);
    return failures != 0;
}
