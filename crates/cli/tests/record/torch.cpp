// Stands in for libtorch_cpu.so: what cutrace calls and reads of it, laid out as in PyTorch's headers (-DOLD: as 2.1 to 2.3
// with the strings before C++11), and a few operators to run. Nothing of it is PyTorch's code.
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace at {
enum class RecordScope : uint8_t { FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 7 };
struct RecordFunction;
struct ObserverContext;

struct Context {  // std::unique_ptr<ObserverContext>: returned through a hidden pointer, as all that has a destructor
    ObserverContext *of = nullptr;
    ~Context() { of = nullptr; }
};

struct RecordFunctionCallback {
    Context (*start)(const RecordFunction &);
    void (*end)(const RecordFunction &, ObserverContext *);
    double sampling;
    bool scopes[10];
    bool inputs, outputs, ids;
};
static_assert(sizeof(RecordFunctionCallback) == 40);

struct StepCallbacks {
    struct Pair {
        Context (*start)(const RecordFunction &);
        void (*end)(const RecordFunction &, ObserverContext *);
    };
    Pair *first;
    uint32_t size, capacity;
    Pair within[4];
    uint64_t thread_id;
    RecordScope scope;
    bool inputs, outputs, ids;
};

struct RecordFunction {
    explicit RecordFunction(RecordScope scope, const char *name, const char *overload, int64_t sequence);
    virtual ~RecordFunction();
    const char *name() const;
    const char *overload_name() const;
    static uint64_t currentThreadId();

    StepCallbacks step;
    bool called = false;
    char contexts[48] = {};
    const char *name_;
    const char *overload_;
#ifndef OLD
    char rest_of_name[24] = {};
#endif
    int64_t sequence;
    char inputs[16] = {};
#ifndef OLD
    char keywords[56] = {};
#endif
    char outputs[24] = {};
    uint64_t forward_thread = 0, handle = 0;
    bool is_async = false;
};

static RecordFunctionCallback callbacks[8];
static unsigned count;
static std::mutex lock;

__attribute__((visibility("default"))) uint64_t addGlobalCallback(RecordFunctionCallback callback) {
    std::lock_guard<std::mutex> guard(lock);
    if (count == 8 || callback.sampling != 1.0 || callback.outputs || callback.scopes[3]) abort();
    callbacks[count] = callback;
    return ++count;
}

struct MaybeStepCallbacks {  // std::optional
    StepCallbacks of;
    bool there;
};

// Every operator asks this first; written so that its code is longer than a jump.
__attribute__((visibility("default"), noinline)) MaybeStepCallbacks getStepCallbacksUnlessEmpty(RecordScope scope) {
    MaybeStepCallbacks found = {};
    std::lock_guard<std::mutex> guard(lock);
    found.of.scope = scope;
    found.of.thread_id = RecordFunction::currentThreadId();
    for (unsigned each = 0; each < count && each < 4; each++)
        if (callbacks[each].scopes[(unsigned)scope]) found.of.within[found.of.size++] = {callbacks[each].start, callbacks[each].end};
    found.there = found.of.size != 0;
    return found;
}

RecordFunction::RecordFunction(RecordScope scope, const char *name, const char *overload, int64_t sequence)
    : step(getStepCallbacksUnlessEmpty(scope).of), name_(name), overload_(overload), sequence(sequence) {
    step.scope = scope;
#ifdef WRONG
    step.thread_id = 4711;
#endif
}
__attribute__((visibility("default"))) RecordFunction::~RecordFunction() {}
__attribute__((visibility("default"))) const char *RecordFunction::name() const { return name_; }
#ifndef OLD
__attribute__((visibility("default"))) const char *RecordFunction::overload_name() const { return overload_; }
#endif
__attribute__((visibility("default"))) uint64_t RecordFunction::currentThreadId() { return (uint64_t)pthread_self() % 65536 + 1; }

static void begin(RecordFunction &function) {
    for (unsigned each = 0; each < function.step.size; each++)
        if (function.step.within[each].start(function).of) abort();
}
static void end(RecordFunction &function) {
    for (unsigned each = 0; each < function.step.size; each++) function.step.within[each].end(function, nullptr);
}

static void *end_there(void *function) {
    end(*(RecordFunction *)function);
    return nullptr;
}

struct Backward {
    int64_t sequence;
    uint64_t thread;
};
static void *backward(void *of) {
    RecordFunction function(RecordScope::BACKWARD_FUNCTION, "autograd::engine::evaluate_function: AddmmBackward0", "", ((Backward *)of)->sequence);
    function.forward_thread = ((Backward *)of)->thread;
    begin(function);
    end(function);
    return nullptr;
}

#ifndef OLD
// A function that returns a string has this name where strings are C++11's.
__attribute__((visibility("default"), abi_tag("cxx11"))) int show_config() { return 0; }
#endif
}  // namespace at

