// Shared by all kinds of stores: checks, the table, the records.
#include "store/store_internal.h"

#include "base/mem.h"
#include "base/status.h"

#include <string.h>

void store_close(store *st) {
    if (st) st->class->close(st);
}

static gw_status check_key(const char *key, gw_error *error) {
    size_t size = strnlen(key, LIMIT_STORE_KEY_BYTES + 1);
    if (size == 0 || size > LIMIT_STORE_KEY_BYTES)
        return error_set(error, GW_INVALID,
                         "store: the key \"%.40s\" has %s bytes, but must have 1 to %d", key,
                         size ? "too many" : "no", LIMIT_STORE_KEY_BYTES);
    return GW_OK;
}

static gw_status set(store *st, const char *key, const void *value, size_t size, int64_t until_ns,
                     bool registers, bool *out_set, bytes *out_found, gw_error *error) {
    gw_status status = check_key(key, error);
    if (status) return status;
    if (size > LIMIT_STORE_VALUE_BYTES)
        return error_set(error, GW_LIMIT,
                         "store: a value of %zu bytes for %s, but at most %d bytes are allowed",
                         size, key, LIMIT_STORE_VALUE_BYTES);
    return st->class->set(st, key, value, size, until_ns, registers, out_set, out_found, error);
}

gw_status store_set_if_absent(store *st, const char *key, const void *value, size_t size,
                              int64_t until_ns, bool *out_set, bytes *out_found, gw_error *error) {
    return set(st, key, value, size, until_ns, false, out_set, out_found, error);
}

gw_status store_register(store *st, const char *key, const void *value, size_t size,
                         int64_t until_ns, bool *out_set, bytes *out_found, gw_error *error) {
    return set(st, key, value, size, until_ns, true, out_set, out_found, error);
}

gw_status store_wait(store *st, const char *key, int64_t until_ns, bytes *out, gw_error *error) {
    gw_status status = check_key(key, error);
    return status ? status : st->class->wait(st, key, until_ns, out, error);
}

gw_status store_watch(store *st,
                      void (*found)(void *user, const char *key, const void *value, size_t size),
                      void *user, gw_error *error) {
    if (!st->class->watch)
        return error_set(error, GW_UNSUPPORTED,
                         "store: only the worker that hosts the store can watch it");
    st->found = found;
    st->found_user = user;
    return st->class->watch(st, error);
}

void store_attend(store *st) {
    if (st->class->attend) st->class->attend(st);
}

void store_expect_move(store *st, int64_t ms) {
    if (st->class->expect_move) st->class->expect_move(st, ms);
}

bool store_is_attended(store *st) {
    return !st->class->is_attended || st->class->is_attended(st);
}

void store_notify(store *st, const char *key, const void *value, size_t size) {
    if (st->found) st->found(st->found_user, key, value, size);
}

bool store_pause(const store *st, const char *what, int64_t until_ns, int64_t delay_ms) {
    int64_t now_ns = env_now_ns(st->env), due_ns = now_ns + delay_ms * INT64_C(1000000);
    if (now_ns >= until_ns) return false;
    waiter w = { .what = what };
    if (due_ns > until_ns) due_ns = until_ns;
    env_wait(st->env, &w, due_ns);
    return env_now_ns(st->env) >= due_ns;
}

// ---- The table ----------------------------------------------------------------------------------
void store_table_init(store_table *t) {
    *t = (store_table){ 0 };
}

void store_table_fini(store_table *t) {
    for (map_cursor e = { 0 }; map_next(&t->entries, &e);) {
        store_entry *entry = e.value;
        while (list_take(&entry->waits)) continue;
        bytes_fini(&entry->value);
        mem_free(entry);
    }
    map_fini(&t->entries);
}

const store_entry *store_table_find(const store_table *t, const char *key) {
    const store_entry *entry = map_find_name(&t->entries, key);
    return entry && entry->is_set ? entry : NULL;
}

gw_status store_give_value(const store_entry *entry, bytes *out, gw_error *error) {
    bytes_put(out, entry->value.data, entry->value.size);
    return out->failed ? error_set(error, GW_NO_MEMORY, "store: no memory for %s", entry->key)
                       : GW_OK;
}

static store_entry *make_entry(store_table *t, const char *key) {
    store_entry *entry = map_find_name(&t->entries, key);
    if (entry) return entry;
    size_t key_size = strlen(key) + 1;
    entry = mem_calloc(sizeof *entry + key_size);
    if (!entry) return NULL;
    list_init(&entry->waits);
    memcpy(entry->key, key, key_size);
    if (map_put_name(&t->entries, key, entry)) return entry;
    mem_free(entry);
    return NULL;
}

