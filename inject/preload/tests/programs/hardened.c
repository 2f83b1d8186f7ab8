// Refuses itself writable code, as hardened programs do, before it loads libstress.so. With a second
// argument it starts itself once more after that: hardened from the beginning.
#include <dlfcn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

int main(int argc, char **argv) {
    if (prctl(PR_SET_MDWE, 1L, 0L, 0L, 0L) != 0) {
        puts("cannot harden");
        return 0;
    }
    if (argc > 2) {
        execl("/proc/self/exe", argv[0], argv[1], (char *)0);
        return 3;
    }
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    long (*count)(long) = (long (*)(long))dlsym(library, "s_count");
    for (long i = 0; i < 1000; i++)
        if (count(i) != i + 1) return 1;
    printf("expect %d s_count 1000\n", getpid());
    return 0;
}
