// The service of groups: their table, their messages, and what becomes of them when members go.
#include "agent/deferred.h"
#include "base/mem.h"
#include "collective/answer.h"
#include "collective/backward.h"
#include "collective/collective.h"
#include "collective/groups_state.h"
#include "collective/run.h"
#include "wire/codec.h"

#include <stdio.h>
#include <string.h>

typedef struct groups {
    map groups;       // by id
    map opened;       // by name and list: how many there were, their generation
    list_node early;  // of groups that are not open here
} groups;

// Of each member: what it has sent that waits here.
typedef struct early_part {
    uint64_t bytes;
} early_part;

static groups *groups_of(const agent *a) {
    return agent_state(a, &group_service);
}

// ---- Headers ------------------------------------------------------------------------------------

void group_header_write(bytes *head, const gw_group *g, uint64_t key, uint64_t number) {
    bytes_put_u64(head, g->id);
    bytes_put_u64(head, g->list);
    bytes_put_u64(head, key);
    bytes_put_u64(head, number);
    bytes_put_u32(head, 0);
}

bool group_header_read(reader *in, group_header *out) {
    out->group = reader_u64(in);
    out->list = reader_u64(in);
    out->key = reader_u64(in);
    out->number = reader_u64(in);
    out->attachments_at = reader_u32(in);
    return !in->failed;
}

// ---- The table ----------------------------------------------------------------------------------

gw_group *group_find_on_loop(const agent *a, uint64_t id) {
    return map_find(&groups_of(a)->groups, id);
}

int group_index_of(const gw_group *g, int rank) {
    for (int i = 0; i < g->count; i++)
        if (g->members[i].rank == rank) return i;
    return -1;
}

const char *group_member_name(const gw_group *g, int index) {
    return agent_member(g->agent, g->members[index].rank)->name;
}

static bool is_open(const groups *x, const char *name) {
    map_entry *e;
    for (size_t i = 0; (e = map_next(&x->groups, &i));) {
        const gw_group *g = e->value;
        if (g->has_name && strcmp(g->name, name) == 0) return true;
    }
    return false;
}

static gw_status draw_id(groups *x, gw_group *g, gw_error *error) {
    uint64_t name = g->has_name ? hash_bytes(g->name, strlen(g->name)) : 0;
    uint64_t same = hash_u64(g->list ^ name);
    uintptr_t before = (uintptr_t)map_find(&x->opened, same);
    g->id = hash_u64((g->has_name ? name : g->list) ^ before);
    size_t at = strlen(g->name);
    if (g->is_own)  // what is said of it names no other one of the same members
        snprintf(g->name + at, sizeof g->name - at, " #%llu", (unsigned long long)before + 1);
    if (map_find(&x->groups, g->id) || (g->has_name && is_open(x, g->name)))
        return error_set(error, GW_DUPLICATE, "a group \"%s\" is open here already", g->name);
    if (!map_put(&x->opened, same, (void *)(before + 1)))
        return error_set(error, GW_NO_MEMORY, "no memory for a group");
    return GW_OK;
}

static gw_status check_members(const gw_group *g, gw_error *error) {
    for (int i = 0; i < g->count; i++) {
        const member *m = agent_member(g->agent, g->members[i].rank);
        if (!m->lost) continue;
        *error = *m->why;
        error_prefix(error, m->name);
        return error->status;
    }
    return GW_OK;
}

static void take_early(groups *x, gw_group *g);

gw_status groups_add_on_loop(gw_group *g, gw_error *error) {
    agent *a = g->agent;
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a group", error);
    groups *x = groups_of(a);
    gw_status status = check_members(g, error);
    if (!status && x->groups.count >= LIMIT_GROUPS)
        status = error_set(error, GW_LIMIT, "more than %d groups", LIMIT_GROUPS);
    if (!status) status = draw_id(x, g, error);
    if (status) return status;
    if (!map_put(&x->groups, g->id, g))
        return error_set(error, GW_NO_MEMORY, "no memory for a group");
    take_early(x, g);
    return GW_OK;
}

void groups_remove_on_loop(gw_group *g) {
    groups *x = groups_of(g->agent);
    if (map_find(&x->groups, g->id) == g) map_take(&x->groups, g->id);
}

