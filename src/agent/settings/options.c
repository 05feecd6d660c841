#include "agent/settings/options.h"

#include "agent/settings/environment.h"
#include "base/status.h"
#include "base/variables.h"
#include "net/transport/interfaces.h"
#include "store/store_redis.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { UNSET = -1 };

static bool is_name_char(unsigned char c) {
    return (unsigned)((c | 32) - 'a') < 26 || (unsigned)(c - '0') < 10 || c == '_' || c == ':' ||
           c == '.' || c == '-';
}

bool options_is_name(const char *name) {
    size_t size = 0;
    while (is_name_char((unsigned char)name[size]) && size <= LIMIT_NAME_BYTES) size++;
    return size >= 1 && size <= LIMIT_NAME_BYTES && !name[size];
}

// The text before the %d of |pattern|, and behind it; false if it has none.
static bool split_pattern(const char *pattern, size_t *out_head, const char **out_tail) {
    const char *place = strstr(pattern, "%d");
    if (!place) return false;
    *out_head = (size_t)(place - pattern);
    *out_tail = place + 2;
    return true;
}

bool options_fits_name(const char *pattern, const char *name) {
    size_t head;
    const char *tail;
    if (!split_pattern(pattern, &head, &tail)) return strcmp(pattern, name) == 0;
    if (strncmp(pattern, name, head) != 0) return false;
    // The text behind %d may begin with digits, too.
    size_t size = strlen(name), behind = strlen(tail);
    size_t digits = strspn(name + head, "0123456789");
    return size > head + behind && head + digits + behind >= size &&
           strcmp(name + size - behind, tail) == 0;
}

bool options_complete_name(const char *pattern, int rank, char out[LIMIT_NAME_BYTES + 1]) {
    size_t head;
    const char *tail;
    int size = split_pattern(pattern, &head, &tail)
                   ? snprintf(out, LIMIT_NAME_BYTES + 1, "%.*s%d%s", (int)head, pattern, rank, tail)
                   : snprintf(out, LIMIT_NAME_BYTES + 1, "%s", pattern);
    return size <= LIMIT_NAME_BYTES && options_is_name(out);
}

bool options_is_pattern(const char *pattern) {
    char name[LIMIT_NAME_BYTES + 1];
    return options_complete_name(pattern, 0, name);
}

// |what| names the source of the text: "RANK", "rank in the URL".
static gw_status parse_number(const char *text, const char *what, long max, int *out,
                              gw_error *error) {
    if (variable_number(text, max, out)) return GW_OK;
    return error_set(error, GW_INVALID, "%s is \"%s\", but must be a number from 0 to %ld", what,
                     text, max);
}

static gw_status parse_query(const char *query, int *rank, int *world_size, gw_error *error) {
    char part[64];
    for (const char *at = query; *at;) {
        size_t size = strcspn(at, "&");
        if (size >= sizeof part)
            return error_set(error, GW_INVALID, "\"%s\" in the URL is too long", at);
        memcpy(part, at, size);
        part[size] = '\0';
        at += size + (at[size] == '&');
        gw_status status;
        if (!strncmp(part, "rank=", 5)) {
            status = parse_number(part + 5, "rank in the URL", LIMIT_WORKERS - 1, rank, error);
        } else if (!strncmp(part, "world_size=", 11)) {
            status =
                parse_number(part + 11, "world_size in the URL", LIMIT_WORKERS, world_size, error);
        } else {
            status = error_set(error, GW_INVALID,
                               "the URL has \"%s\"; it may have rank=... and world_size=...", part);
        }
        if (status) return status;
    }
    return GW_OK;
}

// An invalid name needs another name, not a key.
static gw_status allow_beyond(const join_options *o, const char *what, const char *host,
                              gw_error *error) {
    gw_status status = protection_allows_beyond(&o->protection, what, host, error);
    gw_error unknown;
    if (status && host_check(what, host, &unknown)) return *error = unknown, unknown.status;
    return status;
}

