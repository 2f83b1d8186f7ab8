// LD_PRELOAD=crash.so: if the program crashes, says where, for tests/gpu/attach.sh: registers, code, stack and mappings go to
// the file that CRASH_REPORT names.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

static char path[4096];

// Reads what may not be there.
static size_t peek(unsigned long at, void *into, size_t bytes) {
    struct iovec to = {into, bytes}, from = {(void *)at, bytes};
    ssize_t got = syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0);
    return got < 0 ? 0 : (size_t)got;
}

static void crashed(int signal, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    dprintf(file, "signal %d address %p thread %ld\n", signal, info->si_addr, syscall(SYS_gettid));
    static const char *names[] = {"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx",
                                  "rdx", "rax", "rcx", "rsp", "rip"};
    for (int i = 0; i < 17; i++) dprintf(file, "%s %llx\n", names[i], at->uc_mcontext.gregs[i]);
    unsigned long rip = at->uc_mcontext.gregs[REG_RIP], rsp = at->uc_mcontext.gregs[REG_RSP];
    unsigned char code[96];
    size_t got = peek(rip - 48, code, sizeof code);
    dprintf(file, "code from rip-48:");
    for (size_t i = 0; i < got; i++) dprintf(file, " %02x", code[i]);
    dprintf(file, "\nstack:\n");
    for (unsigned long word = 0, value; word < 400 && peek(rsp + 8 * word, &value, 8) == 8; word++)
        dprintf(file, "%lx %lx\n", rsp + 8 * word, value);
    int maps = open("/proc/self/maps", O_RDONLY);
    char text[4096];
    ssize_t length;
    dprintf(file, "mappings:\n");
    while ((length = read(maps, text, sizeof text)) > 0) write(file, text, length);
    close(file);
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(signal, &usual, NULL);
}

__attribute__((constructor)) static void watch(void) {
    const char *name = getenv("CRASH_REPORT");
    if (!name) return;
    snprintf(path, sizeof path, "%s", name);
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGTRAP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
}
