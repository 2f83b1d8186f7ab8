// One thread waits in each system call that can be interrupted, over and over, while children begin and end. None of
// them takes a signal: nothing but what is waited for may end a wait, and no wait may end early.
// Ends when its standard input does, and says "ok" and how many waits there were, or which went wrong.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<bool> over{false};
static std::atomic<long> waits{0}, forks{0};
static std::atomic<int> failures{0};
static const long LIMIT_NS = 150000000;
static const timespec LIMIT{0, LIMIT_NS};

static long now() {
    timespec at{};
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

static void fail(const char *what, long got, int error) {
    fprintf(stderr, "waits: %s: %ld (%s)\n", what, got, strerror(error));
    failures++;
}

// Ends by its time limit: `result`, with `error` if that is -1, and not early.
static void timed(const char *what, long result, int error, const std::function<long()> &wait) {
    while (!over) {
        long begin = now();
        errno = 0;
        long got = wait();
        int said = errno;
        if (got != result || (result == -1 && said != error)) fail(what, got, said);
        // Limits in milliseconds are rounded; those of sockets are counted in the kernel's ticks, which a busy machine delays.
        else if (now() - begin < LIMIT_NS - (strstr(what, "with a limit") ? 50000000 : 2000000)) fail((std::string(what) + " ended early, ns").c_str(), now() - begin, 0);
        waits++;
    }
}

// Ends when somebody makes it end.
static void fed(const char *what, long result, const std::function<long()> &wait) {
    while (!over) {
        errno = 0;
        long got = wait();
        int said = errno;
        if (got != result && !over) fail(what, got, said);
        waits++;
    }
}

static std::vector<std::thread> all;
static std::vector<std::function<void()>> feeders;
static void runs(std::function<void()> work) { all.emplace_back(work); }
static int pipe_end() { int ends[2]; return pipe(ends) == 0 ? ends[0] : -1; }

static void wait_for_files() {
    static int in = pipe_end();
    auto queue = [] {
        int queue = epoll_create1(0);
        epoll_event event{};
        event.events = EPOLLIN;
        epoll_ctl(queue, EPOLL_CTL_ADD, in, &event);
        return queue;
    };
    // Several: which of them the kernel wakes is its affair.
    for (int i = 0; i < 6; i++)
        runs([=] { int at = queue(); epoll_event event; timed("epoll_wait", 0, 0, [&] { return epoll_wait(at, &event, 1, 150); }); });
    runs([=] { int at = queue(); epoll_event event; sigset_t mask; sigfillset(&mask); timed("epoll_pwait", 0, 0, [&] { return epoll_pwait(at, &event, 1, 150, &mask); }); });
    runs([=] { int at = queue(); epoll_event event; timed("epoll_pwait2", 0, 0, [&] { return syscall(SYS_epoll_pwait2, at, &event, 1, &LIMIT, nullptr, 8); }); });
    runs([] { pollfd one{in, POLLIN, 0}; timed("poll", 0, 0, [&] { return poll(&one, 1, 150); }); });
    runs([] { pollfd one{in, POLLIN, 0}; sigset_t mask; sigfillset(&mask); timed("ppoll", 0, 0, [&] { return ppoll(&one, 1, &LIMIT, &mask); }); });
    // The kernel cannot write back how much is left.
    runs([] { pollfd one{in, POLLIN, 0}; timed("ppoll, limit read-only", 0, 0, [&] { return syscall(SYS_ppoll, &one, 1, &LIMIT, nullptr, 8); }); });
    auto select_in = [](timeval *limit) { fd_set set; FD_ZERO(&set); FD_SET(in, &set); return (long)select(in + 1, &set, nullptr, nullptr, limit); };
    runs([=] { timed("select", 0, 0, [&] { timeval limit{0, LIMIT_NS / 1000}; return select_in(&limit); }); });
    runs([] { timed("pselect", 0, 0, [] { fd_set set; FD_ZERO(&set); FD_SET(in, &set); return (long)pselect(in + 1, &set, nullptr, nullptr, &LIMIT, nullptr); }); });
}

static void sleep_in_every_way() {
    runs([] { timed("nanosleep", 0, 0, [] { timespec left; return (long)nanosleep(&LIMIT, &left); }); });
    runs([] { timed("clock_nanosleep to a time", 0, 0, [] { long until = now() + LIMIT_NS; timespec at{until / 1000000000L, until % 1000000000L}; return (long)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr); }); });
    runs([] { int word = 0; timed("futex with a limit", -1, ETIMEDOUT, [&] { return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &LIMIT, nullptr, 0); }); });
    runs([] { sem_t one; sem_init(&one, 0, 0); timed("sem_timedwait", -1, ETIMEDOUT, [&] { timespec at; clock_gettime(CLOCK_REALTIME, &at); at.tv_nsec += LIMIT_NS; if (at.tv_nsec >= 1000000000L) { at.tv_nsec -= 1000000000L; at.tv_sec++; } return (long)sem_timedwait(&one, &at); }); });
    runs([] { sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR2); timed("sigtimedwait", -1, EAGAIN, [&] { return (long)sigtimedwait(&set, nullptr, &LIMIT); }); });
    runs([] { aio_context_t context = 0; if (syscall(SYS_io_setup, 4, &context) != 0) return; io_event event; timed("io_getevents", 0, 0, [&] { timespec limit = LIMIT; return syscall(SYS_io_getevents, context, 1, 1, &event, &limit); }); });
    runs([] { static int word = 0; fed("futex", 0, [] { std::thread waker([] { usleep(120000); word = 1; syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }); word = 0; long got = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0); waker.join(); return got == 0 || errno == EAGAIN ? 0L : got; }); });
}