// What PyTorch's allocators call for every allocation: libc10.so has these.
namespace c10 {
struct Device {
    int8_t type, index;
};
static volatile int64_t reported;
__attribute__((visibility("default"), noinline)) void reportMemoryUsageToProfiler(void *, int64_t size, size_t allocated, size_t reserved, Device device) {
    reported = reported + size + (int64_t)allocated + (int64_t)reserved + device.index;
}
__attribute__((visibility("default"), noinline)) void reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device device) {
    reported = reported - size - (int64_t)allocated - (int64_t)reserved - device.index;
}
}  // namespace c10

// What PyTorch's profiler calls for shapes.
namespace torch::profiler::impl {
__attribute__((visibility("default"))) std::vector<std::vector<int64_t>> inputSizes(const at::RecordFunction &function, bool) {
    if (function.step.scope == at::RecordScope::USER_SCOPE) return {};
    return {{32, 256}, {}, {256}};
}
}  // namespace torch::profiler::impl

// So many steps: linear → addmm with something inside, its backward on another thread, a range, one that ends elsewhere.
extern "C" __attribute__((visibility("default"))) void run_operators(int steps, void (*inside)(void)) {
    using namespace at;
    for (int step = 0; step < steps; step++) {
        RecordFunction user(RecordScope::USER_SCOPE, "a step of the program, whose name is so long that it needs more than one slot of the ring, and more", "", -1);
        begin(user);
        {
            RecordFunction linear(RecordScope::FUNCTION, "aten::linear", "", step);
            begin(linear);
            RecordFunction addmm(RecordScope::FUNCTION, "aten::addmm", "out", step);
            begin(addmm);
            if (inside) inside();
            // On GPU 2: a large one that stays, a small one that goes; on the host, which nobody asked for.
            c10::reportMemoryUsageToProfiler((void *)(0x100000ul * (step + 1)), 2 << 20, (2ul << 20) * (step + 1), 1ul << 30, {1, 2});
            c10::reportMemoryUsageToProfiler((void *)0x77, 512, (2ul << 20) * (step + 1) + 512, 1ul << 30, {1, 2});
            c10::reportMemoryUsageToProfiler((void *)0x77, -512, (2ul << 20) * (step + 1), 1ul << 30, {1, 2});
            c10::reportMemoryUsageToProfiler((void *)0x99, 4096, 4096, 4096, {0, -1});
            end(addmm);
            end(linear);
        }
        Backward of = {step, RecordFunction::currentThreadId()};
        pthread_t thread;
        if (pthread_create(&thread, nullptr, backward, &of)) abort();
        pthread_join(thread, nullptr);
        RecordFunction async(RecordScope::FUNCTION, "nccl:all_reduce", "", -1);
        async.is_async = true;
        begin(async);
        if (pthread_create(&thread, nullptr, end_there, &async)) abort();
        pthread_join(thread, nullptr);
        end(user);
    }
    c10::reportOutOfMemoryToProfiler(1ll << 40, (2ul << 20) * steps, 1ul << 30, {1, 2});
}