gw_group *groups_next_on_loop(const agent *a, size_t *at) {
    map_entry *e = map_next(&groups_of(a)->groups, at);
    return e ? e->value : NULL;
}

// ---- Sequences ----------------------------------------------------------------------------------

sequence *group_find_sequence_on_loop(gw_group *g, uint64_t key) {
    return key ? map_find(&g->sequences, key) : &g->main;
}

sequence *group_sequence_on_loop(gw_group *g, uint64_t key) {
    sequence *t = group_find_sequence_on_loop(g, key);
    if (t || g->sequences.count >= LIMIT_GROUP_KEYS) return t;
    t = mem_calloc(sizeof *t);
    if (!t) return NULL;
    t->key = key;
    t->next = 1;
    if (map_put(&g->sequences, key, t)) return t;
    mem_free(t);
    return NULL;
}

void group_forget_sequence_on_loop(gw_group *g, sequence *t) {
    if (!key_is_once(t->key)) return;
    map_take(&g->sequences, t->key);
    error_forget(&t->why);
    mem_free(t);
}

run *group_find_run_on_loop(const gw_group *g, uint64_t key, uint64_t number) {
    list_each(l, &g->runs) {
        run *r = list_entry(l, run, link);
        if (r->number == number && r->sequence->key == key) return r;
    }
    return NULL;
}

// ---- Early messages -----------------------------------------------------------------------------

gw_status early_keep_on_loop(agent *a, list_node *list, int from, uint8_t kind,
                             const group_header *h, incoming *p, gw_error *error) {
    early_part *part = agent_member_part(a, from, &group_service);
    uint64_t size = sizeof(early_message) + message_size(p->message) + p->message->fetched_bytes;
    early_message *x = mem_alloc(sizeof *x);
    if (!x || size > LIMIT_EARLY_COLLECTIVE_BYTES - part->bytes) {
        mem_free(x);
        incoming_close_on_loop(a, p);
        return error_set(error, GW_LIMIT, "too much of collectives that were not entered here");
    }
    part->bytes += size;
    *x = (early_message){ .header = *h, .kind = kind, .from = from, .size = size, .incoming = p };
    list_append(list, &x->link);
    return GW_OK;
}

early_message *early_take_on_loop(const gw_group *g, uint64_t key, uint64_t number) {
    list_each(l, &g->early) {
        early_message *x = list_entry(l, early_message, link);
        if (x->header.key != key || x->header.number != number) continue;
        list_remove(l);
        return x;
    }
    return NULL;
}

incoming *early_open_on_loop(agent *a, early_message *x) {
    early_part *part = agent_member_part(a, x->from, &group_service);
    incoming *p = x->incoming;
    part->bytes -= x->size;
    list_remove(&x->link);
    mem_free(x);
    return p;
}

void early_drop_on_loop(agent *a, early_message *x) {
    incoming_close_on_loop(a, early_open_on_loop(a, x));
}

static void drop_all(agent *a, list_node *list) {
    while (!list_is_empty(list)) early_drop_on_loop(a, list_entry(list->next, early_message, link));
}

// GRP-9.
static void refuse_list(gw_group *g, int from) {
    gw_error error;
    error_set(&error, GW_MISMATCH, "group \"%s\" has other members on %s than on %s", g->name,
              agent_member(g->agent, from)->name, g->agent->name);
    verdict_send_break_on_loop(g, from, &error);
    group_break_on_loop(g, &error);
}

// A report, verdict or break that came before the group was opened.
static void take_early_verdict(gw_group *g, early_message *x) {
    int from = x->from;
    group_header h = x->header;
    uint8_t kind = x->kind;
    incoming *p = early_open_on_loop(g->agent, x);
    const bytes *head = &p->message->head;
    reader in = reader_of(head->data + GROUP_HEADER_BYTES, head->size - GROUP_HEADER_BYTES);
    int index = group_index_of(g, from);
    if (h.list == g->list && index >= 0 && !verdict_received_on_loop(g, index, kind, &h, &in)) {
        gw_error error;
        error_set(&error, GW_PROTOCOL, "collective: fields that mean nothing");
        group_blame_on_loop(g, from, &error);
    }
    incoming_close_on_loop(g->agent, p);
}

