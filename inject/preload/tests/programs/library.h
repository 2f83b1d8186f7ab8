#pragma once
#include <csetjmp>
#include <cstddef>

struct Big { long values[5]; };
struct Pair { double x; long y; };
struct Two { long a, b; };

extern "C" {
long s_count(long a);
long s_eleven(long, long, long, long, long, long, long, long, long, long, long);
long s_twenty(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long);
double s_doubles(double, double, double, double, double, double, double, double, double, int);
float s_float(float, float);
long double s_long_double(long double);
int s_variadic(char *, size_t, const char *, ...);
Big s_big(Big, int);
Pair s_pair(Pair);
Two s_two(Two);
int s_set_errno(int);
int s_get_errno(void);
void s_throw(int);
void s_jump(jmp_buf *, int);
int s_nest(int, int (*)(int));
int s_call(int (*)(void));
int s_backtrace(void **, int);
void s_vectors(const double *, double *);
}
