#include "call/protocol.h"

#include "testing/testing.h"

#include <string.h>

static message *make_request(const request_fixed *f, const char *function, uint32_t arg_count) {
    message *m = message_open(KIND_REQUEST);
    assert_non_null(m);
    request_write(&m->head, f, function, "src/train.c:12", arg_count);
    return m;
}

static gw_status read_back(message *m, request_header *out) {
    gw_error error;
    gw_status status = request_read(m, out, &error);
    message_release(m);
    return status;
}

static void it_reads_the_request_it_has_written(void **state) {
    (void)state;
    request_fixed f = { .call = 7, .key = 1, .scope = 2, .order = 3, .depth = 1 };
    message *m = make_request(&f, "ps.add", 2);
    f.call = 8;
    f.time_left_ns = 9;
    request_amend(&m->head, &f);
    request_header h;
    size_t size = m->head.size;
    assert_int_equal(read_back(m, &h), GW_OK);
    assert_memory_equal(&h.fixed, &f, sizeof f);
    assert_string_equal(h.function, "ps.add");
    assert_int_equal(h.origin_size, strlen("train.c:12"));
    assert_int_equal(h.arg_count, 2);
    assert_int_equal(h.args_at, size);
}

static void it_refuses_malformed_requests(void **state) {
    (void)state;
    request_header h;
    const request_fixed good = { .call = 1, .depth = 1 };
    request_fixed f = good;
    f.call = 0;
    assert_int_equal(read_back(make_request(&f, "f", 0), &h), GW_PROTOCOL);
    f.call = 1ull << ID_COUNT_BITS;
    assert_int_equal(read_back(make_request(&f, "f", 0), &h), GW_PROTOCOL);
    f = good;
    f.depth = 0;
    assert_int_equal(read_back(make_request(&f, "f", 0), &h), GW_LIMIT);
    f.depth = LIMIT_DEPTH + 1;
    assert_int_equal(read_back(make_request(&f, "f", 0), &h), GW_LIMIT);
    f = good;
    f.has_pass = 2;
    assert_int_equal(read_back(make_request(&f, "f", 0), &h), GW_PROTOCOL);
    f = good;
    f.one_way = 2;
    assert_int_equal(read_back(make_request(&f, "f", 0), &h), GW_PROTOCOL);
    f.one_way = 1;
    f.result = f.result_fork = 1;  // which would have no waiter
    assert_int_equal(read_back(make_request(&f, "f", 0), &h), GW_PROTOCOL);
    assert_int_equal(read_back(make_request(&good, "f", LIMIT_ARGS + 1), &h), GW_LIMIT);
    char longest[LIMIT_NAME_BYTES + 2];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(read_back(make_request(&good, longest, 0), &h), GW_PROTOCOL);
    message *whole = make_request(&good, "f", 0);
    for (size_t size = 0; size < whole->head.size; size++) {
        message *cut = message_open(KIND_REQUEST);
        bytes_put(&cut->head, whole->head.data, size);
        assert_int_equal(read_back(cut, &h), GW_PROTOCOL);
    }
    message_release(whole);
}

static void it_reads_the_reply_it_has_written(void **state) {
    (void)state;
    message *m = message_open(KIND_REPLY);
    reply_fixed f = { .id = 5, .outcome = REPLY_ERROR, .forwarded = 2 }, back;
    reply_write(&m->head, &f);
    bytes_put_u8(&m->head, 0);
    size_t value_at;
    gw_error error;
    assert_int_equal(reply_read(m, &back, &value_at, &error), GW_OK);
    assert_memory_equal(&back, &f, sizeof f);
    assert_int_equal(value_at, m->head.size - 1);
    m->head.data[offsetof(reply_fixed, outcome)] = 2;
    assert_int_equal(reply_read(m, &back, &value_at, &error), GW_PROTOCOL);
    m->head.data[offsetof(reply_fixed, outcome)] = 0;
    m->head.data[offsetof(reply_fixed, trailer_size)] = 9;
    assert_int_equal(reply_read(m, &back, &value_at, &error), GW_PROTOCOL);
    message_release(m);
}

static void it_puts_the_maker_into_ids(void **state) {
    (void)state;
    uint64_t id = id_of(4095, 77);
    assert_int_equal(id_rank(id), 4095);
    assert_true(id_of(2, 1) < id_of(2, 2));
    assert_true(id_of(0, 1) != 0);
}

GW_TESTS(call_protocol, it_reads_the_request_it_has_written, it_refuses_malformed_requests,
         it_reads_the_reply_it_has_written, it_puts_the_maker_into_ids);
