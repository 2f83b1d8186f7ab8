// Ends in the middle of a call that is traced.
#include <dlfcn.h>
static volatile int sink;
__attribute__((noinline)) static void last_words(int (*die)(void)) { sink = die(); }
int main(int count, char **words) {
    if (count != 2) return 2;
    void *plug = dlopen(words[1], RTLD_NOW);
    last_words((int (*)(void))dlsym(plug, "plug_die"));
    return sink;
}
