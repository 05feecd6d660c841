#include "membership/membership_wire.h"

#include "base/limits.h"

enum { ALL_FLAGS = MEMBERSHIP_HAS_QUORUM | MEMBERSHIP_REQUESTS_ANSWER | MEMBERSHIP_FULL };

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t member_digest(int rank, uint64_t incarnation, member_stage stage) {
    return mix(incarnation ^ mix((uint64_t)rank * 8 + (uint64_t)stage));
}

// ---- Encoding -----------------------------------------------------------------------------------
enum { COUNT_AT = 9 };  // of a view, after digest and flags

message *membership_encode(const membership_message *m) {
    message *out = message_open(m->kind);
    if (!out) return NULL;
    bytes *b = &out->head;
    switch (m->kind) {
    case MEMBERSHIP_HEARTBEAT:
    case MEMBERSHIP_VIEW:
        bytes_put_u64(b, m->digest);
        bytes_put_u8(b, m->flags);
        if (m->kind == MEMBERSHIP_VIEW) bytes_put_u32(b, 0);
        break;
    case MEMBERSHIP_VIEW_ACK: bytes_put_u64(b, m->digest); break;
    case MEMBERSHIP_CALL_BACK: bytes_put_u32(b, (uint32_t)m->rank); break;
    default:
        bytes_put_u64(b, m->number);
        bytes_put_u32(b, (uint32_t)m->rank);
        if (m->kind == MEMBERSHIP_PROBE_REPLY) bytes_put_u8(b, m->yes);
        break;
    }
    return out;
}

void membership_add_fact(message *m, const member_fact *f) {
    bytes *b = &m->head;
    bytes_put_u32(b, (uint32_t)f->rank);
    bytes_put_u8(b, (uint8_t)f->stage);
    bytes_put_u8(b, f->left);
    bytes_put_u8(b, (uint8_t)f->how);
    bytes_put_u64(b, f->incarnation);
    bytes_put_text(b, f->name);
    bytes_put_text(b, f->addresses);
    bytes_put_text(b, f->why);
    if (b->failed) return;
    for (int i = 0; i < 4; i++)
        if (++b->data[COUNT_AT + i] != 0) break;
}

// ---- Decoding -----------------------------------------------------------------------------------
static bool is_gone(const member_fact *f) {
    return f->stage >= MEMBER_FAILED;
}

static const char *read_fact(reader *r, member_fact *out) {
    uint32_t rank = reader_u32(r);
    uint8_t stage = reader_u8(r), left = reader_u8(r), how = reader_u8(r);
    out->rank = (int)rank;
    out->stage = (member_stage)stage;
    out->left = left;
    out->how = (gw_loss)how;
    out->incarnation = reader_u64(r);
    reader_text(r, out->name, sizeof out->name);
    reader_text(r, out->addresses, sizeof out->addresses);
    reader_text(r, out->why, sizeof out->why);
    if (r->failed) return "that is truncated";
    if (rank >= LIMIT_WORKERS) return "with a rank beyond the limit";
    if (stage == MEMBER_UNKNOWN || stage >= MEMBER_STAGE_COUNT) return "in an unknown stage";
    if (left > 1 || (left && stage < MEMBER_FAILED)) return "that has left and is present";
    if (how >= GW_LOSS_COUNT || (how && stage < MEMBER_FAILED)) return "with an unknown loss";
    if (!out->incarnation || !out->name[0]) return "without a name or incarnation";
    if (!is_gone(out) && out->why[0]) return "that is present, with a reason for its end";
    return NULL;
}

static gw_status check_facts(const membership_message *m, gw_error *error) {
    reader r = m->facts;
    member_fact f;
    int before = -1;
    for (uint32_t i = 0; i < m->fact_count; i++) {
        const char *wrong = read_fact(&r, &f);
        if (!wrong && f.rank <= before) wrong = "out of order";
        if (wrong) return error_set(error, GW_PROTOCOL, "view: a member %s", wrong);
        before = f.rank;
    }
    if (reader_left(&r)) return error_set(error, GW_PROTOCOL, "view: bytes after the members");
    return GW_OK;
}

static const char *const names[] = { "heartbeat", "view",        "view ack",
                                     "probe",     "probe reply", "call back" };

static void decode_rank(reader *r, membership_message *out) {
    uint32_t rank = reader_u32(r);
    if (rank >= LIMIT_WORKERS) r->failed = true;
    out->rank = (int)rank;
}

static void decode_flags(reader *r, membership_message *out) {
    out->digest = reader_u64(r);
    out->flags = reader_u8(r);
    uint8_t allowed = out->kind == MEMBERSHIP_VIEW ? ALL_FLAGS : ALL_FLAGS & ~MEMBERSHIP_FULL;
    if (out->flags & ~allowed) r->failed = true;
}

gw_status membership_decode(const message *from, membership_message *out, gw_error *error) {
    reader r = reader_of(from->head.data, from->head.size);
    *out = (membership_message){ .kind = from->kind };
    if (from->kind < MEMBERSHIP_HEARTBEAT || from->kind > MEMBERSHIP_CALL_BACK)
        return error_set(error, GW_PROTOCOL, "a message has the unknown kind %d", from->kind);
    switch (from->kind) {
    case MEMBERSHIP_HEARTBEAT: decode_flags(&r, out); break;
    case MEMBERSHIP_VIEW:
        decode_flags(&r, out);
        out->fact_count = reader_u32(&r);
        out->facts = r;
        if (!r.failed) {
            if (from->segment_count) break;
            return check_facts(out, error);
        }
        break;
    case MEMBERSHIP_VIEW_ACK: out->digest = reader_u64(&r); break;
    case MEMBERSHIP_CALL_BACK: decode_rank(&r, out); break;
    default:
        out->number = reader_u64(&r);
        decode_rank(&r, out);
        if (from->kind == MEMBERSHIP_PROBE_REPLY) {
            uint8_t yes = reader_u8(&r);
            if (yes > 1) r.failed = true;
            out->yes = yes;
        }
        break;
    }
    if (!r.failed && !reader_left(&r) && !from->segment_count) return GW_OK;
    return error_set(error, GW_PROTOCOL, "%s: malformed fields",
                     names[from->kind - MEMBERSHIP_HEARTBEAT]);
}

void membership_next_fact(membership_message *m, member_fact *out) {
    read_fact(&m->facts, out);
}
