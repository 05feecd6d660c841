#include "monitor/site.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

bool site_make_key(char out[SITE_KEY_SIZE]) {
    unsigned char bits[(SITE_KEY_SIZE - 1) / 2];
    if (getrandom(bits, sizeof bits, 0) != sizeof bits) return false;
    for (size_t i = 0; i < sizeof bits; i++) snprintf(out + 2 * i, 3, "%02x", bits[i]);
    return true;
}

// ---- Who asks -----------------------------------------------------------------------------------

// Takes the same time however much of it is right.
static bool is_secret(const site_rules *rules, const char *given, size_t size) {
    size_t wanted = strlen(rules->secret);
    return wanted && size == wanted && CRYPTO_memcmp(given, rules->secret, wanted) == 0;
}

static void cookie_name(const site_rules *rules, char out[SITE_COOKIE_SIZE]) {
    snprintf(out, SITE_COOKIE_SIZE, "gradwire-%d", rules->port);
}

void site_cookie(const site_rules *rules, char out[2 * SITE_COOKIE_SIZE + SITE_KEY_SIZE]) {
    char name[SITE_COOKIE_SIZE];
    cookie_name(rules, name);
    snprintf(out, 2 * SITE_COOKIE_SIZE + SITE_KEY_SIZE,
             "%s=%.*s; Path=/; HttpOnly; SameSite=Strict", name, SITE_KEY_SIZE - 1, rules->secret);
}

// "a=1; gradwire-8080=9f...".
static bool has_cookie(const site_rules *rules, const char *all) {
    char name[SITE_COOKIE_SIZE];
    cookie_name(rules, name);
    size_t name_size = strlen(name);
    while (all && *all) {
        all += strspn(all, "; ");
        size_t size = strcspn(all, ";");
        if (size > name_size && memcmp(all, name, name_size) == 0 && all[name_size] == '=' &&
            is_secret(rules, all + name_size + 1, size - name_size - 1))
            return true;
        all += size;
    }
    return false;
}

static bool has_bearer(const site_rules *rules, const char *authorization) {
    static const char scheme[] = "Bearer ";
    size_t size = sizeof scheme - 1;
    return authorization && strncasecmp(authorization, scheme, size) == 0 &&
           is_secret(rules, authorization + size, strlen(authorization + size));
}

// A page of another origin whose name leads here (DNS rebinding) sends that name. Ports differ behind `ssh -L`.
static bool is_this_host(const char *host) {
    static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };
    for (size_t i = 0; host && i < sizeof names / sizeof names[0]; i++) {
        size_t size = strlen(names[i]);
        if (strncasecmp(host, names[i], size) != 0) continue;
        const char *port = host + size;
        if (!*port) return true;
        if (*port == ':' && strspn(port + 1, "0123456789") == strlen(port + 1)) return true;
    }
    return false;
}

// Browsers send it with requests of scripts, and then it has to be that of the page.
static bool is_own_origin(const char *origin, const char *host) {
    static const char scheme[] = "http://";
    return !origin || (strncmp(origin, scheme, sizeof scheme - 1) == 0 &&
                       strcasecmp(origin + sizeof scheme - 1, host) == 0);
}

// ---- What they get ------------------------------------------------------------------------------

static site_answer refuse(int status, const char *error) {
    return (site_answer){ .status = status, .error = error };
}

static site_answer give(site_resource resource) {
    return (site_answer){ .status = 200, .resource = resource };
}

static site_answer find_resource(const site_rules *rules, const site_request *r) {
    if (strcmp(r->path, "/metrics") == 0) return give(SITE_METRICS);
    if (strcmp(r->path, "/healthz") == 0) return give(SITE_HEALTH);
    if (!rules->is_metrics && strcmp(r->path, "/api/job.json") == 0) return give(SITE_JSON);
    if (!rules->is_metrics && strcmp(r->path, "/") == 0)
        return give(r->span && strcmp(r->span, "day") == 0 ? SITE_PAGE_OF_DAY : SITE_PAGE);
    return refuse(404, "There is nothing at this path.");
}

static site_answer decide_metrics(const site_rules *rules, const site_request *r) {
    if (!rules->is_open && !has_bearer(rules, r->authorization))
        return refuse(401, "The header Authorization must have the token of the metrics.");
    return find_resource(rules, r);
}

static site_answer decide_page(const site_rules *rules, const site_request *r) {
    if (!is_this_host(r->host) || !is_own_origin(r->origin, r->host))
        return refuse(403, "This page is at 127.0.0.1 and localhost alone.");
    bool has_key = r->key && is_secret(rules, r->key, strlen(r->key));
    if (!has_key && !has_cookie(rules, r->cookie) && !has_bearer(rules, r->authorization))
        return refuse(401, "The key is missing or wrong: open the address that gradwire has "
                           "printed, with all that follows the question mark.");
    site_answer a = find_resource(rules, r);
    a.sets_cookie = has_key && a.status == 200;
    return a;
}

site_answer site_decide(const site_rules *rules, const site_request *r) {
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        return refuse(405, "Only GET and HEAD are answered.");
    return rules->is_metrics ? decide_metrics(rules, r) : decide_page(rules, r);
}

const char *site_type(site_resource resource) {
    switch (resource) {
    case SITE_JSON: return "application/json; charset=utf-8";
    case SITE_METRICS: return "text/plain; version=0.0.4; charset=utf-8";
    case SITE_HEALTH: return "text/plain; charset=utf-8";
    default: return "text/html; charset=utf-8";
    }
}

int site_health(const model *m) {
    model_state state = model_state_of(m);
    bool is_hung = state == MODEL_IS_STUCK && model_unmoved_ms(m) >= MODEL_HUNG_MS;
    bool runs = state == MODEL_RUNS || state == MODEL_IS_STUCK;
    return runs && !is_hung ? 200 : 503;
}
