#include "collective/plan/plan.h"

#include "base/log.h"
#include "base/nearest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Note [The table of choices]
//
// The first row that fits selects the plan. All members select the same row, because all have what it depends on: in
// a broadcast only the root has the size, so those rows depend on the count alone.
//
// The rows are fitted to `gw-bench --plans` for up to 8 members of one host, where large values are read in place: a
// root that sends all to each has no cost for it, and for small values the number of messages dominates. Rows for
// more members follow from the number of steps.
//
// With several hosts of equal size the link between hosts dominates. A value for all members crosses it once, at any
// size: a broadcast by host takes a fifth longer than a flat one for 4 KB, and half as long for large values. Sums
// are made by host as soon as they are larger than the cost of a message. The rows are fitted to `bench/links
// --collectives`.
//
// Chains and trees of gathers and scatters are not faster with few members; a root of many members has fewer partners
// with a tree.
typedef enum extent {
    ANYWHERE,
    ACROSS_HOSTS,
} extent;

typedef struct choice {
    extent extent;
    int members_max;
    uint64_t bytes_max;
    plan_kind kind;
} choice;

#define ANY_COUNT INT32_MAX
#define ANY_BYTES UINT64_MAX
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

enum { CHOICES_MAX = 7 };

// After the last row of an operation the plan is flat.
static const choice choices[OPERATION_COUNT][CHOICES_MAX + 1] = {
    [OPERATION_ALL_REDUCE] = { { ACROSS_HOSTS, ANY_COUNT, KIB(32), PLAN_DOUBLING },
                               { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS },
                               { ANYWHERE, 2, MIB(4), PLAN_FLAT },
                               { ANYWHERE, 3, KIB(32), PLAN_FLAT },
                               { ANYWHERE, ANY_COUNT, KIB(128), PLAN_DOUBLING },
                               { ANYWHERE, 64, ANY_BYTES, PLAN_DIRECT },
                               { ANYWHERE, ANY_COUNT, ANY_BYTES, PLAN_HALVING } },
    [OPERATION_REDUCE] = { { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS },
                           { ANYWHERE, 2, ANY_BYTES, PLAN_FLAT },
                           { ANYWHERE, 8, MIB(4), PLAN_FLAT },
                           { ANYWHERE, ANY_COUNT, KIB(256), PLAN_TREE },
                           { ANYWHERE, ANY_COUNT, ANY_BYTES, PLAN_DIRECT } },
    [OPERATION_BROADCAST] = { { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS },
                              { ANYWHERE, 16, ANY_BYTES, PLAN_FLAT },
                              { ANYWHERE, ANY_COUNT, ANY_BYTES, PLAN_TREE } },
    [OPERATION_ALL_GATHER] = { { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS } },
    [OPERATION_GATHER] = { { ANYWHERE, 64, ANY_BYTES, PLAN_FLAT },
                           { ANYWHERE, ANY_COUNT, ANY_BYTES, PLAN_TREE } },
    [OPERATION_SCATTER] = { { ANYWHERE, 64, ANY_BYTES, PLAN_FLAT },
                            { ANYWHERE, ANY_COUNT, ANY_BYTES, PLAN_TREE } },
    [OPERATION_REDUCE_SCATTER] = { { ACROSS_HOSTS, ANY_COUNT, KIB(32), PLAN_FLAT },
                                   { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS } },
    [OPERATION_BARRIER] = { { ANYWHERE, 3, ANY_BYTES, PLAN_FLAT },
                            { ANYWHERE, ANY_COUNT, ANY_BYTES, PLAN_DOUBLING } },
};

// ---- The environment ----------------------------------------------------------------------------
// By operation; PLAN_AUTO where it is not set.
typedef struct wishes {
    plan_kind kinds[OPERATION_COUNT];
} wishes;

static bool read_word(const char *text, size_t length, const char *name) {
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

// The index of the name equal to the |length| bytes of |text|; |count| if there is none, and then |n| has the
// nearest.
static int read_name(char wanted[GW_NAME_MAX + 1], const char *text, size_t length, int first,
                     int count, const char *(*name_of)(int i), nearest *n) {
    int i = first;
    while (i < count && !read_word(text, length, name_of(i))) i++;
    if (i < count) return i;
    snprintf(wanted, GW_NAME_MAX + 1, "%.*s", (int)length, text);
    *n = nearest_to(wanted);
    for (i = first; i < count; i++) nearest_offer(n, name_of(i));
    return count;
}

static const char *operation_of(int i) {
    return operation_name((operation)i);
}

static const char *plan_of(int i) {
    return plan_kind_name((plan_kind)i);
}

// Parses "operation:plan", the first |length| bytes of |text|. Returns the error, or NULL. |n| has the intended name,
// if one is near.
static const char *read_wish(const char *text, size_t length, wishes *w,
                             char wanted[GW_NAME_MAX + 1], nearest *n) {
    const char *colon = memchr(text, ':', length);
    if (!colon) return "is not of the form \"operation:plan\"";
    size_t before = (size_t)(colon - text), behind = length - before - 1;
    int o = read_name(wanted, text, before, 0, OPERATION_COUNT, operation_of, n);
    if (o == OPERATION_COUNT) return "names an unknown collective";
    int kind = read_name(wanted, colon + 1, behind, PLAN_AUTO + 1, PLAN_KIND_COUNT, plan_of, n);
    if (kind == PLAN_KIND_COUNT) return "names an unknown plan";
    if (!plan_exists((operation)o, (plan_kind)kind))
        return "names a plan that this collective does not have";
    w->kinds[o] = (plan_kind)kind;
    return NULL;
}

static wishes read_wishes(const char *text) {
    wishes w = { { PLAN_AUTO } };
    while (text && *text) {
        size_t length = strcspn(text, ",");
        char wanted[GW_NAME_MAX + 1];
        nearest n = nearest_to("");
        const char *wrong = read_wish(text, length, &w, wanted, &n);
        if (wrong)
            log_line("GW_COLLECTIVE: \"%.*s\" %s and changes nothing; \"all_reduce:direct\" does%s",
                     (int)length, text, wrong, nearest_words(&n));
        text += length + (text[length] == ',');
    }
    return w;
}

static wishes the_wishes;

static void read_environment(void) {
    the_wishes = read_wishes(getenv("GW_COLLECTIVE"));
}

static wishes *wishes_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
    return &the_wishes;
}

void plan_prefer(operation o, plan_kind kind) {
    wishes_get()->kinds[o] = kind;
}

plan_kind plan_choose(operation o, int member_count, uint64_t bytes, int host_size) {
    plan_kind wanted = wishes_get()->kinds[o];
    if (wanted != PLAN_AUTO) return wanted;
    bool has_hosts = host_size > 1 && host_size < member_count;
    for (const choice *c = choices[o]; c->kind != PLAN_AUTO; c++)
        if ((has_hosts || c->extent == ANYWHERE) && member_count <= c->members_max &&
            bytes <= c->bytes_max)
            return c->kind;
    return PLAN_FLAT;
}
