#include "autograd/left.h"

#include "base/process_lock.h"

#include <stdio.h>

enum { SCOPES_KEPT = 256, NAME_MAX = 64 };

typedef struct left_scope {
    uint32_t number;
    pthread_t thread;
    uint64_t body;  // of the scope
    bool is_closed;
    bool is_inside;  // |name| is that of a scope around it
    char name[NAME_MAX];
} left_scope;

PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);  // of |table|
static struct {
    uint32_t last;
    left_scope scopes[SCOPES_KEPT];  // by half the number modulo SCOPES_KEPT
} table;

// With the lock.
static left_scope *entry_of(uint32_t number) {
    return &table.scopes[number / 2 % SCOPES_KEPT];
}

uint32_t left_open(const gw_scope *s) {
    const gw_scope *named = s;
    while (named && !named->label) named = named->parent;
    process_lock_take(&lock);
    if (!(table.last += 2)) table.last = 2;
    left_scope *at = entry_of(table.last);
    *at = (left_scope){
        .number = table.last, .thread = pthread_self(), .body = s->body, .is_inside = named != s
    };
    if (named) snprintf(at->name, sizeof at->name, "%s", named->label);
    uint32_t number = at->number;
    process_lock_release(&lock);
    return number;
}

void left_close(uint32_t number) {
    process_lock_take(&lock);
    if (entry_of(number)->number == number) entry_of(number)->is_closed = true;
    process_lock_release(&lock);
}

uint32_t left_latest(uint32_t number, const gw_tensor *leaf) {
    uint32_t other = atomic_load_explicit(&((gw_tensor *)leaf)->left_in, memory_order_relaxed);
    if (!number || !other) return number ? number : other;
    return (int32_t)(other - number) > 0 ? other : number;
}

static left_scope scope_of(uint32_t number) {
    process_lock_take(&lock);
    left_scope at = *entry_of(number);
    process_lock_release(&lock);
    return at;
}

bool left_is_missed(uint32_t number, const gw_scope *s, uint32_t own) {
    if (!(number & LEFT_UNUSED) || (number & ~LEFT_UNUSED) == own) return false;
    number &= ~LEFT_UNUSED;
    left_scope at = scope_of(number);
    if (at.number != number) return false;
    if (s->body || at.body) return s->body == at.body;
    return pthread_equal(at.thread, pthread_self()) &&
           (!at.is_closed || (int32_t)(number - own) > 0);
}

left_text left_describe(uint32_t number) {
    left_text out = { "" };
    number &= ~LEFT_UNUSED;
    left_scope at = scope_of(number);
    if (!number) return out;
    char name[NAME_MAX + 32] = "another scope";
    bool is_listed = at.number == number;
    if (is_listed && at.name[0])
        snprintf(name, sizeof name, "%sscope \"%s\"", at.is_inside ? "a scope inside " : "",
                 at.name);
    bool is_closed = !is_listed || at.is_closed;
    snprintf(out.text, sizeof out.text,
             is_closed ? "the gradients of these parameters were in %s, which is closed"
                       : "%s has gradients of these parameters",
             name);
    return out;
}
