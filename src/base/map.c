#include "base/map.h"

#include "base/mem.h"

#include <string.h>

// splitmix64's finaliser (Steele, Lea, Flood 2014).
uint64_t hash_u64(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// FNV-1a, finished by hash_u64.
uint64_t hash_bytes(const void *bytes, size_t size) {
    const unsigned char *p = bytes;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return hash_u64(h);
}

void map_fini(map *m) {
    for (size_t i = 0; i < m->capacity; i++) mem_free(m->entries[i].name);
    mem_free(m->entries);
    *m = (map){ 0 };
}

static bool is_key(const map_entry *e, uint64_t key, const char *name) {
    return e->key == key && (name ? e->name && strcmp(e->name, name) == 0 : true);
}

static size_t home_of(const map *m, uint64_t key) {
    return hash_u64(key) & (m->capacity - 1);
}

// The slot of the key, or the free slot for it.
static map_entry *slot_of(const map *m, uint64_t key, const char *name) {
    size_t i = home_of(m, key);
    while (m->entries[i].value && !is_key(&m->entries[i], key, name))
        i = (i + 1) & (m->capacity - 1);
    return &m->entries[i];
}

static bool grow(map *m) {
    size_t capacity = m->capacity ? m->capacity * 2 : 4;
    map bigger = { .entries = mem_calloc(capacity * sizeof(map_entry)),
                   .count = m->count,
                   .capacity = capacity };
    if (!bigger.entries) return false;
    for (size_t i = 0; i < m->capacity; i++) {
        map_entry *e = &m->entries[i];
        if (e->value) *slot_of(&bigger, e->key, e->name) = *e;
    }
    mem_free(m->entries);
    *m = bigger;
    return true;
}

static void *find(const map *m, uint64_t key, const char *name) {
    return m->capacity ? slot_of(m, key, name)->value : NULL;
}

static bool put(map *m, uint64_t key, const char *name, void *value) {
    if ((m->count + 1) * 4 > m->capacity * 3 && !grow(m)) return false;
    map_entry *e = slot_of(m, key, name);
    if (!e->value) {
        char *copy = NULL;
        if (name && !(copy = mem_strdup(name))) return false;
        *e = (map_entry){ .key = key, .name = copy };
        m->count++;
    }
    e->value = value;
    return true;
}

// Linear probing without tombstones: later entries of the run move back into the hole.
static void *take(map *m, uint64_t key, const char *name) {
    if (!m->capacity) return NULL;
    map_entry *e = slot_of(m, key, name);
    void *value = e->value;
    if (!value) return NULL;
    mem_free(e->name);
    size_t mask = m->capacity - 1, hole = (size_t)(e - m->entries);
    for (size_t i = (hole + 1) & mask; m->entries[i].value; i = (i + 1) & mask) {
        size_t home = home_of(m, m->entries[i].key);
        bool stays = hole <= i ? hole < home && home <= i : hole < home || home <= i;
        if (stays) continue;
        m->entries[hole] = m->entries[i];
        hole = i;
    }
    m->entries[hole] = (map_entry){ 0 };
    m->count--;
    return value;
}

void *map_find(const map *m, uint64_t key) {
    return find(m, key, NULL);
}
bool map_put(map *m, uint64_t key, void *value) {
    return put(m, key, NULL, value);
}
void *map_take(map *m, uint64_t key) {
    return take(m, key, NULL);
}

static uint64_t name_key(const char *name) {
    return hash_bytes(name, strlen(name));
}
void *map_find_name(const map *m, const char *name) {
    return find(m, name_key(name), name);
}
bool map_put_name(map *m, const char *name, void *value) {
    return put(m, name_key(name), name, value);
}
void *map_take_name(map *m, const char *name) {
    return take(m, name_key(name), name);
}

bool map_next(const map *m, map_cursor *e) {
    while (e->index < m->capacity) {
        const map_entry *x = &m->entries[e->index++];
        if (!x->value) continue;
        *e = (map_cursor){ e->index, x->key, x->name, x->value };
        return true;
    }
    return false;
}
