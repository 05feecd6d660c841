// gradwire key: a new key of a job, or of one worker of it.
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/command.h"
#include "net/tls/certificate_make.h"
#include "keys/secret_output.h"
#include "options/usage.h"

enum { NAMES_MAX = 32, DAYS = 365 };

static const char help[] =
    "usage: gradwire key > FILE\n"
    "       gradwire key --ca CA [--job ID] [--days N] NAME[=RANKS]... > FILE\n"
    "\n"
    "Prints a new key for a job. The key is a secret. Give the same key to all workers of the job: "
    "by\n"
    "gradwire run --key FILE, by GW_KEY_FILE=FILE, or by the option .key of gw_rpc_init. All data "
    "that\n"
    "the workers send to each other is then encrypted, and workers without the key are refused. "
    "FILE\n"
    "must be readable by its owner only: gradwire key sets the mode of the file to which it "
    "prints, and\n"
    "workers refuse a file with another mode.\n"
    "\n"
    "A file may have two keys, one on each line. A worker connects with the first key. It accepts "
    "both\n"
    "keys from workers that connect to it. To change the key while workers join and leave, change "
    "the\n"
    "files of all workers three times: add the new key after the old key; put the new key first; "
    "remove\n"
    "the old key.\n"
    "\n"
    "A process that has this key can pass for any worker. With --ca CA, FILE is for the named "
    "workers\n"
    "only, and no other worker can pass for them. CA is a file that `gradwire ca` makes. FILE then "
    "has a\n"
    "private key, a certificate of the names, and the certificate of the CA. Give FILE to the "
    "named\n"
    "workers in the same ways as a key. Give CA to no worker.\n"
    "\n"
    "  NAME=RANK      a worker, \"ps=0\"\n"
    "  NAME=FROM-TO   several workers, with the rank of each in its name: \"trainer%d=1-7\"\n"
    "  NAME           workers of an elastic job, whose ranks are not known before: \"trainer%d\"\n"
    "  --job=ID       valid only in the job with this id, GW_JOB_ID (default: in any job)\n"
    "  --days=N       for how many days the certificate is valid (default 365)\n"
    "\n"
    "gradwire run over several hosts needs such a file for each host, too: with host0=0 on the "
    "first\n"
    "host, host1=1 on the second host, and so on.\n"
    "\n"
    "To change the CA, first add the certificate of the new CA after the certificate of the old CA "
    "in\n"
    "the files of all workers.\n";

typedef struct wanted {
    const char *ca, *job;
    int days, count;
    certificate_name names[NAMES_MAX];
} wanted;

static bool complain(const char *format, const char *what) {
    fprintf(stderr, "gradwire key: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\n");
    return false;
}

static bool take_name(wanted *w, const char *text) {
    if (w->count == NAMES_MAX) return complain("a certificate cannot have so many names: %s", text);
    if (certificate_name_of(text, w->job, &w->names[w->count++])) return true;
    return complain("\"%s\" is not of the form NAME=RANKS, such as ps=0 or trainer%%d=1-7", text);
}

static const struct option options[] = {
    { "ca", required_argument, NULL, 'c' },
    { "job", required_argument, NULL, 'j' },
    { "days", required_argument, NULL, 'd' },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

static bool refuse(const char *given) {
    static const char *const names[] = { "--ca", "--job", "--days", "--help", NULL };
    usage_refuse("key", given, names);
    return false;
}

// False with the exit code.
static bool parse(int argc, char **argv, wanted *out, int *out_code) {
    *out = (wanted){ .job = "*", .days = DAYS };
    *out_code = EXIT_USAGE;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        switch (option) {
        case 'c': out->ca = optarg; break;
        case 'j': out->job = optarg; break;
        case 'd':
            if (!days_parse(optarg, &out->days)) return complain("--days is not \"%s\"", optarg);
            break;
        case 'h':
            *out_code = 0;
            printf("%s", help);
            return false;
        default: return refuse(argv[optind - 1]);
        }
    }
    if (!out->ca && optind < argc) return refuse(argv[optind]);
    if (!out->ca || optind < argc) {
        while (optind < argc)
            if (!take_name(out, argv[optind++])) return false;
        return true;
    }
    return complain("--ca %s makes certificates of workers, but no worker is named", out->ca);
}

static gw_status make(const wanted *w, char out[SECRET_TEXT_MAX], gw_error *error) {
    char ca[SECRET_TEXT_MAX];
    if (!w->ca) return secret_make_line(out, error);
    gw_status status = secret_read_file(w->ca, ca, error);
    if (!status) status = certificate_make(ca, w->ca, w->names, w->count, w->days, out, error);
    explicit_bzero(ca, sizeof ca);
    return status;
}

int key_command(int argc, char **argv) {
    wanted w;
    int code;
    char text[SECRET_TEXT_MAX];
    gw_error error;
    if (!parse(argc, argv, &w, &code)) return code;
    if (make(&w, text, &error)) {
        complain("%s", error.text);
        return EXIT_OWN_FAILURE;
    }
    return secret_print("key", text);
}
