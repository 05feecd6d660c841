// The store in Redis. docs/protocol/joining.md specifies its contents.
//
// Commands are sent without the loop lock, since Redis may be slow. A thread of the store polls for new values while the
// store is watched, and renews the key by which this worker attends.
#include "store/store_redis.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/system_error.h"
#include "net/tls/protection.h"
#include "store/store_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MS INT64_C(1000000)

enum {
    POLL_FIRST_MS = 2,
    POLL_MAX_MS = 50,
    PATIENCE_MS = 5000,  // with a Redis that does not answer
    WATCH_MS = 100,
    ATTEND_MS = 5000,
    NAME_MAX = 64 + JOB_ID_MAX,
    WORDS_MAX = 8,
};
#define KEPT_S "60"
#define ATTENDS_S "30"

typedef struct redis {
    store store;
    char *url;
    redis_place place;
    char hash[NAME_MAX], order[NAME_MAX], attended[NAME_MAX], attends[NAME_MAX];

    // asking
    pthread_mutex_t asking;  // of |line|; taken without the loop lock
    redis_line line;

    // the thread
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;  // a leaf, of the rest
    pthread_cond_t changed;
    bool stops, is_attending, is_watching;
    bytes found;  // keys and values with their sizes, to be reported by |look|
    timer look;
} redis;

// ---- Words --------------------------------------------------------------------------------------
typedef struct words {
    const void *at[WORDS_MAX];
    size_t sizes[WORDS_MAX];
    int count;
} words;

static void add(words *w, const void *data, size_t size) {
    w->at[w->count] = data;
    w->sizes[w->count++] = size;
}

static words words_of(const char *first, const char *second, const char *third, const char *fourth,
                      const char *fifth) {
    const char *all[] = { first, second, third, fourth, fifth };
    words w = { 0 };
    for (int i = 0; i < 5 && all[i]; i++) add(&w, all[i], strlen(all[i]));
    return w;
}

// The caller has no loop lock.
static gw_status ask_line(redis_line *l, const words *w, redis_answer *out, gw_error *error) {
    return redis_call(l, w->at, w->sizes, w->count, out, error);
}

// ---- Commands of callers with the loop lock -----------------------------------------------------

static gw_status ask_once(redis *r, const words *w, redis_answer *out, gw_error *error) {
    env_leave(r->store.env);
    pthread_mutex_lock(&r->asking);
    gw_status status = ask_line(&r->line, w, out, error);
    pthread_mutex_unlock(&r->asking);
    env_enter(r->store.env);
    return status;
}

// It may be starting, or a connection may have broken; commands may be repeated.
static gw_status ask(redis *r, const words *w, int64_t until_ns, redis_answer *out,
                     gw_error *error) {
    int64_t patience_ns = env_now_ns(r->store.env) + PATIENCE_MS * MS;
    gw_error why;
    gw_status status;
    if (patience_ns < until_ns) until_ns = patience_ns;
    while ((status = ask_once(r, w, out, &why)) == GW_DISCONNECTED &&
           store_pause(&r->store, "Redis", until_ns, POLL_MAX_MS))
        continue;
    if (status && error) *error = why;
    return status;
}

// ---- Values -------------------------------------------------------------------------------------

// With a key of the job values are sealed, so that the server can neither read nor forge them.
static const secret *secret_of(const redis *r) {
    const protection *p = r->store.env->protection;
    return p && p->secret && p->secret->key_count ? p->secret : NULL;
}

typedef struct purpose {
    char text[32 + JOB_ID_MAX + LIMIT_STORE_KEY_BYTES];
    size_t size;
} purpose;

static secret_info purpose_of(const redis *r, const char *key, purpose *p) {
    const protection *of = r->store.env->protection;
    int head = snprintf(p->text, sizeof p->text, "gradwire store%s", of ? of->job : "");
    size_t size = strlen(key);
    memcpy(p->text + head + 1, key, size);
    p->size = (size_t)head + 1 + size;
    return (secret_info){ p->text, p->size };
}

