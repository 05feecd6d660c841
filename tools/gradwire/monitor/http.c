#include "monitor/http.h"

#include <stdio.h>

#ifdef GW_MICROHTTPD

#include <dlfcn.h>
#include <microhttpd.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/job_json.h"
#include "monitor/metrics.h"
#include "monitor/page.h"
#include "system/clock.h"

// ---- The library --------------------------------------------------------------------------------
// Linked, it would be loaded by each gradwire run, with the ten libraries that it needs.

static struct {
    __typeof__(MHD_start_daemon) *start_daemon;
    __typeof__(MHD_stop_daemon) *stop_daemon;
    __typeof__(MHD_run) *run;
    __typeof__(MHD_get_timeout) *get_timeout;
    __typeof__(MHD_get_daemon_info) *get_daemon_info;
    __typeof__(MHD_create_response_from_buffer) *create_response_from_buffer;
    __typeof__(MHD_add_response_header) *add_response_header;
    __typeof__(MHD_queue_response) *queue_response;
    __typeof__(MHD_destroy_response) *destroy_response;
    __typeof__(MHD_lookup_connection_value) *lookup_connection_value;
    __typeof__(MHD_get_connection_info) *get_connection_info;
    bool is_loaded;
} mhd;

static bool find(void *handle, const char *name, void *out_function) {
    void *at = dlsym(handle, name);
    memcpy(out_function, &at, sizeof at);
    return at != NULL;
}

