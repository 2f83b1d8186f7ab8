/* System calls in a loop, and what one takes: getpid, read, an ioctl on a stand-in of the driver's
 * file, an open of a file that is not the driver's, a close and an unmapping likewise (with the call
 * that makes it possible). With '-driver' behind the kind, the program has used the driver's file
 * before. Prints nanoseconds a call.
 * With 'filter' as the last word, a seccomp filter that allows everything is put in before: the least
 * that any tracer costs whose filter the kernel asks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int allow_all(void)
{
    struct sock_filter line = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {1, &line};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int count, char **words)
{
    if (count != 4 && !(count == 5 && !strcmp(words[4], "filter"))) {
        fprintf(stderr, "calls KIND COUNT FOLDER [filter]\n");
        return 2;
    }
    if (count == 5 && allow_all()) {
        perror("seccomp");
        return 1;
    }
    const char *kind = words[1];
    long calls = atol(words[2]);
    char path[4096];
    snprintf(path, sizeof path, "%s/nvidiactl", words[3]);
    int driver = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int zero = open("/dev/zero", O_RDONLY);
    /* RM_FREE: root, parent, old, status. */
    unsigned parameters[4] = {1, 2, 3, 0};
    char byte;
    double best = 0;
    char what[64];
    snprintf(what, sizeof what, "%s", kind);
    char *end = strstr(what, "-driver");
    if (end) {
        *end = 0;
        ioctl(driver, 0xc0104629, parameters);
    }
    kind = what;
    /* The least of ten parts: the machine has other things to do. */
    for (int part = 0; part < 10; part++) {
        double start = now();
        for (long i = 0; i < calls / 10; i++) {
            if (!strcmp(kind, "getpid"))
                syscall(SYS_getpid);
            else if (!strcmp(kind, "read"))
                read(zero, &byte, 1);
            else if (!strcmp(kind, "ioctl"))
                ioctl(driver, 0xc0104629, parameters);
            else if (!strcmp(kind, "open"))
                close(open("/dev/null", O_RDONLY));
            else if (!strcmp(kind, "close"))
                close(dup(zero));
            else if (!strcmp(kind, "munmap"))
                munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
        }
        double took = (now() - start) / (calls / 10);
        if (part == 0 || took < best)
            best = took;
    }
    printf("%.1f\n", best);
    return 0;
}
