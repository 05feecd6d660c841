#include "base/scope.h"

#include "base/error_value.h"
#include "base/log.h"
#include "base/logged_losses.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/process_number.h"
#include "base/variables.h"

#include <gradwire/binding.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct scope_chunk {
    struct scope_chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
} scope_chunk;

enum { CHUNK_BYTES = 4096 };

// Returned when there is no memory for a scope: always failed, shared, and never written
// to.
static gw_error no_memory_error = { .status = GW_NO_MEMORY, .text = "no memory for a scope" };
static gw_scope no_memory_scope = { .error = &no_memory_error, .deadline_ns = ENV_NEVER };

// The error of last resort: shared, so that failing needs no memory.
static gw_error last_error = { .status = GW_NO_MEMORY,
                               .text = "no memory, not even for the text of the error" };

static scope_ids process_ids;  // of scopes without an agent

// ---- The checked mode ---------------------------------------------------------------------------
static void check_is_open(const gw_scope *s, const char *what) {
    if (check_is_aside(s))
        check_die("%s: the scope, or a scope around it, was closed before", what);
}

void scope_check_enter(gw_scope *s) {
    static _Thread_local char place;
    uintptr_t self = (uintptr_t)&place, none = 0;
    check_is_open(s, "an operation");
    if (s->user != self && !atomic_compare_exchange_strong(&s->user, &none, self))
        check_die("two threads use one scope at once: each thread needs a scope of its own");
    s->user_depth++;
}

void scope_check_leave(gw_scope *s) {
    if (--s->user_depth == 0) s->user = 0;
}

static inline void check_open(const gw_scope *s, const char *what) {
    if (check_enabled) check_is_open(s, what);
}

// ---- Opening and closing ------------------------------------------------------------------------
gw_scope *scope_open_regardless(gw_scope *parent) {
    if (parent) check_open(parent, "gw_scope_open");
    if (parent == &no_memory_scope) return parent;
    gw_scope *s = mem_take(sizeof *s);
    if (!s) {
        if (parent) scope_fail(parent, GW_NO_MEMORY, "no memory for a scope");
        return &no_memory_scope;
    }
    memset(s, 0, sizeof *s);
    s->parent = parent;
    s->process = process_number;
    list_init(&s->children);
    if (parent) {
        list_append(&parent->children, &s->sibling);
        s->number = ++parent->opened;
        s->deadline_ns = parent->deadline_ns;
        s->grad_enabled = parent->grad_enabled;
        s->not_synchronised = parent->not_synchronised;
        s->may_wait = parent->may_wait;
        s->tensor_bytes_max = parent->tensor_bytes_max;
        s->env = parent->env;
        s->agent = parent->agent;
        s->remote = parent->remote;
        s->ids = parent->ids;
        s->random = parent->random;
        s->worker = parent->worker;
        s->body = parent->body;
        s->autocast = parent->autocast;
        s->interrupt = parent->interrupt;
        s->interrupt_context = parent->interrupt_context;
    } else {
        s->deadline_ns = ENV_NEVER;
        s->grad_enabled = true;
        s->may_wait = true;
        s->ids = &process_ids;
        s->own_random.key = GENERATOR_DEFAULT_SEED;
        s->random = &s->own_random;
    }
    return s;
}

static void take_on(gw_scope *s, const gw_error *error) {
    gw_error *e = mem_alloc(sizeof *e);
    if (e) {
        *e = *error;
        e->value = error_value_retain(e->value);
        if (s->label) error_prefix(e, s->label);
    }
    s->error = e ? e : &last_error;
    // A scope that has joined a job: the other workers receive its error, and it is logged, even if this
    // program does not reach the scope's end.
    if (s->slots[SCOPE_AGENT].data && s->worker && !s->error->is_printed) {
        bool is_printed = logged_losses_log_root(s->env, s->worker, s->error);
        if (e) e->is_printed = is_printed;
    }
}

gw_scope *gw_scope_open(gw_scope *parent) {
    if (!parent) variables_check();
    gw_scope *s = scope_open_regardless(parent);
    if (parent && parent->error && s != &no_memory_scope) {
        take_on(s, parent->error);
        s->is_error_read = true;
    }
    return s;
}

static void free_error(gw_error *e) {
    if (!e || e == &last_error) return;
    error_value_release(e->value);
    mem_free(e);
}

