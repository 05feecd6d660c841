// Sealing with a key of the job.
#include "net/tls/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <string.h>

enum { KEY_BYTES = 32, NONCE_BYTES = 12, HEAD_BYTES = SECRET_ID_BYTES + SECRET_SALT_BYTES };

// |out| has room for |size| bytes; the head is authenticated with them. Sealing writes |tag|,
// opening checks it.
static bool cipher(bool seals, const secret_key *key, secret_info info, const uint8_t *head,
                   const uint8_t *in, size_t size, uint8_t *out, uint8_t tag[SECRET_TAG_BYTES]) {
    uint8_t seal[KEY_BYTES + NONCE_BYTES];
    int length;
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    secret_info salt = { head + SECRET_ID_BYTES, SECRET_SALT_BYTES };
    bool done =
        c && secret_derive(key, salt, info, seal, sizeof seal) &&
        EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, seal, seal + KEY_BYTES, seals) == 1 &&
        (seals || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, SECRET_TAG_BYTES, tag) == 1) &&
        EVP_CipherUpdate(c, NULL, &length, head, HEAD_BYTES) == 1 &&
        EVP_CipherUpdate(c, out, &length, in, (int)size) == 1 &&
        EVP_CipherFinal_ex(c, out + length, &length) == 1 &&
        (!seals || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, SECRET_TAG_BYTES, tag) == 1);
    EVP_CIPHER_CTX_free(c);
    OPENSSL_cleanse(seal, sizeof seal);
    return done;
}

bool secret_seal(const secret_key *key, secret_info info, const uint8_t *in, size_t size,
                 uint8_t *out) {
    memcpy(out, key->id, SECRET_ID_BYTES);
    return RAND_bytes(out + SECRET_ID_BYTES, SECRET_SALT_BYTES) == 1 &&
           cipher(true, key, info, out, in, size, out + HEAD_BYTES, out + HEAD_BYTES + size);
}

const secret_key *secret_unseal(const secret *s, secret_info info, const uint8_t *in, size_t size,
                                uint8_t *out) {
    uint8_t tag[SECRET_TAG_BYTES];
    if (size < SECRET_SEAL_BYTES) return NULL;
    size_t sealed = size - SECRET_SEAL_BYTES;
    const secret_key *key = secret_find(s, in);
    // An unknown key takes as long as a wrong one.
    const secret_key *tried = key ? key : &s->keys[0];
    memcpy(tag, in + size - SECRET_TAG_BYTES, sizeof tag);
    return cipher(false, tried, info, in, in + HEAD_BYTES, sealed, out, tag) ? key : NULL;
}
