#include "call/registry.h"

#include "agent/settings/options.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/scope.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

// ---- One function, one class --------------------------------------------------------------------

static void free_class(class *c);

static void free_function(function *f) {
    if (!f) return;
    free_class(f->class);
    signature_fini(&f->signature);
    mem_free(f->callers);
    mem_free(f->name);
    mem_free(f);
}

static void free_functions(map *m) {
    for (map_cursor e = { 0 }; map_next(m, &e);) free_function(e.value);
    map_fini(m);
}

static void free_class(class *c) {
    if (!c) return;
    free_functions(&c->methods);
    mem_free(c->name);
    mem_free(c);
}

static gw_status no_memory(gw_error *error) {
    return error_set(error, GW_NO_MEMORY, "no memory for a registry");
}

static gw_status check_name(const char *name, gw_error *error) {
    if (!name || strncmp(name, "gw.", 3)) return GW_OK;
    return error_set(error, GW_INVALID,
                     "\"%.140s\": names that begin with gw. belong to the library", name);
}

// |owner| is "class." in errors about methods, "" else.
static gw_status add(map *functions, const char *owner, function f, const char *name,
                     const char *signature_text, gw_error *error) {
    if (!name || !options_is_name(name))
        return error_set(error, GW_INVALID,
                         "\"%.140s\" is not a name: 1 to %d of A-Z a-z 0-9 _ : . -",
                         name ? name : "", LIMIT_NAME_BYTES);
    if (map_find_name(functions, name))
        return error_set(error, GW_DUPLICATE, "%s%s is registered twice", owner, name);
    if (f.where != GW_INLINE && f.where != GW_POOL)
        return error_set(error, GW_INVALID, "%s%s is neither GW_INLINE nor GW_POOL", owner, name);
    gw_status status = signature_parse(signature_text, &f.signature, error);
    if (status) {
        char prefix[2 * LIMIT_NAME_BYTES + 4];
        snprintf(prefix, sizeof prefix, "%s%s", owner, name);
        if (error) error_prefix(error, prefix);
        return status;
    }
    function *copy = mem_alloc(sizeof *copy);
    if (copy) *copy = f;
    if (copy) copy->name = mem_strdup(name);
    if (!copy || !copy->name || !map_put_name(functions, name, copy)) {
        if (copy) mem_free(copy->name);
        mem_free(copy);
        signature_fini(&f.signature);
        return no_memory(error);
    }
    return GW_OK;
}

static gw_status add_function(gw_registry *r, const char *name, function f,
                              const char *signature_text, gw_error *error) {
    gw_status status = check_name(name, error);
    return status ? status : add(&r->functions, "", f, name, signature_text, error);
}

static gw_status add_class(gw_registry *r, const char *name, gw_class_options options,
                           gw_error *error) {
    if (!options.open)
        return error_set(error, GW_INVALID, "class %.140s: .open is NULL", name ? name : "");
    class *c = mem_calloc(sizeof *c);
    char *copy = mem_strdup(name ? name : "");
    if (!c || !copy) {
        mem_free(copy);
        mem_free(c);
        return no_memory(error);
    }
    c->name = copy;
    c->options = options;
    gw_status status =
        add_function(r, name, (function){ .where = GW_POOL, .class = c }, options.signature, error);
    if (status) free_class(c);
    return status;
}

static gw_status add_method(gw_registry *r, const char *class_name, const char *name,
                            gw_placement where, const char *signature_text, gw_method_body body,
                            gw_error *error) {
    const function *f = map_find_name(&r->functions, class_name ? class_name : "");
    if (!f || !f->class) {
        nearest n = nearest_to(class_name);
        for (map_cursor e = { 0 }; map_next(&r->functions, &e);)
            if (((function *)e.value)->class) nearest_offer(&n, e.name);
        return error_set(error, GW_NOT_FOUND, "method %.127s: no class %.127s is registered%s",
                         name, class_name ? class_name : "", nearest_words(&n));
    }
    char owner[LIMIT_NAME_BYTES + 2];
    snprintf(owner, sizeof owner, "%s.", f->name);
    return add(&f->class->methods, owner, (function){ .where = where, .method = body }, name,
               signature_text, error);
}