// One more address of the master, or of a group.
static gw_status add_master(join_options *out, const char *host, const char *port,
                            const char *host_what, const char *port_what, gw_error *error) {
    int number;
    gw_status status = parse_number(port, port_what, 65535, &number, error);
    if (status) return status;
    if (!host_is_loopback(host)) {
        status = allow_beyond(out, host_what, host, error);
        out->goes_beyond = true;
    }
    if (status) return status;
    if (!number && (out->job || out->world_size > 1))
        return error_set(error, GW_INVALID,
                         "%s is 0, but must be a port that the other workers know", port_what);
    // "localhost" may have two addresses, and all workers must choose the same one.
    const char *address = strcmp(host, "localhost") ? host : "127.0.0.1";
    bool is_bare_v6 = address[0] != '[' && strchr(address, ':');
    char text[LIMIT_ADDRESS_BYTES + 1];
    snprintf(text, sizeof text, is_bare_v6 ? "[%s]:%d" : "%s:%d", address, number);
    gw_error why;
    if (address_check(text, &why))
        return error_set(error, GW_INVALID, "%s is \"%.100s\", which is not a host", host_what,
                         host);
    size_t size = strlen(out->master);
    if (size && !out->job)
        return error_set(error, GW_INVALID,
                         "%s has several addresses, but only an elastic job can have several: give "
                         "the address of rank 0 only",
                         host_what);
    if (size + strlen(text) + 2 > sizeof out->master)
        return error_set(error, GW_INVALID, "%s has more than %d bytes of addresses", host_what,
                         LIMIT_ADDRESSES_BYTES);
    snprintf(out->master + size, sizeof out->master - size, "%s%s", size ? "," : "", text);
    return GW_OK;
}

// |what| names the source of |text|; NULL is the empty text.
static gw_status copy_text(const char *text, const char *what, char *out, size_t room,
                           gw_error *error) {
    if (text && strlen(text) >= room)
        return error_set(error, GW_INVALID, "%s is longer than %zu bytes", what, room - 1);
    snprintf(out, room, "%s", text ? text : "");
    return GW_OK;
}

// The addresses at which this worker listens, if its user has chosen them, by options or else by the environment.
static gw_status find_places(const gw_rpc_options *given, char *(*variable)(const char *name),
                             join_options *out, gw_error *error) {
    const char *addresses_from = given->addresses ? "addresses" : "GW_ADDRESS";
    const char *interfaces_from = given->interfaces ? "interfaces" : "GW_INTERFACE";
    gw_status status =
        copy_text(given->addresses ? given->addresses : variable("GW_ADDRESS"), addresses_from,
                  out->listen_addresses, sizeof out->listen_addresses, error);
    if (!status)
        status = copy_text(given->interfaces ? given->interfaces : variable("GW_INTERFACE"),
                           interfaces_from, out->listen_interfaces, sizeof out->listen_interfaces,
                           error);
    if (!status && places_are_beyond(out->listen_addresses, NULL)) {
        out->goes_beyond = true;
        status = protection_allows_beyond(&out->protection, addresses_from, out->listen_addresses,
                                          error);
    }
    if (!status && places_are_beyond(NULL, out->listen_interfaces)) {
        out->goes_beyond = true;
        status = protection_allows_beyond(&out->protection, interfaces_from, out->listen_interfaces,
                                          error);
    }
    return status;
}

// "host:port", or for a group "host:port,host:port".
static gw_status parse_tcp(const char *rest, join_options *out, gw_error *error) {
    char one[LIMIT_ADDRESS_BYTES + 1];
    gw_status status = GW_OK;
    do {
        size_t size = strcspn(rest, ",");
        snprintf(one, sizeof one, "%.*s", (int)size, rest);
        char *colon = strrchr(one, ':');
        if (size >= sizeof one || !colon || colon == one || !colon[1])
            return error_set(error, GW_INVALID, "\"tcp://%s\" is not of the form tcp://host:port",
                             rest);
        *colon = '\0';
        status =
            add_master(out, one, colon + 1, "the host in the URL", "the port in the URL", error);
        rest += size + (rest[size] == ',');
    } while (!status && *rest);
    return status;
}

