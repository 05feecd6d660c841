#include "pair.h"

#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { PIECE_BYTES = 256 * 1024, PSK_BYTES = 32 };

static char piece[PIECE_BYTES];

void pair_check(bool done, const char *what) {
    if (done) return;
    perror(what);
    exit(1);
}

// ---- TLS ----------------------------------------------------------------------------------------

static SSL_SESSION *psk_session(SSL *ssl) {
    static const unsigned char psk[PSK_BYTES] = "for a bench", cipher[2] = { 0x13, 0x01 };
    SSL_SESSION *s = SSL_SESSION_new();
    SSL_SESSION_set1_master_key(s, psk, sizeof psk);
    SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, cipher));
    SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
    return s;
}

static int use_psk(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *size,
                   SSL_SESSION **out) {
    (void)digest;
    *id = (const unsigned char *)"bench";
    *size = 5;
    *out = psk_session(ssl);
    return 1;
}

static int find_psk(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **out) {
    (void)id;
    (void)size;
    *out = psk_session(ssl);
    return 1;
}

static SSL *shake(int fd, bool is_server) {
    SSL_CTX *c = SSL_CTX_new(TLS_method());
    SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_psk_use_session_callback(c, use_psk);
    SSL_CTX_set_psk_find_session_callback(c, find_psk);
    SSL *ssl = SSL_new(c);
    SSL_set_fd(ssl, fd);
    pair_check((is_server ? SSL_accept(ssl) : SSL_connect(ssl)) == 1, "the handshake");
    return ssl;
}

// ---- Either -------------------------------------------------------------------------------------

static void put(const pair_options *o, SSL *ssl, size_t size) {
    for (size_t done = 0; done < size;) {
        size_t left = size - done, next = left < sizeof piece ? left : sizeof piece;
        ssize_t n = ssl ? SSL_write(ssl, piece, (int)next) : send(o->fd, piece, next, 0);
        pair_check(n > 0, "send");
        done += (size_t)n;
    }
}

static void get(const pair_options *o, SSL *ssl, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = ssl ? SSL_read(ssl, piece, sizeof piece) : recv(o->fd, piece, sizeof piece, 0);
        pair_check(n > 0, "recv");
        done += (size_t)n;
    }
}

void pair_send(pair_options options, samples *out) {
    SSL *ssl = options.encrypted ? shake(options.fd, false) : NULL;
    for (int i = 0; i < options.rounds; i++) {
        double start = now_us();
        put(&options, ssl, options.bytes);
        get(&options, ssl, 1);
        samples_add(out, now_us() - start);
    }
}

void pair_receive(pair_options options) {
    SSL *ssl = options.encrypted ? shake(options.fd, true) : NULL;
    for (int i = 0; i < options.rounds; i++) {
        get(&options, ssl, options.bytes);
        put(&options, ssl, 1);
    }
}
