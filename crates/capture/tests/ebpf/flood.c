// "flood COUNT": two threads call two functions that often each. "flood until-eof": calls them until
// the input ends.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int flood_one(int), flood_two(int);

static long count;
static atomic_int over;

static void *work(void *unused) {
    long sum = 0;
    for (long i = 0; count ? i < count : !over; i++) {
        sum += flood_one(i) + flood_two(i);
        if (!count) usleep(200);
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    count = strcmp(argv[1], "until-eof") ? atol(argv[1]) : 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    char byte;
    if (!count)
        while (read(0, &byte, 1) > 0) {
        }
    over = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
