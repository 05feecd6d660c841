// The secret of a job: a key, or two while one takes the place of the other. The keys of all its
// connections are made from it (net/tls/tls.h). Or that of one worker: the private key of its certificate
// (net/tls/certificate.h), whose files begin with "-----BEGIN".
//
// A key is one line of text, which `gradwire key` makes:
//
//     gradwire-key 1 5f0c2a9be1d47386 3c1f...
//
// with its id, which is made from it and no secret, and its 32 bytes in hexadecimal digits. The first
// key of a file is offered to others, both are taken from them. Empty lines and those that begin
// with # mean nothing.
//
// Ownership: whoever opens a secret closes it, which wipes it. Its memory is in no core file and is
// not swapped out, as far as the system lets us. Threads: not changed once it is open.
#ifndef NET_TLS_SECRET_H
#define NET_TLS_SECRET_H

#include <gradwire/status.h>

enum {
    SECRET_KEY_BYTES = 32,
    SECRET_ID_BYTES = 8,
    SECRET_KEYS_MAX = 2,
    SECRET_PRIVATE_BYTES = 32,
    SECRET_SALT_BYTES = 16,
    SECRET_TAG_BYTES = 16,
    SECRET_SEAL_BYTES = SECRET_ID_BYTES + SECRET_SALT_BYTES + SECRET_TAG_BYTES,
    SECRET_LINE_MAX = 128,   // of `gradwire key`, with its end
    SECRET_TEXT_MAX = 4096,  // of a file
};

typedef struct secret_key {
    uint8_t id[SECRET_ID_BYTES];
    uint8_t bytes[SECRET_KEY_BYTES];
} secret_key;

typedef struct secret {
    int key_count;  // 0: it is of a certificate
    secret_key keys[SECRET_KEYS_MAX];
    struct certificate *certificate;  // NULL: it is of keys
    uint8_t private_key[SECRET_PRIVATE_BYTES];
} secret;

// Reads |text|, which comes from |what|, "the file job.key". INVALID says which line is wrong,
// without a word of it.
gw_status secret_open_text(const char *text, const char *what, secret **out, gw_error *error);

// Reads a file that is this user's and nobody else's to read, INVALID otherwise; NOT_FOUND.
gw_status secret_open_file(const char *path, secret **out, gw_error *error);
// Its text alone, for the caller to wipe.
gw_status secret_read_file(const char *path, char out[SECRET_TEXT_MAX], gw_error *error);

// Reads and closes a descriptor that this process was started with. The second to ask for the same
// one gets what was read then.
gw_status secret_open_descriptor(int fd, secret **out, gw_error *error);

void secret_close(secret *s);  // NULL is fine

// NULL: none of this id.
const secret_key *secret_find(const secret *s, const uint8_t id[SECRET_ID_BYTES]);

// HKDF with SHA-256 (RFC 5869): |size| bytes for the purpose that |info| tells, others for any other.
// False without memory.
typedef struct secret_info {
    const void *data;
    size_t size;
} secret_info;
bool secret_derive(const secret_key *key, secret_info salt, secret_info info, uint8_t *out,
                   size_t size);

// Sealed by AES-256-GCM with a key of |info| and a salt that is new each time: id, salt, what was |in|,
// and a tag, SECRET_SEAL_BYTES more. False without memory or randomness.
bool secret_seal(const secret_key *key, secret_info info, const uint8_t *in, size_t size,
                 uint8_t *out);
// Back, into room for |size| - SECRET_SEAL_BYTES, and the key; NULL: of none of ours, or altered.
const secret_key *secret_unseal(const secret *s, secret_info info, const uint8_t *in, size_t size,
                                uint8_t *out);

// A new one, as a line. SYSTEM without randomness.
gw_status secret_make_line(char out[SECRET_LINE_MAX], gw_error *error);

#endif
