// Every atomic operation, type and scope, on global and shared memory, with many threads at once.
// The results do not depend on the order in which threads come.
#include "check.h"
#include <algorithm>
#include <cuda_fp16.h>
#include <vector>

constexpr int BLOCKS = 6, THREADS = 160, N = BLOCKS * THREADS;

struct Cells {
    int add, sub, min, max, exchange, compare, andBits, orBits, xorBits, addBlock, addSystem;
    unsigned addUnsigned, minUnsigned, maxUnsigned, increment, decrement;
    unsigned long long add64, min64, max64, and64, or64, xor64, exchange64, compare64;
    long long minSigned64, maxSigned64;
    float addFloat;
    double addDouble;
    __half2 addHalves;
    __half addHalf;
    unsigned short compare16;
};

// All operations on one set of cells; i numbers the threads that share it.
__device__ void operate(Cells &c, int i) {
    atomicAdd(&c.add, i % 2 ? i : -3);
    atomicSub(&c.sub, i);
    atomicMin(&c.min, (i * 37) % N - 400);
    atomicMax(&c.max, (i * 37) % N - 400);
    atomicExch(&c.exchange, 77);
    atomicAnd(&c.andBits, ~(1 << i % 31));
    atomicOr(&c.orBits, 1 << i % 29);
    atomicXor(&c.xorBits, 1 << i % 7);
    atomicAdd_block(&c.addBlock, 1);
    atomicAdd_system(&c.addSystem, 2);
    atomicAdd(&c.addUnsigned, 0xfffffff0u + i);
    atomicMin(&c.minUnsigned, 0x80000000u + i);
    atomicMax(&c.maxUnsigned, 0x80000000u + i);
    atomicInc(&c.increment, 6);
    atomicDec(&c.decrement, 10);
    atomicAdd(&c.add64, 0x100000001ull * i);
    atomicMin(&c.min64, 0xf000000000000000ull + i);
    atomicMax(&c.max64, 0xf000000000000000ull + i);
    atomicMin(&c.minSigned64, -5000000000ll * i);
    atomicMax(&c.maxSigned64, 5000000000ll * i);
    atomicAnd(&c.and64, ~(1ull << i % 63));
    atomicOr(&c.or64, 1ull << i % 61);
    atomicXor(&c.xor64, 3ull << i % 33);
    atomicExch(&c.exchange64, 0x123456789abcdefull);
    // Whole numbers and quarters: exact in any order.
    atomicAdd(&c.addFloat, 0.25f * (i % 8));
    atomicAdd(&c.addDouble, 0.125 * i);
    atomicAdd(&c.addHalf, __float2half(1.0f));
    atomicAdd(&c.addHalves, __floats2half2_rn(1.0f, 2.0f));
    // Additions made of compare-and-swap.
    for (int seen = c.compare, old;; seen = old)
        if ((old = atomicCAS(&c.compare, seen, seen + 3)) == seen) break;
    for (unsigned long long seen = c.compare64, old;; seen = old)
        if ((old = atomicCAS(&c.compare64, seen, seen + 0x100000000ull)) == seen) break;
    for (unsigned short seen = c.compare16, old;; seen = old)
        if ((old = atomicCAS(&c.compare16, seen, (unsigned short)(seen + 1))) == seen) break;
}

static Cells initial() {
    Cells c = {};
    c.min = 1000000;
    c.max = -1000000;
    c.andBits = -1;
    c.minUnsigned = 0xffffffffu;
    c.min64 = c.and64 = ~0ull;
    return c;
}