static void wait_for_peers() {
    // With a time limit, which the kernel answers otherwise than without.
    auto pair = [](int side[2], bool limited) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, side);
        timeval limit{0, LIMIT_NS / 1000};
        if (limited) setsockopt(side[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), setsockopt(side[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    };
    runs([=] { int side[2]; pair(side, true); char byte; timed("recv with a limit", -1, EAGAIN, [&] { return (long)recv(side[0], &byte, 1, 0); }); });
    runs([=] { int side[2]; pair(side, true); char byte; timed("read with a limit", -1, EAGAIN, [&] { return (long)read(side[0], &byte, 1); }); });
    runs([=] { int side[2]; pair(side, true); std::string much(1 << 20, 'x'); while (send(side[0], much.data(), much.size(), MSG_DONTWAIT) > 0) {} timed("send with a limit", -1, EAGAIN, [&] { return (long)send(side[0], much.data(), much.size(), 0); }); });
    runs([] { int at = socket(AF_UNIX, SOCK_STREAM, 0); sockaddr_un name{}; name.sun_family = AF_UNIX; snprintf(name.sun_path + 1, 64, "cutrace-waits-%d", getpid()); bind(at, (sockaddr *)&name, sizeof name); listen(at, 1); timeval limit{0, LIMIT_NS / 1000}; setsockopt(at, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit); timed("accept with a limit", -1, EAGAIN, [&] { return (long)accept(at, nullptr, nullptr); }); });
    static int stream[2], ends[2], counter, full[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, stream), pipe(ends), pipe(full);
    counter = eventfd(0, 0);
    feeders.push_back([] { send(stream[1], "x", 1, 0), write(ends[1], "x", 1), eventfd_write(counter, 1); });
    runs([] { fed("recv", 1, [] { char byte; return (long)recv(stream[0], &byte, 1, 0); }); });
    runs([] { fed("read of a pipe", 1, [] { char byte; return (long)read(ends[0], &byte, 1); }); });
    runs([] { fed("read of an eventfd", 8, [] { long value; return (long)read(counter, &value, 8); }); });
    runs([] { int at = timerfd_create(CLOCK_MONOTONIC, 0); itimerspec each{LIMIT, LIMIT}; timerfd_settime(at, 0, &each, nullptr); fed("read of a timerfd", 8, [&] { long value; return (long)read(at, &value, 8); }); });
    static char path[64];
    snprintf(path, sizeof path, "/tmp/cutrace-waits-%d", getpid());
    close(open(path, O_CREAT | O_RDWR, 0600));
    feeders.push_back([] { int at = open(path, O_WRONLY); write(at, "x", 1), close(at); });
    runs([] { int at = inotify_init(); inotify_add_watch(at, path, IN_CLOSE_WRITE); fed("read of an inotify", sizeof(inotify_event), [&] { char room[sizeof(inotify_event)]; return (long)read(at, room, sizeof room); }); });
    char much[65536] = {};
    while (fcntl(full[1], F_SETFL, O_NONBLOCK), write(full[1], much, sizeof much) > 0) {}
    fcntl(full[1], F_SETFL, 0);
    feeders.push_back([] { char room[4096]; read(full[0], room, sizeof room); });
    runs([] { static char block[4096]; fed("write of a full pipe", sizeof block, [] { return (long)write(full[1], block, sizeof block); }); });
    runs([] { fed("flock", 0, [] { int at = open(path, O_RDWR), other = open(path, O_RDWR); flock(at, LOCK_EX); std::thread later([=] { usleep(120000), flock(at, LOCK_UN), close(at); }); long got = flock(other, LOCK_EX); later.join(), close(other); return got; }); });
    runs([] { fed("fcntl lock", 0, [] { struct flock want{F_WRLCK, SEEK_SET, 0, 1, 0}, none{F_UNLCK, SEEK_SET, 0, 1, 0}; int at = open(path, O_RDWR), other = open(path, O_RDWR); fcntl(at, F_OFD_SETLKW, &want); std::thread later([&] { usleep(120000), fcntl(at, F_OFD_SETLK, &none); }); long got = fcntl(other, F_OFD_SETLKW, &want); later.join(), close(at), close(other); return got; }); });
}

static int semaphores, messages;
static void wait_for_system_v() {
    semaphores = semget(IPC_PRIVATE, 2, 0600);
    messages = msgget(IPC_PRIVATE, 0600);
    runs([] { timed("semtimedop", -1, EAGAIN, [] { sembuf down{0, -1, 0}; return (long)semtimedop(semaphores, &down, 1, &LIMIT); }); });
    feeders.push_back([] { sembuf up{1, 1, 0}; semop(semaphores, &up, 1); struct { long kind; char byte; } one{1, 'x'}; msgsnd(messages, &one, 1, IPC_NOWAIT); });
    runs([] { fed("semop", 0, [] { sembuf down{1, -1, 0}; return (long)semop(semaphores, &down, 1); }); });
    runs([] { fed("msgrcv", 1, [] { struct { long kind; char byte; } one; return (long)msgrcv(messages, &one, 1, 0, 0); }); });
    runs([] { char name[32]; snprintf(name, sizeof name, "/cutrace-%d", getpid()); mq_attr attr{}; attr.mq_maxmsg = 1, attr.mq_msgsize = 8; mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attr); mq_unlink(name); if (queue < 0) return; timed("mq_timedreceive", -1, ETIMEDOUT, [&] { timespec at; clock_gettime(CLOCK_REALTIME, &at); at.tv_nsec += LIMIT_NS; if (at.tv_nsec >= 1000000000L) { at.tv_nsec -= 1000000000L; at.tv_sec++; } char room[8]; return (long)mq_timedreceive(queue, room, 8, nullptr, &at); }); });
}