// What came before the group was opened.
static void take_early(groups *x, gw_group *g) {
    list_each(l, &x->early) {
        early_message *m = list_entry(l, early_message, link);
        if (m->header.group != g->id) continue;
        int from = m->from;
        if (m->kind != KIND_ENTER && m->kind != KIND_PART) {
            take_early_verdict(g, m);
        } else if (m->header.list == g->list && group_index_of(g, from) >= 0 && !g->broken.status) {
            list_remove(l);
            list_append(&g->early, l);
        } else {
            early_drop_on_loop(g->agent, m);
            refuse_list(g, from);
        }
    }
}

// ---- Messages -----------------------------------------------------------------------------------

// GRP-8: if this worker's program has asked to leave.
static void excuse(gw_group *g, uint64_t key, uint64_t number) {
    gw_error error;
    if (!collective_check_enters(g->agent, &error)) return;
    error.status = GW_DISCONNECTED;
    group_report_on_loop(g, key, number, &error);
}

// Of a group that is not open here: kept until it is.
static gw_status keep_unknown(agent *a, int from, uint8_t kind, const group_header *h, incoming *p,
                              gw_error *error) {
    return early_keep_on_loop(a, &groups_of(a)->early, from, kind, h, p, error);
}

static gw_status value_received(agent *a, int from, message *m, const group_header *h,
                                gw_error *error) {
    incoming *p;
    uint8_t kind = m->kind;
    gw_status status = incoming_open_on_loop(a, from, m, h->attachments_at, &p, error);
    gw_group *g = group_find_on_loop(a, h->group);
    if (status == GW_PROTOCOL) return status;
    if (status) {  // what was lent cannot be read, or there is no memory for it
        if (g) group_report_on_loop(g, h->key, h->number, error);
        return GW_OK;
    }
    if (!g) return keep_unknown(a, from, kind, h, p, error);
    int index = g->list == h->list ? group_index_of(g, from) : -1;
    if (index < 0 || g->broken.status) {
        incoming_close_on_loop(a, p);
        if (index < 0)
            refuse_list(g, from);
        else if (kind == KIND_ENTER)  // GRP-10
            verdict_send_break_on_loop(g, from, &g->broken);
        return GW_OK;
    }
    const sequence *t = group_find_sequence_on_loop(g, h->key);
    run *r = group_find_run_on_loop(g, h->key, h->number);
    if (r) return run_received_on_loop(r, index, p, kind, error);
    if (t && h->number < t->next) {  // it is over: GRP-6, or this member had no use for it
        incoming_close_on_loop(a, p);
        return GW_OK;
    }
    status = early_keep_on_loop(a, &g->early, from, kind, h, p, error);
    if (status) return status;
    excuse(g, h->key, h->number);
    if (key_is_once(h->key)) backward_awaited_on_loop(g, h->key);
    answer_enters_on_loop(g);
    return GW_OK;
}

// About a group that is not open here. Who has not opened it answers queries all the same, since its
// leader waits for all; the rest is kept until it is.
static gw_status unknown_received(agent *a, int from, message *m, const group_header *h,
                                  gw_error *error) {
    incoming *p;
    if (m->kind == KIND_QUERY) verdict_answer_unknown_on_loop(a, from, h);
    if (m->kind == KIND_QUERY || m->kind == KIND_ANSWER) {
        message_release(m);
        return GW_OK;
    }
    uint8_t kind = m->kind;
    gw_status status = incoming_open_on_loop(a, from, m, 0, &p, error);
    return status ? status : keep_unknown(a, from, kind, h, p, error);
}

// Of one id, but with other members: GRP-9.
static void other_list_received(gw_group *g, int from, uint8_t kind, reader *in) {
    gw_error error, ignored;
    if (kind == KIND_BREAK && !decode_error(in, &error, &ignored) && error.status)
        group_break_on_loop(g, &error);
    else if (kind == KIND_QUERY || kind == KIND_REPORT)
        refuse_list(g, from);
}

