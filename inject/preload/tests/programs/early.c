// Calls made before main: by constructors of a library and of the program, and of a library that is
// loaded later. Built as the library with -DLIBRARY.
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

unsigned cuInit(unsigned);

__attribute__((constructor)) static void early(void) {
    for (int i = 0; i < 5; i++) cuInit(0);
}

#ifndef LIBRARY
int main(int argc, char **argv) {
    if (argc > 1 && !dlopen(argv[1], RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    printf("expect %d cuInit %d\n", getpid(), argc > 1 ? 15 : 10);
    return 0;
}
#endif
