/* Ioctls on a stand-in of the driver's file, in every way that is hard on a tracer.
 *   syscalls CASE FOLDER [NUMBER]
 * A plain file answers ENOTTY. Anything else is a tracer that harms: exit status 1. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *self, *folder;
static int driver = -1, expected = ENOTTY;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void open_driver(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/nvidiactl", folder);
    driver = open(path, O_RDWR | O_CLOEXEC);
    if (driver < 0)
        fail(path);
}

static void ask(void)
{
    /* RM_FREE: root, parent, old, status. */
    unsigned parameters[4] = {1, 2, 3, 0};
    if (ioctl(driver, 0xc0104629, parameters) != -1 || errno != expected)
        fail("ioctl");
}

static void ask_times(long count)
{
    while (count-- > 0)
        ask();
}

static void *ask_in_thread(void *count)
{
    ask_times((long)count);
    return NULL;
}

static void wait_for(pid_t child)
{
    int status;
    if (waitpid(child, &status, __WALL) != child)
        fail("waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("child");
}

static void *exec_in_thread(void *number)
{
    execl(self, self, "plain", folder, number, NULL);
    fail("exec");
    return NULL;
}

static volatile sig_atomic_t alarms;

static void count_alarm(int signal)
{
    (void)signal;
    alarms++;
}

/* A filter that answers one system call with an error, and allows the rest. */
static void filter(int number, int error)
{
    struct sock_filter program[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog all = {4, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        fail("seccomp");
}

static void stopped_and_continued(void)
{
    int status, seen[2];
    char byte;
    if (pipe(seen) != 0)
        fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        /* Terminal stops do nothing to a group that nobody of another group cares for. */
        setpgid(0, 0);
        ask();
        raise(SIGSTOP);
        ask();
        /* Once it is stopped again or gone, nobody is told that it had been continued. */
        if (read(seen[0], &byte, 1) != 1)
            fail("read");
        raise(SIGTSTP);
        ask();
        if (read(seen[0], &byte, 1) != 1)
            fail("read");
        _exit(0);
    }
    for (int round = 0; round < 2; round++) {
        if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
            fail("stopped");
        /* It must stay so. */
        usleep(20000);
        if (waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED) != 0)
            fail("stays stopped");
        kill(child, SIGCONT);
        if (waitpid(child, &status, WCONTINUED) != child || !WIFCONTINUED(status))
            fail("continued");
        if (write(seen[1], "", 1) != 1)
            fail("write");
    }
    wait_for(child);
}

/* Says in a file how it went: nobody waits for it. */
static void tell(const char *words)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/said", folder);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(file, words, strlen(words)) < 0)
        _exit(1);
    close(file);
}

static void ask_for(double seconds)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    unsigned parameters[4] = {1, 2, 3, 0};
    do {
        errno = 0;
        if (ioctl(driver, 0xc0104629, parameters) != -1 || errno != ENOTTY) {
            tell(errno == ENOSYS ? "ENOSYS\n" : "another error\n");
            _exit(1);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) * 1e-9 < seconds);
    tell("well\n");
}

/* Goes on asking while the tracer is killed and another takes over: only a moment may be bad. */
static void *ask_through(void *milliseconds)
{
    struct timespec begin, now, first = {0}, last = {0};
    long failed = 0, passed;
    unsigned parameters[4] = {1, 2, 3, 0};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        errno = 0;
        int result = ioctl(driver, 0xc0104629, parameters);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (result == -1 && errno == ENOSYS) {
            first = failed++ ? first : now;
            last = now;
        } else if (result != -1 || errno != ENOTTY) {
            tell("another error\n");
            _exit(1);
        }
        passed = (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
    } while (passed < (long)milliseconds);
    double quiet = now.tv_sec - last.tv_sec + (now.tv_nsec - last.tv_nsec) * 1e-9;
    double bad = last.tv_sec - first.tv_sec + (last.tv_nsec - first.tv_nsec) * 1e-9;
    char words[100];
    snprintf(words, sizeof words, "%s: %ld failed in %.0f us\n", failed && quiet < 0.3 ? "ENOSYS" : "well", failed, bad * 1e6);
    tell(words);
    return NULL;
}

