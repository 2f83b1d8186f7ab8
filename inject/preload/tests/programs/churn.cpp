// Many short threads, each with a few calls: "expect PID s_count COUNT".
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>
#include "library.h"

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    for (long i = 0; i < rounds; i++) {
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; t++) threads.emplace_back([] { for (long i = 0; i < 5; i++) s_count(i); });
        for (auto &thread : threads) thread.join();
    }
    printf("expect %d s_count %ld\n", getpid(), rounds * 8 * 5);
    return 0;
}
