#include "net/tls/certificate_name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char scheme[] = "gradwire:";

static bool is_any(const certificate_name *n) {
    return n->first_rank == 0 && n->last_rank == LIMIT_WORKERS - 1;
}

static bool parse_rank(const char **at, uint32_t *out) {
    char *end;
    if (!isdigit((unsigned char)**at)) return false;
    unsigned long value = strtoul(*at, &end, 10);
    if (value >= LIMIT_WORKERS) return false;
    *at = end;
    *out = (uint32_t)value;
    return true;
}

// "3", "1-2" or "*", the whole text.
static bool parse_ranks(const char *text, certificate_name *out) {
    if (strcmp(text, "*") == 0) {
        out->first_rank = 0;
        out->last_rank = LIMIT_WORKERS - 1;
        return true;
    }
    if (!parse_rank(&text, &out->first_rank)) return false;
    out->last_rank = out->first_rank;
    if (*text == '-' && (text++, !parse_rank(&text, &out->last_rank))) return false;
    return !*text && out->first_rank <= out->last_rank;
}

static bool copy(char *out, size_t room, const char *text, size_t size) {
    if (size >= room) return false;
    memcpy(out, text, size);
    out[size] = '\0';
    return true;
}

static bool take_name(const char *text, certificate_name *out) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:.-";
    const char *place = strstr(text, "%d");
    size_t head = place ? (size_t)(place - text) : strlen(text);
    const char *tail = place ? place + 2 : "";
    return *text && strspn(text, allowed) == head && strspn(tail, allowed) == strlen(tail) &&
           copy(out->name, sizeof out->name, text, strlen(text));
}

// A job's id may contain any characters; a name and ranks contain no slash.
bool certificate_name_parse(const char *uri, certificate_name *out) {
    char ranks[32];
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0) return false;
    const char *job = uri + sizeof scheme - 1, *name = strrchr(job, '/'), *rank = name;
    while (rank && rank > job && rank[-1] != '/') rank--;
    return rank && rank > job && copy(out->job, sizeof out->job, job, (size_t)(rank - 1 - job)) &&
           copy(ranks, sizeof ranks, rank, (size_t)(name - rank)) && parse_ranks(ranks, out) &&
           take_name(name + 1, out);
}

void certificate_name_write(const certificate_name *n, char out[CERTIFICATE_NAME_MAX]) {
    char ranks[32];
    if (is_any(n)) {
        snprintf(ranks, sizeof ranks, "*");
    } else if (n->first_rank == n->last_rank) {
        snprintf(ranks, sizeof ranks, "%u", n->first_rank);
    } else {
        snprintf(ranks, sizeof ranks, "%u-%u", n->first_rank, n->last_rank);
    }
    snprintf(out, CERTIFICATE_NAME_MAX, "%s%s/%s/%s", scheme, n->job, ranks, n->name);
}

bool certificate_name_of(const char *text, const char *job, certificate_name *out) {
    const char *ranks = strchr(text, '=');
    char name[LIMIT_NAME_BYTES + 1];
    return copy(out->job, sizeof out->job, job, strlen(job)) &&
           copy(name, sizeof name, text, ranks ? (size_t)(ranks - text) : strlen(text)) &&
           take_name(name, out) && parse_ranks(ranks ? ranks + 1 : "*", out);
}

static bool is_name(const certificate_name *n, const party *p) {
    char name[LIMIT_NAME_BYTES + 16];
    const char *place = strstr(n->name, "%d");
    if (!place) return strcmp(n->name, p->name) == 0;
    int size = snprintf(name, sizeof name, "%.*s%u%s", (int)(place - n->name), n->name, p->rank,
                        place + 2);
    return size < (int)sizeof name && strcmp(name, p->name) == 0;
}

bool certificate_name_fits(const certificate_name *n, const char *job, const party *p) {
    if (strcmp(n->job, "*") != 0 && strcmp(n->job, job) != 0) return false;
    if (p->rank == PARTY_RANK_UNKNOWN) return true;
    return p->rank >= n->first_rank && p->rank <= n->last_rank && is_name(n, p);
}
