#include "testing/session_pair.h"

#include "testing/testing.h"

#include <string.h>

static void note_whole(session_end *x, const message *m) {
    for (int i = 0; i < x->inbox_count; i++)
        if (x->inbox[i] == m) x->whole[x->whole_count++] = i;
}

static void completed(message *m) {
    note_whole(m->completed_user, m);
}

static void keep_message(void *user, message *m) {
    session_end *x = user;
    if (x->drops) {
        message_release(m);
        return;
    }
    assert_true(x->inbox_count < SESSION_INBOX_MAX);
    x->inbox[x->inbox_count++] = m;
    m->completed = completed;
    m->completed_user = x;
    if (!m->incomplete) note_whole(x, m);
}

void session_pair_init(session_pair *p, bool checks_bodies) {
    *p = (session_pair){ 0 };
    session_init(&p->a.session, keep_message, &p->a);
    session_init(&p->b.session, keep_message, &p->b);
    p->a.session.checks_bodies = p->b.session.checks_bodies = checks_bodies;
}

void session_pair_open(session_pair *p, bool checks_bodies) {
    session_pair_init(p, checks_bodies);
    assert_int_equal(session_pair_join(p), GW_OK);
}

static void close_end(session_end *x) {
    session_fini(&x->session);
    for (int i = 0; i < x->inbox_count; i++) message_release(x->inbox[i]);
}

void session_pair_close(session_pair *p) {
    close_end(&p->a);
    close_end(&p->b);
}

gw_status session_pair_join(session_pair *p) {
    gw_error error;
    gw_status status = session_resume(&p->a.session, p->b.session.received, &error);
    return status ? status : session_resume(&p->b.session, p->a.session.received, &error);
}

void session_pair_part(session_pair *p) {
    session_detach(&p->a.session);
    session_detach(&p->b.session);
}

size_t session_end_move(session_end *from, session_end *to, size_t most, size_t piece,
                        gw_status *status) {
    size_t moved = 0;
    gw_status fed = GW_OK;
    gw_error error;
    while (!fed && moved < most && session_fill(&from->session)) {
        int count;
        const struct iovec *parts = session_parts(&from->session, &count);
        uint8_t staging[4096];
        void *into = staging;
        size_t size = sizeof staging;
        session_buffer(&to->session, &into, &size);
        if (size > piece) size = piece;
        if (size > most - moved) size = most - moved;
        if (size > parts[0].iov_len) size = parts[0].iov_len;
        memcpy(into, parts[0].iov_base, size);
        session_sent(&from->session, size);
        moved += size;
        fed = session_feed(&to->session, into, size, &error);
    }
    if (status)
        *status = fed;
    else
        assert_int_equal(fed, GW_OK);
    return moved;
}

void session_pair_flush(session_pair *p, size_t piece) {
    for (;;) {
        size_t moved = session_end_move(&p->a, &p->b, SIZE_MAX, piece, NULL);
        moved += session_end_move(&p->b, &p->a, SIZE_MAX, piece, NULL);
        if (moved > 0) continue;
        if (!p->a.session.owed_frames && !p->b.session.owed_frames) return;
        p->a.session.ack_wanted = p->a.session.owed_frames > 0;
        p->b.session.ack_wanted = p->b.session.owed_frames > 0;
    }
}
