// gradwire ca: the CA of a job, by which certificates of its workers are made.
#include <stdio.h>
#include <string.h>

#include "options/command.h"
#include "net/tls/certificate_make.h"
#include "keys/secret_output.h"
#include "options/usage.h"

enum { CA_DAYS = 3650 };

static const char help[] =
    "usage: gradwire ca [--days=N] > CA\n\n"
    "Prints a new certificate authority (CA) for one job, or for all of your jobs: its private "
    "key\n"
    "and its certificate, which is valid for N days (default 3650). The CA is a secret, which no\n"
    "worker gets. `gradwire key --ca CA NAME=RANKS > FILE` makes the file of a worker: with such "
    "a\n"
    "file a worker cannot pass for another worker.\n";

int ca_command(int argc, char **argv) {
    static const char option[] = "--days=";
    int days = CA_DAYS;
    gw_error error;
    char text[SECRET_TEXT_MAX];
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("%s", help);
        return 0;
    }
    bool has_days = argc == 2 && strncmp(argv[1], option, sizeof option - 1) == 0;
    if (argc > 1 && (!has_days || !days_parse(argv[1] + sizeof option - 1, &days)))
        return usage_refuse("ca", argv[1], (const char *const[]){ "--days", "--help", NULL });
    if (certificate_make_ca(days, text, &error)) {
        fprintf(stderr, "gradwire ca: %s\n", error.text);
        return EXIT_OWN_FAILURE;
    }
    return secret_print("ca", text);
}
