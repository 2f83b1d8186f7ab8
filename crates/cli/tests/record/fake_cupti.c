// A libcupti that answers as a real one does where it cannot be used: cc -DENABLE=35 …
// Without ALL it lacks what a libcupti has had for ten years.
#include <stddef.h>
#include <stdint.h>
#ifndef ENABLE
#define ENABLE 0
#endif
#ifndef SUBSCRIBE
#define SUBSCRIBE 0
#endif
int cuptiGetVersion(uint32_t *version) {
    *version = 18;
    return 0;
}
#ifdef ALL
int cuptiGetTimestamp(uint64_t *time) {
    *time = 1;
    return 0;
}
int cuptiActivityRegisterCallbacks(void *request, void *complete) { return (void)request, (void)complete, 0; }
int cuptiActivityEnable(int kind) { return (void)kind, ENABLE; }
int cuptiActivityDisable(int kind) { return (void)kind, 0; }
int cuptiActivityFlushAll(uint32_t flag) { return (void)flag, 0; }
int cuptiActivityGetNextRecord(uint8_t *b, size_t n, void **r) { return (void)b, (void)n, (void)r, 12; }
int cuptiActivityGetNumDroppedRecords(void *c, uint32_t s, size_t *n) { return (void)c, (void)s, *n = 0, 0; }
int cuptiSubscribe(void **subscriber, void *callback, void *data) {
    (void)callback, (void)data;
    *subscriber = 0;
    return SUBSCRIBE;
}
int cuptiUnsubscribe(void *subscriber) { return (void)subscriber, 0; }
#endif
