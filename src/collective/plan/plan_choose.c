#include "collective/plan/plan.h"

#include "base/limits.h"
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
// The rows for up to 8 members are fitted to `gw-bench --plans` on one host, where large values are read in place: a
// root that sends all to each has no cost for it, and for small values the number of messages dominates.
//
// With more members than processors (crowded), messages dominate at every size, since a member that receives one needs
// a turn on a processor. So a few members, the centers, add for all. There are no more centers than processors, which
// would not add at the same time, and none has a slice that is too small to be read in place. One center of very many
// members would make all others wait for it.
//
// Where members do not share a host, or the host has enough processors, a direct plan is chosen while its slices can
// be read in place, and is not chosen beyond 64 members, where the number of messages grows as the square.
//
// With several hosts of equal size the link between hosts dominates. A value for all members crosses it once, at any
// size: a broadcast by host takes a fifth longer than a flat one for 4 KB, and half as long for large values. Sums
// are made by host as soon as they are larger than the cost of a message. The rows are fitted to `bench/links
// --collectives`.
//
// Chains and trees of gathers and scatters are not faster with few members; a root of many members has fewer partners
// with a tree.
typedef enum condition {
    ALWAYS,
    ACROSS_HOSTS,
    CROWDED,      // more members than processors on one host
    LENT_SLICES,  // the slice of a member is large enough to be lent
} condition;

typedef struct choice {
    condition condition;
    int members_max;
    uint64_t bytes_max;
    plan_kind kind;
} choice;

#define ANY_COUNT INT32_MAX
#define ANY_BYTES UINT64_MAX
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

#define SLICE_MIN LIMIT_LENT_BYTES_MIN  // a smaller one is copied

enum { CHOICES_MAX = 12 };

// After the last row of an operation the plan is flat.
static const choice choices[OPERATION_COUNT][CHOICES_MAX + 1] = {
    [OPERATION_ALL_REDUCE] = { { ACROSS_HOSTS, ANY_COUNT, KIB(32), PLAN_DOUBLING },
                               { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS },
                               { ALWAYS, 2, MIB(4), PLAN_FLAT },
                               { ALWAYS, 3, KIB(32), PLAN_FLAT },
                               { ALWAYS, 8, KIB(128), PLAN_DOUBLING },
                               { ALWAYS, 8, ANY_BYTES, PLAN_DIRECT },
                               { CROWDED, 64, ANY_BYTES, PLAN_STAR },
                               { ALWAYS, ANY_COUNT, KIB(128), PLAN_DOUBLING },
                               { CROWDED, ANY_COUNT, ANY_BYTES, PLAN_STAR },
                               { LENT_SLICES, 64, ANY_BYTES, PLAN_DIRECT },
                               { ALWAYS, ANY_COUNT, ANY_BYTES, PLAN_HALVING } },
    [OPERATION_REDUCE] = { { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS },
                           { ALWAYS, 2, ANY_BYTES, PLAN_FLAT },
                           { ALWAYS, 8, MIB(4), PLAN_FLAT },
                           { CROWDED, 64, ANY_BYTES, PLAN_FLAT },
                           { ALWAYS, ANY_COUNT, KIB(256), PLAN_TREE },
                           { ALWAYS, ANY_COUNT, ANY_BYTES, PLAN_DIRECT } },
    [OPERATION_BROADCAST] = { { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS },
                              { ALWAYS, 16, ANY_BYTES, PLAN_FLAT },
                              { CROWDED, 64, ANY_BYTES, PLAN_FLAT },
                              { ALWAYS, ANY_COUNT, ANY_BYTES, PLAN_TREE } },
    [OPERATION_ALL_GATHER] = { { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS } },
    [OPERATION_GATHER] = { { ALWAYS, 64, ANY_BYTES, PLAN_FLAT },
                           { ALWAYS, ANY_COUNT, ANY_BYTES, PLAN_TREE } },
    [OPERATION_SCATTER] = { { ALWAYS, 64, ANY_BYTES, PLAN_FLAT },
                            { ALWAYS, ANY_COUNT, ANY_BYTES, PLAN_TREE } },
    [OPERATION_REDUCE_SCATTER] = { { ACROSS_HOSTS, ANY_COUNT, KIB(32), PLAN_FLAT },
                                   { ACROSS_HOSTS, ANY_COUNT, ANY_BYTES, PLAN_HOSTS } },
    [OPERATION_BARRIER] = { { ALWAYS, 3, ANY_BYTES, PLAN_FLAT },
                            { ALWAYS, 8, ANY_BYTES, PLAN_DOUBLING },
                            { CROWDED, 64, ANY_BYTES, PLAN_STAR },
                            { ALWAYS, ANY_COUNT, ANY_BYTES, PLAN_DOUBLING } },
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

static bool holds(condition c, int member_count, uint64_t bytes, const plan_place *where) {
    switch (c) {
    case ACROSS_HOSTS: return where->host_size > 1 && where->host_size < member_count;
    case CROWDED: return where->processors > 0 && where->processors < member_count;
    case LENT_SLICES: return bytes / (uint64_t)member_count >= SLICE_MIN;
    default: return true;
    }
}

static plan_kind look_up(operation o, int member_count, uint64_t bytes, const plan_place *where) {
    for (const choice *c = choices[o]; c->kind != PLAN_AUTO; c++)
        if (holds(c->condition, member_count, bytes, where) && member_count <= c->members_max &&
            bytes <= c->bytes_max)
            return c->kind;
    return PLAN_FLAT;
}

static int count_centers(int member_count, uint64_t bytes, const plan_place *where) {
    int most = where->processors < member_count ? where->processors : member_count, centers = 1;
    while (2 * centers <= most && bytes / (2 * (uint64_t)centers) >= SLICE_MIN) centers *= 2;
    return centers;
}

plan_choice plan_choose(operation o, int member_count, uint64_t bytes, plan_place where) {
    plan_choice c = { .kind = wishes_get()->kinds[o] };
    if (c.kind == PLAN_AUTO) c.kind = look_up(o, member_count, bytes, &where);
    if (c.kind == PLAN_STAR) c.centers = count_centers(member_count, bytes, &where);
    return c;
}
