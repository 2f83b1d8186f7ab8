// Threads of one warp on different ways: branches, loops, switches, recursion, function pointers,
// virtual calls, and warp operations among those that took the same way.
#include "check.h"
#include <vector>

constexpr unsigned ALL = 0xffffffffu;

// --- the same functions on host and device: results must agree ---------------------------------

__host__ __device__ unsigned collatz(unsigned n) {
    unsigned steps = 0;
    while (n != 1) {
        if (n > 1000000) return 0x8000u | steps;
        n = n % 2 ? 3 * n + 1 : n / 2;
        if (++steps == 100) break;
    }
    return steps;
}

__host__ __device__ int choose(int selector, int x) {
    switch (selector) {
    case 0: return x + 1;
    case 1: x *= 3; [[fallthrough]];
    case 2: x -= 7; break;
    case 3:
        for (int i = 0; i < x % 5; i++) x += i;
        break;
    case 4: return -x;
    case 5: return x ^ 0x55;
    case 6: x <<= 2; break;
    case 7: return x / 3;
    case 8: return x % 7;
    case 20: return 2000 + x;
    default: return selector * 100;
    }
    return x * 2;
}

__host__ __device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__host__ __device__ int nested(int lane) {
    int result = 0;
    for (int i = 0; i < lane; i++) {
        if (i % 3 == 0) continue;
        for (int j = 0;; j++) {
            if (j * j > i) break;
            if ((i + j) % 4 == 1 && lane % 2) goto next;
            result += i * j + 1;
        }
        result ^= i;
    next:
        if (result > 500 && lane > 20) return -result;
    }
    return result;
}

struct Shape {
    __host__ __device__ virtual int area() const = 0;
    __host__ __device__ virtual int sides() const { return 0; }
};
struct Square : Shape {
    int side;
    __host__ __device__ explicit Square(int s) : side(s) {}
    __host__ __device__ int area() const override { return side * side; }
    __host__ __device__ int sides() const override { return 4; }
};
struct Triangle : Shape {
    int base, height;
    __host__ __device__ Triangle(int b, int h) : base(b), height(h) {}
    __host__ __device__ int area() const override { return base * height / 2; }
    __host__ __device__ int sides() const override { return 3; }
};
struct Point : Shape {
    __host__ __device__ int area() const override { return 0; }
};

__host__ __device__ __noinline__ int measure(const Shape &shape) { return shape.area() * 10 + shape.sides(); }

__host__ __device__ int shapes(int i) {
    Square square(i);
    Triangle triangle(i, i + 3);
    Point point;
    const Shape *all[] = {&square, &triangle, &point};
    return measure(*all[i % 3]);
}

typedef int (*Operation)(int, int);
__device__ __noinline__ int plus(int a, int b) { return a + b; }
__device__ __noinline__ int minus(int a, int b) { return a - b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ Operation operations[] = {plus, minus, times};

static int operate(int which, int a, int b) { return which == 0 ? a + b : which == 1 ? a - b : a * b; }

struct Results {
    unsigned collatz;
    int chosen, ackermann, nested, shape, pointed;
};

__global__ void lanes(Results *results) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Results &mine = results[i];
    mine.collatz = collatz(i + 1);
    mine.chosen = choose(i % 22, i);
    mine.ackermann = ackermann(i % 3, i % 4);
    mine.nested = nested(i % 40);
    mine.shape = shapes(i);
    mine.pointed = operations[i % 3](i, 5);
}

// --- warp operations under divergence: what each lane must see is computed on the host ----------

struct Seen {
    unsigned ballot, mask, match;
    int neighbour, sum, late;
};

__global__ void divergedWarp(Seen *seen, int early) {
    int lane = threadIdx.x;
    Seen &mine = seen[lane];
    mine.late = -1;
    if (lane < 8) {
        mine.mask = __activemask();
        mine.ballot = __ballot_sync(0x000000ff, lane % 3 == 0);
        // The highest lanes read past the branch's eight lanes' segment and keep their own value.
        mine.neighbour = __shfl_down_sync(0x000000ff, lane * 10, 1, 8);
    } else if (lane % 2) {
        mine.mask = __activemask();
        mine.ballot = __ballot_sync(0xaaaaaa00, lane > 20);
        mine.neighbour = __shfl_sync(0xaaaaaa00, lane * 10, 31);
    } else {
        mine.mask = __activemask();
        mine.ballot = __ballot_sync(0x55555500, lane < 12);
        mine.neighbour = __shfl_xor_sync(0x55555500, lane * 10, 2);
    }
    __syncwarp();
    mine.match = __match_any_sync(ALL, lane / 5);
    mine.sum = __reduce_add_sync(ALL, lane);
    if (lane >= early) return;
    // Those who returned take no part any more.
    unsigned rest = early == 32 ? ALL : (1u << early) - 1;
    mine.late = __popc(__ballot_sync(rest, 1));
}

