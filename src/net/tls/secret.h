// The secret of a job: a key, or two while one replaces the other. The keys of all its
// connections are derived from it (net/tls/tls.h). Or the secret of one worker: the private key of its certificate
// (net/tls/certificate.h), whose files begin with "-----BEGIN".
//
// A key is one line of text, which `gradwire key` makes:
//
//     gradwire-key 1 5f0c2a9be1d47386 3c1f...
//
// with the key's id, which is derived from the key and not secret, and its 32 bytes in hexadecimal digits. Clients use
// the first key of a file, servers accept both. Empty lines, and lines that begin with #, are ignored.
//
// Ownership: each open needs a close, which wipes the secret. The secret's memory is in no core file and is not swapped
// out, as far as the system allows. Threads: not changed once it is open.
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
    int key_count;  // 0: the secret is a certificate
    secret_key keys[SECRET_KEYS_MAX];
    struct certificate *certificate;  // NULL: the secret is keys
    uint8_t private_key[SECRET_PRIVATE_BYTES];
} secret;

// Parses |text|; |what| is its origin, "the file job.key". INVALID names the wrong line
// and quotes nothing of it.
gw_status secret_open_text(const char *text, const char *what, secret **out, gw_error *error);

// Reads a file that only this user may read, INVALID otherwise; NOT_FOUND.
gw_status secret_open_file(const char *path, secret **out, gw_error *error);
// Its text alone, for the caller to wipe.
gw_status secret_read_file(const char *path, char out[SECRET_TEXT_MAX], gw_error *error);

// Reads and closes a descriptor that this process has inherited. A second call with the same
// descriptor returns the text that was read then.
gw_status secret_open_descriptor(int fd, secret **out, gw_error *error);

void secret_close(secret *s);  // NULL is fine

// NULL: no key has this id.
const secret_key *secret_find(const secret *s, const uint8_t id[SECRET_ID_BYTES]);

// HKDF with SHA-256 (RFC 5869): |size| bytes for the purpose in |info|; each purpose has its own.
// False without memory.
typedef struct secret_info {
    const void *data;
    size_t size;
} secret_info;
bool secret_derive(const secret_key *key, secret_info salt, secret_info info, uint8_t *out,
                   size_t size);

// Sealed by AES-256-GCM with a key of |info| and a new random salt: id, salt, ciphertext
// and tag, SECRET_SEAL_BYTES more than |in|. False without memory or randomness.
bool secret_seal(const secret_key *key, secret_info info, const uint8_t *in, size_t size,
                 uint8_t *out);
// The inverse, into room for |size| - SECRET_SEAL_BYTES; returns the key, NULL for an unknown key or altered bytes.
const secret_key *secret_unseal(const secret *s, secret_info info, const uint8_t *in, size_t size,
                                uint8_t *out);

// A new key, as a line. SYSTEM without randomness.
gw_status secret_make_line(char out[SECRET_LINE_MAX], gw_error *error);

#endif
