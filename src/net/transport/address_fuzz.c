// Addresses as users, stores and members write them: one, lists of them, and the value of GW_ADDRESS.
// Any text is parsed within its bounds; a numeric address is formatted as it was parsed.
#include "net/transport/interfaces.h"
#include "net/transport/routes.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Whether |text| is a numeric host, perhaps with a port: the fuzzer resolves no name.
static bool is_in_numbers(const char *text) {
    char host[ADDRESS_MAX];
    struct in6_addr any;
    size_t length = strlen(text);
    bool has_brackets = text[0] == '[';
    const char *end = has_brackets ? strchr(text, ']') : strrchr(text, ':');
    if (!end) end = text + length;
    if (length >= sizeof host || end < text + has_brackets) return false;
    memcpy(host, text + has_brackets, length);
    host[end - text - has_brackets] = '\0';
    return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1 ||
           inet_pton(AF_INET6, text, &any) == 1;
}

static void read_one(const char *text) {
    address a, again;
    char written[ADDRESS_MAX];
    gw_error error;
    if (address_check(text, &error) || !is_in_numbers(text)) return;
    if (address_parse(text, &a, &error)) return;
    address_format(&a, written);
    if (address_check(written, &error) || address_parse(written, &again, &error)) abort();
    if (!address_equal(&a, &again) || address_is_loopback(&a) != address_is_loopback(&again))
        abort();
    if (address_is_loopback(&a) && address_is_any(&a)) abort();
}

static bool all_in_numbers(const char *list) {
    address_text a;
    while (address_take(&list, &a))
        if (!is_in_numbers(a.rest)) return false;
    return true;
}

// A chosen list may be refused; if not, all of it can be parsed again.
static void choose(const char *list) {
    char out[ADDRESSES_MAX];
    gw_error error;
    const places p = { .addresses = list, .toward = "" };
    if (strstr(list, "://") || !all_in_numbers(list)) return;
    if (places_choose_among(&p, NULL, 0, NULL, out, &error)) {
        if (!error.text[0]) abort();
        return;
    }
    address_text a;
    for (const char *at = out; address_take(&at, &a);)
        if (strcmp(a.scheme, "tcp") != 0 || address_check(a.rest, &error)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[1024];
    if (size >= sizeof text || memchr(data, 0, size)) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    address_text a;
    size_t taken = 0;
    for (const char *at = text; address_take(&at, &a); taken++) read_one(a.rest);
    if (taken > size) abort();
    bool beyond = places_are_beyond(text, NULL);
    if (beyond && host_is_loopback(text)) abort();
    places_are_beyond(NULL, text);
    choose(text);
    return 0;
}