static gw_status wrap(const redis *r, const char *key, uint64_t token, const void *value,
                      size_t size, bytes *out, gw_error *error) {
    const secret *s = secret_of(r);
    purpose p;
    bytes_put_u64(out, token);
    uint8_t *sealed = s ? mem_alloc(size + SECRET_SEAL_BYTES) : NULL;
    if (sealed && secret_seal(&s->keys[0], purpose_of(r, key, &p), value, size, sealed))
        bytes_put(out, sealed, size + SECRET_SEAL_BYTES);
    else if (s)
        out->failed = true;
    else
        bytes_put(out, value, size);
    mem_free(sealed);
    return out->failed ? error_set(error, GW_NO_MEMORY, "no memory for %s", key) : GW_OK;
}

static gw_status unwrap(const redis *r, const char *key, const void *data, size_t size,
                        uint64_t *out_token, bytes *out, gw_error *error) {
    const secret *s = secret_of(r);
    purpose p;
    reader in = reader_of(data, size);
    *out_token = reader_u64(&in);
    size_t left = reader_left(&in);
    if (in.failed || left > LIMIT_STORE_VALUE_BYTES + SECRET_SEAL_BYTES)
        return error_set(error, GW_PROTOCOL, "%s has a value of another kind under the key %s",
                         r->url, key);
    if (!s) {
        bytes_put(out, in.at, left);
    } else {
        uint8_t *plain = mem_alloc(left + 1);
        bool opened = plain && secret_unseal(s, purpose_of(r, key, &p), in.at, left, plain);
        if (opened) bytes_put(out, plain, left - SECRET_SEAL_BYTES);
        mem_free(plain);
        if (!opened)
            return error_set(error, GW_MISMATCH,
                             "the value %s at %s was not written with the key of this job", key,
                             r->url);
    }
    return out->failed ? error_set(error, GW_NO_MEMORY, "no memory for %s", key) : GW_OK;
}

// ---- Setting and waiting ------------------------------------------------------------------------

// Returns the value of the key, and sets it before if it is absent.
static const char set_script[] = "local found = redis.call('HGET', KEYS[1], ARGV[1]) "
                                 "if found then return found end "
                                 "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) "
                                 "redis.call('RPUSH', KEYS[2], ARGV[1]) "
                                 "redis.call('EXPIRE', KEYS[1], " KEPT_S ") "
                                 "redis.call('EXPIRE', KEYS[2], " KEPT_S ") "
                                 "return ARGV[2]";

static gw_status redis_set(store *st, const char *key, const void *value, size_t size,
                           int64_t until_ns, bool registers, bool *out_set, bytes *out_found,
                           gw_error *error) {
    redis *r = (redis *)st;
    (void)registers;
    uint64_t mine = env_random_u64(st->env), token;
    bytes wrapped = { 0 }, found = { 0 };
    redis_answer answer = { 0 };
    gw_status status = wrap(r, key, mine, value, size, &wrapped, error);
    words w = words_of("EVAL", set_script, "2", r->hash, r->order);
    add(&w, key, strlen(key));
    add(&w, wrapped.data, wrapped.size);
    if (!status) status = ask(r, &w, until_ns, &answer, error);
    if (!status) status = unwrap(r, key, answer.data.data, answer.data.size, &token, &found, error);
    if (!status) {
        *out_set = token == mine;
        if (!*out_set && out_found) bytes_put(out_found, found.data, found.size);
    }
    bytes_fini(&answer.data);
    bytes_fini(&wrapped);
    bytes_fini(&found);
    return status;
}

// Reads again after an interval that doubles: servers of this kind have no common way to wait for a key.
static gw_status redis_wait(store *st, const char *key, int64_t until_ns, bytes *out,
                            gw_error *error) {
    redis *r = (redis *)st;
    words w = words_of("HGET", r->hash, key, NULL, NULL);
    for (int64_t delay_ms = POLL_FIRST_MS;;
         delay_ms = delay_ms < POLL_MAX_MS ? delay_ms * 2 : POLL_MAX_MS) {
        redis_answer answer = { 0 };
        uint64_t token;
        gw_status status = ask(r, &w, ENV_NEVER, &answer, error);
        bool is_there = !status && !answer.is_nothing;
        if (is_there)
            status = unwrap(r, key, answer.data.data, answer.data.size, &token, out, error);
        bytes_fini(&answer.data);
        if (status || is_there) return status;
        if (!store_pause(st, key, until_ns, delay_ms))
            return error_set(error, GW_TIMEOUT, "store %s: no worker has set %s", r->url, key);
    }
}

