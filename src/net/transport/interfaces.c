#include "net/transport/interfaces.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

// ---- Text ---------------------------------------------------------------------------------------

// Takes the text before the next comma; false at the end, or if it does not fit.
static bool take_item(const char **at, char *out, size_t room) {
    if (!**at) return false;
    size_t size = strcspn(*at, ",");
    const char *from = *at;
    *at += size + ((*at)[size] == ',');
    if (size >= room) size = room - 1;  // which makes it invalid
    memcpy(out, from, size);
    out[size] = '\0';
    return true;
}

// "10.0.0.7", "fd00::7" and "[fd00::7]" get |port|; an address with a port keeps it.
static void add_port(const char *item, int port, char out[ADDRESS_MAX]) {
    const char *colon = strchr(item, ':');
    bool is_bare_v6 = item[0] != '[' && colon && strchr(colon + 1, ':');
    bool has_port = item[0] == '[' ? strstr(item, "]:") != NULL : colon && !is_bare_v6;
    if (has_port)
        snprintf(out, ADDRESS_MAX, "%s", item);
    else
        snprintf(out, ADDRESS_MAX, is_bare_v6 ? "[%.110s]:%d" : "%.110s:%d", item, port);
}

static bool item_is_beyond(const char *item) {
    char text[ADDRESS_MAX], *colon;
    add_port(item, 0, text);
    colon = strrchr(text, ':');
    *colon = '\0';
    return !host_is_loopback(text);
}

bool places_are_beyond(const char *addresses, const char *interfaces) {
    char item[ADDRESS_MAX];
    bool beyond = false;
    while (addresses && take_item(&addresses, item, sizeof item)) beyond |= item_is_beyond(item);
    while (interfaces && take_item(&interfaces, item, sizeof item))
        beyond |= strcmp(item, "lo") != 0;
    return beyond;
}

// ---- Writing the list ---------------------------------------------------------------------------

typedef struct listing {
    char *text;
    size_t size;
    int count;
    address chosen[PLACES_MAX + 1];
    int port;
} listing;

static bool has(const listing *l, const address *a) {
    address b = *a;
    address_set_port(&b, l->port);
    for (int i = 0; i < l->count; i++)
        if (address_equal(&l->chosen[i], &b)) return true;
    return false;
}

static void put(listing *l, const address *a) {
    char text[ADDRESS_MAX];
    if (l->count > PLACES_MAX || has(l, a)) return;
    address b = *a;
    address_set_port(&b, l->port);
    address_format(&b, text);
    int n = snprintf(l->text + l->size, ADDRESSES_MAX - l->size, "%stcp://%s", l->size ? "," : "",
                     text);
    if (n < 0 || (size_t)n >= ADDRESSES_MAX - l->size) {
        l->text[l->size] = '\0';
        return;
    }
    l->size += (size_t)n;
    l->chosen[l->count++] = b;
}

// "eth0 10.0.0.7, lo 127.0.0.1", for error texts.
static const char *describe(const interface_address *all, int count, char *out, size_t room) {
    size_t size = 0;
    out[0] = '\0';
    for (int i = 0; i < count && size < room; i++) {
        char text[ADDRESS_MAX];
        address_format(&all[i].at, text);
        *strrchr(text, ':') = '\0';
        int n = snprintf(out + size, room - size, "%s%s %s", size ? ", " : "", all[i].name, text);
        size += n > 0 ? (size_t)n : room;
    }
    return out;
}

// ---- Addresses that a user has chosen -----------------------------------------------------------

static gw_status put_addresses(listing *l, const char *addresses, gw_error *error) {
    char item[ADDRESS_MAX], text[ADDRESS_MAX];
    while (take_item(&addresses, item, sizeof item)) {
        address found[PLACES_MAX];
        int count, usual = l->port;
        add_port(item, usual, text);
        gw_status status = address_resolve(text, found, PLACES_MAX, &count, error);
        if (status) {
            error_prefix(error, "the address to listen on (GW_ADDRESS)");
            return status;
        }
        for (int i = 0; i < count; i++) {
            if (address_is_any(&found[i]))
                return error_set(error, GW_INVALID,
                                 "the address to listen on (GW_ADDRESS) is %s, to which other "
                                 "machines cannot connect: it must be an address of this machine",
                                 item);
            l->port = address_port(&found[i]);
            put(l, &found[i]);
        }
        l->port = usual;
    }
    return GW_OK;
}

