#include "base/machine.h"

#include <string.h>

const void *machine_find(const void *rules, size_t size, size_t rule_size, unsigned state,
                         unsigned event) {
    const char *end = (const char *)rules + size;
    for (const char *rule = rules; rule < end; rule += rule_size) {
        unsigned at[2];  // its first fields
        memcpy(at, rule, sizeof at);
        if (at[0] == state && at[1] == event) return rule;
    }
    return NULL;
}
