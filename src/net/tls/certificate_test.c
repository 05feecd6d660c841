// Certificate files: which are accepted, and the errors of the others.
#include "net/tls/certificate.h"

#include "net/tls/certificate_make.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static char ca[SECRET_TEXT_MAX], other_ca[SECRET_TEXT_MAX];

static void make_cas(void) {
    gw_error error;
    assert_int_equal(certificate_make_ca(1, ca, &error), GW_OK);
    assert_int_equal(certificate_make_ca(1, other_ca, &error), GW_OK);
}

static void make(const char *name, char out[SECRET_TEXT_MAX]) {
    gw_error error;
    certificate_name n;
    assert_true(certificate_name_of(name, "*", &n));
    assert_int_equal(certificate_make(ca, "the CA", &n, 1, 1, out, &error), GW_OK);
}

static const char *part(const char *text, int number) {
    const char *at = text - 1;
    for (int i = 0; i <= number; i++) assert_non_null(at = strstr(at + 1, "-----BEGIN "));
    return at;
}

static void refuse(const char *text, const char *words) {
    secret *s = NULL;
    gw_error error;
    gw_status status = secret_open_text(text, "the file k", &s, &error);
    testing_note("\"%s\" should contain \"%s\"", error.text, words);
    assert_int_equal(status, GW_INVALID);
    assert_non_null(strstr(error.text, words));
}

static void it_opens_certificates_that_it_made(void **state) {
    (void)state;
    char text[SECRET_TEXT_MAX];
    secret *s = NULL;
    gw_error error;
    make_cas();
    make("w%d=0-3", text);
    assert_int_equal(secret_open_text(text, "it", &s, &error), GW_OK);
    assert_non_null(s->certificate);
    assert_int_equal(s->key_count, 0);
    secret_close(s);
}

static void its_errors_name_the_fault(void **state) {
    (void)state;
    char text[SECRET_TEXT_MAX], another[SECRET_TEXT_MAX], made[3 * SECRET_TEXT_MAX];
    make_cas();
    make("w1=1", text);
    make("w2=2", another);
    size_t key_size = (size_t)(part(text, 1) - text);
    refuse(ca, "the file k is the file of the CA");
    refuse(part(text, 1), "the file k contains no private key");
    snprintf(made, sizeof made, "%.*s", (int)key_size, text);
    refuse(made, "the file k has no certificate in it");
    snprintf(made, sizeof made, "%.*s%s", (int)key_size, text, part(another, 1));
    refuse(made, "private key and certificate in the file k do not belong together");
    snprintf(made, sizeof made, "%.*s", (int)(part(text, 2) - text), text);
    refuse(made, "the file k has no CA certificate after the worker's certificate");
    snprintf(made, sizeof made, "%.*s%s", (int)(part(text, 2) - text), text, part(another, 1));
    refuse(made, "certificate 2 in the file k is not a CA certificate");
    snprintf(made, sizeof made, "%s%s%s", text, part(ca, 1), part(other_ca, 1));
    refuse(made, "the file k has certificates of more than 2 CAs");
    refuse("-----BEGIN RSA PRIVATE KEY-----\nMII=\n-----END RSA PRIVATE KEY-----\n",
           "the file k contains no private key");
}

// A file that is damaged anywhere is refused, or has the same content.
static void a_damaged_file_is_refused(void **state) {
    (void)state;
    char text[SECRET_TEXT_MAX];
    gw_error error;
    make_cas();
    make("w1=1", text);
    for (size_t i = 0; text[i]; i += 7) {
        secret *s = NULL;
        text[i] ^= 2;
        if (secret_open_text(text, "it", &s, &error) == GW_OK) secret_close(s);
        text[i] ^= 2;
    }
}

static void the_number_of_names_is_limited(void **state) {
    (void)state;
    static certificate_name names[32];
    char text[SECRET_TEXT_MAX];
    gw_error error;
    make_cas();
    for (int i = 0; i < 32; i++) {
        char one[100];
        snprintf(one, sizeof one, "%060d=%d", i, i);
        assert_true(certificate_name_of(one, "*", &names[i]));
    }
    assert_int_equal(certificate_make(ca, "the CA", names, 8, 1, text, &error), GW_OK);
    assert_int_equal(certificate_make(ca, "the CA", names, 32, 1, text, &error), GW_LIMIT);
    assert_int_equal(certificate_make(text, "the file x", names, 1, 1, text, &error), GW_INVALID);
    assert_string_equal(error.text, "the file x is not a CA of `gradwire ca`");
}

GW_TESTS(net_certificate, it_opens_certificates_that_it_made, its_errors_name_the_fault,
         a_damaged_file_is_refused, the_number_of_names_is_limited);
