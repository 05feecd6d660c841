// Text in a page.
#ifndef GRADWIRE_HTML_H
#define GRADWIRE_HTML_H

#include <stdint.h>
#include <stdio.h>

// Writes it so that a browser shows it as it is, between tags and in quoted attributes.
void html_text(const char *text, FILE *out);

// "0.4", "12", "3.1k", "20M": at most 5 characters up to 10^15; "-": NaN.
typedef struct html_number {
    char text[24];
} html_number;
html_number html_count(double x);

// "95 s", "12 min", "26 h", "9 days".
html_number html_age(int64_t ns);

#endif