static gw_status parse_env(char *(*variable)(const char *name), join_options *out,
                           gw_error *error) {
    environment_master m;
    gw_status status = environment_master_of(variable, out->rank, out->world_size, &m, error);
    if (status) return status;
    if (!m.address[0]) return add_master(out, m.host, m.port, m.host_from, m.port_from, error);
    snprintf(out->master, sizeof out->master, "%s", m.address);
    return GW_OK;
}

// The URL without its query goes to |base|.
static gw_status split(const char *url, char *base, size_t base_size, int *rank, int *world_size,
                       gw_error *error) {
    const char *query = strchr(url, '?');
    size_t size = query ? (size_t)(query - url) : strlen(url);
    if (size >= base_size) return error_set(error, GW_INVALID, "init_method is too long");
    memcpy(base, url, size);
    base[size] = '\0';
    return query ? parse_query(query + 1, rank, world_size, error) : GW_OK;
}

// Values there are sealed with the job's key; without a key they are as open as the network.
static gw_status parse_redis(const char *url, char *(*variable)(const char *name),
                             join_options *out, gw_error *error) {
    redis_place place;
    const secret *s = out->protection.secret;
    gw_status status = redis_place_of(url, &place, error);
    if (status) return status;
    bool is_beyond = !host_is_loopback(place.host);
    if (is_beyond && s && !s->key_count)
        return error_set(error, GW_UNSUPPORTED,
                         "%s is not on this machine, and the certificate of this worker cannot "
                         "protect the values there: use a job key (gradwire key)",
                         url);
    if (is_beyond) status = allow_beyond(out, "the host in the URL", place.host, error);
    if (status) return status;
    out->goes_beyond |= is_beyond;
    snprintf(out->path, sizeof out->path, "%s", url);
    return copy_text(variable("GW_REDIS_PASSWORD_FILE"), "GW_REDIS_PASSWORD_FILE",
                     out->redis_password_file, sizeof out->redis_password_file, error);
}

static gw_status parse_address(const char *base, char *(*variable)(const char *name),
                               join_options *out, gw_error *error) {
    if (!strcmp(base, "env://")) return parse_env(variable, out, error);
    if (!strncmp(base, "tcp://", 6)) return parse_tcp(base + 6, out, error);
    if (!strncmp(base, "file://", 7)) {
        if (!base[7]) return error_set(error, GW_INVALID, "file:// needs a path behind it");
        snprintf(out->path, sizeof out->path, "%s", base + 7);
        return GW_OK;
    }
    if (!strncmp(base, "redis://", 8)) return parse_redis(base, variable, out, error);
    if (!strncmp(base, "rediss://", 9))
        return error_set(error, GW_UNSUPPORTED,
                         "rediss:// is not supported: use redis:// with a job key (gradwire key), "
                         "which protects all values");
    return error_set(error, GW_INVALID,
                     "init_method \"%s\" does not begin with env://, tcp://, file:// or redis://",
                     base);
}

// ---- Protection ---------------------------------------------------------------------------------

// A key is given by the option, by the launcher's descriptor, or by the environment's file, in this
// order.
static gw_status find_secret(const gw_rpc_options *given, char *(*variable)(const char *name),
                             secret **out, gw_error *error) {
    const char *fd_text = variable("GW_KEY_FD"), *file = variable("GW_KEY_FILE");
    int fd;
    if (given->key) return secret_open_file(given->key, out, error);
    if (fd_text && *fd_text) {
        gw_status status = parse_number(fd_text, "GW_KEY_FD", INT_MAX, &fd, error);
        return status ? status : secret_open_descriptor(fd, out, error);
    }
    return file && *file ? secret_open_file(file, out, error) : GW_OK;
}

