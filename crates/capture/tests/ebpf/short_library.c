// Calls that take no time, calls that take some, one inside the other, and one that never returns.
#include <unistd.h>

int short_brief(int number) { return number + 1; }

int short_inner(int milliseconds) {
    usleep(milliseconds * 1000);
    return milliseconds;
}

// A call of the library's own that is seen, too.
int short_outer(int milliseconds, int *slept) {
    *slept = short_inner(milliseconds) + 1;
    return 7;
}

void short_last(void) { _exit(3); }
