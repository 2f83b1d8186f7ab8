// Managed memory: one pointer, used by host and device in turns.  managed [elements]
#include "check.h"

__managed__ int calls;
__managed__ int table[4] = {1, 10, 100, 1000};

struct Node {
    int value;
    Node *next;
};

__global__ void increment(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += table[i % 4];
    if (i == 0) calls++;
}

// Walks a list the host made, changes it, and puts a node of its own in front.
__global__ void walk(Node **head, Node *spare, int *sum) {
    int total = 0;
    for (Node *node = *head; node; node = node->next) total += node->value++;
    *sum = total;
    spare->value = -1;
    spare->next = *head;
    *head = spare;
}

int main(int argc, char **argv) {
    int n = int(argument(argc, argv, 1, 50000));
    int *data;
    CUDA(cudaMallocManaged(&data, n * sizeof(int)));
    for (int i = 0; i < n; i++) data[i] = i;
    for (int round = 1; round <= 3; round++) {
        increment<<<(n + 255) / 256, 256>>>(data, n);
        CUDA(cudaGetLastError());
        CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < n; i++) {
            int expected = i + round * table[i % 4] + 5 * (round - 1);
            EXPECT(data[i] == expected, "round %d, element %d: %d, not %d", round, i, data[i], expected);
            data[i] += 5;
        }
    }
    EXPECT(calls == 3, "the managed counter is %d, not 3", calls);
    fact("%d elements went to and fro 3 times", n);

    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, data + 1));
    EXPECT(attributes.type == cudaMemoryTypeManaged, "the pointer's type is %d, not managed", attributes.type);
    fact("the pointer is known to be managed");

    int concurrent = 0;
    CUDA(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    if (concurrent) {
        cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
        CUDA(cudaMemAdvise(data, n * sizeof(int), cudaMemAdviseSetPreferredLocation, device));
        CUDA(cudaMemPrefetchAsync(data, n * sizeof(int), device, 0));
        increment<<<(n + 255) / 256, 256>>>(data, n);
        CUDA(cudaMemPrefetchAsync(data, n * sizeof(int), host, 0));
        CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < n; i++) {
            int expected = i + 4 * table[i % 4] + 15;
            EXPECT(data[i] == expected, "after the prefetch, element %d: %d, not %d", i, data[i], expected);
        }
    }
    fact("prefetch keeps the data");

    constexpr int NODES = 100;
    Node *nodes, **head;
    int *sum;
    CUDA(cudaMallocManaged(&nodes, (NODES + 1) * sizeof(Node)));
    CUDA(cudaMallocManaged(&head, sizeof *head));
    CUDA(cudaMallocManaged(&sum, sizeof *sum));
    for (int i = 0; i < NODES; i++) nodes[i] = {i, i + 1 < NODES ? &nodes[i + 1] : nullptr};
    *head = nodes;
    walk<<<1, 1>>>(head, &nodes[NODES], sum);
    CUDA(cudaDeviceSynchronize());
    EXPECT(*sum == NODES * (NODES - 1) / 2, "the list's sum is %d", *sum);
    int length = 0, total = 0;
    for (Node *node = *head; node; node = node->next, length++) total += node->value;
    EXPECT(length == NODES + 1 && total == *sum + NODES - 1, "the list has %d nodes of sum %d", length, total);
    fact("a linked list is the same on both sides");
    CUDA(cudaFree(data));
    CUDA(cudaFree(nodes));
    CUDA(cudaFree(head));
    CUDA(cudaFree(sum));
    return pass("managed");
}
