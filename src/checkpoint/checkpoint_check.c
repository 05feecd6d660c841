// CRC-32C of each tensor's numbers: __metadata__ has them, under "gradwire.crc32c", as JSON:
// {"0.weight":"90e2ba7d"}. A bit that a disk or a copy has flipped is no other number then.
#include "checkpoint/checkpoint.h"

#include "base/crc32c.h"
#include "base/mutation.h"
#include "tensor/pack.h"

#include <stdio.h>
#include <string.h>

static const char checks_name[] = "gradwire.crc32c";

enum { CHECK_TEXT = 9 };  // hexadecimal digits, and the end

static void write_check(char out[CHECK_TEXT], uint32_t sum) {
    snprintf(out, CHECK_TEXT, "%08x", sum);
}

void checkpoint_put_checks(checkpoint *c, const uint32_t *sums) {
    json_t *checks = json_object();
    for (int i = 0; i < c->count; i++) {
        char text[CHECK_TEXT];
        write_check(text, sums ? sums[i] : 0);
        // A name that is no UTF-8 text is an error when the header is written.
        json_object_set_new(checks, c->items[i].name, json_string(text));
    }
    checkpoint_put_text(c, checks_name, checks);
    json_decref(checks);
}

static bool add_up(const checkpoint *c, uint32_t *sums) {
    for (int i = 0; i < c->count; i++) {
        const checkpoint_entry *e = &c->items[i];
        packed numbers;
        if (!tensor_pack(e->x, &numbers))
            return scope_fail(c->scope, GW_NO_MEMORY, "no memory for the numbers of \"%.200s\"",
                              e->name);
        sums[i] = crc32c(0, numbers.bytes, (size_t)(e->end - e->begin));
        packed_release(&numbers);
    }
    return true;
}

void checkpoint_keep_checks(checkpoint *c) {
    if (json_object_get(c->texts, checks_name))
        scope_fail(c->scope, GW_INVALID, "two texts would have the name \"%s\"", checks_name);
    if (!c->count || !gw_ok(c->scope)) return;
    uint32_t *sums = gw_alloc(c->scope, (size_t)c->count * sizeof *sums);
    if (sums && add_up(c, sums)) checkpoint_put_checks(c, sums);
}

json_t *checkpoint_read_checks(checkpoint *c) {
    const char *text = json_string_value(json_object_get(c->texts, checks_name));
    json_error_t error;
    json_t *out = text ? checkpoint_parse(text, strlen(text), &error) : NULL;
    if (text && !json_is_object(out))
        scope_fail(c->scope, GW_INVALID, "its list of checksums is not a JSON object: %.200s",
                   out ? "it is another JSON value" : error.text);
    return out;
}

void checkpoint_compare(checkpoint *c, const json_t *checks, const checkpoint_entry *e,
                        const void *numbers, uint64_t at) {
    const char *wanted = json_string_value(json_object_get(checks, e->name));
    size_t size = (size_t)(e->end - e->begin);
    char text[CHECK_TEXT];
    write_check(text, crc32c(0, numbers, size));
    if (wanted && strcmp(wanted, text) != 0 && !has_mutation(MUTATION_CHECKSUM_NOT_COMPARED))
        scope_fail(c->scope, GW_INVALID,
                   "\"%.200s\" is damaged: bytes %llu to %llu have the checksum %s, not %.40s",
                   e->name, (unsigned long long)at, (unsigned long long)(at + size), text, wanted);
}
