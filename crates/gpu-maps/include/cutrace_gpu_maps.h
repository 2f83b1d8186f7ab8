/* Maps of programs in GPU kernels, as `cutrace gpu ... --pin FOLDER` leaves them. One header, nothing to link:
 *
 *     struct cutrace_map map;
 *     if (cutrace_map_open("pins", "call_count", &map) == 0) {
 *         printf("%llu\n", (unsigned long long)cutrace_map_sum(&map, 0));
 *         cutrace_map_close(&map);
 *     }
 *
 * Maps in memory of the host (types 1504, 1512, 1513) are there while the program runs, and change as kernels
 * write them (`is_live`); all arrays are there when it has ended. Open it again to see later contexts. */
#ifndef CUTRACE_PINNED_H
#define CUTRACE_PINNED_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct cutrace_map {
    uint32_t kind, key_size, value_size, max_entries;
    uint64_t copies; /* values that a key has: one, or one for each thread, multiprocessor or warp */
    uint64_t stride; /* bytes from one value to the next */
    uint32_t pid, context;
    int is_live;
    const unsigned char *memory;
    uint64_t bytes;
};

/* The first array of that name. 0, or a negative errno: -ENOENT there is no such map (yet), -EINVAL it is a hash, or
 * no array as the index says. */
static inline int cutrace_map_open(const char *folder, const char *name, struct cutrace_map *map) {
    char path[4096], line[1024], file[512], state[8];
    int place = 0, found = 0;
    if (snprintf(path, sizeof path, "%s/maps", folder) >= (int)sizeof path) return -ENAMETOOLONG;
    FILE *index = fopen(path, "r");
    if (!index) return -errno;
    if (!fgets(line, sizeof line, index) || strcmp(line, "cutrace maps 1\n")) {
        fclose(index);
        return -EINVAL;
    }
    while (!found && fgets(line, sizeof line, index)) {
        unsigned long long copies, stride;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%u %u %u %u %llu %llu %u %u %7s %511s %n", &map->kind, &map->key_size, &map->value_size,
                   &map->max_entries, &copies, &stride, &map->pid, &map->context, state, file, &place) != 10)
            continue;
        map->copies = copies;
        map->stride = stride;
        map->is_live = !strcmp(state, "live");
        found = !strcmp(line + place, name) && !strchr(file, '/');
    }
    fclose(index);
    if (!found) return -ENOENT;
    if (map->kind == 1 || map->kind == 1501 || map->stride < map->value_size || !map->stride || !map->copies)
        return -EINVAL;
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return -ENAMETOOLONG;
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (opened < 0) return -errno;
    if (fstat(opened, &about) || (map->bytes = (uint64_t)about.st_size) == 0 ||
        map->bytes / map->stride / map->copies < map->max_entries) {
        close(opened);
        return -EINVAL;
    }
    void *memory = mmap(NULL, map->bytes, PROT_READ, MAP_SHARED, opened, 0);
    int error = errno;
    close(opened);
    if (memory == MAP_FAILED) return -error;
    map->memory = (const unsigned char *)memory;
    return 0;
}

/* A value of a key, or NULL. Kernels may write it at any time. */
static inline const void *cutrace_map_value(const struct cutrace_map *map, uint32_t key, uint64_t copy) {
    if (key >= map->max_entries || copy >= map->copies) return NULL;
    return map->memory + (key * map->copies + copy) * map->stride;
}

/* A value as a number, whole also while it changes. */
static inline uint64_t cutrace_map_number(const struct cutrace_map *map, uint32_t key, uint64_t copy) {
    const void *value = cutrace_map_value(map, key, copy);
    uint64_t number = 0;
    if (!value) return 0;
    if (map->value_size >= 8 && (uintptr_t)value % 8 == 0)
        return __atomic_load_n((const uint64_t *)value, __ATOMIC_ACQUIRE);
    memcpy(&number, value, map->value_size < 8 ? map->value_size : 8);
    return number;
}

/* The numbers of all copies of a key. */
static inline uint64_t cutrace_map_sum(const struct cutrace_map *map, uint32_t key) {
    uint64_t sum = 0;
    for (uint64_t copy = 0; copy < map->copies; copy++) sum += cutrace_map_number(map, key, copy);
    return sum;
}

static inline void cutrace_map_close(struct cutrace_map *map) {
    if (map->memory) munmap((void *)map->memory, map->bytes);
    map->memory = NULL;
}

#endif
