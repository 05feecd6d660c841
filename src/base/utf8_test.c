#include "base/utf8.h"

#include "testing/testing.h"

static void expect(const char *text, bool is_printable) {
    if (utf8_is_printable(text) != is_printable) testing_note("the text is \"%s\"", text);
    assert_int_equal(utf8_is_printable(text), is_printable);
}

static void characters_of_each_size_are_read(void **state) {
    (void)state;
    static const uint32_t expected[] = { 'a', 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff };
    const char *text =
        "a\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
    for (int i = 0; i < 8; i++) {
        uint32_t code;
        assert_true(utf8_take(&text, &code));
        assert_int_equal(code, expected[i]);
    }
    assert_int_equal(*text, '\0');
}

static void malformed_texts_are_refused(void **state) {
    (void)state;
    static const char *const malformed[] = {
        "\x80",              // no first byte
        "a\xff",             // never
        "\xc3",              // cut
        "\xe2\x82",          // cut
        "\xf0\x9f\x98",      // cut
        "\xc3(",             // no second byte
        "\xc1\xbf",          // longer than needed
        "\xe0\x9f\xbf",      // the same
        "\xf0\x8f\xbf\xbf",  // the same
        "\xed\xa0\x80",      // half of a pair
        "\xf4\x90\x80\x80",  // beyond the last code
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) expect(malformed[i], false);
}

static void control_characters_are_not_printable(void **state) {
    (void)state;
    expect("", true);
    expect("loss of Z\xc3\xbcrich \xe2\x82\xac", true);
    expect("a\nb", false);
    expect("a\x7f", false);
    expect("a\xc2\x85", false);  // NEL
    expect("a\xc2\xa0", true);
}

GW_TESTS(base_utf8, characters_of_each_size_are_read, malformed_texts_are_refused,
         control_characters_are_not_printable);
