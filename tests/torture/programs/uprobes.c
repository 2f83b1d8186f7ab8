// uprobes LIBRARY ROUNDS FUNCTION…: puts uprobes (entry and return) on functions of a library for every
// process, and takes them off again, as bpftrace, perf and agents do. HOLD: for so many milliseconds each time.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t offset_of(const char *path, const char *name) {
    int file = open(path, O_RDONLY);
    struct stat found;
    if (file < 0 || fstat(file, &found)) return 0;
    const char *at = mmap(0, found.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    const Elf64_Ehdr *header = (const void *)at;
    const Elf64_Shdr *sections = (const void *)(at + header->e_shoff);
    const Elf64_Phdr *segments = (const void *)(at + header->e_phoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        const Elf64_Sym *symbols = (const void *)(at + sections[i].sh_offset);
        const char *names = at + sections[sections[i].sh_link].sh_offset;
        for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++) {
            if (strcmp(names + symbols[s].st_name, name) || !symbols[s].st_value) continue;
            for (int p = 0; p < header->e_phnum; p++)
                if (segments[p].p_type == PT_LOAD && symbols[s].st_value >= segments[p].p_vaddr &&
                    symbols[s].st_value < segments[p].p_vaddr + segments[p].p_memsz)
                    return symbols[s].st_value - segments[p].p_vaddr + segments[p].p_offset;
        }
    }
    return 0;
}

static int probe(int type, const char *path, uint64_t offset, int is_return) {
    struct perf_event_attr attributes = {
        .type = type, .size = sizeof attributes, .config = is_return, .sample_period = 1, .wakeup_events = 1000000};
    attributes.uprobe_path = (uintptr_t)path;
    attributes.probe_offset = offset;
    return syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(int count, char **words) {
    if (count < 4) return 2;
    int type = -1;
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    if (!file || fscanf(file, "%d", &type) != 1) return puts("no uprobes here"), 77;
    fclose(file);
    for (int round = 0; round < atoi(words[2]); round++) {
        int open_probes[128], probes = 0;
        for (int f = 3; f < count && probes < 126; f++) {
            uint64_t offset = offset_of(words[1], words[f]);
            if (!offset) return printf("%s is not in %s\n", words[f], words[1]), 1;
            for (int is_return = 0; is_return < 2; is_return++) {
                int opened = probe(type, words[1], offset, is_return);
                if (opened < 0) return perror("perf_event_open"), 77;
                open_probes[probes++] = opened;
            }
        }
        usleep(1000 * (getenv("HOLD") ? atoi(getenv("HOLD")) : 2));
        while (probes) close(open_probes[--probes]);
        usleep(1000);
    }
    printf("%s rounds\n", words[2]);
    return 0;
}