static gw_status allow(gw_registry *r, const char *name, const char *callers, gw_error *error) {
    function *f = map_find_name(&r->functions, name ? name : "");
    if (!f) {
        nearest n = nearest_to(name);
        for (map_cursor e = { 0 }; map_next(&r->functions, &e);) nearest_offer(&n, e.name);
        return error_set(error, GW_NOT_FOUND, "callers of %.127s: no such function is registered%s",
                         name ? name : "", nearest_words(&n));
    }
    if (!callers || !options_is_pattern(callers))
        return error_set(error, GW_INVALID, "callers of %.127s: \"%.140s\" is not a name", name,
                         callers ? callers : "");
    char *copy = mem_strdup(callers);
    if (!copy) return no_memory(error);
    mem_free(f->callers);
    f->callers = copy;
    return GW_OK;
}

bool function_allows(const function *f, const char *caller) {
    return !f->callers || options_fits_name(f->callers, caller);
}

// ---- Registries ---------------------------------------------------------------------------------

static void destroy_registry(gw_handle *h) {
    gw_registry *r = (gw_registry *)h;
    free_functions(&r->functions);
    mem_free(r);
}

static const handle_class registry_class = { .name = "registry", .destroy = destroy_registry };

// The result of a failed gw_registry_open: frozen and empty.
static gw_registry poison = { .handle = { &registry_class, HANDLE_IMMORTAL }, .frozen = true };

// Methods follow their classes, and callers follow both: their functions may be in files
// whose constructors ran later.
static int turn_of(const gw_registration *g) {
    return g->callers ? 2 : g->method ? 1 : 0;
}

static gw_status add_registration(gw_registry *r, const gw_registration *g, gw_error *error) {
    if (g->callers) return allow(r, g->name, g->callers, error);
    if (g->function)
        return add_function(r, g->name, (function){ .where = g->where, .body = g->function },
                            g->signature, error);
    if (g->method)
        return add_method(r, g->class_name, g->name, g->where, g->signature, g->method, error);
    return add_class(r, g->name, g->class_options, error);
}

static gw_registry *open_registry(gw_error *error) {
    gw_registry *r = mem_calloc(sizeof *r);
    if (!r) {
        no_memory(error);
        return NULL;
    }
    handle_init(&r->handle, &registry_class);
    return r;
}

gw_registry *gw_registry_open(gw_scope *s) {
    if (s->error) return &poison;
    gw_error error;
    gw_registry *r = open_registry(&error);
    if (!r) scope_fail_with(s, &error);
    return scope_own_or(s, r, &poison);
}

static bool may_add(gw_scope *s, const gw_registry *r) {
    if (s->error) return false;
    if (!r->frozen) return true;
    return scope_fail(s, GW_WRONG_STATE,
                      "the registry is in use by an agent, and can no longer change");
}

void gw_registry_add_function(gw_scope *s, gw_registry *r, const char *name, gw_placement where,
                              const char *signature_text, gw_function_body body) {
    gw_error error;
    if (may_add(s, r) &&
        add_function(r, name, (function){ .where = where, .body = body }, signature_text, &error))
        scope_fail_with(s, &error);
}

void gw_registry_add_class(gw_scope *s, gw_registry *r, const char *name,
                           gw_class_options options) {
    gw_error error;
    if (may_add(s, r) && add_class(r, name, options, &error)) scope_fail_with(s, &error);
}

void gw_registry_add_method(gw_scope *s, gw_registry *r, const char *class_name, const char *name,
                            gw_placement where, const char *signature_text, gw_method_body body) {
    gw_error error;
    if (may_add(s, r) && add_method(r, class_name, name, where, signature_text, body, &error))
        scope_fail_with(s, &error);
}