static bool load(void) {
    if (mhd.is_loaded) return true;
    void *handle = dlopen(GW_MICROHTTPD, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return false;
    mhd.is_loaded =
        find(handle, "MHD_start_daemon", &mhd.start_daemon) &&
        find(handle, "MHD_stop_daemon", &mhd.stop_daemon) && find(handle, "MHD_run", &mhd.run) &&
        find(handle, "MHD_get_timeout", &mhd.get_timeout) &&
        find(handle, "MHD_get_daemon_info", &mhd.get_daemon_info) &&
        find(handle, "MHD_create_response_from_buffer", &mhd.create_response_from_buffer) &&
        find(handle, "MHD_add_response_header", &mhd.add_response_header) &&
        find(handle, "MHD_queue_response", &mhd.queue_response) &&
        find(handle, "MHD_destroy_response", &mhd.destroy_response) &&
        find(handle, "MHD_lookup_connection_value", &mhd.lookup_connection_value) &&
        find(handle, "MHD_get_connection_info", &mhd.get_connection_info);
    return mhd.is_loaded;
}

bool http_is_available(char *why, size_t why_size) {
    if (load()) return true;
    snprintf(why, why_size,
             "the page of a job needs the library " GW_MICROHTTPD
             ", which is not installed (Debian: apt-get install libmicrohttpd12)");
    return false;
}

// ---- A server -----------------------------------------------------------------------------------

typedef struct open_connection {
    struct MHD_Connection *connection;  // NULL: none
    int64_t opened_ms;
} open_connection;

struct http {
    struct MHD_Daemon *daemon;
    const site_rules *rules;
    const model *model;
    struct MHD_Response *made[SITE_RESOURCES];  // of this look at the job; NULL: not asked for yet
    open_connection connections[HTTP_CONNECTIONS];
    char policy[512];  // Content-Security-Policy
};

typedef struct MHD_Response response;

// The hash of a style or script, as a policy has it.
static void write_hash(const char *text, char out[64]) {
    unsigned char digest[EVP_MAX_MD_SIZE], encoded[2 * EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (!EVP_Digest(text, strlen(text), digest, &size, EVP_sha256(), NULL)) size = 0;
    EVP_EncodeBlock(encoded, digest, (int)size);
    snprintf(out, 64, "sha256-%.48s", (const char *)encoded);
}

static void write_policy(http *h) {
    char style[64], script[64];
    write_hash(page_style, style);
    write_hash(page_script, script);
    snprintf(h->policy, sizeof h->policy,
             "default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; "
             "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             style, script);
}

static void add_headers(const http *h, response *r, const char *type) {
    mhd.add_response_header(r, "Content-Type", type);
    mhd.add_response_header(r, "Content-Security-Policy", h->policy);
    mhd.add_response_header(r, "Cache-Control", "no-store");
    mhd.add_response_header(r, "Referrer-Policy", "no-referrer");
    mhd.add_response_header(r, "X-Content-Type-Options", "nosniff");
    mhd.add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    mhd.add_response_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    mhd.add_response_header(r, "Connection", "close");
}

// ---- Responses ----------------------------------------------------------------------------------

static void write_health(const model *m, FILE *out) {
    char text[MODEL_TEXT_SIZE];
    model_describe(m, text, sizeof text);
    fprintf(out, "%s\n", text);
}

static void write_resource(const model *m, site_resource resource, FILE *out) {
    switch (resource) {
    case SITE_PAGE: page_write(m, HISTORY_BY_SECOND, out); break;
    case SITE_PAGE_OF_DAY: page_write(m, HISTORY_BY_MINUTE, out); break;
    case SITE_JSON: job_json_write(m, out); break;
    case SITE_METRICS: metrics_write(m, out); break;
    default: write_health(m, out); break;
    }
}

// NULL without memory.
static response *make_response(const http *h, site_resource resource) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    write_resource(h->model, resource, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    response *r = mhd.create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (r)
        add_headers(h, r, site_type(resource));
    else
        free(text);
    return r;
}

// One for all who ask for it until the next look at the job.
static response *find_response(http *h, site_resource resource) {
    if (!h->made[resource]) h->made[resource] = make_response(h, resource);
    return h->made[resource];
}

void http_renew(http *h) {
    for (int i = 0; i < SITE_RESOURCES; i++) {
        if (h->made[i]) mhd.destroy_response(h->made[i]);
        h->made[i] = NULL;
    }
}

static enum MHD_Result queue_own(struct MHD_Connection *connection, unsigned status, response *r) {
    if (!r) return MHD_NO;
    enum MHD_Result result = mhd.queue_response(connection, status, r);
    mhd.destroy_response(r);
    return result;
}

static enum MHD_Result queue_error(const http *h, struct MHD_Connection *connection,
                                   const site_answer *a) {
    char text[256];
    int size = snprintf(text, sizeof text, "%s\n", a->error);
    response *r = mhd.create_response_from_buffer((size_t)size, text, MHD_RESPMEM_MUST_COPY);
    if (r) add_headers(h, r, "text/plain; charset=utf-8");
    if (r && a->status == 401) mhd.add_response_header(r, "WWW-Authenticate", "Bearer");
    if (r && a->status == 405) mhd.add_response_header(r, "Allow", "GET, HEAD");
    return queue_own(connection, (unsigned)a->status, r);
}

// The page with a cookie is made for this one request.
static enum MHD_Result queue_resource(http *h, struct MHD_Connection *connection,
                                      const site_answer *a) {
    char cookie[2 * SITE_COOKIE_SIZE + SITE_KEY_SIZE];
    unsigned status = a->resource == SITE_HEALTH ? (unsigned)site_health(h->model) : 200;
    if (!a->sets_cookie) {
        response *r = find_response(h, a->resource);
        return r ? mhd.queue_response(connection, status, r) : MHD_NO;
    }
    response *r = make_response(h, a->resource);
    site_cookie(h->rules, cookie);
    if (r) mhd.add_response_header(r, "Set-Cookie", cookie);
    return queue_own(connection, status, r);
}

static const char *header_of(struct MHD_Connection *connection, const char *name) {
    return mhd.lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state) {
    http *h = context;
    (void)version, (void)upload, (void)upload_size, (void)state;
    const site_request request = {
        .method = method,
        .path = url,
        .key = mhd.lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "key"),
        .span = mhd.lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "span"),
        .host = header_of(connection, "Host"),
        .origin = header_of(connection, "Origin"),
        .cookie = header_of(connection, "Cookie"),
        .authorization = header_of(connection, "Authorization"),
    };
    site_answer a = site_decide(h->rules, &request);
    return a.status == 200 ? queue_resource(h, connection, &a) : queue_error(h, connection, &a);
}

// ---- Connections --------------------------------------------------------------------------------

static void note_connection(void *context, struct MHD_Connection *connection, void **state,
                            enum MHD_ConnectionNotificationCode what) {
    http *h = context;
    bool is_new = what == MHD_CONNECTION_NOTIFY_STARTED;
    (void)state;
    for (int i = 0; i < HTTP_CONNECTIONS; i++) {
        open_connection *c = &h->connections[i];
        if (c->connection != (is_new ? NULL : connection)) continue;
        *c = is_new ? (open_connection){ connection, clock_now_ms() } : (open_connection){ 0 };
        return;
    }
}

// The library limits how long a connection is silent, not how long it is there.
static void end_old_connections(http *h) {
    for (int i = 0; i < HTTP_CONNECTIONS; i++) {
        open_connection *c = &h->connections[i];
        if (!c->connection || clock_now_ms() - c->opened_ms < HTTP_CONNECTION_MS) continue;
        const union MHD_ConnectionInfo *info =
            mhd.get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info) shutdown(info->connect_fd, SHUT_RDWR);
    }
}