// Without the scopes inside it.
static void free_one(gw_scope *s) {
    for (int i = SCOPE_SLOT_COUNT - 1; i >= 0; i--)
        if (s->slots[i].fini) s->slots[i].fini(s, s->slots[i].data);
    handles_fini(&s->handles);
    while (s->chunks) {
        scope_chunk *c = s->chunks;
        s->chunks = c->next;
        mem_free(c);
    }
    free_error(s->error);
    mem_free(s->label);
    list_remove(&s->sibling);
    mem_give(s, sizeof *s);
}

// Opened before the fork that has made this process, which therefore releases nothing of it.
static bool is_of_parent_process(const gw_scope *s) {
    return s->process != process_number && s != &no_memory_scope;
}

static gw_scope *last_child(const gw_scope *s) {
    return list_entry(s->children.previous, gw_scope, sibling);
}

// With all scopes inside it, the innermost first, at any depth.
static void free_scope(gw_scope *s) {
    bool is_over = false;
    for (gw_scope *at = s; !is_over;) {
        while (!list_is_empty(&at->children)) at = last_child(at);
        gw_scope *around = at->parent;
        is_over = at == s;
        free_one(at);
        at = around;
    }
}

static gw_scope *first_child(const gw_scope *s) {
    return list_entry(s->children.next, gw_scope, sibling);
}

// The scope after |at| inside |s|, in the order of opening; NULL after the last one.
static gw_scope *next_descendant(const gw_scope *s, const gw_scope *at) {
    if (!list_is_empty(&at->children)) return first_child(at);
    for (; at != s; at = at->parent)
        if (at->sibling.next != &at->parent->children)
            return list_entry(at->sibling.next, gw_scope, sibling);
    return NULL;
}

// The error of a scope that was left open is logged, and fails |s|.
static void take_errors_of_children(gw_scope *s) {
    for (gw_scope *at = next_descendant(s, s); at; at = next_descendant(s, at)) {
        if (!at->error || at->is_error_read) continue;
        bool is_printed = log_error(
            "%s (the error of a scope that was still open, which the program has not read)",
            at->error->text);
        if (scope_own_error(at)) at->error->is_printed = is_printed;
        at->is_error_read = true;
        if (!s->error) take_on(s, at->error);
    }
}

void scope_lend(gw_scope *s) {
    static _Atomic uint64_t bodies;
    s->is_lent = true;
    s->body = atomic_fetch_add_explicit(&bodies, 1, memory_order_relaxed) + 1;
}

void scope_take_back(gw_scope *s) {
    s->is_lent = false;
    take_errors_of_children(s);
}

// A registered function must not close the scope of its own call.
static bool is_lent(gw_scope *s) {
    if (s->is_lent)
        scope_fail(s, GW_WRONG_STATE,
                   "a body must not close the scope given to it: the library closes that scope");
    return s->is_lent;
}

// Another function of the library ends what |s| was opened for, and closes it: the program can continue in |s|. The
// scope of a body has a number of its own.
static bool is_closed_by_library(const gw_scope *s, gw_error *error) {
    if (!s->is_lent || !s->parent || s->body != s->parent->body) return false;
    error_set(error, GW_WRONG_STATE,
              "this scope stays open: the function that ends its step closes it (gw_elastic_end)");
    return true;
}

// The error of |s|, which has failed, as its parent receives it.
static gw_error error_outside(const gw_scope *s) {
    gw_error error = *s->error;
    if (!s->parent && s->worker) error_prefix(&error, s->worker);
    error.is_printed = s->error->is_printed;
    return error;
}

gw_error gw_scope_close(gw_scope *s) {
    gw_error error;
    check_open(s, "gw_scope_close");
    if (is_closed_by_library(s, &error)) return error;
    if (is_of_parent_process(s)) return s->error ? error_outside(s) : *scope_error(s);
    if (is_lent(s)) return *s->error;
    if (s != &no_memory_scope) take_errors_of_children(s);
    if (s->error) {
        error = error_outside(s);
    } else {
        error_init(&error, GW_OK);
    }
    if (s != &no_memory_scope) free_scope(s);
    return error;
}

gw_scope *scope_open_unrecorded(gw_scope *parent) {
    gw_scope *s = gw_scope_open(parent);
    if (!s->error) s->grad_enabled = false;
    return s;
}

void scope_close_unread(gw_scope *s) {
    gw_error error = gw_scope_close(s);
    (void)error;
}

