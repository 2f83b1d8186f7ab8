// The one function of libstress.so that reload.c needs, in C: for other C libraries.
long s_count(long a) { return a + 1; }
