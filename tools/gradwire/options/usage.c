#include "options/usage.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "options/command.h"

int usage_refuse(const char *subcommand, const char *given, const char *const *options) {
    char name[GW_NAME_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    nearest n = nearest_to(name);
    for (; *options; options++)
        if (strcmp(name, *options) != 0) nearest_offer(&n, *options);
    fprintf(stderr, "gradwire %s: unknown argument \"%s\"; see gradwire %s --help%s\n", subcommand,
            given, subcommand, nearest_words(&n));
    return EXIT_USAGE;
}
