// Where at::RecordFunction has its fields, by a release's own headers: compiled to assembly, and read from there.
#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>
#define private public
#define protected public
#include <ATen/record_function.h>
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
using at::RecordFunction;
using at::StepCallbacks;
#define SAY(name, value)                      \
    extern "C" const unsigned long say_##name; \
    const unsigned long say_##name = value;
SAY(callback, sizeof(at::RecordFunctionCallback))
SAY(thread, offsetof(RecordFunction, step_callbacks_) + offsetof(StepCallbacks, thread_id_))
SAY(scope, offsetof(RecordFunction, step_callbacks_) + offsetof(StepCallbacks, scope_))
SAY(sequence, offsetof(RecordFunction, sequence_nr_))
SAY(forward_thread, offsetof(RecordFunction, fwd_thread_id_))
SAY(is_async, offsetof(RecordFunction, is_async_))