void gw_scope_close_up(gw_scope *s) {
    gw_error refused;
    check_open(s, "gw_scope_close_up");
    if (is_closed_by_library(s, &refused)) {
        log_error("%s", refused.text);
        return;
    }
    if (is_lent(s) || is_of_parent_process(s)) return;
    if (s != &no_memory_scope) take_errors_of_children(s);
    if (s->error && s->parent) {
        if (!s->parent->error) take_on(s->parent, s->error);
    } else if (s->error) {
        gw_error error = error_outside(s);
        log_error("%s", error.text);  // no caller receives it
    }
    if (s != &no_memory_scope) free_scope(s);
}

bool gw_ok(const gw_scope *s) {
    check_open(s, "gw_ok");
    return !s->error;
}

const gw_error *gw_scope_error(const gw_scope *s) {
    check_open(s, "gw_scope_error");
    if (s->error && s != &no_memory_scope) ((gw_scope *)s)->is_error_read = true;
    return scope_error(s);
}

gw_error *scope_own_error(const gw_scope *s) {
    bool is_shared = s->error == &last_error || s->error == &no_memory_error;
    return is_shared ? NULL : s->error;
}

bool scope_fail_with(gw_scope *s, const gw_error *error) {
    check_open(s, "an operation");
    if (s->error) return false;
    take_on(s, error);
    error_reached_scope(s->error);
    return false;
}

void scope_explain_error(gw_scope *s, const char *what) {
    gw_error *own = scope_own_error(s);
    if (own) error_prefix(own, what);
}

static void failv(gw_scope *s, gw_status status, const char *format, va_list args) {
    if (s->error) return;
    gw_error error;
    error_setv(&error, status, format, args);
    scope_fail_with(s, &error);
}

bool scope_fail(gw_scope *s, gw_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    failv(s, status, format, args);
    va_end(args);
    return false;
}

bool scope_fail_of(gw_scope *s, const char *function, gw_status status, const char *format, ...) {
    if (s->error) return false;
    va_list args;
    va_start(args, format);
    gw_error error;
    error_setv(&error, status, format, args);
    va_end(args);
    error_prefix_function(&error, function);
    return scope_fail_with(s, &error);
}

bool scope_check_array(gw_scope *s, const char *function, const void *items, int64_t count) {
    if (count < 0 || (count && !items))
        scope_fail_of(s, function, GW_INVALID,
                      count < 0 ? "an array cannot have %lld items"
                                : "an array of %lld items was given as NULL",
                      (long long)count);
    return !s->error;
}

void gw_fail(gw_scope *s, gw_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    gw_error error;
    error_set_by_programv(&error, status, format, args);
    va_end(args);
    scope_fail_with(s, &error);
}

void gw_scope_fail(gw_scope *s, const gw_error *error) {
    if (!error || error->status == GW_OK || s->error) return;
    gw_error own = error_of_program(error);
    scope_fail_with(s, &own);
}

void gw_scope_label(gw_scope *s, const char *format, ...) {
    if (s->error) return;
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mem_free(s->label);
    s->label = mem_strdup(text);
    if (!s->label) scope_fail(s, GW_NO_MEMORY, "no memory for a label");
}

