#include "net/transport/routes.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

static const char usual_scheme[] = "tcp";

// ---- Addresses in text --------------------------------------------------------------------------

static void copy(char *out, size_t room, const char *from, size_t size) {
    if (size >= room) size = 0;
    memcpy(out, from, size);
    out[size] = '\0';
}

bool address_take(const char **at, address_text *out) {
    const char *from = *at;
    if (!*from) return false;
    const char *end = strchr(from, ',');
    if (!end) end = from + strlen(from);
    *at = *end ? end + 1 : end;
    const char *colon = strstr(from, "://");
    if (colon && colon < end) {
        copy(out->scheme, sizeof out->scheme, from, (size_t)(colon - from));
        from = colon + 3;
    } else {
        memcpy(out->scheme, usual_scheme, sizeof usual_scheme);
    }
    copy(out->rest, sizeof out->rest, from, (size_t)(end - from));
    return true;
}

const transport *transport_find(const env *e, const char *scheme) {
    for (int i = 0; e->transports[i]; i++)
        if (strcmp(e->transports[i]->scheme, scheme) == 0) return e->transports[i];
    return NULL;
}

// ---- Routes -------------------------------------------------------------------------------------

static int count_known(const env *e, const char *addresses) {
    int count = 0;
    address_text a;
    while (address_take(&addresses, &a) && count < LIMIT_ADDRESSES)
        count += transport_find(e, a.scheme) != NULL;
    return count;
}

static void free_list(route **list, int *count) {
    for (int i = 0; i < *count; i++) mem_free((*list)[i].address);
    mem_free(*list);
    *list = NULL;
    *count = 0;
}

static bool add(route *list, int *count, const transport *t, const char *address) {
    char *copied = mem_strdup(address);
    if (copied) list[(*count)++] = (route){ t, copied };
    return copied != NULL;
}

bool routes_init(routes *r, const env *e, const char *addresses) {
    *r = (routes){ .text = mem_strdup(addresses) };
    int limit = count_known(e, addresses);
    r->given = limit ? mem_calloc((size_t)limit * sizeof *r->given) : NULL;
    bool is_whole = r->text && (r->given || !limit);
    address_text a;
    while (is_whole && r->given_count < limit && address_take(&addresses, &a)) {
        const transport *t = transport_find(e, a.scheme);
        if (t) is_whole = add(r->given, &r->given_count, t, a.rest);
    }
    if (!is_whole) routes_fini(r);
    return is_whole;
}

void routes_fini(routes *r) {
    error_forget(&r->why);
    error_forget(&r->before);
    free_list(&r->given, &r->given_count);
    free_list(&r->list, &r->count);
    mem_free(r->text);
    *r = (routes){ 0 };
}

// A name that does not resolve is kept: connecting there fails and reports why.
static bool add_meant(route *list, int *count, const route *given) {
    char meant[ADDRESSES_MAX];
    const transport *t = given->transport;
    if (!t->resolve || t->resolve(given->address, meant, NULL))
        snprintf(meant, sizeof meant, "%s", given->address);
    const char *at = meant;
    address_text a;
    bool is_whole = true;
    while (is_whole && *count < LIMIT_ADDRESSES && address_take(&at, &a))
        is_whole = add(list, count, t, a.rest);
    return is_whole;
}

static int find_again(const route *list, int count, const route *before) {
    for (int i = 0; before && i < count; i++)
        if (list[i].transport == before->transport && !strcmp(list[i].address, before->address))
            return i;
    return 0;
}

// False without memory.
static bool list_round(routes *r) {
    route *list = mem_calloc(LIMIT_ADDRESSES * sizeof *list);
    int count = 0;
    bool is_whole = list != NULL;
    for (int i = 0; i < r->given_count && is_whole; i++)
        is_whole = add_meant(list, &count, &r->given[i]);
    if (!is_whole) {
        free_list(&list, &count);
        return false;
    }
    r->first = find_again(list, count, r->list ? &r->list[r->first] : NULL);
    free_list(&r->list, &r->count);
    r->list = list;
    r->count = count;
    return true;
}

bool routes_begin(routes *r) {
    gw_error error;
    r->failed_count = 0;
    if (r->given_count == 0)
        error_set(&error, GW_INVALID,
                  "no transport of this worker can use an address like \"%.200s\"", r->text);
    else if (!list_round(r) && !r->list)
        error_set(&error, GW_NO_MEMORY, "no memory to connect to \"%.200s\"", r->text);
    r->at = r->first;
    if (r->count > 0) return true;
    error_keep(&r->why, &error);
    return false;
}

const route *routes_at(const routes *r) {
    return &r->list[r->at];
}

static bool is_final(gw_status status) {
    return status == GW_NOT_FOUND || status == GW_INVALID;
}

