#include "store/store_server.h"

#include "base/log.h"

#define LINE_NS INT64_C(60000000000)

static const struct {
    const char *what, *limit;
} texts[CLOSING_COUNT] = {
    [CLOSING_NEW_COUNT] = { "too many clients had not registered", "LIMIT_STORE_NEW_CLIENTS" },
    [CLOSING_NEW_TIME] = { "clients did not register in time", "LIMIT_STORE_CLIENT_MS" },
    [CLOSING_STUCK] = { "clients did not end a record, or did not read replies",
                        "LIMIT_STORE_CLIENT_MS" },
    [CLOSING_UNSENT] = { "clients did not read too many replies", "LIMIT_STORE_UNSENT_BYTES" },
    [CLOSING_REGISTERED_COUNT] = { "too many registered clients", "LIMIT_WORKERS" },
};

void closings_count(closings *c, env *e, closing why) {
    int64_t now_ns = env_now_ns(e);
    int count = ++c->of[why].unreported_count;
    if (now_ns < c->of[why].next_line_ns) return;
    log_line("closed %d connection%s to the store: %s (%s, here %lld)", count,
             count == 1 ? "" : "s", texts[why].what, texts[why].limit, (long long)c->of[why].limit);
    c->of[why].unreported_count = 0;
    c->of[why].next_line_ns = now_ns + LINE_NS;
}