// ---- The thread ---------------------------------------------------------------------------------

static gw_status send_to_redis(redis_line *l, words w) {
    redis_answer answer;
    gw_status status = ask_line(l, &w, &answer, NULL);
    bytes_fini(&answer.data);
    return status;
}

static void attend(redis *r, redis_line *l) {
    const char *kept[] = { r->hash, r->order, r->attended };
    send_to_redis(l, words_of("SET", r->attends, "1", "EX", ATTENDS_S));
    send_to_redis(l, words_of("SADD", r->attended, r->attends, NULL, NULL));
    for (int i = 0; i < 3; i++) send_to_redis(l, words_of("EXPIRE", kept[i], KEPT_S, NULL, NULL));
}

// Passes the values set since the last look to the loop; *seen counts them.
static void find_new(redis *r, redis_line *l, int *seen) {
    char from[16];
    redis_answer keys;
    snprintf(from, sizeof from, "%d", *seen);
    const words w = words_of("LRANGE", r->order, from, "-1", NULL);
    if (ask_line(l, &w, &keys, NULL)) keys.data.size = 0;
    reader in = reader_of(keys.data.data, keys.data.size);
    char key[LIMIT_STORE_KEY_BYTES + 1];
    while (reader_text(&in, key, sizeof key)) {
        redis_answer value;
        const words get = words_of("HGET", r->hash, key, NULL, NULL);
        gw_status status = ask_line(l, &get, &value, NULL);
        if (!status) {
            pthread_mutex_lock(&r->lock);
            bytes_put_text(&r->found, key);
            bytes_put_u32(&r->found, (uint32_t)value.data.size);
            bytes_put(&r->found, value.data.data, value.data.size);
            pthread_mutex_unlock(&r->lock);
            ++*seen;
        }
        bytes_fini(&value.data);
        if (status) break;
    }
    bytes_fini(&keys.data);
}

static void pause_thread(redis *r, int64_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(ms % 1000 * MS);
    until.tv_sec += (time_t)(ms / 1000 + until.tv_nsec / 1000000000);
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&r->changed, &r->lock, &until);
}

static void *run(void *arg) {
    redis *r = arg;
    redis_line l = { .place = &r->place };
    int seen = 0;
    int64_t rounds = 0;
    pthread_mutex_lock(&r->lock);
    bool has_attended = false;
    while (!r->stops) {
        bool attends = r->is_attending &&
                       (!has_attended || ++rounds >= ATTEND_MS / WATCH_MS || !r->is_watching);
        bool watches = r->is_watching;
        pthread_mutex_unlock(&r->lock);
        if (attends) attend(r, &l);
        if (attends) rounds = 0;
        has_attended |= attends;
        if (watches) find_new(r, &l, &seen);
        pthread_mutex_lock(&r->lock);
        if (!r->stops && has_attended == r->is_attending && watches == r->is_watching)
            pause_thread(r, watches ? WATCH_MS : ATTEND_MS);
    }
    bool attended = r->is_attending;
    pthread_mutex_unlock(&r->lock);
    if (attended) {
        send_to_redis(&l, words_of("DEL", r->attends, NULL, NULL, NULL));
        send_to_redis(&l, words_of("SREM", r->attended, r->attends, NULL, NULL));
    }
    redis_line_close(&l);
    return NULL;
}

static gw_status need_thread(redis *r, bool *flag, gw_error *error) {
    pthread_mutex_lock(&r->lock);
    *flag = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (r->has_thread) return GW_OK;
    int failed = pthread_create(&r->thread, NULL, run, r);
    r->has_thread = !failed;
    return failed ? error_set(error, GW_SYSTEM, "no thread for the store %s: %s", r->url,
                              system_thread_error_text(failed).text)
                  : GW_OK;
}

// ---- Attending and watching ---------------------------------------------------------------------

static void redis_attend(store *st) {
    redis *r = (redis *)st;
    gw_error error;
    // Sent here as well, so that this worker attends when this returns.
    redis_answer answer;
    const words w = words_of("SET", r->attends, "1", "EX", ATTENDS_S),
                in = words_of("SADD", r->attended, r->attends, NULL, NULL);
    if (!ask_once(r, &w, &answer, &error)) ask_once(r, &in, &answer, &error);
    if (need_thread(r, &r->is_attending, &error)) log_line("%s", error.text);
}