static gw_status put_interfaces(listing *l, const char *interfaces, const interface_address *all,
                                int count, gw_error *error) {
    char name[ADDRESS_MAX], known[512];
    while (take_item(&interfaces, name, sizeof name)) {
        int before = l->count;
        for (int links = 0; links < 2 && l->count == before; links++)
            for (int i = 0; i < count; i++)
                if (!strcmp(all[i].name, name) && address_is_link_local(&all[i].at) == links)
                    put(l, &all[i].at);
        if (l->count == before)
            return error_set(error, GW_NOT_FOUND,
                             "the interface to listen on (GW_INTERFACE) is \"%.40s\", which has no "
                             "address on this machine; "
                             "available: %s",
                             name, describe(all, count, known, sizeof known));
    }
    return GW_OK;
}

// ---- Default addresses --------------------------------------------------------------------------

static bool is_bridge(const char *name) {
    return !strncmp(name, "docker", 6) || !strncmp(name, "virbr", 5) || !strncmp(name, "lxc", 3);
}

static bool is_useful(const interface_address *i) {
    return !address_is_loopback(&i->at) && !address_is_link_local(&i->at) && !is_bridge(i->name);
}

// The first of each kind: an interface may have many IPv6 addresses, most of them temporary.
static bool is_first_of_its_kind(const interface_address *all, int at) {
    for (int i = 0; i < at; i++)
        if (is_useful(&all[i]) && !strcmp(all[i].name, all[at].name) &&
            all[i].at.bytes.ss_family == all[at].at.bytes.ss_family)
            return false;
    return true;
}

static void put_kind(listing *l, const interface_address *all, int count, const char *only,
                     sa_family_t family) {
    for (int i = 0; i < count; i++)
        if (all[i].at.bytes.ss_family == family && is_useful(&all[i]) &&
            is_first_of_its_kind(all, i) && (!only || !strcmp(all[i].name, only)) &&
            l->count < PLACES_MAX)
            put(l, &all[i].at);
}

static const char *interface_of(const interface_address *all, int count, const address *a) {
    for (int i = 0; a && i < count; i++) {
        address b = all[i].at;
        address_set_port(&b, address_port(a));
        if (address_equal(&b, a)) return all[i].name;
    }
    return NULL;
}

static void put_usual(listing *l, const interface_address *all, int count, const address *source) {
    const char *best = interface_of(all, count, source);
    if (source && !address_is_loopback(source)) put(l, source);
    if (best) put_kind(l, all, count, best, AF_INET);
    if (best) put_kind(l, all, count, best, AF_INET6);
    put_kind(l, all, count, NULL, AF_INET);
    put_kind(l, all, count, NULL, AF_INET6);
}

// ---- The rendezvous address ---------------------------------------------------------------------

static bool is_in_numbers(const char *text) {
    return *text == '[' || strspn(text, "0123456789.:") == strlen(text);
}

typedef struct rendezvous {
    address meant[LIMIT_ADDRESSES];  // what its name resolves to on this machine
    int count, port;
} rendezvous;

// A cluster may publish a host's name only once something listens there.
static bool may_resolve_later(gw_status status, const char *text) {
    return status == GW_NOT_FOUND && !is_in_numbers(text);
}

static gw_status find_rendezvous(const places *p, rendezvous *out, gw_error *error) {
    gw_status status = address_resolve(p->toward, out->meant, LIMIT_ADDRESSES, &out->count, error);
    const char *port = strrchr(p->toward, ':');
    out->port = port ? (int)strtol(port + 1, NULL, 10) : 0;
    if (may_resolve_later(status, p->toward)) {
        log_line("%s does not resolve yet: this worker listens at all addresses of this machine",
                 p->toward);
        out->count = 0;
        return GW_OK;
    }
    for (int i = 0; !status && i < out->count; i++)
        if (address_is_any(&out->meant[i]))
            status = error_set(error, GW_INVALID,
                               "%s is not an address that other machines can connect to: it must "
                               "be an address of the machine of rank 0",
                               p->toward);
    return status;
}