/* Until the test says so. */
static void wait_to_go(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/go", folder);
    while (access(path, F_OK))
        usleep(1000);
}

static void *go_and_ask(void *count)
{
    wait_to_go();
    ask_times((long)count);
    return NULL;
}

/* Has a process as a debugger has it, until it is told to let go. */
static void hold(pid_t process)
{
    if (ptrace(PTRACE_SEIZE, process, NULL, NULL))
        fail("seize");
    tell("held\n");
    wait_to_go();
}

static pthread_barrier_t opened;

/* A thread that was there before the driver's file was opened. */
static void *close_others(void *unused)
{
    char path[4096];
    (void)unused;
    pthread_barrier_wait(&opened);
    snprintf(path, sizeof path, "%s/nvidia-uvm", folder);
    for (int i = 0; i < 10; i++) {
        int other = open("/dev/null", O_RDONLY), uvm = open(path, O_RDWR | O_CLOEXEC);
        if (other < 0 || uvm < 0 || close(other) || close(uvm))
            fail("close in a thread");
    }
    return NULL;
}

/* Some, soon: where every signal takes long, others would leave no time for anything else. */
static void count_a_few(int signal)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    (void)signal;
    if (++alarms >= 20)
        setitimer(ITIMER_REAL, &never, NULL);
}

/* Nothing of a thread's may be other than it was: signals that came while it was away come now. */
static void closes(long threads)
{
    char path[4096];
    struct sigaction action = {.sa_handler = count_a_few};
    struct itimerval often = {{0, 200}, {0, 200}};
    pthread_t others[64];
    snprintf(path, sizeof path, "%s/nvidia-uvm", folder);
    pthread_barrier_init(&opened, NULL, threads + 1);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&others[i], NULL, close_others, NULL))
            fail("thread");
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    open_driver();
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    pthread_barrier_wait(&opened);
    int copy = dup(driver), other = open("/dev/null", O_RDWR), uvm = open(path, O_RDWR | O_CLOEXEC);
    if (memcmp(&before, &after, sizeof before) || driver < 0 || uvm < 0)
        fail("signals");
    char *memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, uvm, 0);
    char *plain = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || plain == MAP_FAILED)
        fail("mmap");
    memory[0] = 1;
    if (munmap(plain, 4096) || munmap(memory + 4096, 4096) || munmap(memory, 3 * 4096))
        fail("munmap");
    if (close(other) || close(copy) || close(uvm))
        fail("close");
    while (alarms < 3)
        ;
    for (long i = 0; i < threads; i++)
        pthread_join(others[i], NULL);
    if (close(driver) || close(driver) != -1)
        fail("close");
}

/* A debugger under a tracer: its child is traced already, and says so. */
static void debug(void)
{
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != -1 || errno != EPERM)
            fail("traceme");
        ask();
        _exit(0);
    }
    wait_for(child);
}

