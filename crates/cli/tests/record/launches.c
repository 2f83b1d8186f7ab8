// Launches from several threads at once, each with a shape that tells it from its neighbours:
//   launches THREADS EACH [cupti|kill|load LIBRARY|on|mps SOCKET|served NAME]
// cupti: halfway the program begins to use CUPTI itself, as torch.profiler does, and prints how many
// kernels it saw of the rest. kill: dies by SIGKILL a second after the last launch. load: loads a library
// before it begins, as programs do that bring their own libcupti. on: goes on until no thread of the
// tracer's is left in it, a minute at most, and says so. mps: connects to a socket before it begins
// and stays connected, as the driver does with MPS's daemon for a while. served: the same with a socket whose
// name is in no folder, as its server's is. With FILL=N in its environment it leaves only so many bytes of /dev/shm.
#include "kernel.h"

#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int each;

static void *work(void *number) {
    unsigned thread = (unsigned)(size_t)number;
    void *stream = 0;
    check(set_current(context), "cuCtxSetCurrent");
    // Half of the threads share the default stream.
    if (thread % 2) check(stream_create(&stream, 0), "cuStreamCreate");
    for (int i = 0; i < each; i++)
        check(launch(function, 1 + i % 7, 1, 1, 1 + thread, 1, 1, 0, stream, 0, 0), "cuLaunchKernel");
    return 0;
}

// Takes all room of the file system that the session's folder is in, but for so many bytes.
static void fill(long but) {
    static char page[4096];
    FILE *file = fopen("/dev/shm/filled", "w");
    setvbuf(file, NULL, _IONBF, 0);
    long bytes = 0;
    while (fwrite(page, 1, sizeof page, file) == sizeof page) bytes += sizeof page;
    if (ftruncate(fileno(file), bytes - but)) exit(8);
    fclose(file);
}

static long seen;
static void give(unsigned char **buffer, size_t *size, size_t *most) {
    *size = 64 << 10;
    *buffer = malloc(*size);
    *most = 0;
}
static int (*next)(unsigned char *, size_t, unsigned **);
static void take(void *c, unsigned s, unsigned char *buffer, size_t size, size_t valid) {
    unsigned *record = 0;
    (void)c, (void)s, (void)size;
    while (next(buffer, valid, &record) == 0) seen += *record == 10;
    free(buffer);
}

static int is_watched(void) {
    char path[300], name[32] = "";
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fgets(name, sizeof name, file) && !strncmp(name, "cutrace-", 8)) found = 1;
        fclose(file);
    }
    if (tasks) closedir(tasks);
    return found;
}

static int connected(const char *name, int in_folder) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *start = address.sun_path + !in_folder;
    int length = snprintf(start, sizeof address.sun_path - 1, "%s", name) + !in_folder;
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t bytes = offsetof(struct sockaddr_un, sun_path) + length;
    return made >= 0 && connect(made, (struct sockaddr *)&address, bytes) == 0;
}

int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    const char *more = argc > 3 ? argv[3] : "";
    each = atoi(argv[2]);
    if (!strcmp(more, "load") && !dlopen(argv[4], RTLD_NOW)) return 4;
    if (!strcmp(more, "mps") && !connected(argv[4], 1)) return 5;
    if (!strcmp(more, "served") && !connected(argv[4], 0)) return 5;
    prepare("shaped");
    if (getenv("FILL")) fill(atol(getenv("FILL")));
    all(threads, work);
    if (!strcmp(more, "cupti")) {
        void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
        if (!cupti) return 3;
        int (*listen)(void *, void *) = dlsym(cupti, "cuptiActivityRegisterCallbacks");
        int (*enable)(int) = dlsym(cupti, "cuptiActivityEnable");
        int (*flush)(unsigned) = dlsym(cupti, "cuptiActivityFlushAll");
        next = dlsym(cupti, "cuptiActivityGetNextRecord");
        check(listen(give, take), "cuptiActivityRegisterCallbacks");
        check(enable(10), "cuptiActivityEnable");
        all(threads, work);
        flush(1);
        printf("seen %ld\n", seen);
    }
    if (!strcmp(more, "on")) {
        int watched = is_watched(), rounds = 0;
        for (; is_watched() && rounds < 6000; rounds++) usleep(10000);
        printf("%s, then %s\n", watched ? "watched" : "not watched", is_watched() ? "still" : "no more");
        all(threads, work);
    }
    if (!strcmp(more, "kill")) {
        sleep(1);
        kill(getpid(), SIGKILL);
    }
    return 0;
}
