// UTF-8 (RFC 3629).
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads the character at |*at|, which is not at the end of its text, and moves |*at| behind it. Returns false if it is
// malformed; |*at| is then not behind the end.
bool utf8_take(const char **at, uint32_t *out_code);

// The bytes of the character at |text|; 0 if it is malformed, or a control character.
size_t utf8_printable_size(const char *text);

// Whether |text| is UTF-8 without control characters.
bool utf8_is_printable(const char *text);

#endif