static gw_status find_insecure(const gw_rpc_options *given, char *(*variable)(const char *name),
                               bool *out, gw_error *error) {
    const char *text = variable("GW_INSECURE");
    int number = 0;
    gw_status status = text && *text ? parse_number(text, "GW_INSECURE", 1, &number, error) : GW_OK;
    *out = given->insecure || number;
    return status;
}

static gw_status find_protection(const gw_rpc_options *given, char *(*variable)(const char *name),
                                 protection *out, gw_error *error) {
    const char *job = variable("GW_JOB_ID");
    if (job && strlen(job) >= sizeof out->job)
        return error_set(error, GW_INVALID, "GW_JOB_ID is longer than %d bytes", JOB_ID_MAX - 1);
    snprintf(out->job, sizeof out->job, "%s", job ? job : "");
    gw_status status = find_insecure(given, variable, &out->insecure, error);
    if (!status) status = find_secret(given, variable, &out->secret, error);
    if (!status && out->insecure && out->secret)
        status = error_set(error, GW_INVALID,
                           "a key is given, but insecure is set, too: use one of them");
    return status;
}

// Options have rank and world size together; else the URL, else the environment, each for the values that are still
// unset.
static gw_status find_place(const gw_rpc_options *given, char *(*variable)(const char *name),
                            int rank, int world_size, join_options *out, gw_error *error) {
    if (given->world_size != UNSET) {
        if (rank != UNSET || world_size != UNSET)
            return error_set(error, GW_INVALID,
                             "rank and world size are given both by options and in the URL");
        if (given->rank == UNSET && given->world_size > 1)
            return error_set(error, GW_INVALID, "world size %d is given without a rank",
                             given->world_size);
        rank = given->rank == UNSET ? 0 : given->rank;
        world_size = given->world_size;
    } else if (given->rank != UNSET) {
        return error_set(error, GW_INVALID, "rank %d is given without a world size", given->rank);
    }
    bool is_launched = rank == UNSET && world_size == UNSET;
    gw_status status = environment_place(variable, &rank, &world_size, error);
    if (status) return status;
    out->is_launched = is_launched;
    if (is_launched) environment_job(variable, rank, world_size, out->launch);
    if (world_size < 1 || world_size > LIMIT_WORKERS)
        return error_set(error, GW_INVALID, "the world size is %d, but must be 1 to %d", world_size,
                         LIMIT_WORKERS);
    if (rank < 0 || rank >= world_size)
        return error_set(error, GW_INVALID, "rank %d is out of range for world size %d", rank,
                         world_size);
    out->rank = rank;
    out->world_size = world_size;
    return GW_OK;
}

// The environment is used only for values that are not given.
static gw_status find_group(const gw_rpc_options *given, char *(*variable)(const char *name),
                            bool place_is_given, join_options *out, gw_error *error) {
    const char *text = variable("GW_JOB");
    out->job = given->job;
    if ((unsigned)given->job > GW_JOB_JOIN)
        return error_set(error, GW_INVALID, ".job is %d, which is not a gw_job_kind",
                         (int)given->job);
    if (given->job && place_is_given)
        return error_set(error, GW_INVALID,
                         "an elastic job assigns ranks itself: do not give rank or world size");
    if (given->job || place_is_given || !text || !*text) return GW_OK;
    if (!strcmp(text, "create")) {
        out->job = GW_JOB_CREATE;
    } else if (!strcmp(text, "join")) {
        out->job = GW_JOB_JOIN;
    } else {
        return error_set(error, GW_INVALID, "GW_JOB is \"%.100s\", but must be create or join",
                         text);
    }
    return GW_OK;
}

