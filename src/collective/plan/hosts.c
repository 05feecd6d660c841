#include "collective/plan/hosts.h"

#include <stddef.h>
#include <string.h>

static const char shared[] = "shm://";

// The host part of an address: for shared memory the host's own name, for others all but the port. Returns its
// length.
static size_t find_host(const char *addresses, const char **out) {
    const char *at = strstr(addresses, shared);
    *out = at ? at + strlen(shared) : addresses;
    if (at) return strcspn(*out, ":,");
    const char *end = *out + strcspn(*out, ",");
    while (end > *out && *end != ':') end--;
    return (size_t)(end - *out);
}

static bool share_host(const char *a, const char *b) {
    const char *in_a, *in_b;
    if (!a || !b) return false;
    size_t size = find_host(a, &in_a);
    return size > 0 && find_host(b, &in_b) == size && memcmp(in_a, in_b, size) == 0;
}

static bool is_power_of_two(int n) {
    return (n & (n - 1)) == 0;
}

int hosts_find_size(const char *const *addresses, int count) {
    int size = 1;
    while (size < count && share_host(addresses[0], addresses[size])) size++;
    if (size == count) return size;
    if (!is_power_of_two(size) || count % size) return 0;
    for (int i = 1; i < count; i++) {
        bool begins_host = i % size == 0;
        if (share_host(addresses[i - 1], addresses[i]) == begins_host) return 0;
    }
    return size;
}

bool hosts_share_memory(const char *const *addresses, int count) {
    int i = 0;
    while (i < count && addresses[i] && strstr(addresses[i], shared)) i++;
    return i == count;
}
