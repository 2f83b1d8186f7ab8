// Calls the short functions of short.c by every way there is to them: linked, dlsym, the driver's own
// lookup, a pointer in a table. With "harden" it first gives up all ways of changing code, as hardened
// programs do, and starts itself again so that everything is loaded under that.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

unsigned cuInit(unsigned), cuDriverGetVersion(int *), cuCtxSynchronize(void);
unsigned cuGetProcAddress_v2(const char *, void **, int, unsigned long, int *);

// Filled by the loader.
static unsigned (*const table[])(unsigned) = {cuInit};

// No new executable files in memory, no writing to memory by file.
static int harden(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_MDWE, 1L, 0L, 0L, 0L) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "harden") == 0) {
        if (!harden()) {
            puts("cannot harden");
            return 0;
        }
        execl("/proc/self/exe", argv[0], (char *)0);
        return 3;
    }
    void *found = 0;
    int version;
    for (int i = 0; i < 100; i++) {
        if (cuInit(0) != 0 || table[0](0) != 0 || cuDriverGetVersion(&version) != 0) return 1;
        unsigned (*by_name)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "cuCtxSynchronize");
        if (!by_name || by_name() != 0) return 1;
        if (cuGetProcAddress_v2("cuCtxSynchronize", &found, 12000, 0, 0) != 0) return 1;
        if (((unsigned (*)(void))found)() != 0) return 1;
        if (cuGetProcAddress_v2("cuNothing", &found, 12000, 0, 0) != 500) return 1;
    }
    int pid = getpid();
    printf("expect %d cuInit 200\nexpect %d cuDriverGetVersion 100\n", pid, pid);
    printf("expect %d cuCtxSynchronize 200\nexpect %d cuGetProcAddress_v2 200\n", pid, pid);
    return 0;
}