static void drop_unused(store_table *t, store_entry *entry) {
    if (entry->is_set || !list_is_empty(&entry->waits)) return;
    map_take_name(&t->entries, entry->key);
    bytes_fini(&entry->value);
    mem_free(entry);
}

size_t store_entry_cost(const char *key, size_t value_size) {
    return strlen(key) + value_size + sizeof(store_entry);
}

gw_status store_table_set(store_table *t, const char *key, const void *value, size_t size,
                          uint64_t token, gw_error *error) {
    size_t cost = store_entry_cost(key, size);
    if (cost > LIMIT_STORE_BYTES - t->size_bytes)
        return error_set(error, GW_LIMIT, "store: keys and values have more than %d bytes",
                         LIMIT_STORE_BYTES);
    store_entry *entry = make_entry(t, key);
    if (entry) bytes_put(&entry->value, value, size);
    if (!entry || entry->value.failed) {
        if (entry) entry->value.failed = false;
        if (entry) drop_unused(t, entry);
        return error_set(error, GW_NO_MEMORY, "store: no memory for %s", key);
    }
    t->size_bytes += cost;
    entry->is_set = true;
    entry->token = token;
    for (list_node *l; (l = list_take(&entry->waits));) {
        store_wait_entry *w = list_entry(l, store_wait_entry, link);
        w->found(w, &entry->value);
    }
    return GW_OK;
}

bool store_table_wait(store_table *t, const char *key, store_wait_entry *w) {
    store_entry *entry = make_entry(t, key);
    if (!entry) return false;
    list_append(&entry->waits, &w->link);
    w->entry = entry;
    return true;
}

void store_table_unwait(store_table *t, store_wait_entry *w) {
    if (!list_has(&w->link)) return;
    list_remove(&w->link);
    drop_unused(t, w->entry);
}

// ---- Records ------------------------------------------------------------------------------------
void store_record_encode(bytes *out, const store_record *r) {
    size_t start = out->size;
    bytes_put_u32(out, 0);
    bytes_put_u8(out, (uint8_t)r->kind);
    bytes_put_u64(out, r->request);
    if (r->kind == STORE_SET) bytes_put_u64(out, r->token);
    if (r->kind == STORE_REPLY) bytes_put_u8(out, (uint8_t)r->outcome);
    if (r->kind != STORE_REPLY) bytes_put_text(out, r->key);
    if (r->kind != STORE_WAIT) bytes_put(out, r->value, r->size);
    if (out->failed) return;
    uint32_t size = (uint32_t)(out->size - start - sizeof size);
    memcpy(out->data + start, &size, sizeof size);
}

static gw_status decode_fields(reader *in, store_record *out, gw_error *error) {
    uint8_t kind = reader_u8(in);
    out->request = reader_u64(in);
    if (kind == STORE_SET) out->token = reader_u64(in);
    if (kind == STORE_REPLY) {
        uint8_t outcome = reader_u8(in);
        if (outcome >= STORE_OUTCOME_COUNT)
            return error_set(error, GW_PROTOCOL, "store: unknown outcome %u in a reply", outcome);
        out->outcome = (store_outcome)outcome;
    } else {
        reader_text(in, out->key, sizeof out->key);
    }
    if (in->failed || kind < STORE_SET || kind > STORE_REPLY)
        return error_set(error, GW_PROTOCOL, "store: a record of unknown kind %u", kind);
    out->kind = (store_record_kind)kind;
    out->size = reader_left(in);
    out->value = reader_take(in, out->size);
    if (kind == STORE_WAIT && out->size)
        return error_set(error, GW_PROTOCOL, "store: malformed wait: %zu trailing bytes",
                         out->size);
    if (out->size > LIMIT_STORE_VALUE_BYTES)
        return error_set(error, GW_LIMIT, "store: a value has %zu bytes, at most %d are allowed",
                         out->size, LIMIT_STORE_VALUE_BYTES);
    if (kind == STORE_REPLY) return GW_OK;
    return out->key[0] ? GW_OK : error_set(error, GW_PROTOCOL, "store: an empty key");
}

gw_status store_record_decode(const uint8_t *in, size_t size, store_record *out, size_t *out_taken,
                              gw_error *error) {
    reader r = reader_of(in, size);
    *out_taken = 0;
    uint32_t record_size = reader_u32(&r);
    if (r.failed) return GW_OK;
    if (record_size > STORE_RECORD_MAX)
        return error_set(error, GW_LIMIT, "store: a record has %u bytes, at most %d are allowed",
                         record_size, STORE_RECORD_MAX);
    if (reader_left(&r) < record_size) return GW_OK;
    reader fields = reader_of(r.at, record_size);
    *out = (store_record){ 0 };
    *out_taken = sizeof record_size + record_size;
    return decode_fields(&fields, out, error);
}
