#include "net/tls/secret.h"

#include "base/mutation.h"
#include "base/process_lock.h"
#include "base/status.h"
#include "base/system_error.h"
#include "net/tls/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char word[] = "gradwire-key 1 ";

enum {
    WORD_BYTES = sizeof word - 1,
    ID_DIGITS = 2 * SECRET_ID_BYTES,
    KEY_DIGITS = 2 * SECRET_KEY_BYTES,
    LINE_BYTES = WORD_BYTES + ID_DIGITS + 1 + KEY_DIGITS,
};

_Static_assert((int)LINE_BYTES + 2 <= (int)SECRET_LINE_MAX, "a line and its end fit");

// ---- Memory -------------------------------------------------------------------------------------

static secret *secret_new(gw_error *error) {
    void *page =
        mmap(NULL, sizeof(secret), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        error_set(error, GW_NO_MEMORY, "no memory for a key");
        return NULL;
    }
    madvise(page, sizeof(secret), MADV_DONTDUMP);
    mlock(page, sizeof(secret));  // fails where the limit is 0: then it may be swapped out
    return page;
}

void secret_close(secret *s) {
    if (!s) return;
    certificate_close(s->certificate);
    OPENSSL_cleanse(s, sizeof *s);
    munmap(s, sizeof *s);
}

// ---- Keys ---------------------------------------------------------------------------------------

bool secret_derive(const secret_key *key, secret_info salt, secret_info info, uint8_t *out,
                   size_t size) {
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    const OSSL_PARAM params[] = {
        OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 6),
        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_KEY, (void *)key->bytes, SECRET_KEY_BYTES),
        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt.data, salt.size),
        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_INFO, (void *)info.data, info.size),
        OSSL_PARAM_END,
    };
    bool derived = context && EVP_KDF_derive(context, out, size, params) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    return derived;
}

// The id is derived from the key, so that a damaged line is detected.
static bool make_id(const secret_key *key, uint8_t out[SECRET_ID_BYTES]) {
    static const char purpose[] = "gradwire key id";
    return secret_derive(key, (secret_info){ "", 0 }, (secret_info){ purpose, sizeof purpose - 1 },
                         out, SECRET_ID_BYTES);
}

static const secret_key *find_key(const secret_key *keys, int count,
                                  const uint8_t id[SECRET_ID_BYTES]) {
    for (int i = 0; i < count; i++)
        if (memcmp(keys[i].id, id, SECRET_ID_BYTES) == 0) return &keys[i];
    return NULL;
}

#ifdef GW_MUTATIONS
// The mutation keeps keys: a key that was found once is found again.
static const secret_key *find_old(const secret_key *found, const uint8_t id[SECRET_ID_BYTES]) {
    static secret_key old[4];
    static int old_count;
    if (found && old_count < 4 && !find_key(old, old_count, id)) old[old_count++] = *found;
    return find_key(old, old_count, id);
}
#else
#define find_old(found, id) (found)
#endif

const secret_key *secret_find(const secret *s, const uint8_t id[SECRET_ID_BYTES]) {
    const secret_key *found = find_key(s->keys, s->key_count, id);
    return has_mutation(MUTATION_OLD_KEY_ACCEPTED) ? find_old(found, id) : found;
}

// ---- Text ---------------------------------------------------------------------------------------

static char *write_digits(char *at, const uint8_t *in, size_t size) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *at++ = digits[in[i] >> 4];
        *at++ = digits[in[i] & 15];
    }
    return at;
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

