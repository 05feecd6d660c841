// The options, URL and environment of gw_rpc_init: any texts result in options within their limits, or in an error.
#include "agent/settings/options.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXTS = 8 };

static char *texts[TEXTS];

static char *variable(const char *name) {
    static const char *const names[] = { "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return texts[i];
    // Files and descriptors of this process are not for any texts to name.
    if (strncmp(name, "GW_KEY", 6) == 0) return NULL;
    return texts[4];
}

// The first byte selects the texts; they follow, each with its end.
static void take_texts(char *from, const char *end, uint8_t which) {
    memset(texts, 0, sizeof texts);
    for (int i = 0; i < TEXTS && from < end; i++) {
        if (which >> i & 1) texts[i] = from;
        from += strlen(from) + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char copy[4096 + 1];
    if (size < 4 || size - 4 >= sizeof copy) return 0;
    memcpy(copy, data + 4, size - 4);
    copy[size - 4] = '\0';
    take_texts(copy, copy + size - 4, data[0]);
    gw_rpc_options given =
        GW_OPTIONS(gw_rpc_options, .init_method = texts[5], .name = texts[6], .addresses = texts[7],
                   .interfaces = texts[7], .rank = (int8_t)data[1], .world_size = (int8_t)data[2],
                   .threads = (int8_t)data[3], .timeout_ms = (int8_t)data[3]);
    join_options out;
    gw_error error = { 0 };
    if (options_resolve(&given, variable, &out, &error)) {
        if (!error.text[0]) abort();
        return 0;
    }
    if (!options_is_name(out.name) || out.rank < 0 || out.world_size < 0 ||
        out.world_size > LIMIT_WORKERS || out.threads < 1 || out.threads > LIMIT_THREADS ||
        (out.master[0] == 0) == (out.path[0] == 0))
        abort();
    protection_fini(&out.protection);
    return 0;
}
