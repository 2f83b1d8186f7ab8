// "short COUNT MILLISECONDS": that many brief calls in each of three rounds, with a long one after each.
#include <stdlib.h>

int short_brief(int), short_outer(int, int *);
void short_last(void);

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int slept = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < atoi(argv[1]); i++) short_brief(i);
        short_outer(atoi(argv[2]), &slept);
    }
    short_last();
}
