// Waits of several threads, each for its own stream and its own event: waits THREADS EACH
// Each thread launches and waits for its stream EACH times, then records an event, waits for it and
// makes its stream wait for it; at the end the context is waited for once.
#include "kernel.h"

static int (*stream_synchronize)(void *), (*stream_wait)(void *, void *, unsigned);
static int (*event_create)(void **, unsigned), (*event_record)(void *, void *), (*event_synchronize)(void *);
static int each;

static void *work(void *unused) {
    void *stream, *event;
    (void)unused;
    check(set_current(context), "cuCtxSetCurrent");
    check(stream_create(&stream, 0), "cuStreamCreate");
    check(event_create(&event, 0), "cuEventCreate");
    for (int i = 0; i < each; i++) {
        check(launch(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0), "cuLaunchKernel");
        check(stream_synchronize(stream), "cuStreamSynchronize");
    }
    check(event_record(event, stream), "cuEventRecord");
    check(event_synchronize(event), "cuEventSynchronize");
    check(stream_wait(stream, event, 0), "cuStreamWaitEvent");
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    each = argc > 2 ? atoi(argv[2]) : 1;
    if (threads > 64) return 2;
    void *library = prepare("nothing");
    stream_synchronize = dlsym(library, "cuStreamSynchronize");
    event_create = dlsym(library, "cuEventCreate");
    event_record = dlsym(library, "cuEventRecord");
    event_synchronize = dlsym(library, "cuEventSynchronize");
    stream_wait = dlsym(library, "cuStreamWaitEvent");
    all(threads, work);
    return 0;
}
