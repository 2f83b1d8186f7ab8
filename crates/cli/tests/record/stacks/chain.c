// Calls cuInit by ways that are known: what the test expects is in the functions' names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STEP __attribute__((noinline, noclone))

static int (*cuInit)(unsigned);
static volatile int sink;

STEP int inner(unsigned number) {
    int result = cuInit(number);
    sink += result; // no tail call
    return result + 1;
}

STEP int middle(unsigned number) {
    volatile char room[300];
    room[number] = 1;
    int result = inner(number);
    sink += room[number];
    return result + 1;
}

STEP int outer(unsigned number) {
    int result = middle(number);
    sink += result;
    return result + 1;
}

STEP void *thread_body(void *unused) {
    outer(0);
    return unused;
}

STEP void handler(int signal) {
    (void)signal;
    inner(0);
    sink++;
}

STEP void interrupted(int own_stack) {
    static char stack[64 << 10];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handler, .sa_flags = own_stack ? SA_ONSTACK : 0};
    sigaltstack(&alternative, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sink++;
}

static ucontext_t before, within;

STEP void coroutine(void) {
    outer(0);
    sink++;
}

STEP void pivot(void) {
    const size_t bytes = 64 << 10;
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&within);
    within.uc_stack.ss_sp = stack;
    within.uc_stack.ss_size = bytes;
    within.uc_link = &before;
    makecontext(&within, coroutine, 0);
    swapcontext(&before, &within);
    munmap(stack, bytes);
}

// call_with(function, frame pointer, stack pointer or 0): calls it without unwind information, with
// registers as a corrupt or hostile program may leave them.
extern int call_with(int (*function)(unsigned), unsigned long frame, unsigned long stack);
__asm__(".text\n.globl call_with\n.type call_with, @function\ncall_with:\n"
        "push %rbp\npush %rbx\nmov %rsp, %rbx\nmov %rdi, %rax\nmov %rsi, %rbp\n"
        "test %rdx, %rdx\njz 1f\nmov %rdx, %rsp\n1: and $-16, %rsp\nxor %edi, %edi\ncall *%rax\n"
        "mov %rbx, %rsp\npop %rbx\npop %rbp\nret\n.size call_with, . - call_with\n");

STEP void hostile(void) {
    // The last bytes before memory that is not there.
    const size_t page = 4096;
    char *two = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(two + 7 * page, page, PROT_NONE);
    unsigned long end = (unsigned long)(two + 7 * page);
    memset(two, 0x41, 7 * page);
    unsigned long here = (unsigned long)__builtin_frame_address(0);
    unsigned long frames[] = {0,    8,       0xffffffffffffffff, 0x4141414141414141, end - 8,
                              here, here | 1, (unsigned long)&cuInit, end};
    for (size_t number = 0; number < sizeof frames / sizeof *frames; number++) {
        call_with(cuInit, frames[number], 0);
        call_with(cuInit, frames[number], end - 16);
    }
}

STEP void plugged(const char *path) {
    for (int round = 0; round < 2; round++) {
        void *plug = dlopen(path, RTLD_NOW);
        int (*plug_call)(int (*)(unsigned)) = (int (*)(int (*)(unsigned)))dlsym(plug, "plug_call");
        sink += plug_call(outer);
        dlclose(plug);
    }
}

int main(int count, char **words) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    cuInit = (int (*)(unsigned))dlsym(driver, "cuInit");
    const char *way = count > 1 ? words[1] : "plain";
    if (!strcmp(way, "plain")) {
        outer(0);
    } else if (!strcmp(way, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, thread_body, NULL);
        pthread_join(thread, NULL);
    } else if (!strcmp(way, "signal")) {
        interrupted(0);
    } else if (!strcmp(way, "signal stack")) {
        interrupted(1);
    } else if (!strcmp(way, "coroutine")) {
        pivot();
    } else if (!strcmp(way, "hostile")) {
        hostile();
    } else if (!strcmp(way, "plug")) {
        plugged(words[2]);
    } else {
        return 2;
    }
    puts("done");
    return 0;
}
