// Reads a pinned map while the program runs, as watch.rs does.
//     cc -I crates/gpu-maps/include examples/gpu/host/watch.c -o watch
//     cutrace gpu run host_map_test.bpf.o --pin pins -- ./app &
//     ./watch pins call_count
#include "cutrace_gpu_maps.h"

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "watch FOLDER MAP\n");
        return 2;
    }
    uint64_t last = 0;
    for (;; usleep(20000)) {
        // Opened again each time: contexts come and go, and the map with them.
        struct cutrace_map map;
        if (cutrace_map_open(argv[1], argv[2], &map)) continue;
        uint64_t sum = 0;
        for (uint32_t key = 0; key < map.max_entries; key++) sum += cutrace_map_sum(&map, key);
        int is_live = map.is_live;
        cutrace_map_close(&map);
        if (sum != last || !is_live) {
            printf("%s %s: %llu\n", argv[2], is_live ? "so far" : "at the end", (unsigned long long)sum);
            fflush(stdout);
        }
        if (!is_live) return 0;
        last = sum;
    }
}