void gw_registry_allow(gw_scope *s, gw_registry *r, const char *name, const char *callers) {
    gw_error error;
    if (may_add(s, r) && allow(r, name, callers, &error)) scope_fail_with(s, &error);
}

// ---- The process's ------------------------------------------------------------------------------

// Filled by constructors, before there are threads.
static gw_registration *registrations;

void gw_register(gw_registration *r) {
    r->next = registrations;
    registrations = r;
}

gw_status registry_open_process(gw_registry **out, gw_error *error) {
    gw_registry *r = open_registry(error);
    if (!r) return GW_NO_MEMORY;
    gw_status status = GW_OK;
    for (int turn = 0; turn < 3; turn++)
        for (gw_registration *g = registrations; g && !status; g = g->next)
            if (turn_of(g) == turn) status = add_registration(r, g, error);
    if (status) {
        handle_release(r);
        return status;
    }
    *out = r;
    return GW_OK;
}

const function *registry_find(const gw_registry *r, const char *name) {
    return map_find_name(&r->functions, name);
}

const function *class_find_method(const class *c, const char *name) {
    for (int i = 0; i < c->fixed_count; i++)
        if (!strcmp(c->fixed_methods[i].name, name)) return &c->fixed_methods[i];
    return map_find_name(&c->methods, name);
}

const function *library_find(const service *const *services, const char *name) {
    if (strncmp(name, "gw.", 3)) return NULL;
    for (; *services; services++) {
        const function *const *tables = (*services)->functions;
        for (; tables && *tables; tables++)
            for (const function *f = *tables; f->name; f++)
                if (!strcmp(f->name, name)) return f;
    }
    return NULL;
}

void registry_offer(const gw_registry *r, const service *const *services, bool classes,
                    nearest *n) {
    for (map_cursor e = { 0 }; map_next(&r->functions, &e);)
        if (classes || !((function *)e.value)->class) nearest_offer(n, e.name);
    if (strncmp(n->wanted, "gw.", 3)) return;
    for (; *services; services++) {
        const function *const *tables = (*services)->functions;
        for (; tables && *tables; tables++)
            for (const function *f = *tables; f->name; f++)
                if (classes || !f->class) nearest_offer(n, f->name);
    }
    for (const op *const *o = op_table; *o; o++) {
        char name[LIMIT_NAME_BYTES + 1];
        snprintf(name, sizeof name, "gw.%s", (*o)->name);
        nearest_offer(n, name);
    }
}

void class_offer_methods(const class *c, nearest *n) {
    for (int i = 0; i < c->fixed_count; i++) nearest_offer(n, c->fixed_methods[i].name);
    for (map_cursor e = { 0 }; map_next(&c->methods, &e);) nearest_offer(n, e.name);
}

const op *registry_find_operator(const char *name) {
    return strncmp(name, "gw.", 3) ? NULL : op_find(name + 3);
}

// ---- Signatures ---------------------------------------------------------------------------------

enum { ANY_KIND = (1 << GW_KIND_COUNT) - 1, PARAMETERS_MAX = 256 };

_Static_assert(GW_KIND_COUNT <= 16, "a parameter's kinds fit its bits");

static bool word_is(const char *word, size_t size, const char *text) {
    return strlen(text) == size && !memcmp(word, text, size);
}

// The kinds a word stands for; 0 if it is none. An int is accepted where a float is wanted.
static uint16_t kinds_of(const char *word, size_t size) {
    if (word_is(word, size, "any")) return ANY_KIND;
    if (word_is(word, size, "rref")) return 1 << GW_RREF;
    for (int kind = 0; kind < GW_KIND_COUNT; kind++)
        if (word_is(word, size, gw_kind_name((gw_kind)kind)))
            return (uint16_t)(1 << kind | (kind == GW_FLOAT ? 1 << GW_INT : 0));
    return 0;
}

