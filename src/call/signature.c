// Signatures: "tensor, int?, any, ...".
#include "call/registry.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { ANY_KIND = (1 << GW_KIND_COUNT) - 1, PLACES_MAX = 256 };

_Static_assert(GW_KIND_COUNT <= 16, "a place's kinds fit its bits");

static bool word_is(const char *word, size_t size, const char *text) {
    return strlen(text) == size && !memcmp(word, text, size);
}

// The kinds a word stands for; 0 if it is none. An int is accepted where a float is wanted.
static uint16_t kinds_of(const char *word, size_t size) {
    if (word_is(word, size, "any")) return ANY_KIND;
    if (word_is(word, size, "rref")) return 1 << GW_RREF;
    for (int kind = 0; kind < GW_KIND_COUNT; kind++)
        if (word_is(word, size, gw_kind_name((gw_kind)kind)))
            return (uint16_t)(1 << kind | (kind == GW_FLOAT ? 1 << GW_INT : 0));
    return 0;
}

static size_t next_word(const char **at) {
    *at += strspn(*at, " \t\n");
    size_t size = strcspn(*at, ",");
    while (size && strchr(" \t\n", (*at)[size - 1])) size--;
    return size;
}

static gw_status parse_word(const char *word, size_t size, signature *out, gw_error *error) {
    if (word_is(word, size, "...")) {
        out->rest = true;
        return GW_OK;
    }
    bool optional = size && word[size - 1] == '?';
    uint16_t kinds = kinds_of(word, size - optional);
    if (!kinds || out->rest)
        return error_set(error, GW_INVALID, "\"%.*s\" in its signature is not a kind of value",
                         (int)size, word);
    if (!optional && out->required < out->count)
        return error_set(error, GW_INVALID, "\"%.*s\" stands behind an optional argument",
                         (int)size, word);
    if (out->count == PLACES_MAX)
        return error_set(error, GW_LIMIT, "a signature of more than %d places", PLACES_MAX);
    out->kinds[out->count++] = optional ? (uint16_t)(kinds | 1 << GW_NONE) : kinds;
    if (!optional) out->required = out->count;
    return GW_OK;
}

gw_status signature_parse(const char *text, signature *out, gw_error *error) {
    *out = (signature){ .given = text != NULL };
    if (!text || !text[strspn(text, " \t\n")]) return GW_OK;
    size_t places = 1;
    for (const char *at = text; (at = strchr(at, ',')); at++) places++;
    out->kinds = mem_calloc((places < PLACES_MAX ? places : PLACES_MAX) * sizeof *out->kinds);
    if (!out->kinds) return error_set(error, GW_NO_MEMORY, "no memory for a signature");
    gw_status status = GW_OK;
    for (const char *at = text; !status;) {
        size_t size = next_word(&at);
        status = parse_word(at, size, out, error);
        at = strchr(at, ',');
        if (!at) break;
        at++;
    }
    if (status) signature_fini(out);
    return status;
}

void signature_fini(signature *s) {
    mem_free(s->kinds);
    *s = (signature){ 0 };
}

static gw_status wrong_count(const signature *s, int count, gw_error *error) {
    int wanted = count < s->required ? s->required : s->count;
    const char *bound = "";
    if (s->rest || s->required < s->count) bound = count < s->required ? "at least " : "at most ";
    return error_set(error, GW_INVALID, "takes %s%d argument%s, not %d", bound, wanted,
                     wanted == 1 ? "" : "s", count);
}

// What a place takes, in words.
static void name_kinds(uint16_t kinds, char *out, size_t size) {
    if (kinds & 1 << GW_FLOAT) kinds &= (uint16_t) ~(1 << GW_INT);
    kinds &= (uint16_t) ~(1 << GW_NONE);
    for (int kind = 0; kind < GW_KIND_COUNT; kind++)
        if (kinds & 1 << kind) snprintf(out, size, "%s", gw_kind_name((gw_kind)kind));
}

// C's false and true are ints.
static bool takes(uint16_t kinds, gw_value v) {
    if (kinds & 1 << v.kind) return true;
    return kinds & 1 << GW_BOOL && v.kind == GW_INT && (v.as.integer | 1) == 1;
}

gw_status signature_check(const signature *s, int count, const gw_value *args, gw_error *error) {
    if (!s->given) return GW_OK;
    if (count < s->required || (count > s->count && !s->rest)) return wrong_count(s, count, error);
    for (int i = 0; i < count && i < s->count; i++) {
        if (takes(s->kinds[i], args[i])) continue;
        char wanted[32] = "none";
        name_kinds(s->kinds[i], wanted, sizeof wanted);
        return error_set(error, GW_INVALID, "argument %d is %s, not %s", i,
                         gw_kind_name(args[i].kind), wanted);
    }
    return GW_OK;
}