static void put_rendezvous(listing *l, const rendezvous *m, const interface_address *all, int count,
                           bool loopback) {
    for (int i = 0; i < m->count; i++) {
        bool is_loopback = address_is_loopback(&m->meant[i]);
        if (is_loopback ? loopback : interface_of(all, count, &m->meant[i]) != NULL)
            put(l, &m->meant[i]);
    }
}

// If the name resolves only to loopback (a machine may list its own name as 127.0.1.1), or another machine
// forwards connections to that name, the host listens at all of its addresses.
static gw_status choose_for_host(listing *l, const places *p, const rendezvous *m,
                                 const interface_address *all, int count, const address *source,
                                 gw_error *error) {
    char known[512];
    put_rendezvous(l, m, all, count, false);
    if (l->count > 0) return GW_OK;
    if (is_in_numbers(p->toward) && !address_is_loopback(&m->meant[0]))
        return error_set(error, GW_NOT_FOUND,
                         "the rendezvous address %s is not one of this machine (rank 0), "
                         "which has %s",
                         p->toward, describe(all, count, known, sizeof known));
    put_usual(l, all, count, source);
    put_rendezvous(l, m, all, count, true);
    return GW_OK;
}

gw_status places_choose_among(const places *p, const interface_address *all, int count,
                              const address *source, char out[ADDRESSES_MAX], gw_error *error) {
    listing l = { .text = out };
    rendezvous m = { .port = 0 };
    out[0] = '\0';
    gw_status status = p->hosts ? find_rendezvous(p, &m, error) : GW_OK;
    l.port = m.port;
    if (!status && p->addresses) status = put_addresses(&l, p->addresses, error);
    if (!status && p->interfaces) status = put_interfaces(&l, p->interfaces, all, count, error);
    if (status) return status;
    if (p->addresses || p->interfaces) {
        put_rendezvous(&l, &m, all, count,
                       true);  // others connect there, whatever else is listened on
    } else if (p->hosts) {
        status = choose_for_host(&l, p, &m, all, count, source, error);
    } else {
        put_usual(&l, all, count, source);
    }
    if (status || l.count > 0) return status;
    return error_set(
        error, GW_NOT_FOUND,
        "this machine has no address that other machines can reach; GW_ADDRESS chooses "
        "one");
}

// ---- Queries to the kernel ----------------------------------------------------------------------

static int list_interfaces(interface_address *out, int limit) {
    struct ifaddrs *first;
    int count = 0;
    if (getifaddrs(&first)) return 0;
    for (const struct ifaddrs *i = first; i && count < limit; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if ((family != AF_INET && family != AF_INET6) || !(i->ifa_flags & IFF_UP)) continue;
        interface_address *a = &out[count++];
        *a = (interface_address){ .at.size = family == AF_INET ? sizeof(struct sockaddr_in)
                                                               : sizeof(struct sockaddr_in6) };
        memcpy(&a->at.bytes, i->ifa_addr, a->at.size);
        snprintf(a->name, sizeof a->name, "%s", i->ifa_name);
    }
    freeifaddrs(first);
    return count;
}

// Connecting a datagram socket chooses its source address without sending a packet.
static bool find_source(const address *toward, address *out) {
    int fd = socket(toward->bytes.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    *out = (address){ .size = sizeof out->bytes };
    bool found = connect(fd, (const struct sockaddr *)&toward->bytes, toward->size) == 0 &&
                 getsockname(fd, (struct sockaddr *)&out->bytes, &out->size) == 0;
    close(fd);
    return found;
}

static bool find_source_of(const char *toward, address *out) {
    address meant[LIMIT_ADDRESSES];
    int count;
    if (!toward[0] || address_resolve(toward, meant, LIMIT_ADDRESSES, &count, NULL)) return false;
    for (int i = count - 1; i >= 0; i--)  // those of this machine are first
        if (find_source(&meant[i], out) && !address_is_loopback(out)) return true;
    return false;
}

gw_status places_choose(const places *p, char out[ADDRESSES_MAX], gw_error *error) {
    interface_address *all = mem_alloc(INTERFACES_MAX * sizeof *all);
    if (!all) return error_set(error, GW_NO_MEMORY, "no memory for the addresses of this machine");
    address source;
    int count = list_interfaces(all, INTERFACES_MAX);
    bool has_source = find_source_of(p->toward, &source);
    gw_status status = places_choose_among(p, all, count, has_source ? &source : NULL, out, error);
    mem_free(all);
    return status;
}
