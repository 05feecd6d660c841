#include "collective/group/signature.h"

#include "base/map.h"

#include <stdio.h>
#include <string.h>

static const char *const op_names[GW_REDUCE_OP_COUNT] = { "sum", "avg",  "product", "min",
                                                          "max", "band", "bor",     "bxor" };

const char *reduce_op_name(int op) {
    return op_names[op];
}

bool signature_is_reduction(const collective_signature *x) {
    return x->operation == OPERATION_ALL_REDUCE || x->operation == OPERATION_REDUCE ||
           x->operation == OPERATION_REDUCE_SCATTER;
}

bool signature_is_rows(const collective_signature *x) {
    return x->content == CONTENT_ROWS || x->content == CONTENT_ROWS_SUMMED;
}

// Members may have different counts of rows.
static bool has_free_rows(const collective_signature *x) {
    if (x->content == CONTENT_ROWS_SUMMED) return false;
    return x->operation == OPERATION_ALL_GATHER || x->operation == OPERATION_GATHER ||
           x->operation == OPERATION_ALL_TO_ALL;
}

static bool shapes_match(const collective_signature *a, const collective_signature *b) {
    if (a->dims == SIGNATURE_OPEN || b->dims == SIGNATURE_OPEN) return true;
    if (a->dtype != b->dtype || a->dims != b->dims) return false;
    for (int i = has_free_rows(a) ? 1 : 0; i < a->dims; i++)
        if (a->sizes[i] != b->sizes[i]) return false;
    return true;
}

static bool gradients_match(const collective_signature *a, const collective_signature *b) {
    return a->gradient == b->gradient || a->gradient == GRADIENT_UNSTATED ||
           b->gradient == GRADIENT_UNSTATED;
}

bool signature_matches(const collective_signature *a, const collective_signature *b) {
    return a->operation == b->operation && a->op == b->op && a->plan == b->plan &&
           a->content == b->content && a->root == b->root &&
           memcmp(&a->factor, &b->factor, sizeof a->factor) == 0 && a->shares == b->shares &&
           gradients_match(a, b) && shapes_match(a, b);
}

// Shapes are left out: some members do not state them, or have other counts of rows, and a member with its own shape
// compares it with those of all values that it takes.
uint64_t signature_add(uint64_t past, const collective_signature *x) {
    uint64_t factor, what = (uint64_t)x->operation << 32 | (uint64_t)x->op << 24 |
                            (uint64_t)x->plan << 16 | (uint64_t)x->content << 8;
    memcpy(&factor, &x->factor, sizeof factor);
    uint64_t hash = hash_u64(past + what);
    hash = hash_u64(hash + (uint64_t)(x->root + 1));
    hash = hash_u64(hash + factor);
    return hash_u64(hash + x->shares);
}

// ---- Text ---------------------------------------------------------------------------------------

static const char *content_suffix(const collective_signature *x) {
    switch ((content)x->content) {
    case CONTENT_TENSORS: return x->operation == OPERATION_ALL_GATHER ? "_list" : "";
    case CONTENT_VALUES: return x->operation == OPERATION_BARRIER ? "" : "_value";
    default: return "";
    }
}

// See |shares|.
static size_t put_shares(char *out, size_t size, uint64_t shares, const char *detail) {
    if (shares & 3 && detail) return (size_t)snprintf(out, size, ", %s", detail);
    if (!(shares & 3)) return 0;  // the note of its final sequence has the text (final_put_note)
    return (size_t)snprintf(out, size, "%s",
                            shares & 1 ? ", sizes of its own" : ", of several tensors");
}

