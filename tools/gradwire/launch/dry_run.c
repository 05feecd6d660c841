#include "launch/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "options/binding.h"
#include "launch/environment.h"

static const char plain[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,+@%-";

static void print_quoted(const char *text) {
    if (*text && strspn(text, plain) == strlen(text)) {
        printf("%s", text);
        return;
    }
    putchar('\'');
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            printf("'\\''");
        else
            putchar(*c);
    }
    putchar('\'');
}

static void print_place(const run_options *o, int index) {
    char processors[256];
    printf("host %d: rank %d (local rank %d", o->node_rank, run_rank(o, index), index);
    binding_describe(index, o->rank_count, processors, sizeof processors);
    if (o->bind) printf(", processors %s", processors);
    printf("):");
}

static bool print_variable(void *user, const char *name, const char *value) {
    (void)user;
    printf(" %s=", name);
    print_quoted(value);
    return true;
}

void dry_run(const run_options *o) {
    for (int i = 0; i < o->rank_count; i++) {
        print_place(o, i);
        variables_visit(&(variables_options){ .run = o,
                                              .index = i,
                                              .creates = i == 0,
                                              .mark = "a random one",
                                              .run_id = "a random one",
                                              .job_id = run_has_hosts(o) ? "that of host 0" : "",
                                              .port = o->master_port,
                                              .key_fd = -1 },
                        print_variable, NULL);
        for (char **a = o->program; *a; a++) {
            putchar(' ');
            print_quoted(*a);
        }
        putchar('\n');
    }
}
