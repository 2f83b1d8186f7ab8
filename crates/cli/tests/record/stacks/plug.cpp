// A library that is loaded late: C++ names, exceptions, and a call that the program does not survive.
#include <cstdlib>

namespace plug {
struct Guard {
    int (*call)(unsigned);
    __attribute__((noinline)) ~Guard();
};

Guard::~Guard() { call(0); }

template <typename T> __attribute__((noinline)) int thrower(int (*call)(unsigned), T value) {
    Guard guard{call};
    throw value;
}

__attribute__((noinline)) void dies() { std::abort(); }
} // namespace plug

extern "C" int plug_call(int (*call)(unsigned)) {
    try {
        return plug::thrower<long>(call, 7);
    } catch (long value) {
        return call(0) + static_cast<int>(value);
    }
}

extern "C" int plug_die() {
    plug::dies();
    return 1;
}