__global__ void onGlobal(Cells *cells) { operate(*cells, blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void onShared(const Cells *start, Cells *cells) {
    __shared__ Cells mine;
    if (threadIdx.x == 0) mine = *start;
    __syncthreads();
    operate(mine, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) cells[blockIdx.x] = mine;
}

// What the cells hold after n threads, counted one after the other.
static void check(const Cells &c, int n, const char *where, bool manyBlocks) {
    Cells e = initial();
    float half = 0;
    for (int i = 0; i < n; i++) {
        e.add += i % 2 ? i : -3;
        e.sub -= i;
        e.min = std::min(e.min, (i * 37) % N - 400);
        e.max = std::max(e.max, (i * 37) % N - 400);
        e.andBits &= ~(1 << i % 31);
        e.orBits |= 1 << i % 29;
        e.xorBits ^= 1 << i % 7;
        e.addUnsigned += 0xfffffff0u + i;
        e.minUnsigned = std::min(e.minUnsigned, 0x80000000u + i);
        e.maxUnsigned = std::max(e.maxUnsigned, 0x80000000u + i);
        e.increment = e.increment >= 6 ? 0 : e.increment + 1;
        e.decrement = e.decrement == 0 || e.decrement > 10 ? 10 : e.decrement - 1;
        e.add64 += 0x100000001ull * i;
        e.min64 = std::min(e.min64, 0xf000000000000000ull + i);
        e.max64 = std::max(e.max64, 0xf000000000000000ull + i);
        e.minSigned64 = std::min(e.minSigned64, -5000000000ll * i);
        e.maxSigned64 = std::max(e.maxSigned64, 5000000000ll * i);
        e.and64 &= ~(1ull << i % 63);
        e.or64 |= 1ull << i % 61;
        e.xor64 ^= 3ull << i % 33;
        e.addFloat += 0.25f * (i % 8);
        e.addDouble += 0.125 * i;
        half += 1;
    }
#define SAME(field, format) EXPECT(c.field == e.field, "%s: " #field " is " format ", not " format, where, c.field, e.field)
    SAME(add, "%d");
    SAME(sub, "%d");
    SAME(min, "%d");
    SAME(max, "%d");
    SAME(andBits, "%x");
    SAME(orBits, "%x");
    SAME(xorBits, "%x");
    SAME(addUnsigned, "%u");
    SAME(minUnsigned, "%u");
    SAME(maxUnsigned, "%u");
    SAME(increment, "%u");
    SAME(decrement, "%u");
    SAME(add64, "%llx");
    SAME(min64, "%llx");
    SAME(max64, "%llx");
    SAME(minSigned64, "%lld");
    SAME(maxSigned64, "%lld");
    SAME(and64, "%llx");
    SAME(or64, "%llx");
    SAME(xor64, "%llx");
    SAME(addFloat, "%g");
    SAME(addDouble, "%g");
#undef SAME
    EXPECT(c.exchange == 77 && c.exchange64 == 0x123456789abcdefull, "%s: exchanged %d, %llx", where, c.exchange, c.exchange64);
    EXPECT(c.compare == 3 * n && c.compare64 == 0x100000000ull * n && c.compare16 == n, "%s: compared %d, %llx, %d", where,
           c.compare, c.compare64, c.compare16);
    EXPECT(c.addSystem == 2 * n, "%s: system scope %d", where, c.addSystem);
    // Atomic inside one block only: across blocks additions may be lost, but never invented.
    EXPECT(manyBlocks ? c.addBlock > 0 && c.addBlock <= n : c.addBlock == n, "%s: block scope %d", where, c.addBlock);
    EXPECT(__half2float(c.addHalf) == half && __low2float(c.addHalves) == half && __high2float(c.addHalves) == 2 * half,
           "%s: halves %g, %g, %g", where, __half2float(c.addHalf), __low2float(c.addHalves), __high2float(c.addHalves));
}

// Each thread takes a ticket and puts a node on a list: no ticket twice, no node lost.
struct Node {
    int ticket;
    Node *next;
};
__device__ int nextTicket;
__device__ unsigned long long head;

__global__ void push(Node *nodes) {
    Node *mine = &nodes[blockIdx.x * blockDim.x + threadIdx.x];
    mine->ticket = atomicAdd(&nextTicket, 1);
    unsigned long long seen = atomicAdd(&head, 0ull), old;
    for (;; seen = old) {
        mine->next = reinterpret_cast<Node *>(seen);
        __threadfence();
        if ((old = atomicCAS(&head, seen, reinterpret_cast<unsigned long long>(mine))) == seen) break;
    }
}

static void checkList() {
    Node *nodes, *first;
    std::vector<Node> list(N);
    std::vector<int> tickets(N), reached(N);
    CUDA(cudaMalloc(&nodes, N * sizeof(Node)));
    push<<<BLOCKS, THREADS>>>(nodes);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(list.data(), nodes, N * sizeof(Node), cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpyFromSymbol(&first, head, sizeof first));
    int length = 0;
    for (Node *node = first; node; node = list[node - nodes].next, length++) {
        EXPECT(length < N && node >= nodes && node < nodes + N, "the list leads astray after %d nodes", length);
        reached[node - nodes]++;
        int ticket = list[node - nodes].ticket;
        EXPECT(ticket >= 0 && ticket < N && !tickets[ticket]++, "ticket %d twice or wrong", ticket);
    }
    EXPECT(length == N, "the list has %d nodes, not %d", length, N);
    CUDA(cudaFree(nodes));
    fact("a lock-free list of %d nodes is whole", N);
}

int main() {
    Cells start = initial(), result, results[BLOCKS], *cells, *deviceStart;
    CUDA(cudaMalloc(&cells, sizeof results));
    CUDA(cudaMalloc(&deviceStart, sizeof start));
    CUDA(cudaMemcpy(deviceStart, &start, sizeof start, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(cells, &start, sizeof start, cudaMemcpyHostToDevice));
    onGlobal<<<BLOCKS, THREADS>>>(cells);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(&result, cells, sizeof result, cudaMemcpyDeviceToHost));
    check(result, N, "global", true);
    fact("31 atomics of %d threads on global memory right", N);
    onShared<<<BLOCKS, THREADS>>>(deviceStart, cells);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(results, cells, sizeof results, cudaMemcpyDeviceToHost));
    for (const Cells &each : results) check(each, THREADS, "shared", false);
    fact("31 atomics of %d threads on shared memory right in %d blocks", THREADS, BLOCKS);
    checkList();
    CUDA(cudaFree(cells));
    CUDA(cudaFree(deviceStart));
    return pass("atomics_all");
}
