// Commands to Redis, by hiredis.
#include "store/store_redis.h"

#include "base/status.h"
#include "base/variables.h"

#include <stdlib.h>
#include <string.h>

static gw_status wrong_place(const char *url, gw_error *error) {
    return error_set(error, GW_INVALID, "\"%s\" is not of the form redis://host:port/database",
                     url);
}

gw_status redis_place_of(const char *url, redis_place *out, gw_error *error) {
    enum { USUAL_PORT = 6379, DATABASES_MAX = 1 << 20 };
    char at[sizeof out->host + 16];
    *out = (redis_place){ .port = USUAL_PORT };
    const char *rest = url + strlen("redis://"), *slash = strchr(rest, '/');
    size_t size = slash ? (size_t)(slash - rest) : strlen(rest);
    if (size == 0 || size >= sizeof at || memchr(rest, '@', size)) return wrong_place(url, error);
    memcpy(at, rest, size);
    at[size] = '\0';
    if (slash && slash[1] && !variable_number(slash + 1, DATABASES_MAX, &out->database))
        return wrong_place(url, error);
    char *host = at, *colon = strrchr(at, ':');
    bool is_v6 = at[0] == '[';
    if (is_v6) {
        char *end = strchr(at, ']');
        if (!end || (end[1] && end[1] != ':')) return wrong_place(url, error);
        colon = end[1] ? end + 1 : NULL;
        *end = '\0';
        host++;
    }
    if (colon && !variable_number(colon + 1, 65535, &out->port)) return wrong_place(url, error);
    if (colon && !is_v6) *colon = '\0';
    size_t host_size = strlen(host);
    if (!host_size || host_size >= sizeof out->host || (!is_v6 && strchr(host, ':')))
        return wrong_place(url, error);
    memcpy(out->host, host, host_size + 1);
    return GW_OK;
}

#ifdef GW_HIREDIS

#include <dlfcn.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

static const struct timeval timeout = { .tv_sec = REDIS_TIMEOUT_MS / 1000 };

// ---- The library --------------------------------------------------------------------------------
// Loaded when a program uses Redis: other programs are neither larger, nor linked with it.

#define NAME_OF(soname) NAME_OF_TEXT(soname)
#define NAME_OF_TEXT(soname) "libhiredis.so." #soname

static struct {
    redisContext *(*connect)(const char *host, int port, struct timeval timeout);
    int (*set_timeout)(redisContext *c, struct timeval timeout);
    void *(*command)(redisContext *c, const char *format, ...);
    void *(*command_argv)(redisContext *c, int count, const char **words, const size_t *sizes);
    void (*free)(redisContext *c);
    void (*free_reply)(void *reply);
    bool is_loaded;
} hiredis;

static void load(void) {
    void *handle = dlopen(NAME_OF(HIREDIS_SONAME), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return;
    *(void **)&hiredis.connect = dlsym(handle, "redisConnectWithTimeout");
    *(void **)&hiredis.set_timeout = dlsym(handle, "redisSetTimeout");
    *(void **)&hiredis.command = dlsym(handle, "redisCommand");
    *(void **)&hiredis.command_argv = dlsym(handle, "redisCommandArgv");
    *(void **)&hiredis.free = dlsym(handle, "redisFree");
    *(void **)&hiredis.free_reply = dlsym(handle, "freeReplyObject");
    hiredis.is_loaded = hiredis.connect && hiredis.set_timeout && hiredis.command &&
                        hiredis.command_argv && hiredis.free && hiredis.free_reply;
}

static gw_status load_once(gw_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return hiredis.is_loaded ? GW_OK
                             : error_set(error, GW_UNSUPPORTED,
                                         "redis:// needs the library %s, which is not installed",
                                         NAME_OF(HIREDIS_SONAME));
}

// ---- A line -------------------------------------------------------------------------------------

bool redis_is_built(void) {
    return true;
}

void redis_line_close(redis_line *l) {
    if (l->context) hiredis.free(l->context);
    l->context = NULL;
}

// hiredis writes as to a file, and a peer that has gone is then a signal.
static bool hold_signal(sigset_t *out_before) {
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, out_before);
    return sigismember(&pending, SIGPIPE) == 1;
}

