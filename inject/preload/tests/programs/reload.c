// Opens libstress.so, calls, closes it, several times over; and once in a namespace of its own,
// unless a second argument says that the loader has none.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    long made = 0;
    for (int round = 0; round < 20; round++) {
        void *library = 0;
#ifdef LM_ID_NEWLM
        if (round == 19 && argc < 3) library = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
#endif
        if (!library) library = dlopen(argv[1], RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        long (*count)(long) = (long (*)(long))dlsym(library, "s_count");
        for (long i = 0; i < 100; i++, made++)
            if (count(i) != i + 1) return 1;
        dlclose(library);
    }
    printf("expect %d s_count %ld\n", getpid(), made);
    return 0;
}
