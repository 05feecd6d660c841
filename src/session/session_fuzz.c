// Frames from a peer: any bytes, on any number of connections, end in messages or in one error.
#include "session/session.h"

#include "base/limits.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t message_count;

static message *kept;  // one that is incomplete, or NULL

static void count_completed(message *m) {
    if (m != kept || m->incomplete) abort();
    for (uint32_t i = 0; i < m->segment_count; i++)
        if (!m->segments[i].block) abort();
    message_release(m);
    kept = NULL;
}

// Every second incomplete message is wanted.
static void count_message(void *user, message *m) {
    (void)user;
    if (message_size(m) > LIMIT_MESSAGE_BYTES) abort();
    message_count++;
    if (!m->incomplete || kept) {
        message_release(m);
    } else {
        kept = m;
        m->completed = count_completed;
    }
}

// A sanitizer pays for each byte that is reserved.
static int fail_if_large(size_t size) {
    return size > (64 << 20);
}

// A header of chosen fields with a valid check, which the fuzzer would not find.
static void feed_header(session *s, const uint8_t *fields, gw_status *status, gw_error *error) {
    uint8_t raw[FRAME_HEADER_BYTES];
    frame f = { .type = fields[0] % 7,
                .first = fields[1] & 1,
                .has_bulk = fields[1] >> 3 & 1,
                .number = s->received + fields[2] % 3,
                .ack = fields[3] % 3,
                .body_size = (uint32_t)fields[4] * (fields[1] & 2 ? 1000 : 1),
                .kind = fields[5],
                .head_size = fields[6] * (fields[1] & 4 ? 5000u : 1u),
                .segment_count = fields[7] % 4 };
    if (!f.first) f.kind = 0, f.has_bulk = false, f.head_size = f.segment_count = 0;
    if (f.type == FRAME_BULK)
        f.kind = 0, f.first = false, f.segment_count = 0, f.distance = 1 + fields[6] % 4;
    frame_encode(raw, &f);
    *status = session_feed(s, raw, sizeof raw, error);
}

// A script: 0 a header by the next 8 bytes, 1 a new connection, 2 bytes received where session_buffer
// requests them, else bytes.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    session s;
    gw_error error = { 0 };
    mem_fail_hook = fail_if_large;
    session_init(&s, count_message, NULL);
    s.checks_bodies = size > 0 && data[0] & 0x80;
    for (int i = 0; i < 2; i++) {
        message *m = message_open(1);
        bytes_put_u64(&m->head, 1);
        session_queue(&s, m, &error);
    }
    gw_status status = session_resume(&s, 0, &error);
    while (session_fill(&s)) {
        int count;
        const struct iovec *parts = session_parts(&s, &count);
        session_sent(&s, parts[0].iov_len);
    }
    while (size > 0 && !status) {
        uint8_t what = *data++ % 4;
        size--;
        if (what == 0 && size >= 8) {
            feed_header(&s, data, &status, &error);
            data += 8, size -= 8;
        } else if (what == 1 && size >= 1) {
            session_detach(&s);
            status = session_resume(&s, s.acked + *data % 2, &error);
            data++, size--;
        } else if (size >= 1) {
            size_t n = *data++;
            size--;
            if (n > size) n = size;
            void *into = (void *)data;
            size_t room = n;
            if (what == 2 && session_buffer(&s, &into, &room)) {
                if (n > room) n = room;
                memcpy(into, data, n);
            }
            status = session_feed(&s, into, n, &error);
            data += n, size -= n;
        }
        if (status == GW_DISCONNECTED || status == GW_NO_MEMORY) {
            session_detach(&s);
            status = session_resume(&s, s.acked, &error);
        }
    }
    if (status && !error.text[0]) abort();
    session_fini(&s);
    if (kept) kept->completed = NULL;
    message_release(kept);
    kept = NULL;
    return 0;
}
