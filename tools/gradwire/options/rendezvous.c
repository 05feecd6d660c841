#include "options/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/nearest.h"
#include "options/parse.h"
#include "net/transport/address.h"

enum { MASTER_PORT = 29500 };  // torchrun's

// ---- How many hosts -------------------------------------------------------------------------------

// "4", or "2:8"; "4:4" is a fixed number, too.
static bool parse_nodes(const char *name, const char *text, run_options *out) {
    const char *colon = strchr(text, ':'), *most = colon ? colon + 1 : text;
    char least[16];
    snprintf(least, sizeof least, "%.*s", colon ? (int)(colon - text) : 15, text);
    if (!parse_int(name, least, 1, NODE_COUNT_MAX, &out->node_min) ||
        !parse_int(name, most, 1, NODE_COUNT_MAX, &out->node_max))
        return false;
    return out->node_min <= out->node_max ||
           parse_complain("%s=%s: the first number is the least and must not be larger than the "
                          "second",
                          name, text);
}

// ---- Where they meet ------------------------------------------------------------------------------

static bool parse_endpoint(const char *name, const char *text, run_options *out) {
    gw_error error;
    if (address_check(text, &error)) return parse_complain("%s: %s", name, error.text);
    size_t size = (size_t)(strrchr(text, ':') - text);
    bool is_v6 = text[0] == '[';  // brackets are for before a port
    snprintf(out->rdzv_host, sizeof out->rdzv_host, "%.*s", (int)(size - 2 * is_v6), text + is_v6);
    if (strcmp(text + size, ":0") == 0)
        return parse_complain("%s has port 0, but must have a port that all hosts know", name);
    snprintf(out->rdzv_endpoint, sizeof out->rdzv_endpoint, "%s", text);
    return true;
}

static bool parse_id(const char *name, const char *text, run_options *out) {
    if (strlen(text) > RDZV_ID_MAX || !is_plain_name(text))
        return parse_complain("%s takes at most %d of A-Z a-z 0-9 _ . -, not \"%.80s\"", name,
                              RDZV_ID_MAX, text);
    out->rdzv_id = text;
    return true;
}

static bool parse_backend(const char *name, const char *text) {
    static const char *const backends[] = { "static", "c10d", "gradwire" };
    for (int i = 0; i < 3; i++)
        if (strcmp(text, backends[i]) == 0) return true;
    return parse_complain("%s is static, gradwire or c10d, which all mean that the hosts meet at "
                          "--rdzv-endpoint, not \"%s\"",
                          name, text);
}

// One "KEY=VALUE" of --rdzv-conf.
static bool parse_setting(const char *name, char *setting, run_options *out) {
    static const char *const keys[] = { "join_timeout", "timeout", "last_call_timeout",
                                        "min_timeout" };
    enum { KEYS = 4 };
    int64_t *const values[KEYS] = { &out->rdzv_timeout_ms, &out->rdzv_timeout_ms,
                                    &out->last_call_ms, &out->min_timeout_ms };
    char *value = strchr(setting, '='), full[80];
    if (!value) return parse_complain("%s takes KEY=VALUE,..., not \"%s\"", name, setting);
    *value++ = '\0';
    nearest n = nearest_to(setting);
    for (int i = 0; i < KEYS; i++) {
        nearest_offer(&n, keys[i]);
        if (strcmp(setting, keys[i]) != 0) continue;
        snprintf(full, sizeof full, "%s: %s", name, keys[i]);
        return parse_seconds(full, value, values[i]);
    }
    return parse_complain("%s has no key \"%s\"%s", name, setting, nearest_words(&n));
}

static bool parse_conf(const char *name, const char *text, run_options *out) {
    char copy[256], *rest = copy;
    if (strlen(text) >= sizeof copy) return parse_complain("%s is too long", name);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *setting; (setting = strsep(&rest, ","));)
        if (!parse_setting(name, setting, out)) return false;
    return true;
}

static bool parse_rescale(const char *name, const char *text, run_options *out) {
    out->rescales_now = strcmp(text, "now") == 0;
    return out->rescales_now || strcmp(text, "wait") == 0 ||
           parse_complain("%s is wait or now, not \"%s\"", name, text);
}

bool rendezvous_take(run_option option, const char *name, const char *text, run_options *out) {
    switch ((int)option) {
    case OPTION_NNODES: return parse_nodes(name, text, out);
    case OPTION_NODE_RANK: return parse_int(name, text, 0, NODE_COUNT_MAX - 1, &out->node_rank);
    case OPTION_STANDALONE: return out->is_standalone = true;
    case OPTION_MASTER_ADDR: out->master_addr = text; return true;
    case OPTION_RDZV_BACKEND: return parse_backend(name, text);
    case OPTION_RDZV_CONF: return parse_conf(name, text, out);
    case OPTION_RDZV_ENDPOINT: return parse_endpoint(name, text, out);
    case OPTION_RESCALE: return parse_rescale(name, text, out);
    case OPTION_RDZV_ID: return parse_id(name, text, out);
    default: return parse_seconds(name, text, &out->rdzv_timeout_ms);
    }
}

// ---- All of it ----------------------------------------------------------------------------------

// As with torchrun's static rendezvous, --master-addr and --master-port can be given instead of the endpoint.
static bool take_master(run_options *o) {
    char text[RDZV_ENDPOINT_MAX];
    bool is_v6 = strchr(o->master_addr, ':') && o->master_addr[0] != '[';
    int size = snprintf(text, sizeof text, is_v6 ? "[%s]:%d" : "%s:%d", o->master_addr,
                        o->master_port ? o->master_port : MASTER_PORT);
    o->master_port = 0;  // it is taken; that of the ranks is a free one
    gw_error error;
    if (host_check("--master-addr", o->master_addr, &error))
        return parse_complain("%s", error.text);
    return size < (int)sizeof text ? parse_endpoint("--master-addr", text, o)
                                   : parse_complain("--master-addr is too long");
}

static bool check_rank(const run_options *o, bool has_rank) {
    if (has_rank && o->node_min < o->node_max)
        return parse_complain("--node-rank=%d cannot be used with --nnodes=%d:%d, with which hosts "
                              "are numbered as they join",
                              o->node_rank, o->node_min, o->node_max);
    return o->node_rank < o->node_max ||
           parse_complain("--node-rank=%d is out of range for --nnodes=%d: it must be 0 to %d",
                          o->node_rank, o->node_max, o->node_max - 1);
}

bool rendezvous_check(run_options *o) {
    bool has_rank = o->node_rank >= 0;
    if (!has_rank) o->node_rank = 0;
    o->is_dynamic = run_has_hosts(o) && !has_rank;
    o->node_count = o->is_dynamic ? 1 : o->node_max;
    if (o->is_standalone && run_has_hosts(o))
        return parse_complain("--standalone is for one host, not for --nnodes=%d", o->node_max);
    if (o->is_standalone) o->rdzv_endpoint[0] = o->rdzv_host[0] = '\0';
    if (!check_rank(o, has_rank)) return false;
    if (run_has_hosts(o) && !o->rdzv_endpoint[0] && o->master_addr && !take_master(o)) return false;
    if (run_has_hosts(o) && !o->rdzv_endpoint[0])
        return parse_complain(
            "--nnodes needs --rdzv-endpoint=HOST:PORT, the address at which the hosts meet");
    return run_world_max(o) <= LIMIT_WORKERS ||
           parse_complain("%d hosts with %d processes each are more than the limit of %d processes",
                          o->node_max, o->rank_count, LIMIT_WORKERS);
}
