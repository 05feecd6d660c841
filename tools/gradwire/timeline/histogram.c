#include "timeline/histogram.h"

// Below HISTOGRAM_PARTS a bucket for each number, then HISTOGRAM_PARTS of them for each power of two.
static int bucket_of(uint64_t x) {
    if (x < HISTOGRAM_PARTS) return (int)x;
    int shift = 63 - __builtin_clzll(x) - 4;
    return shift * HISTOGRAM_PARTS + (int)(x >> shift);
}

// The middle of a bucket.
static int64_t value_of(int bucket) {
    if (bucket < 2 * HISTOGRAM_PARTS) return bucket;
    int shift = bucket / HISTOGRAM_PARTS - 1;
    uint64_t low = (uint64_t)(bucket % HISTOGRAM_PARTS + HISTOGRAM_PARTS) << shift;
    return (int64_t)(low + (UINT64_C(1) << shift) / 2);
}

void histogram_add(histogram *h, int64_t ns) {
    if (ns < 0) ns = 0;
    if (!h->count++ || ns < h->min_ns) h->min_ns = ns;
    h->sum_ns += (double)ns;
    if (ns > h->max_ns) h->max_ns = ns;
    h->buckets[bucket_of((uint64_t)ns)]++;
}

int64_t histogram_find(const histogram *h, double part) {
    uint64_t wanted = (uint64_t)(part * (double)h->count), seen = 0;
    for (int i = 0; h->count && i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen <= wanted && seen != h->count) continue;
        int64_t value = value_of(i) < h->max_ns ? value_of(i) : h->max_ns;
        return value > h->min_ns ? value : h->min_ns;
    }
    return 0;
}