int64_t scope_now_ns(const gw_scope *s) {
    if (s->env) return env_now_ns(s->env);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void gw_scope_set_timeout(gw_scope *s, int64_t timeout_ms) {
    if (s == &no_memory_scope) return;
    if (timeout_ms < 0) {
        scope_fail(s, GW_INVALID, "the timeout is %lld ms, but must not be negative",
                   (long long)timeout_ms);
        return;
    }
    int64_t outer = s->parent ? s->parent->deadline_ns : ENV_NEVER;
    int64_t own = deadline_after_ms(scope_now_ns(s), timeout_ms);
    s->deadline_ns = own < outer ? own : outer;
}

void gw_scope_set_interrupt(gw_scope *s, gw_interrupt_poll poll, void *context) {
    check_open(s, "gw_scope_set_interrupt");
    if (s == &no_memory_scope) return;
    s->next_is_interrupted = false;
    s->interrupt = poll;
    s->interrupt_context = context;
}

int64_t gw_scope_time_left_ms(const gw_scope *s) {
    if (s->deadline_ns == ENV_NEVER) return INT64_MAX;
    int64_t left_ns = s->deadline_ns - scope_now_ns(s);
    return left_ns > 0 ? left_ns / 1000000 : 0;
}

uint64_t scope_new_id(const gw_scope *s) {
    if (s == &no_memory_scope) return 0;
    return s->ids->space << 48 |
           (1 + atomic_fetch_add_explicit(&s->ids->next, 1, memory_order_relaxed));
}

uint64_t gw_scope_id(const gw_scope *s) {
    // Requested rarely: steps that never leave this process pay nothing for ids.
    gw_scope *mutable = (gw_scope *)s;
    uint64_t id = atomic_load_explicit(&mutable->id, memory_order_relaxed);
    if (id) return id;
    uint64_t own = scope_new_id(s);
    return atomic_compare_exchange_strong(&mutable->id, &id, own) ? own : id;
}

// ---- Random numbers -----------------------------------------------------------------------------
static void start_generator(gw_scope *s, uint64_t key) {
    s->own_random = (generator){ .key = key };
    s->random = &s->own_random;
    s->opened = s->calls = 0;
}

int gw_draws_in_unspecified_order;

void gw_seed(gw_scope *s, uint64_t seed) {
    check_open(s, "gw_seed");
    if (s == &no_memory_scope) return;
    start_generator(s, seed);
    s->is_seeded = true;
}

void scope_seed_worker(gw_scope *s, int rank) {
    const gw_scope *p = s;
    while (p->random != &p->own_random) p = p->parent;
    if (!p->is_seeded && s != &no_memory_scope)
        start_generator(s, generator_split(p->random, (uint64_t)rank));
}

uint64_t scope_call_key(gw_scope *s) {
    uint64_t path = ++s->calls;
    for (const gw_scope *p = s; p->random != &p->own_random; p = p->parent)
        path = hash_u64(path) + p->number;
    return generator_split(s->random, path);
}

void *gw_alloc(gw_scope *s, size_t size_bytes) {
    check_open(s, "gw_alloc");
    if (s->error) return NULL;
    size_t size = (size_bytes + 15) & ~(size_t)15;
    scope_chunk *c = s->chunks;
    if (size < size_bytes || !c || c->size - c->used < size) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES, total;
        if (size < size_bytes || __builtin_add_overflow(room, sizeof *c, &total) ||
            !(c = mem_calloc(total))) {
            scope_fail(s, GW_NO_MEMORY, "no memory for %zu bytes", size_bytes);
            return NULL;
        }
        c->size = room;
        c->next = s->chunks;
        s->chunks = c;
    }
    void *p = c->bytes + c->used;
    c->used += size;
    return p;
}

const char *gw_format(gw_scope *s, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    char *text = size < 0 ? NULL : gw_alloc(s, (size_t)size + 1);
    if (text) vsnprintf(text, (size_t)size + 1, format, again);
    va_end(again);
    va_end(args);
    return text ? text : "";
}

void *scope_own(gw_scope *s, void *handle) {
    gw_handle *h = handle;
    if (!h || atomic_load_explicit(&h->count, memory_order_relaxed) >= HANDLE_IMMORTAL) return h;
    if (s != &no_memory_scope && handles_add(&s->handles, h)) return h;
    handle_release(h);
    scope_fail(s, GW_NO_MEMORY, "no memory for a handle");
    return NULL;
}

void *scope_own_or(gw_scope *s, void *handle, void *poison) {
    void *owned = scope_own(s, handle);
    return owned ? owned : poison;
}

void scope_release_from(gw_scope *s, uint32_t count) {
    handles_release_from(&s->handles, count);
}

// Without memory the handle is not kept, but the caller's pointer stays valid as long
// as the scope that it is from.
gw_handle *gw_keep_handle(gw_scope *s, gw_handle *h) {
    check_open(s, "gw_keep");
    if (h) scope_own(s, handle_retain(h));
    return h;
}

void gw_drop_handle(gw_scope *s, gw_handle *h) {
    check_open(s, "gw_drop");
    if (is_of_parent_process(s)) return;
    if (h && handles_take(&s->handles, h)) handle_release(h);
}

gw_handle *gw_set_handle(gw_scope *s, gw_handle *old, gw_handle *h) {
    if (h) gw_keep_handle(s, h);
    gw_drop_handle(s, old);
    return h;
}

void scope_set_slot(gw_scope *s, scope_slot slot, void *data,
                    void (*fini)(gw_scope *s, void *data)) {
    if (s == &no_memory_scope) {
        if (fini) fini(s, data);
        return;
    }
    s->slots[slot].data = data;
    s->slots[slot].fini = fini;
}

void gw_scope_clear(gw_scope *s) {
    check_open(s, "gw_scope_clear");
    if (s == &no_memory_scope) return;
    free_error(s->error);
    s->error = NULL;
    s->is_error_read = s->is_interrupted = s->next_is_interrupted = false;
}