static void checkWarp(int early) {
    Seen *device, seen[32];
    CUDA(cudaMalloc(&device, sizeof seen));
    divergedWarp<<<1, 32>>>(device, early);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(seen, device, sizeof seen, cudaMemcpyDeviceToHost));
    for (int lane = 0; lane < 32; lane++) {
        const Seen &mine = seen[lane];
        unsigned group = lane < 8 ? 0x000000ff : lane % 2 ? 0xaaaaaa00 : 0x55555500, ballot = 0, match = 0;
        for (int other = 0; other < 32; other++) {
            bool vote = lane < 8 ? other % 3 == 0 : lane % 2 ? other > 20 : other < 12;
            if (group >> other & 1 && vote) ballot |= 1u << other;
            if (other / 5 == lane / 5) match |= 1u << other;
        }
        int neighbour = lane < 8 ? (lane == 7 ? lane : lane + 1) : lane % 2 ? 31 : lane ^ 2;
        // Which lanes run together is the device's choice, but a lane is always among them, and only
        // lanes of its own way can be.
        EXPECT((mine.mask >> lane & 1) && !(mine.mask & ~group), "lane %d: active mask %08x", lane, mine.mask);
        EXPECT(mine.ballot == ballot, "lane %d: ballot %08x, not %08x", lane, mine.ballot, ballot);
        EXPECT(mine.neighbour == neighbour * 10, "lane %d: shuffle %d, not %d", lane, mine.neighbour, neighbour * 10);
        EXPECT(mine.match == match, "lane %d: match %08x, not %08x", lane, mine.match, match);
        EXPECT(mine.sum == 496, "lane %d: sum %d, not 496", lane, mine.sum);
        EXPECT(mine.late == (lane < early ? early : -1), "lane %d: %d lanes late, not %d", lane, mine.late, early);
    }
    CUDA(cudaFree(device));
}

// Barriers met by every thread, from loops of different lengths on the way there.
__global__ void ragged(int *out) {
    __shared__ int values[96];
    int sum = 0;
    for (int round = 0; round < 4; round++) {
        int spins = (threadIdx.x * 7 + round) % 13;
        for (int i = 0; i < spins; i++) sum += i;
        values[threadIdx.x] = sum;
        __syncthreads();
        sum += values[(threadIdx.x + 33) % blockDim.x];
        __syncthreads();
    }
    out[threadIdx.x] = __syncthreads_count(threadIdx.x % 5 == 0) * 100000 + sum;
}

static void checkRagged() {
    int *device, out[96], sums[96] = {}, values[96];
    CUDA(cudaMalloc(&device, sizeof out));
    ragged<<<1, 96>>>(device);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    for (int round = 0; round < 4; round++) {
        for (int t = 0; t < 96; t++) {
            int spins = (t * 7 + round) % 13;
            values[t] = sums[t] += spins * (spins - 1) / 2;
        }
        for (int t = 0; t < 96; t++) sums[t] += values[(t + 33) % 96];
    }
    for (int t = 0; t < 96; t++)
        EXPECT(out[t] == 20 * 100000 + sums[t], "thread %d: %d, not %d", t, out[t], 20 * 100000 + sums[t]);
    CUDA(cudaFree(device));
    fact("barriers meet after loops of different lengths");
}

int main() {
    constexpr int BLOCKS = 4, BLOCK = 112, N = BLOCKS * BLOCK; // the last warp of a block is half empty
    CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
    std::vector<Results> results(N);
    Results *device;
    CUDA(cudaMalloc(&device, N * sizeof(Results)));
    lanes<<<BLOCKS, BLOCK>>>(device);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(results.data(), device, N * sizeof(Results), cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) {
        const Results &r = results[i];
        EXPECT(r.collatz == collatz(i + 1), "loop %d: %u, not %u", i, r.collatz, collatz(i + 1));
        EXPECT(r.chosen == choose(i % 22, i), "switch %d: %d, not %d", i, r.chosen, choose(i % 22, i));
        EXPECT(r.ackermann == ackermann(i % 3, i % 4), "recursion %d: %d", i, r.ackermann);
        EXPECT(r.nested == nested(i % 40), "nested loops %d: %d, not %d", i, r.nested, nested(i % 40));
        EXPECT(r.shape == shapes(i), "virtual call %d: %d, not %d", i, r.shape, shapes(i));
        EXPECT(r.pointed == operate(i % 3, i, 5), "function pointer %d: %d", i, r.pointed);
    }
    CUDA(cudaFree(device));
    fact("loops, switch, recursion, virtual calls, function pointers right in %d threads", N);
    checkWarp(32);
    checkWarp(11);
    fact("warp operations see the lanes of their own way");
    checkRagged();
    return pass("divergence");
}
