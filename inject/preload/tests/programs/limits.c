// Changes what it may do, and goes on calling, in threads and in children: "made N".
//   limits locked|space|nofile|children
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

long s_count(long);

static volatile unsigned long *made;

static void calls(long count) {
    for (long i = 0; i < count; i++)
        if (s_count(i) != i + 1) _exit(9);
    __atomic_fetch_add(made, count, __ATOMIC_RELAXED);
}

static void *work(void *unused) {
    calls(1000);
    return unused;
}

static void threads(int count) {
    for (int number = 0; number < count; number++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, 0) || pthread_join(thread, 0)) exit(4);
    }
}

// A line of /proc/self/status.
static long status(const char *key) {
    char line[200];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key));
    if (file) fclose(file);
    return value;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *which = argv[1];
    made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    calls(100);
    if (!strcmp(which, "locked")) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE)) return 7;
        threads(20);
        printf("locked %ld\n", status("VmRSS:"));
    } else if (!strcmp(which, "space")) {
        struct rlimit limit = {2l << 30, 2l << 30};
        if (setrlimit(RLIMIT_AS, &limit)) return 7;
        execl(argv[0], argv[0], "again", NULL);
        return 8;
    } else if (!strcmp(which, "again")) {
        threads(200);
        // What is left is the program's.
        char *room = mmap(0, 1800l << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) return 6;
        // Of the image before.
        *made += 100;
    } else {
        struct rlimit limit = {0, 0};
        if (setrlimit(RLIMIT_NOFILE, &limit)) return 7;
        threads(50);
        // More children than a file has rings for, if none were used again.
        for (int child = 0; child < 300; child++) {
            pid_t pid = fork();
            if (pid == 0) {
                calls(5);
                threads(2);
                _exit(5);
            }
            int result;
            if (pid < 0 || waitpid(pid, &result, 0) != pid || WEXITSTATUS(result) != 5) return 6;
        }
        calls(10);
    }
    printf("made %lu\n", *made);
    return 0;
}