int main(int count, char **words)
{
    if (count < 3)
        return 2;
    self = words[0];
    folder = words[2];
    const char *what = words[1];
    long number = count > 3 ? atol(words[3]) : 1;
    int opens_itself = !strcmp(what, "closes") || !strcmp(what, "own_filter_first");
    if (strcmp(what, "late") && strcmp(what, "hold") && !opens_itself)
        open_driver();
    if (!strcmp(what, "plain")) {
        ask_times(number);
    } else if (!strcmp(what, "threads")) {
        pthread_t threads[256];
        for (long i = 0; i < number; i++)
            if (pthread_create(&threads[i], NULL, ask_in_thread, (void *)20L))
                fail("thread");
        for (long i = 0; i < number; i++)
            pthread_join(threads[i], NULL);
    } else if (!strcmp(what, "forks")) {
        for (long i = 0; i < number; i++) {
            pid_t child = fork();
            if (child == 0) {
                ask();
                _exit(0);
            }
            wait_for(child);
        }
    } else if (!strcmp(what, "vfork")) {
        pid_t child = vfork();
        if (child == 0) {
            execl(self, self, "plain", folder, "3", NULL);
            _exit(1);
        }
        ask();
        wait_for(child);
    } else if (!strcmp(what, "clone3")) {
        struct clone_args arguments = {.exit_signal = SIGCHLD};
        pid_t child = syscall(SYS_clone3, &arguments, sizeof arguments);
        if (child == 0) {
            ask();
            _exit(0);
        }
        ask();
        wait_for(child);
    } else if (!strcmp(what, "exec")) {
        pthread_t thread;
        ask();
        pthread_create(&thread, NULL, exec_in_thread, "3");
        pthread_join(thread, NULL);
        return 1;
    } else if (!strcmp(what, "stops")) {
        stopped_and_continued();
    } else if (!strcmp(what, "signals")) {
        struct sigaction action = {.sa_handler = count_alarm};
        struct itimerval often = {{0, 500}, {0, 500}};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
        ask_times(number);
        while (alarms < 20)
            ask();
    } else if (!strcmp(what, "seccomp")) {
        filter(SYS_getppid, 77);
        ask_times(number);
        if (syscall(SYS_getppid) != -1 || errno != 77)
            fail("its own filter");
        filter(SYS_ioctl, 78);
        expected = 78;
        ask();
    } else if (!strcmp(what, "daemon")) {
        if (fork() == 0) {
            setsid();
            close(0), close(1), close(2);
            usleep(900000);
            ask_for(0.1);
            _exit(0);
        }
    } else if (!strcmp(what, "lasting")) {
        tell("begun\n");
        ask_for(number / 1000.0);
    } else if (!strcmp(what, "descriptors")) {
        /* Numbers change hands behind the tracer's back. */
        char path[4096];
        snprintf(path, sizeof path, "%s/nvidia-uvm", folder);
        int uvm = open(path, O_RDWR | O_CLOEXEC), copy = dup(driver);
        unsigned long free[3] = {0x1000, 0x2000, 0};
        ioctl(uvm, 34, free);
        dup2(uvm, driver);
        ioctl(driver, 34, free);
        driver = copy;
        ask();
        void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, uvm, 0);
        if (memory == MAP_FAILED)
            fail("mmap");
        munmap(memory, 4096);
    } else if (!strcmp(what, "late")) {
        /* For those who attach: when the test says so. */
        tell("begun\n");
        wait_to_go();
        open_driver();
        ask_times(number);
        tell("well\n");
    } else if (!strcmp(what, "late_threads")) {
        pthread_t threads[256];
        for (long i = 0; i < number; i++)
            if (pthread_create(&threads[i], NULL, go_and_ask, (void *)5L))
                fail("thread");
        tell("begun\n");
        for (long i = 0; i < number; i++)
            pthread_join(threads[i], NULL);
        tell("well\n");
    } else if (!strcmp(what, "late_filter")) {
        filter(SYS_getppid, 77);
        tell("begun\n");
        wait_to_go();
        ask_times(number);
        if (syscall(SYS_getppid) != -1 || errno != 77)
            fail("its own filter");
        tell("well\n");
    } else if (!strcmp(what, "through")) {
        /* A process of two threads, and its child. */
        pid_t child = fork();
        if (child == 0) {
            ask_through((void *)number);
            _exit(0);
        }
        pthread_t thread;
        pthread_create(&thread, NULL, ask_through, (void *)number);
        char words[100];
        snprintf(words, sizeof words, "begun %d\n", getpid());
        tell(words);
        ask_through((void *)number);
        pthread_join(thread, NULL);
        wait_for(child);
    } else if (!strcmp(what, "hold")) {
        hold(number);
    } else if (!strcmp(what, "closes")) {
        closes(number);
    } else if (!strcmp(what, "own_filter_first")) {
        filter(SYS_seccomp, 79);
        open_driver();
        ask();
        close(driver);
    } else if (!strcmp(what, "debug")) {
        debug();
    } else if (!strcmp(what, "rights")) {
        ask();
        tell(geteuid() == 0 ? "root\n" : "ordinary\n");
    } else {
        return 2;
    }
    return 0;
}
