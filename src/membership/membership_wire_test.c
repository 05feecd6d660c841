// Encoding and decoding messages of membership, and malformed ones.
#include "membership/membership_wire.h"

#include "testing/testing.h"

#include <stdio.h>

static message *encode(membership_message m) {
    message *out = membership_encode(&m);
    assert_non_null(out);
    return out;
}

static void it_decodes_what_it_encodes(void **state) {
    (void)state;
    static const membership_message all[] = {
        { .kind = MEMBERSHIP_HEARTBEAT, .digest = 1, .flags = MEMBERSHIP_REQUESTS_ANSWER },
        { .kind = MEMBERSHIP_VIEW, .digest = UINT64_MAX, .flags = MEMBERSHIP_FULL },
        { .kind = MEMBERSHIP_VIEW_ACK, .digest = 77 },
        { .kind = MEMBERSHIP_PROBE, .number = 5, .rank = 4095 },
        { .kind = MEMBERSHIP_PROBE_REPLY, .number = 6, .rank = 0, .yes = true },
        { .kind = MEMBERSHIP_CALL_BACK, .rank = 4095 },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        membership_message got;
        gw_error error;
        message *m = encode(all[i]);
        assert_int_equal(membership_decode(m, &got, &error), GW_OK);
        assert_int_equal(got.kind, all[i].kind);
        assert_int_equal(got.flags, all[i].flags);
        assert_true(got.digest == all[i].digest && got.number == all[i].number);
        assert_int_equal(got.rank, all[i].rank);
        assert_int_equal(got.yes, all[i].yes);
        message_release(m);
    }
}

static member_fact someone(int rank) {
    return (member_fact){ .rank = rank,
                          .incarnation = 9,
                          .stage = MEMBER_ACTIVE,
                          .name = "ps",
                          .addresses = "10.0.0.1:4" };
}

static message *view_of(const member_fact *facts, int count) {
    message *m = encode((membership_message){ .kind = MEMBERSHIP_VIEW, .digest = 3 });
    for (int i = 0; i < count; i++) membership_add_fact(m, &facts[i]);
    return m;
}

static void it_lists_members(void **state) {
    (void)state;
    member_fact facts[300];
    for (int i = 0; i < 300; i++) facts[i] = someone(i * 2);
    facts[7].stage = MEMBER_REMOVED;
    facts[7].left = true;
    snprintf(facts[7].why, sizeof facts[7].why, "ps has left");
    message *m = view_of(facts, 300);
    membership_message got;
    gw_error error;
    assert_int_equal(membership_decode(m, &got, &error), GW_OK);
    assert_int_equal(got.fact_count, 300);
    for (int i = 0; i < 300; i++) {
        member_fact f;
        membership_next_fact(&got, &f);
        assert_int_equal(f.rank, i * 2);
        assert_int_equal(f.left, i == 7);
        assert_string_equal(f.why, facts[i].why);
        assert_string_equal(f.name, "ps");
        assert_string_equal(f.addresses, "10.0.0.1:4");
        assert_true(f.incarnation == 9);
    }
    message_release(m);
}

static void expect(message *m, const char *text) {
    membership_message got;
    gw_error error = { 0 };
    assert_int_equal(membership_decode(m, &got, &error), GW_PROTOCOL);
    assert_string_equal(error.text, text);
    message_release(m);
}

static void expect_fact(member_fact f, const char *text) {
    expect(view_of(&f, 1), text);
}

static void it_refuses_impossible_members(void **state) {
    (void)state;
    member_fact f = someone(5000);
    expect_fact(f, "view: a member with a rank beyond the limit");
    f = someone(1);
    f.stage = MEMBER_STAGE_COUNT;
    expect_fact(f, "view: a member in an unknown stage");
    f.stage = MEMBER_UNKNOWN;
    expect_fact(f, "view: a member in an unknown stage");
    f = someone(1);
    f.left = true;
    expect_fact(f, "view: a member that has left and is present");
    f = someone(1);
    f.incarnation = 0;
    expect_fact(f, "view: a member without a name or incarnation");
    f = someone(1);
    f.name[0] = '\0';
    expect_fact(f, "view: a member without a name or incarnation");
    f = someone(1);
    f.why[0] = 'x';
    expect_fact(f, "view: a member that is present, with a reason for its end");
    member_fact twice[] = { someone(3), someone(3) };
    expect(view_of(twice, 2), "view: a member out of order");
}

static void it_refuses_truncated_and_longer_messages(void **state) {
    (void)state;
    member_fact f = someone(2);
    message *whole = view_of(&f, 1);
    for (size_t size = 0; size <= whole->head.size + 1; size++) {
        if (size == whole->head.size) continue;
        message *m = message_open(MEMBERSHIP_VIEW);
        bytes_put(&m->head, whole->head.data, size < whole->head.size ? size : whole->head.size);
        if (size > whole->head.size) bytes_put_u8(&m->head, 0);
        membership_message got;
        gw_error error;
        assert_int_equal(membership_decode(m, &got, &error), GW_PROTOCOL);
        message_release(m);
    }
    message_release(whole);
    static const uint8_t kinds[] = { MEMBERSHIP_HEARTBEAT, MEMBERSHIP_VIEW_ACK, MEMBERSHIP_PROBE,
                                     MEMBERSHIP_PROBE_REPLY, MEMBERSHIP_CALL_BACK };
    for (size_t i = 0; i < sizeof kinds; i++) {
        message *m = encode((membership_message){ .kind = kinds[i] });
        m->head.size--;
        membership_message got;
        gw_error error;
        assert_int_equal(membership_decode(m, &got, &error), GW_PROTOCOL);
        message_release(m);
    }
    expect(message_open(38), "a message has the unknown kind 38");
    expect(encode((membership_message){ .kind = MEMBERSHIP_HEARTBEAT, .flags = MEMBERSHIP_FULL }),
           "heartbeat: malformed fields");
    expect(encode((membership_message){ .kind = MEMBERSHIP_VIEW, .flags = 8 }),
           "view: malformed fields");
    expect(encode((membership_message){ .kind = MEMBERSHIP_PROBE, .rank = 5000 }),
           "probe: malformed fields");
    expect(encode((membership_message){ .kind = MEMBERSHIP_CALL_BACK, .rank = 5000 }),
           "call back: malformed fields");
}

static void different_views_have_different_digests(void **state) {
    (void)state;
    uint64_t seen[64 * 4];
    int count = 0;
    for (int rank = 0; rank < 64; rank++)
        for (int stage = MEMBER_JOINING; stage <= MEMBER_REMOVED; stage++)
            seen[count++] = member_digest(rank, 5, (member_stage)stage);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++) assert_true(seen[i] != seen[k]);
    assert_true(member_digest(0, 5, MEMBER_JOINING) != member_digest(0, 6, MEMBER_JOINING));
}

GW_TESTS(membership_wire, it_decodes_what_it_encodes, it_lists_members,
         it_refuses_impossible_members, it_refuses_truncated_and_longer_messages,
         different_views_have_different_digests);
