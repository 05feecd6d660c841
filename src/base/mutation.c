#include "base/mutation.h"

#ifdef GW_MUTATIONS

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const char *const names[MUTATION_BUG_COUNT] = {
    NULL,
#define MUTATION(name) #name,
#include "base/mutation_list.h"
};

mutation mutation_now;

// An unknown name would change nothing, and look like a mutation that no test detects.
__attribute__((constructor)) static void choose(void) {
    const char *name = getenv("GW_MUTATION");
    if (!name || !*name) return;
    for (int bug = 1; bug < MUTATION_BUG_COUNT; bug++)
        if (strcasecmp(names[bug], name) == 0) mutation_now = (mutation)bug;
    if (mutation_now) return;
    fprintf(stderr, "GW_MUTATION=%s: there is no such mutation; there are", name);
    for (int bug = 1; bug < MUTATION_BUG_COUNT; bug++) {
        fputc(' ', stderr);
        for (const char *c = names[bug]; *c; c++) fputc(tolower(*c), stderr);
    }
    fprintf(stderr, "\n");
    exit(2);
}

#endif