static pid_t child(int sleeps_us) {
    pid_t one = fork();
    if (one == 0) { if (sleeps_us) usleep(sleeps_us); _exit(0); }
    return one;
}

static void have_children() {
    // Each end of a child is a signal that the program ignores.
    for (int i = 0; i < 2; i++)
        runs([] { while (!over) { pid_t one = child(0); if (waitpid(one, nullptr, 0) != one) fail("waitpid", one, errno); forks++; usleep(1000); } });
    runs([] { fed("wait4", 1, [] { pid_t one = child(100000); return (long)(waitpid(one, nullptr, 0) == one); }); });
    runs([] { fed("waitid", 0, [] { siginfo_t info; return (long)waitid(P_PID, child(100000), &info, WEXITED); }); });
    // Ends while nobody waits for it.
    runs([] { timed("epoll_wait of a parent", 0, 0, [] { int queue = epoll_create1(0); epoll_event event; pid_t one = child(50000); long got = epoll_wait(queue, &event, 1, 150); close(queue); int error = errno; waitpid(one, nullptr, 0); errno = error; return got; }); });
}

int main() {
    wait_for_files();
    sleep_in_every_way();
    wait_for_peers();
    wait_for_system_v();
    have_children();
    std::thread feeder([] { while (!over) { usleep(100000); for (auto &feed : feeders) feed(); } });
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (char byte; read(0, &byte, 1) > 0;) {}
    over = true;
    // Those that are fed end by the last feeding.
    feeder.join();
    for (auto &feed : feeders) feed();
    for (std::thread &one : all) one.join();
    semctl(semaphores, 0, IPC_RMID), msgctl(messages, IPC_RMID, nullptr);
    char path[64];
    snprintf(path, sizeof path, "/tmp/cutrace-waits-%d", getpid());
    unlink(path);
    printf("%s waits=%ld forks=%ld\n", failures ? "FAILED" : "ok", waits.load(), forks.load());
    return failures ? 1 : 0;
}
