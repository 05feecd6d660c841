#include "options/streams.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "options/parse.h"

static bool is_streams(const char *text, size_t size) {
    return size == 1 && *text >= '0' && *text <= '0' + STREAMS_ALL;
}

// "RANK:V". False unless |size| bytes are that; a rank with more than 4 digits is beyond every job.
static bool parse_pair(const char *text, size_t size, int *out_rank, int *out_streams) {
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 4 || digits >= size || text[digits] != ':') return false;
    if (!is_streams(text + digits + 1, size - digits - 1)) return false;
    *out_rank = (int)strtol(text, NULL, 10);
    *out_streams = text[digits + 1] - '0';
    return true;
}

bool streams_check(const char *option, const char *text, int rank_count) {
    if (is_streams(text, strlen(text))) return true;
    for (const char *at = text;; at++) {
        int rank, streams;
        size_t size = strcspn(at, ",");
        if (!parse_pair(at, size, &rank, &streams))
            return parse_complain(
                "%s takes 0 to 3, or RANK:V,... with such values, not \"%s\": 1 is standard "
                "output, 2 standard error, 3 both",
                option, text);
        if (rank >= rank_count)
            return parse_complain("%s names rank %d, but ranks are 0 to %d", option, rank,
                                  rank_count - 1);
        at += size;
        if (!*at) return true;
    }
}

int streams_of(const char *text, int rank) {
    if (!text) return 0;
    if (!text[1]) return text[0] - '0';
    for (const char *at = text;; at++) {
        int other, streams;
        size_t size = strcspn(at, ",");
        if (parse_pair(at, size, &other, &streams) && other == rank) return streams;
        at += size;
        if (!*at) return 0;
    }
}

bool ranks_check(const char *option, const char *text, int rank_count) {
    for (const char *at = text;; at++) {
        size_t size = strspn(at, "0123456789");
        if (!size || size > 4 || (at[size] && at[size] != ','))
            return parse_complain("%s takes local ranks, \"0\" or \"0,2\", not \"%s\"", option,
                                  text);
        long rank = strtol(at, NULL, 10);
        if (rank >= rank_count)
            return parse_complain("%s names local rank %ld, but local ranks are 0 to %d", option,
                                  rank, rank_count - 1);
        at += size;
        if (!*at) return true;
    }
}

bool ranks_have(const char *text, int rank) {
    for (const char *at = text; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strtol(at, NULL, 10) == rank) return true;
    }
    return !text;
}
