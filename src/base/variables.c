#include "base/variables.h"

#include "base/log.h"
#include "base/nearest.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// |words| are the valid values, separated by spaces; NULL: its reader checks it. Or numbers
// from 1 to |number_max|.
typedef struct variable {
    const char *name, *words;
    long number_max;
    const char *otherwise;  // the effect of another value
} variable;

static const char changes_nothing[] = "changes nothing", counts_as_1[] = "counts as 1";

static const variable variables[] = {
    { "GW_ABORT_ON_ERROR", "0 1", 0, counts_as_1 },
    { "GW_ADDRESS", NULL, 0, NULL },
    { "GW_BLAS", NULL, 0, NULL },
    { "GW_BLAS_THREADS", NULL, 1024, changes_nothing },
    { "GW_CHECK", "0 1", 0, counts_as_1 },
    { "GW_CHECKPOINT_DIR", NULL, 0, NULL },
    { "GW_COLLECTIVE", NULL, 0, NULL },
    { "GW_ELASTIC", NULL, 0, NULL },
    { "GW_ELASTIC_CREATE", NULL, 0, NULL },
    { "GW_FLIGHT", NULL, 0, NULL },
    { "GW_FLIGHT_FD", NULL, 0, NULL },
    { "GW_JOB", NULL, 0, NULL },
    { "GW_INSECURE", NULL, 0, NULL },
    { "GW_INSECURE_PICKLE", NULL, 0, NULL },
    { "GW_INTERFACE", NULL, 0, NULL },
    { "GW_JOB_ID", NULL, 0, NULL },
    { "GW_KERNELS", "any avx2 avx512", 0, changes_nothing },
    { "GW_KEY_FD", NULL, 0, NULL },
    { "GW_KEY_FILE", NULL, 0, NULL },
    { "GW_LEND", "0 1 pull", 0, changes_nothing },
    { "GW_LOG", NULL, 0, NULL },
    { "GW_LOG_TIME", "1 wall", 0, changes_nothing },
    { "GW_REDIS_PASSWORD_FILE", NULL, 0, NULL },
    { "GW_TOOL", NULL, 0, NULL },
    { "GW_TRACE", NULL, 0, NULL },
    { "GW_TRACE_ERRORS", "0 1", 0, counts_as_1 },
    { "GW_TRACE_STEPS", NULL, 0, NULL },
    { "GW_TRANSPORT", NULL, 0, NULL },
};

enum { VARIABLES = sizeof variables / sizeof *variables, NAME_MAX_BYTES = 32 };

// ---- Values -------------------------------------------------------------------------------------
static bool is_among(const char *words, const char *text) {
    size_t size = strlen(text);
    for (const char *word = words; *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        if (length == size && memcmp(word, text, size) == 0) return true;
        word += length;
    }
    return false;
}

bool variable_number(const char *text, long max, int *out) {
    char *end;
    long number = strtol(text, &end, 10);
    bool is_valid = *text >= '0' && *text <= '9' && !*end && number <= max;
    if (is_valid) *out = (int)number;
    return is_valid;
}

static bool is_number(const char *text, long max) {
    char *end;
    long number = strtol(text, &end, 10);
    return end != text && !*end && number >= 1 && number <= max;
}

static void check_value(const variable *v, const char *text) {
    if (!*text) return;
    if (v->words && !is_among(v->words, text))
        log_line("%s=%.100s %s: it must be one of %s", v->name, text, v->otherwise, v->words);
    if (v->number_max && !is_number(text, v->number_max))
        log_line("%s=%.100s %s: it must be a number from 1 to %ld", v->name, text, v->otherwise,
                 v->number_max);
}

// ---- Names --------------------------------------------------------------------------------------
// A program's own variable may begin with GW_, too: only a name similar to one of ours is logged.
static void check_name(const char *entry, size_t size) {
    char name[NAME_MAX_BYTES + 1];
    int most = size < sizeof "GW_ABCDE" - 1 ? 1 : 2;
    memcpy(name, entry, size);
    name[size] = '\0';
    nearest n = nearest_to(name);
    for (int i = 0; i < VARIABLES; i++) nearest_offer(&n, variables[i].name);
    if (n.name[0] && n.distance <= most)
        log_line("the variable %s has no effect: did you mean %s?", name, n.name);
}

static void check(const char *entry) {
    size_t size = strcspn(entry, "=");
    if (strncmp(entry, "GW_", 3) || !entry[size] || size > NAME_MAX_BYTES) return;
    for (int i = 0; i < VARIABLES; i++) {
        const char *name = variables[i].name;
        if (strlen(name) != size || memcmp(name, entry, size)) continue;
        check_value(&variables[i], entry + size + 1);
        return;
    }
    check_name(entry, size);
}

void variables_check_all(char *const *environment) {
    for (; *environment; environment++) check(*environment);
}

static void check_once(void) {
    log_read_environment();
    variables_check_all(environ);
}

void variables_check(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, check_once);
}