// An error that may be temporary outweighs a final one; among equals the earlier one counts.
static gw_status outweighs(gw_status before, gw_status now) {
    if (before == GW_INVALID && now == GW_NOT_FOUND) return now;
    return is_final(before) && !is_final(now) ? now : before;
}

static void add_answer(routes *r, const gw_error *why) {
    const gw_error *before = error_kept(r->why);
    gw_error both;
    error_set(&both, outweighs(before->status, why->status), "%.500s; %.450s", before->text,
              why->text);
    error_keep(&r->why, &both);
}

bool routes_failed(routes *r, const gw_error *why, bool names_address) {
    gw_error named = *why;
    if (!names_address && r->count > 1) error_prefix(&named, routes_at(r)->address);
    if (r->failed_count == 0) {
        error_keep(&r->why, &named);
    } else {
        add_answer(r, &named);
    }
    r->failed_count++;
    r->at = (r->at + 1) % r->count;
    return r->failed_count < r->count;
}

void routes_worked(routes *r) {
    r->first = r->at;
    if (!r->why) return;
    error_forget(&r->before);
    r->before = r->why;
    r->why = NULL;
}

// ---- Listeners ----------------------------------------------------------------------------------

typedef struct opening {
    env *env;
    void (*accepted)(void *user, stream *s);
    void *user;
    listeners *out;
    char *addresses;
    size_t size;
    gw_error why;  // the last transport did not listen
} opening;

static gw_status listen_at(opening *o, const transport *t, const char *address, gw_error *error) {
    char bound[ADDRESS_MAX];
    listeners *l = o->out;
    if (l->count == TRANSPORTS_MAX)
        return error_set(error, GW_LIMIT, "there are more than %d addresses to listen at",
                         TRANSPORTS_MAX);
    gw_status status =
        t->listen(o->env, address, o->accepted, o->user, &l->list[l->count], bound, error);
    if (status) return status;
    l->count++;
    int size = snprintf(o->addresses + o->size, ADDRESSES_MAX - o->size, "%s%s://%s",
                        o->size ? "," : "", t->scheme, bound);
    if (size > 0 && (size_t)size < ADDRESSES_MAX - o->size) {
        o->size += (size_t)size;
    } else {
        o->addresses[o->size] = '\0';  // it is not published
    }
    return GW_OK;
}

// Listens at the |addresses| of |t|, or at its default.
static gw_status listen_over(opening *o, const transport *t, const char *addresses,
                             gw_error *error) {
    bool is_chosen = false;
    address_text a;
    while (address_take(&addresses, &a)) {
        if (strcmp(a.scheme, t->scheme) != 0) continue;
        is_chosen = true;
        gw_status status = listen_at(o, t, a.rest, error);
        if (status) return status;
    }
    if (is_chosen || !t->anywhere) return GW_OK;
    bool is_alone = !o->env->transports[1];
    if (listen_at(o, t, t->anywhere, &o->why) && !is_alone)
        log_line("does not listen over %s: %s", t->name, o->why.text);
    return GW_OK;
}

static gw_status check_schemes(const env *e, const char *addresses, gw_error *error) {
    address_text a;
    while (address_take(&addresses, &a))
        if (!transport_find(e, a.scheme))
            return error_set(error, GW_UNSUPPORTED, "cannot listen at %s://%s: no such transport",
                             a.scheme, a.rest);
    return GW_OK;
}

gw_status listeners_open(env *e, const char *addresses, void (*accepted)(void *user, stream *s),
                         void *user, listeners *out, char out_addresses[ADDRESSES_MAX],
                         gw_error *error) {
    opening o = { e, accepted, user, out, out_addresses, 0, { 0 } };
    *out = (listeners){ 0 };
    out_addresses[0] = '\0';
    gw_status status = check_schemes(e, addresses, error);
    for (int i = 0; !status && e->transports[i]; i++)
        status = listen_over(&o, e->transports[i], addresses, error);
    if (!status && out->count == 0 && !o.why.status)
        status = error_set(error, GW_UNSUPPORTED, "this worker has no transport that can listen");
    if (!status && out->count == 0) {
        *error = o.why;
        status = o.why.status;
    }
    if (status) listeners_close(out);
    return status;
}

gw_status listeners_add(env *e, const char *address, void (*accepted)(void *user, stream *s),
                        void *user, listeners *l, gw_error *error) {
    char ignored[ADDRESSES_MAX] = "";
    opening o = { e, accepted, user, l, ignored, 0, { 0 } };
    address_text a;
    gw_status status = check_schemes(e, address, error);
    if (!status && address_take(&address, &a))
        status = listen_at(&o, transport_find(e, a.scheme), a.rest, error);
    return status;
}

void listeners_close(listeners *l) {
    while (l->count > 0) listener_close(l->list[--l->count]);
}