static gw_status about_verdict(agent *a, int from, message *m, const group_header *h, reader *in,
                               gw_error *error) {
    gw_group *g = group_find_on_loop(a, h->group);
    if (!g) return unknown_received(a, from, m, h, error);
    int index = g->list == h->list ? group_index_of(g, from) : -1;
    bool valid = true;
    if (index < 0)
        other_list_received(g, from, m->kind, in);
    else
        valid = verdict_received_on_loop(g, index, m->kind, h, in);
    message_release(m);
    return valid ? GW_OK : error_set(error, GW_PROTOCOL, "collective: fields that mean nothing");
}

static gw_status received(agent *a, int from, message *m, gw_error *error) {
    reader in = reader_of(m->head.data, m->head.size);
    group_header h;
    bool valid = group_header_read(&in, &h) && (h.number > 0) == (m->kind != KIND_BREAK);
    if (valid && (m->kind == KIND_ENTER || m->kind == KIND_PART))
        return value_received(a, from, m, &h, error);
    if (valid && !h.attachments_at) return about_verdict(a, from, m, &h, &in, error);
    message_release(m);
    return error_set(error, GW_PROTOCOL, "collective: fields that mean nothing");
}

// GRP-1
static bool takes_incomplete(uint8_t kind) {
    return kind == KIND_PART;
}

static size_t find_table(const message *m) {
    return m->kind == KIND_ENTER || m->kind == KIND_PART
               ? (uint32_t)deferred_u64_at(m, GROUP_ATTACHMENTS_FIELD)
               : 0;
}

static bool names_unknown(const agent *a, const message *m) {
    return deferred_table_names_unknown(a, m, find_table(m));
}

// ---- Ends ---------------------------------------------------------------------------------------

// Ends of groups may run what opens or closes others, so each search begins again.
static gw_group *find_with(const agent *a, int rank) {
    map_entry *e;
    for (size_t i = 0; (e = map_next(&groups_of(a)->groups, &i));) {
        gw_group *g = e->value;
        if (!g->broken.status && (rank < 0 || group_index_of(g, rank) >= 0)) return g;
    }
    return NULL;
}

static void lost(agent *a, int rank) {
    groups *x = groups_of(a);
    list_each(l, &x->early) {
        early_message *m = list_entry(l, early_message, link);
        if (m->from == rank) early_drop_on_loop(a, m);
    }
    for (gw_group *g; (g = find_with(a, rank));) {
        gw_error error = *agent_member(a, rank)->why;
        error.status = GW_DISCONNECTED;
        error_prefix(&error, agent_member(a, rank)->name);
        group_break_on_loop(g, &error);
    }
}

static void stop(agent *a, const gw_error *why) {
    drop_all(a, &groups_of(a)->early);
    for (gw_group *g; (g = find_with(a, -1));) group_break_on_loop(g, why);
}

static void tell_excuses(agent *a) {
    map_entry *e;
    for (size_t i = 0; (e = map_next(&groups_of(a)->groups, &i));) {
        gw_group *g = e->value;
        list_each(l, &g->early) {
            const early_message *m = list_entry(l, early_message, link);
            excuse(g, m->header.key, m->header.number);
            if (g->broken.status) break;  // for want of memory: the list is gone
        }
    }
}

static void list_pending(const agent *a, pending *out) {
    map_entry *e;
    size_t count = 0;
    for (size_t i = 0; (e = map_next(&groups_of(a)->groups, &i));) {
        const gw_group *g = e->value;
        list_each(l, &g->runs) count += list_entry(l, run, link)->state == RUN_UNDER_WAY;
    }
    pending_add(out, "awaits", count, "collective", "collectives");
}

// ---- The service --------------------------------------------------------------------------------

static gw_status open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)a, (void)options;
    groups *x = mem_calloc(sizeof *x);
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for groups");
    list_init(&x->early);
    *state = x;
    return GW_OK;
}

static void free_state(void *state) {
    groups *x = state;
    map_fini(&x->groups);
    map_fini(&x->opened);
    mem_free(x);
}

const service group_service = {
    .name = "group",
    .kind_first = KIND_ENTER,
    .kind_last = GROUP_KIND_LAST,
    .member_size = sizeof(early_part),
    .open = open,
    .received = received,
    .find_table = find_table,
    .names_unknown = names_unknown,
    .takes_incomplete = takes_incomplete,
    .leaving = tell_excuses,
    .lost = lost,
    .pending = list_pending,
    .stop = stop,
    .free = free_state,
};