static bool read_digits(const char *at, uint8_t *out, size_t size) {
    for (size_t i = 0; i < size; i++) {
        int high = digit_of(at[2 * i]), low = high < 0 ? -1 : digit_of(at[2 * i + 1]);
        if (low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

gw_status secret_make_line(char out[SECRET_LINE_MAX], gw_error *error) {
    secret_key key;
    if (RAND_priv_bytes(key.bytes, sizeof key.bytes) != 1 || !make_id(&key, key.id))
        return error_set(error, GW_SYSTEM, "the system gives no random bytes for a key");
    memcpy(out, word, WORD_BYTES);
    char *at = write_digits(out + WORD_BYTES, key.id, sizeof key.id);
    *at++ = ' ';
    at = write_digits(at, key.bytes, sizeof key.bytes);
    *at++ = '\n';
    *at = '\0';
    OPENSSL_cleanse(&key, sizeof key);
    return GW_OK;
}

static bool read_line(const char *line, size_t size, secret_key *out) {
    uint8_t id[SECRET_ID_BYTES];
    if (size != LINE_BYTES || memcmp(line, word, WORD_BYTES) != 0) return false;
    const char *at = line + WORD_BYTES;
    return read_digits(at, out->id, SECRET_ID_BYTES) && at[ID_DIGITS] == ' ' &&
           read_digits(at + ID_DIGITS + 1, out->bytes, SECRET_KEY_BYTES) && make_id(out, id) &&
           memcmp(id, out->id, sizeof id) == 0;
}

static bool means_nothing(const char *line, size_t size) {
    return line[0] == '#' || strspn(line, " \t\r") >= size;
}

// Lines may be keys, so error texts quote nothing of them.
static gw_status read_lines(const char *text, const char *what, secret *s, gw_error *error) {
    int number = 0;
    for (const char *line = text; *line; number++) {
        size_t size = strcspn(line, "\n"), next = size + (line[size] == '\n');
        if (size > 0 && line[size - 1] == '\r') size--;
        if (means_nothing(line, size)) {
            line += next;
            continue;
        }
        if (s->key_count == SECRET_KEYS_MAX)
            return error_set(error, GW_INVALID, "%s has more than %d keys", what, SECRET_KEYS_MAX);
        secret_key *key = &s->keys[s->key_count];
        if (!read_line(line, size, key))
            return error_set(error, GW_INVALID,
                             "line %d of %s is not a key made by `gradwire key`, or is damaged",
                             number + 1, what);
        if (secret_find(s, key->id))
            return error_set(error, GW_INVALID, "%s has the same key twice", what);
        s->key_count++;
        line += next;
    }
    if (!s->key_count)
        return error_set(error, GW_INVALID, "%s contains no key: make one with `gradwire key`",
                         what);
    return GW_OK;
}

gw_status secret_open_text(const char *text, const char *what, secret **out, gw_error *error) {
    secret *s = secret_new(error);
    if (!s) return GW_NO_MEMORY;
    gw_status status =
        certificate_is_text(text)
            ? certificate_open_text(text, what, &s->certificate, s->private_key, error)
            : read_lines(text, what, s, error);
    if (status) {
        secret_close(s);
    } else {
        *out = s;
    }
    return status;
}

// ---- Files and descriptors ----------------------------------------------------------------------

// Reads |fd| to its end. A file is read from its beginning whatever its position, since several processes
// may have inherited the same descriptor.
static gw_status read_text(int fd, const char *what, char text[SECRET_TEXT_MAX], gw_error *error) {
    size_t size = 0;
    bool seeks = lseek(fd, 0, SEEK_CUR) >= 0;
    for (;;) {
        ssize_t n = seeks ? pread(fd, text + size, SECRET_TEXT_MAX - size, (off_t)size)
                          : read(fd, text + size, SECRET_TEXT_MAX - size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return error_set(error, GW_SYSTEM, "%s: %s", what, system_error_text(errno).text);
        size += (size_t)n;
        if (size == SECRET_TEXT_MAX)
            return error_set(error, GW_INVALID, "%s is too large for a key file", what);
        if (n == 0) break;
    }
    text[size] = '\0';
    if (strlen(text) != size)
        return error_set(error, GW_INVALID, "%s is not a key file: it is not a text file", what);
    return GW_OK;
}

static gw_status open_read(int fd, const char *what, secret **out, gw_error *error) {
    char text[SECRET_TEXT_MAX];
    gw_status status = read_text(fd, what, text, error);
    if (!status) status = secret_open_text(text, what, out, error);
    OPENSSL_cleanse(text, sizeof text);
    return status;
}

static gw_status check_owner(int fd, const char *what, gw_error *error) {
    struct stat s;
    if (fstat(fd, &s))
        return error_set(error, GW_SYSTEM, "%s: %s", what, system_error_text(errno).text);
    if (!S_ISREG(s.st_mode)) return error_set(error, GW_INVALID, "%s is not a file", what);
    if (s.st_uid != geteuid())
        return error_set(error, GW_INVALID, "%s belongs to another user (%u, not %u)", what,
                         (unsigned)s.st_uid, (unsigned)geteuid());
    if (s.st_mode & 077)
        return error_set(error, GW_INVALID,
                         "%s can be read by other users (mode %04o): run chmod 600 on it", what,
                         (unsigned)s.st_mode & 07777);
    return GW_OK;
}

static void describe(const char *path, char out[512]) {
    snprintf(out, 512, "the key file %.400s", path);
}

gw_status secret_read_file(const char *path, char out[SECRET_TEXT_MAX], gw_error *error) {
    char what[512];
    // A key that was given in place of its path must not appear in a log.
    if (strncmp(path, word, sizeof "gradwire-key" - 1) == 0)
        return error_set(error, GW_INVALID,
                         "the option .key is a key, but must be the path of the key file");
    describe(path, what);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return error_set(error, errno == ENOENT ? GW_NOT_FOUND : GW_SYSTEM, "%s: %s", what,
                         system_error_text(errno).text);
    gw_status status = check_owner(fd, what, error);
    if (!status) status = read_text(fd, what, out, error);
    close(fd);
    return status;
}

gw_status secret_open_file(const char *path, secret **out, gw_error *error) {
    char text[SECRET_TEXT_MAX], what[512];
    gw_status status = secret_read_file(path, text, error);
    describe(path, what);
    if (!status) status = secret_open_text(text, what, out, error);
    OPENSSL_cleanse(text, sizeof text);
    return status;
}

// The texts that were read from descriptors, for programs that join again after leaving. They are kept for
// the lifetime of the process.
PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);
static secret *inherited;
static int inherited_fd = -1;

static gw_status copy_inherited(secret **out, gw_error *error) {
    secret *copy = secret_new(error);
    if (!copy) return GW_NO_MEMORY;
    *copy = *inherited;
    certificate_retain(copy->certificate);
    *out = copy;
    return GW_OK;
}

gw_status secret_open_descriptor(int fd, secret **out, gw_error *error) {
    char what[64];
    snprintf(what, sizeof what, "descriptor %d of the key", fd);
    gw_status status = GW_OK;
    process_lock_take(&lock);
    if (!inherited || inherited_fd != fd) {
        secret *read = NULL;
        status = open_read(fd, what, &read, error);
        if (!status) {
            close(fd);
            secret_close(inherited);
            inherited = read;
            inherited_fd = fd;
        }
    }
    if (!status) status = copy_inherited(out, error);
    process_lock_release(&lock);
    return status;
}