static void ignore_message(void *context, const char *format, va_list arguments) {
    (void)context, (void)format, (void)arguments;
}

// ---- All ----------------------------------------------------------------------------------------

http *http_open(int listen_fd, const site_rules *rules, const model *m, char *why,
                size_t why_size) {
    if (!http_is_available(why, why_size)) return NULL;
    http *h = calloc(1, sizeof *h);
    if (!h) {
        snprintf(why, why_size, "no memory");
        return NULL;
    }
    h->rules = rules;
    h->model = m;
    write_policy(h);
    h->daemon =
        mhd.start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, h, MHD_OPTION_EXTERNAL_LOGGER,
                         ignore_message, NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_CONNECTION_MS / 1000,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEADER_BYTES,
                         MHD_OPTION_NOTIFY_CONNECTION, note_connection, h, MHD_OPTION_END);
    if (h->daemon) return h;
    snprintf(why, why_size, "the server of libmicrohttpd does not start");
    free(h);
    return NULL;
}

void http_close(http *h) {
    if (!h) return;
    http_renew(h);
    mhd.stop_daemon(h->daemon);
    free(h);
}

int http_poll_fd(const http *h) {
    return mhd.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int http_timeout_ms(const http *h) {
    MHD_UNSIGNED_LONG_LONG ms;
    if (mhd.get_timeout(h->daemon, &ms) != MHD_YES) return -1;
    return ms < 60000 ? (int)ms : 60000;
}

void http_run(http *h) {
    end_old_connections(h);
    mhd.run(h->daemon);
}

#else

bool http_is_available(char *why, size_t why_size) {
    snprintf(why, why_size,
             "this gradwire was built without libmicrohttpd, which the page of a job needs "
             "(Debian: apt-get install libmicrohttpd-dev, and build again)");
    return false;
}

http *http_open(int listen_fd, const site_rules *rules, const model *m, char *why,
                size_t why_size) {
    (void)listen_fd, (void)rules, (void)m;
    http_is_available(why, why_size);
    return NULL;
}

void http_close(http *h) {
    (void)h;
}

int http_poll_fd(const http *h) {
    (void)h;
    return -1;
}

int http_timeout_ms(const http *h) {
    (void)h;
    return -1;
}

void http_run(http *h) {
    (void)h;
}

void http_renew(http *h) {
    (void)h;
}

#endif