static size_t next_word(const char **at) {
    *at += strspn(*at, " \t\n");
    size_t size = strcspn(*at, ",");
    while (size && strchr(" \t\n", (*at)[size - 1])) size--;
    return size;
}

static gw_status parse_word(const char *word, size_t size, signature *out, gw_error *error) {
    if (word_is(word, size, "...")) {
        out->rest = true;
        return GW_OK;
    }
    bool optional = size && word[size - 1] == '?';
    uint16_t kinds = kinds_of(word, size - optional);
    if (!kinds || out->rest)
        return error_set(error, GW_INVALID, "\"%.*s\" in its signature is not a kind of value",
                         (int)size, word);
    if (!optional && out->required < out->count)
        return error_set(error, GW_INVALID,
                         "\"%.*s\" in its signature is required, but follows an optional parameter",
                         (int)size, word);
    if (out->count == PARAMETERS_MAX)
        return error_set(error, GW_LIMIT, "a signature can have at most %d parameters",
                         PARAMETERS_MAX);
    out->kinds[out->count++] = optional ? (uint16_t)(kinds | 1 << GW_NONE) : kinds;
    if (!optional) out->required = out->count;
    return GW_OK;
}

gw_status signature_parse(const char *text, signature *out, gw_error *error) {
    *out = (signature){ .given = text != NULL };
    if (!text || !text[strspn(text, " \t\n")]) return GW_OK;
    size_t count_max = 1;
    for (const char *at = text; (at = strchr(at, ',')); at++) count_max++;
    out->kinds =
        mem_calloc((count_max < PARAMETERS_MAX ? count_max : PARAMETERS_MAX) * sizeof *out->kinds);
    if (!out->kinds) return error_set(error, GW_NO_MEMORY, "no memory for a signature");
    gw_status status = GW_OK;
    for (const char *at = text; !status;) {
        size_t size = next_word(&at);
        status = parse_word(at, size, out, error);
        at = strchr(at, ',');
        if (!at) break;
        at++;
    }
    if (status) signature_fini(out);
    return status;
}

void signature_fini(signature *s) {
    mem_free(s->kinds);
    *s = (signature){ 0 };
}

static gw_status wrong_count(const signature *s, int count, gw_error *error) {
    int wanted = count < s->required ? s->required : s->count;
    const char *bound = "";
    if (s->rest || s->required < s->count) bound = count < s->required ? "at least " : "at most ";
    return error_set(error, GW_INVALID, "takes %s%d argument%s, not %d", bound, wanted,
                     wanted == 1 ? "" : "s", count);
}

// The kinds of a parameter, as text.
static void name_kinds(uint16_t kinds, char *out, size_t size) {
    if (kinds & 1 << GW_FLOAT) kinds &= (uint16_t) ~(1 << GW_INT);
    kinds &= (uint16_t) ~(1 << GW_NONE);
    for (int kind = 0; kind < GW_KIND_COUNT; kind++)
        if (kinds & 1 << kind) snprintf(out, size, "%s", gw_kind_name((gw_kind)kind));
}

// C's false and true are ints.
static bool takes(uint16_t kinds, gw_value v) {
    if (kinds & 1 << v.kind) return true;
    return kinds & 1 << GW_BOOL && v.kind == GW_INT && (v.as.integer | 1) == 1;
}

gw_status signature_check(const signature *s, int count, const gw_value *args, gw_error *error) {
    if (!s->given) return GW_OK;
    if (count < s->required || (count > s->count && !s->rest)) return wrong_count(s, count, error);
    for (int i = 0; i < count && i < s->count; i++) {
        if (takes(s->kinds[i], args[i])) continue;
        char wanted[32] = "none";
        name_kinds(s->kinds[i], wanted, sizeof wanted);
        return error_set(error, GW_INVALID, "argument %d is %s, not %s", i,
                         gw_kind_name(args[i].kind), wanted);
    }
    return GW_OK;
}
