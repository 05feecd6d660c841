#include "agent/state/service.h"

#include <stdio.h>
#include <string.h>

void pending_add(pending *p, const char *verb, size_t count, const char *one, const char *many) {
    size_t at = strlen(p->text);
    if (!count) return;
    p->count += count;
    snprintf(p->text + at, sizeof p->text - at, "%s%s %zu %s", at ? ", " : "", verb, count,
             count == 1 ? one : many);
}