static bool redis_is_attended(store *st) {
    static const char script[] = "for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do "
                                 "if name ~= ARGV[1] and redis.call('EXISTS', name) == 1 then "
                                 "return 1 end end return 0";
    redis *r = (redis *)st;
    redis_answer answer;
    words w = words_of("EVAL", script, "1", r->attended, r->attends);
    gw_status status = ask(r, &w, ENV_NEVER, &answer, NULL);
    bytes_fini(&answer.data);
    return status || answer.number;  // of one that does not answer it is not known
}

static void look(timer *t) {
    redis *r = (redis *)((char *)t - offsetof(redis, look));
    char key[LIMIT_STORE_KEY_BYTES + 1];
    pthread_mutex_lock(&r->lock);
    bytes found = r->found;
    r->found = (bytes){ 0 };
    pthread_mutex_unlock(&r->lock);
    reader in = reader_of(found.data, found.size);
    while (reader_text(&in, key, sizeof key)) {
        bytes value = { 0 };
        gw_error error;
        uint64_t token;
        uint32_t size = reader_u32(&in);
        const uint8_t *data = reader_take(&in, size);
        if (!unwrap(r, key, data, size, &token, &value, &error)) {
            store_notify(&r->store, key, value.data, value.size);
        } else {
            log_line("%s", error.text);
        }
        bytes_fini(&value);
    }
    bytes_fini(&found);
    env_set_timer(r->store.env, t, env_now_ns(r->store.env) + WATCH_MS * MS);
}

static gw_status redis_watch(store *st, gw_error *error) {
    redis *r = (redis *)st;
    r->look.fire = look;
    env_set_timer(st->env, &r->look, env_now_ns(st->env));
    return need_thread(r, &r->is_watching, error);
}

// ---- Life ---------------------------------------------------------------------------------------

static void redis_close(store *st) {
    redis *r = (redis *)st;
    env_set_timer(st->env, &r->look, ENV_NEVER);
    pthread_mutex_lock(&r->lock);
    r->stops = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (r->has_thread) pthread_join(r->thread, NULL);
    redis_line_close(&r->line);
    pthread_mutex_destroy(&r->asking);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    bytes_fini(&r->found);
    explicit_bzero(r->place.password, sizeof r->place.password);
    mem_free(r->url);
    mem_free(r);
}

static const store_class redis_class = { .set = redis_set,
                                         .wait = redis_wait,
                                         .watch = redis_watch,
                                         .attend = redis_attend,
                                         .is_attended = redis_is_attended,
                                         .close = redis_close };

static void name_all(redis *r) {
    const protection *p = r->store.env->protection;
    const char *job = p ? p->job : "";
    snprintf(r->hash, sizeof r->hash, "gradwire:%s", job);
    snprintf(r->order, sizeof r->order, "gradwire:%s:order", job);
    snprintf(r->attended, sizeof r->attended, "gradwire:%s:attended", job);
    snprintf(r->attends, sizeof r->attends, "gradwire:%s:attends:%016llx", job,
             (unsigned long long)env_random_u64(r->store.env));
}

static redis *make(env *e, const char *url) {
    pthread_condattr_t monotonic;
    redis *r = mem_calloc(sizeof *r);
    if (!r) return NULL;
    r->store = (store){ .class = &redis_class, .env = e };
    r->line.place = &r->place;
    pthread_mutex_init(&r->asking, NULL);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    name_all(r);
    r->url = mem_strdup(url);
    if (r->url) return r;
    redis_close(&r->store);
    return NULL;
}

gw_status store_open_redis(env *e, const char *url, const char *password, store **out,
                           gw_error *error) {
    redis *r = make(e, url);
    if (!r) return error_set(error, GW_NO_MEMORY, "no memory for the store");
    redis_answer answer = { 0 };
    const words w = words_of("PING", NULL, NULL, NULL, NULL);
    gw_status status = redis_place_of(url, &r->place, error);
    snprintf(r->place.password, sizeof r->place.password, "%s", password ? password : "");
    if (!status) status = ask(r, &w, ENV_NEVER, &answer, error);
    bytes_fini(&answer.data);
    if (status) {
        redis_close(&r->store);
    } else {
        *out = &r->store;
    }
    return status;
}