static gw_status find_group_or_place(const gw_rpc_options *given,
                                     char *(*variable)(const char *name), int rank, int world_size,
                                     join_options *out, gw_error *error) {
    bool place_is_given =
        given->rank != UNSET || given->world_size != UNSET || rank != UNSET || world_size != UNSET;
    gw_status status = find_group(given, variable, place_is_given, out, error);
    if (status) return status;
    if (!out->job) return find_place(given, variable, rank, world_size, out, error);
    out->rank = out->job == GW_JOB_CREATE ? 0 : -1;
    return GW_OK;
}

// "trainer%d" with the rank in place of %d. A worker that joins a group keeps it until it has a rank.
static gw_status set_ranked_name(const char *given, join_options *out, gw_error *error) {
    char name[LIMIT_NAME_BYTES + 1];
    int rank = out->rank < 0 ? LIMIT_WORKERS - 1 : out->rank;
    if (!options_complete_name(given, rank, name))
        return error_set(error, GW_INVALID,
                         "the name \"%.140s\" is malformed: with the rank in place of %%d, it must "
                         "have 1 to %d of A-Z a-z 0-9 _ : . -",
                         given, LIMIT_NAME_BYTES);
    snprintf(out->name, sizeof out->name, "%s", out->rank < 0 ? given : name);
    return GW_OK;
}

static gw_status set_name(const char *given, join_options *out, gw_error *error) {
    if (given && strstr(given, "%d")) return set_ranked_name(given, out, error);
    // A worker that joins has no rank yet.
    if (!given && out->job == GW_JOB_JOIN) return GW_OK;
    if (!given) {
        snprintf(out->name, sizeof out->name, "worker%d", out->rank);
        return GW_OK;
    }
    if (!options_is_name(given))
        return error_set(error, GW_INVALID,
                         "\"%.140s\" is not a name: 1 to %d of A-Z a-z 0-9 _ : . -", given,
                         LIMIT_NAME_BYTES);
    snprintf(out->name, sizeof out->name, "%s", given);
    return GW_OK;
}

// A launcher that has given this rank a role sets GW_NAME.
static const char *name_of(const gw_rpc_options *given, char *(*variable)(const char *name)) {
    const char *name = given->name ? NULL : variable("GW_NAME");
    return name && *name ? name : given->name;
}

static gw_status resolve(const gw_rpc_options *given, char *(*variable)(const char *name),
                         join_options *out, gw_error *error) {
    int rank = UNSET, world_size = UNSET;
    char base[OPTIONS_PATH_MAX];
    gw_status status = find_protection(given, variable, &out->protection, error);
    if (!status)
        status = split(given->init_method ? given->init_method : "env://", base, sizeof base, &rank,
                       &world_size, error);
    if (!status) status = find_group_or_place(given, variable, rank, world_size, out, error);
    if (!status) status = parse_address(base, variable, out, error);
    if (!status) status = find_places(given, variable, out, error);
    if (!status) status = set_name(name_of(given, variable), out, error);
    if (status) return status;
    if (given->timeout_ms < 0)
        return error_set(error, GW_INVALID, "the timeout is %lld ms, but must not be negative",
                         (long long)given->timeout_ms);
    if (given->join_timeout_ms < 0)
        return error_set(error, GW_INVALID, "the join timeout is %lld ms, but must not be negative",
                         (long long)given->join_timeout_ms);
    if (given->threads < 1 || given->threads > LIMIT_THREADS / 2)
        return error_set(error, GW_INVALID, ".threads is %d, but must be 1 to %d", given->threads,
                         LIMIT_THREADS / 2);
    out->timeout_ms = given->timeout_ms;
    out->join_timeout_ms = given->join_timeout_ms;
    out->threads = given->threads;
    return GW_OK;
}

gw_status options_resolve(const gw_rpc_options *given, char *(*variable)(const char *name),
                          join_options *out, gw_error *error) {
    *out = (join_options){ 0 };
    gw_status status = resolve(given, variable, out, error);
    if (status) protection_fini(&out->protection);
    return status;
}
