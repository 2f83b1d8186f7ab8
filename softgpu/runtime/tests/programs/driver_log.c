// A libcuda.so.1 that passes every call on to the real one and remembers its name, so that a
// program can print which driver calls a runtime call made. Covers what cuGetProcAddress hands
// out, which is everything a runtime library uses.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 1024

static const char *names[SLOTS];
void *driver_log_targets[SLOTS];
static int used;
static char text[1 << 20];
static size_t length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *real_library;
static int (*real_get)(const char *, void **, int, uint64_t, int *);

__attribute__((visibility("hidden"))) void driver_log_note(unsigned slot) {
    pthread_mutex_lock(&lock);
    const char *name = names[slot];
    size_t size = strlen(name);
    if (length + size + 2 < sizeof text) {
        if (length)
            text[length++] = ' ';
        memcpy(text + length, name, size + 1);
        length += size;
    }
    pthread_mutex_unlock(&lock);
}

// What was called since the last take, names with blanks between.
void driver_log_take(char *to, size_t size) {
    pthread_mutex_lock(&lock);
    snprintf(to, size, "%s", text);
    length = 0;
    text[0] = 0;
    pthread_mutex_unlock(&lock);
}

__asm__(".text\n"
        ".p2align 4\n"
        "driver_log_common:\n"
        "  push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %r8\n push %r9\n push %r11\n"
        "  sub $32, %rsp\n movdqu %xmm0, (%rsp)\n movdqu %xmm1, 16(%rsp)\n"
        "  mov %r11d, %edi\n"
        "  call driver_log_note\n"
        "  movdqu (%rsp), %xmm0\n movdqu 16(%rsp), %xmm1\n add $32, %rsp\n"
        "  pop %r11\n pop %r9\n pop %r8\n pop %rcx\n pop %rdx\n pop %rsi\n pop %rdi\n"
        "  mov driver_log_targets@GOTPCREL(%rip), %rax\n"
        "  jmp *(%rax,%r11,8)\n"
        ".p2align 4\n"
        "driver_log_thunks:\n"
        "slot = 0\n"
        ".rept 1024\n"
        "  .p2align 4\n"
        "  mov $slot, %r11d\n"
        "  jmp driver_log_common\n"
        "slot = slot + 1\n"
        ".endr\n");
extern char driver_log_thunks[];

static void open_real(void) {
    const char *path = getenv("DRIVER_LOG_REAL");
    real_library = dlopen(path ? path : "/usr/lib/x86_64-linux-gnu/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!real_library) {
        fprintf(stderr, "driver_log: %s\n", dlerror());
        exit(99);
    }
    real_get = dlsym(real_library, "cuGetProcAddress_v2");
}

int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_real);
    int result = real_get(symbol, function, version, flags, status);
    if (result != 0 || !*function)
        return result;
    // NVIDIA's runtime asks for this one first and uses what it gets for all the others.
    if (!strcmp(symbol, "cuGetProcAddress") && version >= 12000) {
        *function = (void *)cuGetProcAddress_v2;
        return result;
    }
    pthread_mutex_lock(&lock);
    int slot = 0;
    while (slot < used && driver_log_targets[slot] != *function)
        slot++;
    if (slot == used && used < SLOTS) {
        names[used] = strdup(symbol);
        driver_log_targets[used++] = *function;
    }
    if (slot < used)
        *function = driver_log_thunks + 16 * slot;
    pthread_mutex_unlock(&lock);
    return result;
}