void signature_text(const collective_signature *x, const char *detail, const char *origin,
                    char *out) {
    size_t max = SIGNATURE_TEXT_MAX;
    bool sums = x->content == CONTENT_ROWS_SUMMED;
    size_t at = (size_t)snprintf(
        out, max, "%s%s", operation_name(sums ? OPERATION_ALL_REDUCE : (operation)x->operation),
        content_suffix(x));
    if (sums || signature_is_reduction(x))
        at += (size_t)snprintf(out + at, max - at, " %s", op_names[x->op]);
    if (signature_is_rows(x)) at += (size_t)snprintf(out + at, max - at, " sparse by rows");
    if (x->dims != SIGNATURE_OPEN) {
        at += (size_t)snprintf(out + at, max - at, " %s%s", gw_dtype_name((gw_dtype)x->dtype),
                               x->dims ? " " : " scalar");
        for (int i = 0; i < x->dims && at < max - 64; i++)
            at +=
                (size_t)snprintf(out + at, max - at, i ? "x%lld" : "%lld", (long long)x->sizes[i]);
    }
    if (x->root >= 0)
        at += (size_t)snprintf(
            out + at, max - at, " %s %d",
            x->operation == OPERATION_REDUCE || x->operation == OPERATION_GATHER ? "to" : "from",
            x->root);
    if (x->factor != 1) at += (size_t)snprintf(out + at, max - at, ", factor %g", x->factor);
    if (x->shares) at += put_shares(out + at, max - at, x->shares, detail);
    if (x->plan == PLAN_BACKEND || x->plan == PLAN_BACKEND_ADDS)
        at += (size_t)snprintf(out + at, max - at, "%s by its backend",
                               x->plan == PLAN_BACKEND ? "," : ", added");
    if (x->gradient == GRADIENT_NEEDED)
        at += (size_t)snprintf(out + at, max - at, ", which needs a gradient");
    if (origin[0]) snprintf(out + at, max - at, " (%.*s)", LIMIT_ORIGIN_BYTES, origin);
}

// ---- The wire -----------------------------------------------------------------------------------

void signature_write(bytes *head, const collective_signature *x, bool holds) {
    const uint8_t fields[] = { x->operation, x->op,   x->dtype, x->plan,
                               x->content,   x->dims, holds,    x->gradient };
    bytes_put(head, fields, sizeof fields);
    bytes_put_u32(head, (uint32_t)x->root);
    bytes_put_f64(head, x->factor);
    bytes_put_u64(head, x->shares);
    for (int i = 0; x->dims != SIGNATURE_OPEN && i < x->dims; i++)
        bytes_put_u64(head, (uint64_t)x->sizes[i]);
}

static bool needs_root(const collective_signature *x) {
    return x->operation == OPERATION_REDUCE || x->operation == OPERATION_BROADCAST ||
           x->operation == OPERATION_GATHER || x->operation == OPERATION_SCATTER;
}

static bool means_something(const collective_signature *x, int member_count) {
    plan_choice plan;
    if (x->operation >= OPERATION_COUNT || x->op >= GW_REDUCE_OP_COUNT ||
        !plan_unpack(x->plan, member_count, &plan) || x->content >= CONTENT_COUNT ||
        x->gradient >= GRADIENT_NEED_COUNT)
        return false;
    if (x->dims != SIGNATURE_OPEN && (x->dims > LIMIT_DIMS || x->dtype >= GW_DTYPE_COUNT))
        return false;
    return needs_root(x) ? x->root >= 0 && x->root < member_count : x->root == -1;
}

bool signature_read(reader *in, int member_count, collective_signature *out, bool *out_holds) {
    *out = (collective_signature){ .operation = reader_u8(in) };
    out->op = reader_u8(in);
    out->dtype = reader_u8(in);
    out->plan = reader_u8(in);
    out->content = reader_u8(in);
    out->dims = reader_u8(in);
    uint8_t holds = reader_u8(in);
    *out_holds = holds == 1;
    out->gradient = reader_u8(in);
    out->root = (int32_t)reader_u32(in);
    out->factor = reader_f64(in);
    out->shares = reader_u64(in);
    if (holds > 1 || !means_something(out, member_count)) return false;
    for (int i = 0; out->dims != SIGNATURE_OPEN && i < out->dims; i++)
        if ((out->sizes[i] = (int64_t)reader_u64(in)) < 0) return false;
    return !in->failed;
}
