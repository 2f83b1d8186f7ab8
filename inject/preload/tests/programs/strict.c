// Gives up the processor's counter, and with strict seccomp all system calls but four, and goes on calling.
//   strict prctl|syscall|seccomp|tsc|after
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

long s_count(long);

#define CALLS 50000

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *way = argv[1];
    for (long i = 0; i < CALLS; i++) s_count(i);
    int done = 9;
    if (!strcmp(way, "prctl")) done = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(way, "syscall")) done = (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(way, "seccomp")) done = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0);
    if (!strcmp(way, "tsc")) done = prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    if (!strcmp(way, "after")) {
        // A filter that allows everything first.
        struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {1, code};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        done = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) || prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    }
    if (done != 0) return 3;
    for (long i = 0; i < CALLS; i++)
        if (s_count(i) != i + 1) syscall(SYS_exit, 1);
    write(1, "done\n", 5);
    syscall(SYS_exit, 4);
}
