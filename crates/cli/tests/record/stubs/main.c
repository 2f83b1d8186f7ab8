// Loads libraries in the order given, then calls `work` of each that has it, twenty times what it does.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **names) {
    void *loaded[16];
    for (int i = 1; i < count; i++)
        if (!(loaded[i] = dlopen(names[i], RTLD_NOW | RTLD_LOCAL))) return puts(dlerror()), 80;
    for (int i = 1; i < count; i++) {
        int (*work)(int) = (int (*)(int))dlsym(loaded[i], "work");
        int result = work ? work(20) : 0;
        printf("library %d: %d\n", i, result);
        if (result) return result;
    }
    return 7;
}
