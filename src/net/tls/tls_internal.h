// Internals of tls.
//
// Threads: with the loop lock held.
#ifndef NET_TLS_TLS_INTERNAL_H
#define NET_TLS_TLS_INTERNAL_H

#include "base/list.h"
#include "net/tls/backoff.h"
#include "net/tls/tls.h"

#include <openssl/ssl.h>

enum {
    RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH,
    RECORD_MAX = RECORD_BYTES + 256,  // encrypted
    RECORDS = 4,                      // that are sent at once
    TLS_OUT_BYTES = RECORDS * RECORD_MAX + 4096,
    TLS_IN_BYTES = 64 * 1024,
    TLS_BATCH_MIN = 1024,
    TLS_BATCH_MAX = RECORDS * RECORD_BYTES,
    TLS_HELD_MAX = 2 * TLS_OUT_BYTES,  // of one stream
    TLS_ANSWER_MAX = 256,
};

// Shared by all streams of a worker. Only one stream uses it at a time, and leaves
// |in|, |out| and |record| empty.
struct tls {
    env *env;
    const protection *protection;
    SSL_CTX *context;
    BIO_METHOD *method;
    list_node streams;
    backoff backoff;  // of unauthenticated peers
    const char *plain_hello;
    uint64_t rekey_bytes;
    size_t out_size, answer_size;
    gw_error refusal;  // why the other end is refused, in this step of a handshake
    uint8_t answer[TLS_ANSWER_MAX];
    uint8_t in[TLS_IN_BYTES];      // encrypted, received
    uint8_t out[TLS_OUT_BYTES];    // encrypted, to be sent
    uint8_t record[RECORD_BYTES];  // small parts, joined
};

// What is awaited on a stream.
typedef enum tls_state {
    TLS_CONNECTING,  // the connect below
    TLS_ACCEPTED,    // stream_adopt
    TLS_SHAKING,     // the end of TLS's handshake
    TLS_OPEN,        // bytes, either way
    TLS_BREAKING,    // the loop, to report the end
    TLS_LINGERING,   // room below for bytes that were taken
    TLS_CLOSED,      // nothing: to be freed
} tls_state;

typedef enum tls_event {
    TLS_CONNECTED,    // below
    TLS_ADOPTED,      // by its user
    TLS_SHAKEN,       // both have proved their identity
    TLS_SEND_FAILED,  // |why| is the reason
    TLS_ENDED,        // |why| is the reason
    TLS_CLOSED_HERE,  // by its user
    TLS_PEER_CLOSED,  // by the other end's user
    TLS_FLUSHED,      // all bytes are sent, or the time for it is over
    TLS_ABANDONED,    // its worker ends
} tls_event;

typedef struct tls_stream {
    stream stream;
    stream_class class;  // with the transport below
    tls *tls;
    list_node link;
    stream *inner;  // NULL once it has ended, or was closed
    SSL *ssl;
    bool is_server;
    tls_state state;
    int busy;  // events from below that are being handled and still use it
    bool has_opened;
    bool has_address;  // of a server: the client's
    backoff_address address;
    bool waits;       // to begin, until the timer is due
    bool is_counted;  // as a handshake that has failed, unless it succeeds
    timer timer;
    gw_error why;

    // the two ends
    tls_parties parties;
    tls_identity identity;  // of a client
    uint8_t psk[TLS_PSK_BYTES];
    bool has_sent_parties;  // the parties, inside TLS, without an identity

    // in
    const uint8_t *in;  // received and not read
    size_t in_size;
    size_t in_total;  // until the handshake is over

    // out
    uint8_t *held;  // encrypted, and not yet taken below
    size_t held_size, held_done;
    size_t batch;         // bytes that are encrypted at once
    bool wants_writable;  // the last send took less than all
    uint64_t out_total;   // since the key was new
    bool is_plain;        // by a mutation alone
} tls_stream;

// ---- tls.c --------------------------------------------------------------------------------------
SSL *tls_new_session(tls *t, tls_stream *s);     // NULL without memory
bool tls_has_certificates(const tls_stream *s);  // and not a pre-shared key

// ---- tls_state.c --------------------------------------------------------------------------------
void tls_apply(tls_stream *t, tls_event event);
void tls_end(tls_stream *t, gw_status status, const char *format, ...) GW_PRINTF(3, 4);  // ENDED
void tls_begin(tls_stream *t);      // of a server
void tls_linger_on(tls_stream *t);  // bytes were sent: restarts the time limit
void tls_enter(tls_stream *t);      // around an event from below, in which it is not freed
void tls_leave(tls_stream *t);

// ---- tls_introduction.c -------------------------------------------------------------------------
// After a handshake by certificates: the client sends its parties. Returns whether both ends have them; else *out_code
// is OpenSSL's.
bool tls_introduce(tls_stream *t, int *out_code);

// ---- tls_stream.c -------------------------------------------------------------------------------
extern const stream_events tls_inner_events;
void tls_shake(tls_stream *t);
void tls_notify_writable(tls_stream *t);  // if its user waits for it
bool tls_send_end(tls_stream *t);         // that no bytes follow; returns whether all is sent

#endif