static void let_signal(const sigset_t *before, bool was_pending) {
    sigset_t pipe;
    const struct timespec now = { 0 };
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!was_pending) sigtimedwait(&pipe, NULL, &now);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static gw_status fail(redis_line *l, gw_error *error) {
    const redisContext *c = l->context;
    error_set(error, GW_DISCONNECTED, "Redis at %s:%d: %s", l->place->host, l->place->port,
              c ? c->errstr : "no memory");
    redis_line_close(l);
    return GW_DISCONNECTED;
}

static gw_status refuse(redis_line *l, const redisReply *r, gw_error *error) {
    bool is_full = strncmp(r->str, "OOM", 3) == 0;
    return error_set(error, is_full ? GW_LIMIT : GW_INVALID, "Redis at %s:%d reports: %.300s",
                     l->place->host, l->place->port, r->str);
}

// The first commands of a connection; error texts about them do not contain the password.
static gw_status command(redis_line *l, gw_error *error, redisReply *r) {
    if (!r) return fail(l, error);
    gw_status status = r->type == REDIS_REPLY_ERROR ? refuse(l, r, error) : GW_OK;
    hiredis.free_reply(r);
    if (status) redis_line_close(l);
    return status;
}

static gw_status open_line(redis_line *l, gw_error *error) {
    const redis_place *p = l->place;
    gw_status status = load_once(error);
    if (status) return status;
    l->context = hiredis.connect(p->host, p->port, timeout);
    if (!l->context || l->context->err) return fail(l, error);
    hiredis.set_timeout(l->context, timeout);
    if (p->password[0])
        status = command(l, error, hiredis.command(l->context, "AUTH %s", p->password));
    if (!status && p->database)
        status = command(l, error, hiredis.command(l->context, "SELECT %d", p->database));
    return status;
}

static void put(bytes *out, const redisReply *r, bool with_size) {
    if (with_size) bytes_put_u32(out, (uint32_t)r->len);
    bytes_put(out, r->str, r->len);
}

static gw_status take(redis_line *l, const redisReply *r, redis_answer *out, gw_error *error) {
    out->is_nothing = r->type == REDIS_REPLY_NIL;
    if (r->type == REDIS_REPLY_ERROR) return refuse(l, r, error);
    if (r->type == REDIS_REPLY_INTEGER) out->number = r->integer;
    if (r->type == REDIS_REPLY_STRING) put(&out->data, r, false);
    for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i < r->elements; i++)
        if (r->element[i]->type == REDIS_REPLY_STRING) put(&out->data, r->element[i], true);
    return out->data.failed ? error_set(error, GW_NO_MEMORY, "no memory for a reply of Redis")
                            : GW_OK;
}

static gw_status ask(redis_line *l, const void *const words[], const size_t sizes[], int count,
                     redis_answer *out, gw_error *error) {
    gw_status status = l->context ? GW_OK : open_line(l, error);
    if (status) return status;
    redisReply *r = hiredis.command_argv(l->context, count, (const char **)words, sizes);
    if (!r) return fail(l, error);
    status = take(l, r, out, error);
    hiredis.free_reply(r);
    return status;
}

gw_status redis_call(redis_line *l, const void *const words[], const size_t sizes[], int count,
                     redis_answer *out, gw_error *error) {
    sigset_t before;
    *out = (redis_answer){ 0 };
    bool was_pending = hold_signal(&before);
    gw_status status = ask(l, words, sizes, count, out, error);
    let_signal(&before, was_pending);
    return status;
}

#else

bool redis_is_built(void) {
    return false;
}

void redis_line_close(redis_line *l) {
    (void)l;
}

gw_status redis_call(redis_line *l, const void *const words[], const size_t sizes[], int count,
                     redis_answer *out, gw_error *error) {
    (void)l, (void)words, (void)sizes, (void)count;
    *out = (redis_answer){ 0 };
    return error_set(error, GW_UNSUPPORTED,
                     "this gradwire was built without hiredis, which redis:// needs "
                     "(libhiredis-dev, and configure again)");
}

#endif
