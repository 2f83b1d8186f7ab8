// Calls until it ends in the way it is told: "made COUNT" tells how many calls it had made.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unistd.h>
#include "library.h"

static int die_by_signal() { *(volatile int *)8 = 0; return 0; }
static int die_by_abort() { abort(); }
static int die_at_once() { _exit(3); }
static int end_in_order() { exit(4); }
static int wait_for_ever() { for (;;) pause(); }

int main(int argc, char **argv) {
    std::string how = argc > 1 ? argv[1] : "";
    long count = argc > 2 ? atol(argv[2]) : 1000;
    if (how == "busy") {
        // Until killed, on four threads.
        printf("ready\n");
        fflush(stdout);
        for (int t = 0; t < 4; t++) std::thread([] { for (long i = 0;; i++) s_count(i); }).detach();
        for (;;) pause();
    }
    for (long i = 0; i < count; i++) s_count(i);
    if (how == "exec") {
        // The same process, another program: what it recorded must stay.
        execl("/proc/self/exe", argv[0], "none", argv[2], (char *)nullptr);
        return 9;
    }
    printf("made %ld\n", count);
    fflush(stdout);
    if (how == "segv") s_call(die_by_signal);
    if (how == "abort") s_call(die_by_abort);
    if (how == "_exit") s_call(die_at_once);
    if (how == "exit") s_call(end_in_order);
    if (how == "wait") s_call(wait_for_ever);
    return 0;
}
