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

// "4", or "4:4", which torchrun takes for it. A job cannot gain or lose hosts.
static bool parse_nodes(const char *name, const char *text, run_options *out) {
    const char *colon = strchr(text, ':');
    if (!colon) return parse_int(name, text, 1, NODE_COUNT_MAX, &out->node_count);
    char least[16];
    int min;
    snprintf(least, sizeof least, "%.*s", (int)(colon - text), text);
    if (!parse_int(name, least, 1, NODE_COUNT_MAX, &min) ||
        !parse_int(name, colon + 1, 1, NODE_COUNT_MAX, &out->node_count))
        return false;
    if (min > out->node_count)
        return parse_complain("%s=%s: the first number is the least and must not be larger than "
                              "the second",
                              name, text);
    return min == out->node_count ||
           parse_complain("%s=%s is a range, but hosts cannot join or leave a running job: give "
                          "one number",
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

// One "KEY=VALUE" of --rdzv-conf. The hosts of a job are given, so that torchrun's times for fewer hosts do not apply.
static bool parse_setting(const char *name, char *setting, run_options *out) {
    static const char *const keys[] = { "join_timeout", "timeout", "last_call_timeout",
                                        "min_timeout" };
    enum { KEYS = 4, KEYS_OF_JOINING = 2 };
    char *value = strchr(setting, '='), full[80];
    if (!value) return parse_complain("%s takes KEY=VALUE,..., not \"%s\"", name, setting);
    *value++ = '\0';
    nearest n = nearest_to(setting);
    for (int i = 0; i < KEYS; i++) {
        int64_t ignored;
        nearest_offer(&n, keys[i]);
        if (strcmp(setting, keys[i]) != 0) continue;
        snprintf(full, sizeof full, "%s: %s", name, keys[i]);
        return parse_seconds(full, value, i < KEYS_OF_JOINING ? &out->rdzv_timeout_ms : &ignored);
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

bool rendezvous_take(run_option option, const char *name, const char *text, run_options *out) {
    switch ((int)option) {
    case OPTION_NNODES: return parse_nodes(name, text, out);
    case OPTION_NODE_RANK: return parse_int(name, text, 0, NODE_COUNT_MAX - 1, &out->node_rank);
    case OPTION_STANDALONE: return out->is_standalone = true;
    case OPTION_MASTER_ADDR: out->master_addr = text; return true;
    case OPTION_RDZV_BACKEND: return parse_backend(name, text);
    case OPTION_RDZV_CONF: return parse_conf(name, text, out);
    case OPTION_RDZV_ENDPOINT: return parse_endpoint(name, text, out);
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

bool rendezvous_check(run_options *o) {
    bool has_rank = o->node_rank >= 0;
    if (!has_rank) o->node_rank = 0;
    if (o->is_standalone && o->node_count > 1)
        return parse_complain("--standalone is for one host, not for --nnodes=%d", o->node_count);
    if (o->is_standalone) o->rdzv_endpoint[0] = o->rdzv_host[0] = '\0';
    if (o->node_count > 1 && !has_rank) return parse_complain("--nnodes needs --node-rank");
    if (o->node_count > 1 && !o->rdzv_endpoint[0] && o->master_addr && !take_master(o))
        return false;
    if (o->node_count > 1 && !o->rdzv_endpoint[0])
        return parse_complain(
            "--nnodes needs --rdzv-endpoint=HOST:PORT, the address at which the hosts meet");
    if (o->node_rank >= o->node_count)
        return parse_complain("--node-rank=%d is out of range for --nnodes=%d: it must be 0 to %d",
                              o->node_rank, o->node_count, o->node_count - 1);
    return run_world_size(o) <= LIMIT_WORKERS ||
           parse_complain("%d hosts with %d processes each are more than the limit of %d processes",
                          o->node_count, o->rank_count, LIMIT_WORKERS);
}
